"""zscout pretrain."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from zscout.cli.parts.options import (
    OPEN_GRID,
    DataPath,
    OutputFile,
    Quick,
    Usual,
    World,
    check_world,
    device_named,
    usage_errors,
)
from zscout.cli.parts.output import say, writable, writable_folder
from zscout.cli.parts.progress import bar_with_time_left, following, stopped, stored_data
from zscout.worlds.registry import PLACES, of_kind

if TYPE_CHECKING:
    from zscout.lab.training.training import Training

OF_USFA = ("features", "dim", "slip", "recipe", "walks", "length", "patience", "keep", "base")


@dataclass(frozen=True)
class Pretrain:
    """Train a model for a world or on your data, measure it, save it; resumes if interrupted."""

    out: Path  # Folder for the model, its log and, during training, its checkpoint.
    world: World = OPEN_GRID
    data: DataPath = None
    layout: str = ""  # Of --data: exorl, d4rl, ogbench, minari, metamotivo or plain; default: as the files say.
    model: str = Usual("usfa")
    """usfa (grids), or fb (point maze, bodies, data): a forward-backward model. Of the options below, only --set,
    --seed, --device, --quick and --json apply to fb."""
    features: str = "laplacian"  # clusters, laplacian, or your table [S d], a row for each state, in a .npy file.
    dim: int = 9  # Number of features; not for your own features.
    slip: float = 0.0  # Probability that a random action replaces the chosen one.
    recipe: str = "robust"  # robust, or paper (the paper's recipe, for comparison).
    set: tuple[str, ...] = ()  # Changes to the recipe, e.g. dropout=0.15 heads=1.
    walks: int = 0  # Train on this many random walks; 0: on every transition of the world.
    length: int = 1000  # Steps of each random walk.
    seed: int = 0  # Seed of the initial weights, the task vectors and the walks.
    patience: int = 20  # Stop training the policy after this many log lines (of 250 steps) without improvement.
    keep: str = "value"
    """Criterion for the best weights and for stopping: value (best policies), or psi (smallest error of ψ)."""
    base: str = ""
    """A trained model, by name or folder: only its M is trained, the second moment for the default score."""
    device: str = "cpu"  # cpu or cuda.
    quick: Quick = False  # Quick test: a few hundred steps; do not use the model.
    json: OutputFile = None  # Also write the log and the final quality to this file; creates its folder.

    def run(self, console: Console) -> None:
        """Train with a progress bar, measure, save."""
        import time

        from zscout.base.files import write_json

        with usage_errors():
            device_named(self.device)
            writable_folder(self.out)
            writable(self.json)
            run = self._training(console)
        start = time.perf_counter()
        if run.resumed:
            say(console, f"resuming at step {run.step:,} of {run.steps:,}")
        if run.before:
            say(console, run.before)
        with bar_with_time_left(console) as bar:
            task = bar.add_task("resuming" if run.resumed else "training", total=run.steps)
            try:
                with following(bar, task, lambda: run.step):
                    for line in run.train(every=100 if self.quick else 250):
                        told = "  ".join(filter(None, [run.told(line), told_pace(run.pace)]))
                        bar.update(task, description=told)
                        if bar.disable:  # lines, not a bar, in a log file
                            say(console, f"step {line.step:,} of {run.steps:,}  {told}")
            except KeyboardInterrupt as stop:
                where = f"resume at step {run.saved:,}" if run.saved else "begin anew: no checkpoint is written yet"
                stopped(f"stopped at step {run.step:,}; run the same command again to {where}", stop)
            bar.update(task, visible=False)
            bar.add_task("measuring", total=None)
            log = run.finish(time.perf_counter() - start)
        say(console, "; ".join(filter(None, [run.summary(log), told_pace(log["pace"])])))
        if self.json is not None:
            write_json(self.json, log)
        say(console, f"wrote {self.out}")

    def _training(self, console: Console | None = None) -> "Training":
        """The training of this model, new or resumed."""
        from zscout.lab.training.training import check_folder
        from zscout.models.data.dataset import STORED

        check_world(self.world, PLACES)
        learned, anywhere = of_kind("point", "body"), self.data is not None and isinstance(self.world, Usual)
        usual = isinstance(self.model, Usual) and self.data is not None and (anywhere or self.world in learned)
        model = "fb" if usual else str(self.model)
        if self.layout and self.data is None:
            raise ValueError("--layout applies to --data only")
        if self.walks and self.data is not None:
            raise ValueError("--walks does not apply to --data")
        if anywhere and model != "fb":
            raise ValueError(f"--model {model} on data needs the states of a grid: pass --world, or --model fb")
        if self.world in learned and model != "fb":
            raise ValueError(f"--world {self.world} needs --model fb")
        if not anywhere and self.world not in learned and model != "usfa":
            raise ValueError(f"--model {model}: expected usfa for a grid, fb for {', '.join(learned)}, or for --data")
        named = {name: getattr(self, name) for name in ("world", "layout", "seed", "device", "quick")}
        named |= {"changes": self.set, "data": "" if self.data is None else str(self.data)}
        what: Any
        kind: type[Training]
        if model == "fb":
            for field in fields(self):
                if field.name in OF_USFA and getattr(self, field.name) != field.default:
                    hint = ": write --set dim=…" if field.name == "dim" else ""
                    raise ValueError(f"--{field.name} does not apply to --model fb{hint}")
            from zscout.lab.training.fb import FBPretraining, FBTraining

            what, kind = FBPretraining(**named | ({"world": ""} if anywhere else {})), FBTraining
        else:
            from zscout.lab.training.grid import GridPretraining, GridTraining

            what, kind = GridPretraining(**named, **{name: getattr(self, name) for name in OF_USFA}), GridTraining
        if self.data is None:
            return kind(what, self.out)
        check_folder(self.out)
        what.build_recipe()  # a wrong --set raises before data is read
        with stored_data(console, self.data, self.out / STORED, self.layout):
            return kind(what, self.out)


def told_pace(pace: Mapping[str, float]) -> str:
    """Such as "1,020 updates/s, 16,320 frames/s, GPU 84 %"."""
    return ", ".join(f"GPU {value:.0%}" if name == "GPU" else f"{value:,.0f} {name}" for name, value in pace.items())

"""What decides a run, and that nothing else does."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from toys import Drifter
from zscout import ExactModel, Method
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena, _ground, finite
from zscout.lab.arenas.source import UserObject, _loaded, digest_of_code
from zscout.lab.runs.chunks import run_batch, run_chunk
from zscout.lab.runs.spec import Spec, _decided
from zscout.lab.runs.store import Failure
from zscout.transfer.methods import METHODS
from zscout.worlds import GridWorld

MINE = """
from dataclasses import dataclass
import torch
from zscout import ExactModel
from zscout.transfer.score.acquisition import UCB

@dataclass
class Weighted:
    weight: float = 1.0
    def __call__(self, forecast, posterior, radius, rng):
        return self.weight * UCB()(forecast, posterior, radius, rng)

class NotANumber:
    def __call__(self, forecast, posterior, radius, rng):
        return torch.nan * UCB()(forecast, posterior, radius, rng)

def scaled(by):
    return lambda forecast, posterior, radius, rng: by * UCB()(forecast, posterior, radius, rng)

def angry(forecast, posterior, radius, rng):
    return posterior.width(torch.ones(1, 2))  # of another size

class Wrapped:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

class Blind(Wrapped):
    def phi(self, obs):
        raise RuntimeError("dark")

class Acting(Wrapped):
    # no policy(z), so it is asked state by state
    def __getattr__(self, name):
        if name in ("policy", "value", "successor_features"):
            raise AttributeError(name)
        return super().__getattr__(name)

class Careless(Acting):
    def act(self, obs, z, rng=None):
        return torch.randint(4, torch.as_tensor(obs).shape, generator=rng)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """The user's module, imported again after each edit."""
    monkeypatch.syspath_prepend(tmp_path)

    def written(more: str = "") -> Any:
        (tmp_path / "mine_here.py").write_text(MINE + more)
        sys.modules.pop("mine_here", None)
        importlib.invalidate_caches()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        return importlib.import_module("mine_here")

    yield written
    sys.modules.pop("mine_here", None)


def valued(score: Any, **rest: Any) -> Spec:
    return replace(spec("mine", steps=12), value=UserObject.of(Method(acquisition=score)), **rest)


def spec(method: str, arena: GridArena | None = None, steps: int = 12, seed: int = 7) -> Spec:
    return Spec(arena or GridArena(), method, tuple(np.linspace(-2, 2, 9)), seed=seed, steps=steps)


@pytest.mark.parametrize("model", ["exact", "network"])
@pytest.mark.parametrize("method", ["usf-ucb", "thompson", "random"])
def test_a_run_alone_is_the_run_among_others(method: str, model: str) -> None:
    z, seeds = GridArena().ground.draw(Tasks(8, 2))
    specs = [
        Spec(GridArena(model=model), method, tuple(task), seed=seed, steps=25)
        for task, seed in zip(z.tolist(), seeds.tolist(), strict=True)
    ]
    together = run_batch(specs)
    for i in (0, 5, 15):
        (alone,) = run_batch([specs[i]])
        for name in ("state", "action", "entered"):
            assert np.array_equal(alone.steps[name], together[i].steps[name])
        assert np.allclose(alone.steps["reward"], together[i].steps["reward"], atol=1e-12)
        for name, value in alone.numbers.items():
            assert value == pytest.approx(together[i].numbers[name], abs=1e-6)


def test_a_digest_is_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    base = spec("greedy")
    others = [
        replace(base, seed=8),
        replace(base, steps=13),
        replace(base, noise=0.2),
        replace(base, outside=0.1),
        replace(base, settings='{"ridge": 1.0}'),
        replace(base, method="thompson"),
        replace(base, task=(0.0, *base.task[1:])),
        replace(base, arena=GridArena("maze")),
        replace(base, arena=GridArena(features="clusters")),
        replace(base, arena=GridArena(model="network")),
        replace(base, arena=GridArena(psi_error=0.1)),
    ]
    assert len({s.digest for s in [base, *others]}) == len(others) + 1
    assert replace(base).digest == base.digest
    assert replace(base, noise=0).digest == replace(base, noise=0.0).digest
    assert {base: 1}[replace(base)] == 1  # hashable
    network = others[-2]
    before = network.digest
    _decided.cache_clear()
    weights = next(iter(finite(network.arena).ground.model.parameters()))  # type: ignore[attr-defined]
    saved = weights.detach().clone()
    del finite(network.arena).ground.__dict__["fingerprint"]
    with torch.no_grad():
        weights += 1e-3
    assert network.digest != before
    with torch.no_grad():
        weights.copy_(saved)
    del finite(network.arena).ground.__dict__["fingerprint"]
    _decided.cache_clear()
    monkeypatch.setattr("zscout.lab.runs.spec.code_digest", lambda: "another version")
    again = base.digest
    _decided.cache_clear()
    monkeypatch.undo()
    assert again != base.digest


def test_an_edited_map_is_another_run(tmp_path: Path) -> None:
    digests = set()
    for text in ("....\n....\n....\n", "....\n.#..\n....\n"):
        (tmp_path / "map.txt").write_text(text)
        _ground.cache_clear()
        _decided.cache_clear()
        digests.add(spec("greedy", GridArena(str(tmp_path / "map.txt"))).digest)
    assert len(digests) == 2


def test_a_method_is_another_run_if_its_values_or_its_source_are_others(mine: Callable[..., Any]) -> None:
    scores: list[tuple[str, Callable[[Any], Any]]] = [
        ("class", lambda own: own.Weighted()),
        ("value", lambda own: own.Weighted(2.0)),
        ("closure", lambda own: own.scaled(2.0)),
        ("closure's value", lambda own: own.scaled(3.0)),
        ("partial", lambda own: partial(own.angry, rng=None)),
        ("function", lambda own: own.angry),
    ]
    before, same, edited = (
        {name: valued(make(own)).digest for name, make in scores}
        for more in ("", "\n# a comment\n", "\nedited = True\n")
        for own in [mine(more)]
    )
    assert before == same
    assert len({*before.values(), *edited.values()}) == 2 * len(scores)
    assert valued(mine().Weighted(), method="renamed").digest == valued(mine().Weighted()).digest


def test_a_method_of_our_pieces_runs_as_its_name_does() -> None:
    named, built = spec("thompson"), METHODS["thompson"](dim=9)
    handed = replace(named, value=UserObject.of(built))
    assert handed.is_stored
    assert handed.digest != replace(handed, value=UserObject.of(replace(built, hold=2))).digest
    (one,), (other,) = run_batch([named]), run_batch([handed])
    assert one.numbers == other.numbers
    assert one.provenance["method"] == other.provenance["method"]


def test_a_method_that_fails_names_its_line(mine: Callable[..., Any]) -> None:
    own = mine()
    lines = MINE.splitlines()
    for score, why, line in (
        (own.angry, "ValueError: x has 2 entries", "    return posterior.width(torch.ones(1, 2))  # of another size"),
        (own.NotANumber(), "ValueError: the scores of the candidates hold NaN", "class NotANumber:"),
    ):
        failing = valued(score)
        failing.check()  # nothing that can be seen before it runs
        (answer,) = run_chunk([failing]).answers
        assert isinstance(answer, Failure)
        assert answer.error.startswith(why)
        assert answer.error.endswith(f"(mine_here.py:{lines.index(line) + 1})")


def test_a_worker_with_another_source_refuses(mine: Callable[..., Any]) -> None:
    failing = valued(mine().Weighted())
    _loaded.cache_clear()
    mine("\nedited = True\n")
    (answer,) = run_chunk([failing]).answers
    assert isinstance(answer, Failure)
    assert "the source is another one here than where the runs began: mine_here.py:" in answer.error


HERE = """
import torch, warnings
from pathlib import Path
import zscout
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.chunks import run_all
from zscout.lab.runs.executor import LocalProcesses
from zscout.lab.runs.store import Store
from zscout.transfer.score.acquisition import UCB

def mine(forecast, posterior, radius, rng):
    return UCB()(forecast, posterior, radius, rng)

method = zscout.Method(acquisition=mine)
specs = Entrant.of(GridArena(), method, {}, Tasks(2, 1), name="mine", steps=5).specs
executor = LocalProcesses(2)
with Store(Path(FOLDER)) as store, warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    list(run_all(specs, store, executor))
    executor.close()
    print([str(it.message) for it in seen], len(store), len(store.missing(specs)))
    print(len(store.record(specs[0]).steps["z"]))
with Store(Path(FOLDER)) as store:
    print(len(store.missing(specs)))
"""


def test_a_method_without_source_runs_in_workers_and_is_not_stored(tmp_path: Path) -> None:
    code = HERE.replace("FOLDER", repr(str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    warned = "runs of mine are not stored: part of it is not in a file"
    assert done.stdout == f"['{warned}'] 0 0\n5\n2\n"


def test_a_world_features_and_a_model_as_objects(mine: Callable[..., Any]) -> None:
    world = GridWorld.from_map("....\n.#..\n....\n")
    phi = torch.cat([world.cells.double(), world.cells.double() ** 2], 1)
    named, arena = GridArena(), GridArena.of(world, phi)
    assert (arena.key, arena.to_json()["world"]) == ("own/own/exact", "own")
    assert named.to_json().keys() == arena.to_json().keys()
    assert run_batch([Spec(arena, "usf-ucb", (1.0, 0.0, 0.0, 2.0), steps=9)])[0].numbers["lost"] >= 0
    model, exact, five = mine().Acting, named.ground.exact, ExactModel(named.ground.world, named.ground.features[:, :5])
    assert GridArena.of(model=five).ground.exact.dim == 5  # its features are its own
    makers: list[Callable[[], GridArena]] = [
        lambda: arena,
        lambda: GridArena.of(world, 2 * phi),
        lambda: GridArena.of(GridWorld.from_map("....\n..#.\n....\n"), phi),
        lambda: GridArena.of(model=five),
        lambda: GridArena.of(model=ExactModel(five.world, five.features, gamma=0.9)),
        lambda: GridArena.of(model=model(exact)),
        lambda: GridArena.of(model=mine("\nedited = True\n").Acting(exact)),
    ]
    assert len({Spec(make(), "greedy", (1.0,)).digest for make in makers}) == len(makers)
    acting = GridArena.of(model=mine().Acting(exact))
    assert Spec(acting, "greedy", (1.0,)).is_stored
    assert run_batch([spec("oracle", acting)])[0].numbers["lost"] == pytest.approx(0, abs=1e-9)
    theirs, ours = (run_batch([spec("usf-ucb-paper", it)])[0].numbers["lost"] for it in (acting, named))
    assert theirs < 10 * ours


def test_objects_that_cannot_be_compared(mine: Callable[..., Any]) -> None:
    own, exact = mine(), GridArena().ground.exact
    flat = torch.ones(81, 1)
    for parts, why in (
        ({"model": ExactModel(exact.world, flat)}, "worth the same"),
        ({"features": flat}, "worth the same"),
        ({"features": torch.ones(80, 1)}, r"\[81 d\]"),
        ({"model": own.Blind(exact)}, "Blind cannot answer for all 81 states: RuntimeError: dark"),
        ({"model": own.Careless(exact)}, "Careless draws its actions"),
        ({"model": Drifter()}, "Drifter takes observations Box.*zscout.OnlineTransfer and zscout.rollout.*env=…"),
        ({"model": 7}, "int is not a BehaviorModel"),
        ({"world": 7}, "world must be a name or a GridWorld, got int"),
    ):
        with pytest.raises(ValueError, match=why):
            spec("greedy", GridArena.of(**parts)).check()


def test_features_of_a_file(tmp_path: Path) -> None:
    phi = GridArena().ground.features.numpy()
    path = str(tmp_path / "mine.npy")
    digests = set()
    for table in (phi, phi[:, :5], phi[:, :5].astype(np.float32)):
        np.save(path, table)
        _ground.cache_clear()
        _decided.cache_clear()
        arena = GridArena(features=path)
        assert np.allclose(arena.ground.features, table)
        digests.add(Spec(arena, "greedy", (1.0,) * table.shape[1]).digest)
    assert len(digests) == 3
    for content, why in (
        (phi[:80], r"mine.npy is \(80, 9\), expected \[81 d\]"),
        (phi[0], r"is \(9,\), expected"),
        (np.zeros((81, 10_001), bool), r"d ≤ 10,000"),
        (np.full((81, 2), np.nan), "NaN or inf at row 0"),
        (np.array([[None] * 2] * 81), "mine.npy is not a table in .npy: .*Python objects"),
        (b"", "not a table in .npy"),
        (b"\x93NUMPY\x01\x00", "not a table in .npy"),
        (np.zeros((81, 9)).tobytes(), "not a table in .npy"),
    ):
        Path(path).write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
        _ground.cache_clear()
        with pytest.raises(ValueError, match=why):
            _ = GridArena(features=path).ground
    np.save(path, phi)
    Path(path).write_bytes(Path(path).read_bytes()[:-8])  # its head promises more
    _ground.cache_clear()
    with pytest.raises(ValueError, match="not a table in .npy"):
        _ = GridArena(features=path).ground
    with pytest.raises(ValueError, match=r"not a table in .npy: No such file"):
        _ = GridArena(features=str(tmp_path / "none.npy")).ground


def test_rewards_outside_the_features() -> None:
    ground = GridArena().ground
    z, seeds = ground.draw(Tasks(4, 1))
    linear = ground.rewards(z, seeds.tolist(), 0.0)
    assert torch.allclose(linear, z @ ground.exact.features.T)
    table = ground.rewards(z, seeds.tolist(), 0.4)
    beyond = table - linear
    assert (beyond @ ground.exact.features).abs().max() < 1e-9  # no φ·z has any of it
    share = beyond.var(1, correction=0) / table.var(1, correction=0)
    assert torch.allclose(share, torch.full((4,), 0.4).double())
    assert torch.allclose(ground.rewards(z[1:2], seeds[1:2].tolist(), 0.4), table[1:2])  # each from its own seed
    runs = [
        Spec(GridArena(), "oracle", tuple(t), outside=0.4, seed=s, steps=8)
        for t, s in zip(z.tolist(), seeds.tolist(), strict=True)
    ]
    for record, reward, task in zip(run_batch(runs), table, z, strict=True):
        seen = record.steps["reward"] - reward[record.steps["entered"]].numpy()
        assert np.abs(seen).max() < 0.3 * 5
        best = ground.by_state.exact.value(reward[None])[0]
        policy = ground.exact.policy(task)
        kept = ground.by_state.exact.evaluate(policy) @ reward
        lost = (best - kept)[record.steps["state"]].sum() / ground.gap
        assert record.numbers["lost"] == pytest.approx(float(lost), rel=1e-6)
        assert record.numbers["lost_own"] == pytest.approx(0, abs=1e-9)


def test_a_psi_that_is_wrong_by_degree() -> None:
    exact = GridArena().ground.exact
    z, states = exact.sample_z(50, 0), exact.states()
    truth = exact.psi(states, z)
    for degree, heads in ((0.2, 1), (0.4, 4)):
        model = GridArena(psi_error=degree, heads=heads).ground.model
        each = model.psi_heads(states, z)  # type: ignore[attr-defined]
        size = truth.norm(dim=-1)[:, None]
        error = ((each - truth[:, None]).norm(dim=-1) / size).pow(2).mean().sqrt()
        assert float(error) == pytest.approx(degree, rel=0.1)
        mean = ((model.psi(states, z) - truth).norm(dim=-1) / truth.norm(dim=-1)).pow(2).mean().sqrt()
        assert float(mean) == pytest.approx(degree / heads**0.5, rel=0.15)
        assert torch.equal(model.psi(5, z), model.psi(5, z))
        assert torch.allclose(model.psi(states[:3], z[None].expand(3, -1, -1)), model.psi(states[:3], z))
    (right,), (wrong,) = (run_batch([spec("oracle", GridArena(psi_error=e))]) for e in (0.0, 0.5))
    assert right.numbers == wrong.numbers  # its policies are right


def test_every_method_can_be_specified() -> None:
    arena = GridArena(features="clusters")
    for name in METHODS:
        spec(name, arena).check()
        assert json.dumps(spec(name, arena).to_json())


CODE = """
'''A module.'''
RATE = 0.5  # a reason


def f(x: float, kinds: object = None) -> float:
    '''Half of it.'''
    assert x >= 0
    if kinds in {"a", "b"}:
        return 1.0
    return RATE * x
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Half of it.", "One half of x.", True),
        ("A module.", "Another description.", True),
        ("# a reason", "# a better reason\n# on two lines", True),
        ("    return RATE * x", "\n    return RATE * x", True),
        ("0.5", "0.6", False),
        ("RATE * x", "x * RATE", False),
        ("return 1.0", "return 2.0", False),
        ('"b"', '"c"', False),
        ("f(x", "g(x", False),
    ],
)
def test_a_digest_depends_on_what_code_does(old: str, new: str, same: bool) -> None:
    before, after = (digest_of_code(text.encode()) for text in (CODE, CODE.replace(old, new)))
    assert (before == after) == same


@pytest.mark.long
def test_a_digest_is_the_same_in_every_process() -> None:
    words = "import sys; from zscout.lab.runs.spec import code_digest; print(code_digest())"
    found = {
        subprocess.run(
            [sys.executable, "-c", words], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(found.pop()) == 65

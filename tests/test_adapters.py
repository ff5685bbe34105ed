"""Public models: φ, each head of ψ and the action equal a second computation; hostile folders are refused."""

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from safetensors.torch import load_file, save_file
from torch import Tensor

import zscout
from layouts import LAYOUTS, SIZES, A, D, K, Layout, agent, bfm_zero, metamotivo, td_jepa
from zscout import adapters
from zscout.adapters import adapter as adapter_module
from zscout.base.edge import for_each_entry

NEAR = 2e-6  # float32 against float64, for outputs of size 1


def loaded(layout: Layout, folder: Path) -> Any:
    return zscout.load(layout.write(folder))


def differences(model: Any, layout: Layout) -> dict[str, float]:
    """The largest difference from the layout's own computation, relative to the largest output if that is above 1."""
    obs: Any = for_each_entry(lambda part: part.float(), layout.obs)
    z = model.sample_z(len(z_rows(layout)), 3)
    action = layout.action(layout.obs, z.double())
    pairs = {
        "φ": (model._features(obs), layout.features(layout.obs)),
        "ψ": (
            model.psi_heads(obs, z[:, None])[:, :, 0],
            layout.successors(layout.obs, z.double(), action).movedim(0, 1),
        ),
        "act": (model.act(obs, z), action),
    }
    for name, (ours, theirs) in pairs.items():
        assert ours.shape == theirs.shape, name
        assert float(theirs.std(0).mean()) > 0.02, f"{name} hardly varies"
    return {name: float((a - b).abs().max() / max(1, b.abs().max())) for name, (a, b) in pairs.items()}


def z_rows(layout: Layout) -> Tensor:
    obs: Tensor = layout.obs["state"] if isinstance(layout.obs, dict) else layout.obs
    return obs


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_loaded_folder_computes_what_its_tensors_say(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]()
    model = loaded(layout, tmp_path)
    apart = differences(model, layout)
    print(name, {key: f"{value:.1e}" for key, value in apart.items()})
    assert max(apart.values()) < NEAR, apart
    assert type(model).__module__ == "zscout.adapters.adapter"
    zscout.check_model(model)


def rows_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The layout's computation as a project's method: float32 rows, keyword arguments ignored."""

    def call(*inputs: Any, **_: Any) -> Tensor:
        return function(*(for_each_entry(lambda part: part.double(), one) for one in inputs)).float()

    return call


def built_model(layout: Layout, **members: Any) -> SimpleNamespace:
    def settings(value: Any) -> Any:
        return SimpleNamespace(**{k: settings(v) for k, v in value.items()}) if isinstance(value, dict) else value

    return SimpleNamespace(cfg=settings(layout.config), act=rows_of(layout.action), **members)


class Module(torch.nn.Module):
    """A network of an agent: the layout's computation, with the layout's tensors as its state."""

    def __init__(self, layout: Layout, name: str, call: Callable[..., Any]) -> None:
        super().__init__()
        self.layout, self.name, self.call = layout, name, call

    def forward(self, *inputs: Any) -> Any:
        return self.call(*inputs)

    def state_dict(self, *_: Any, **__: Any) -> Any:
        mine = {k.removeprefix(f"{self.name}."): v for k, v in self.layout.weights.items() if k.startswith(self.name)}
        return {**mine, "target.weight": torch.ones(2)}


def built_agent(layout: Layout, **changes: Any) -> SimpleNamespace:
    hilp, model = "hilp" in layout.config["format"], layout.config["model"]
    cfg = {"obs_type": "states", "obs_shape": (K,), "action_shape": (A,), "boltzmann": False, "goal_space": None}
    cfg |= {key: model[key] for key in ("z_dim", "hidden_dim", "feature_dim", "preprocess", "add_trunk")}
    cfg |= {"feature_learner": "hilp", "phi_hidden_dim": 4, "backward_hidden_dim": 4}
    cfg |= {"feature_type": model.get("feature_type")} | changes
    successors = Module(layout, "successor_net" if hilp else "forward_net", rows_of(layout.successors))
    actor = Module(layout, "actor", lambda obs, z, std: SimpleNamespace(mean=rows_of(layout.action)(obs, z)))
    made = SimpleNamespace(cfg=SimpleNamespace(**cfg), encoder=torch.nn.Identity(), actor=actor)
    features = Module(layout, "feature_learner" if hilp else "backward_net", rows_of(layout.features))
    if hilp:
        features.feature_net = features.call  # type: ignore[assignment]
        made.feature_learner, made.successor_net = features, successors
    else:
        made.backward_net, made.forward_net = features, successors
    return made


def test_built_models_of_every_project(tmp_path: Path) -> None:
    spaces = Dict({name: Box(-np.inf, np.inf, (k,), np.float32) for name, k in SIZES.items()})
    one, two, three = metamotivo(), td_jepa(), bfm_zero()
    maps = [{"backward_map": rows_of(some.features), "forward_map": rows_of(some.successors)} for some in (one, three)]
    vector = Box(-np.inf, np.inf, (K,), np.float32)
    jepa = {
        "psi": rows_of(two.features),
        "phi_predictor": rows_of(two.successors),
        "obs_space": vector,
        "action_dim": A,
    }
    made: list[tuple[Any, Layout]] = [
        (adapters.metamotivo(built_model(one, **maps[0])), one),
        (adapters.td_jepa(built_model(two, **jepa), gamma=0.9), two),
        (adapters.bfm_zero(built_model(three, **maps[1], obs_space=spaces, action_dim=A)), three),
    ]
    for project, adapted in (("hilp", adapters.hilp), ("controllable-agent", adapters.controllable_agent)):
        layout = agent(project)
        made.append((adapted(built_agent(layout), gamma=0.9), layout))
    for model, layout in made:
        assert max(differences(model, layout).values()) < NEAR
        zscout.check_model(model)
    trained = SimpleNamespace(
        _model=built_model(one, **maps[0]), cfg=SimpleNamespace(train=SimpleNamespace(discount=0.97))
    )
    assert adapters.metamotivo(trained).gamma == 0.97
    assert not hasattr(made[0][0], "gamma")


@pytest.mark.parametrize(
    ("project", "settings"),
    [
        ("hilp", {"kind": "diff", "trunk": True}),
        ("hilp", {"kind": "concat"}),
        ("controllable-agent", {"preprocess": False}),
    ],
)
def test_a_converted_agent_is_the_agent(project: str, settings: dict[str, Any], tmp_path: Path) -> None:
    layout = agent(project, **settings)
    model: Any = zscout.load(adapters.convert(built_agent(layout), tmp_path / "safe", gamma=0.95))
    assert max(differences(model, layout).values()) < NEAR
    assert model.gamma == 0.95
    assert {path.name for path in (tmp_path / "safe").iterdir()} == {"config.json", "model.safetensors"}


def test_features_of_a_transition(tmp_path: Path) -> None:
    for kind in ("diff", "concat"):
        layout = agent("hilp", kind)
        model = loaded(layout, tmp_path / kind)
        obs, after = layout.obs, layout.obs.flip(0)
        f, g = layout.features(obs), layout.features(after)
        expected = g - f if kind == "diff" else torch.cat([f, g], -1)
        assert torch.allclose(model.phi_of_transition(obs, None, after).double(), expected, atol=NEAR)
        assert zscout.calibrated(model, (obs.repeat(9, 1), None, torch.randn(63, K))).dim <= D
    assert not hasattr(loaded(agent("hilp"), tmp_path / "state"), "phi_of_transition")


def test_phi_of_a_forward_backward_model_is_the_one_whose_psi_is_F() -> None:
    """The least-squares F of a Markov chain is exactly the ψ of C⁻¹B, and not that of B."""
    rng = torch.Generator().manual_seed(0)
    S, d, gamma = 12, 4, 0.9
    P = torch.rand(S, S, generator=rng).double().pow(4)
    P /= P.sum(1, keepdim=True)
    M = P @ torch.linalg.inv(torch.eye(S) - gamma * P)  # Σ γᵏ Pᵏ⁺¹
    B = torch.randn(S, d, generator=rng).double() * torch.tensor([1.0, 2.0, 0.5, 1.5])
    F = torch.linalg.lstsq(B, (M * S).mT).solution.mT  # min E (F·B − M/ρ)², ρ uniform
    cfg = SimpleNamespace(archi=SimpleNamespace(z_dim=d, norm_z=True), obs_dim=S, action_dim=1)
    model = SimpleNamespace(
        cfg=cfg,
        backward_map=lambda obs: obs @ B.float(),
        forward_map=lambda obs, z, action: (obs @ F.float())[None],
        act=lambda obs, z, mean: torch.zeros(len(obs), 1),
    )
    states = torch.eye(S)
    fitted, plain = adapters.metamotivo(model, states, gamma=gamma), adapters.metamotivo(model, gamma=gamma)
    psi = fitted.psi(states, fitted.sample_z(1, 0))[:, 0].double()
    assert torch.allclose(M @ fitted.phi(states).double(), psi, atol=1e-4)
    assert float((M @ plain.phi(states).double() - psi).norm() / psi.norm()) > 0.3
    calibrated = zscout.calibrated(plain, states)  # fits it, too
    phi, psi = calibrated.phi(states), calibrated.psi(states, calibrated.sample_z(1, 0))[:, 0]
    assert torch.allclose(phi.mT @ phi / S, torch.eye(d).double(), atol=1e-4)
    assert torch.allclose(M @ phi, psi, atol=1e-3)
    assert fitted.fitted(states[:5]) is fitted
    with pytest.raises(ValueError, match="needs at least 4 observations"):
        plain.fitted(states[:3])


def test_privileged_entries_are_named_when_they_are_missing(tmp_path: Path) -> None:
    layout = bfm_zero()
    model = loaded(layout, tmp_path)
    assert "time" not in model.observation_space.spaces  # no network sees it
    robot = {name: part for name, part in layout.obs.items() if name != "privileged_state"}
    z = model.sample_z(7, 0)
    assert torch.equal(model.act(robot, z), model.act(layout.obs, z))
    said = "needs 'privileged_state', the observation has 'state', .*is an input of φ and ψ: take it from the simulator"
    with pytest.raises(ValueError, match=f"φ {said}"):
        model.phi(robot)
    with pytest.raises(ValueError, match=f"ψ {said}"):
        model.psi(robot, z)
    with pytest.raises(ValueError, match="act needs 'last_action'"):
        model.act({"state": robot["state"]}, z)
    with pytest.raises(ValueError, match=r"batch dimensions \[\(\), \(7,\)\]"):
        model.act({**robot, "state": robot["state"][0]}, z)


def test_many_rows_are_computed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bfm-zero", "hilp-diff"):
        layout = LAYOUTS[name]()
        model = loaded(layout, tmp_path / name)
        z = model.sample_z(5, 0)
        whole = model.psi(layout.obs, z), model.act(layout.obs, z[0])
        monkeypatch.setattr(adapter_module, "PART", 3)
        for one, other in zip(whole, (model.psi(layout.obs, z), model.act(layout.obs, z[0])), strict=True):
            assert torch.allclose(one, other, atol=1e-6)
        monkeypatch.undo()


class Point(gymnasium.Env[Any, Any]):
    """Five numbers that drift with the action; Dict observations of BFM-Zero if ``split``."""

    def __init__(self, split: bool = False) -> None:
        self.split, self.action_space = split, Box(-1.0, 1.0, (A,), np.float32)
        one = Box(-np.inf, np.inf, (K,), np.float64)
        parts = Dict({name: Box(-np.inf, np.inf, (k,), np.float64) for name, k in SIZES.items()})
        self.observation_space: Any = parts if split else one

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=K)
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.state = 0.9 * self.state + np.concatenate([action, action[:2]]) * 0.3
        return self._obs(), float(self.state[0]), False, False, {}

    def _obs(self) -> Any:
        return {name: np.resize(self.state, k) for name, k in SIZES.items()} if self.split else self.state


@pytest.mark.parametrize("name", ["metamotivo", "hilp-diff", "bfm-zero"])
def test_agents_transfer_with_them(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]()
    model = adapters.load_checkpoint(layout.write(tmp_path), gamma=0.95)
    rng = torch.Generator().manual_seed(5)
    sample: Any = for_each_entry(lambda part: torch.randn(200, part.shape[-1], generator=rng), layout.obs)
    if name == "hilp-diff":
        sample = (sample, None, sample.flip(0))
    agents = [zscout.OnlineTransfer(zscout.calibrated(model, sample), seed=0) for _ in range(2)]
    runs = [list(zscout.rollout(one, Point(name == "bfm-zero"), steps=12, seed=0)) for one in agents]
    assert [step.reward for step in runs[0]] == [step.reward for step in runs[1]]
    assert agents[0].t == 12
    assert torch.isfinite(agents[0].best_z).all()
    if name == "metamotivo":
        several = zscout.OnlineTransfer(model, runs=3, seed=0)
        several.tell(torch.randn(3, K), several.ask(torch.randn(3, K))[:, 0])
        assert several.t == 1


def test_gamma_is_read_from_the_training_settings(tmp_path: Path) -> None:
    folder = bfm_zero().write(tmp_path / "model").parent
    (folder / "config.json").write_text(json.dumps({"name": "FBcprAuxAgent", "train": {"discount": 0.98}, "model": {}}))
    (folder / "optimizers.pth").write_bytes(b"a pickle, ignored")
    model: Any = zscout.load(folder)
    assert model.gamma == 0.98
    alone: Any = zscout.load(folder / "model")
    with pytest.raises(ValueError, match="has no gamma"):
        zscout.calibrated(alone, bfm_zero().obs)
    assert adapters.load_checkpoint(folder / "model", bfm_zero().obs, gamma=0.5).gamma == 0.5
    (folder / "config.json").write_text(json.dumps({"train": {"discount": 2}}))
    with pytest.raises(ValueError, match="train: discount must be in"):
        zscout.load(folder)


def test_half_precision_files_are_read(tmp_path: Path) -> None:
    layout = metamotivo()
    for name, tensor in layout.weights.items():
        layout.weights[name] = tensor.half() if tensor.is_floating_point() else tensor
    assert max(differences(loaded(layout, tmp_path), layout).values()) < NEAR


# Refusals


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return (Path.touch, (tmp_path / "opened",))

    payload, folder = pickle.dumps(Hostile()), td_jepa().write(tmp_path / "model")
    (folder / "init_kwargs.pkl").write_bytes(payload)
    (folder / "model.pt").write_bytes(payload)
    zscout.load(folder)  # beside safetensors and JSON they are ignored
    (folder / "init_kwargs.json").unlink()
    with pytest.raises(ValueError, match=r"has no init_kwargs.json, only init_kwargs.pkl; .*docs/adapters.md"):
        zscout.load(folder)
    (folder / "model.safetensors").unlink()
    for path in (folder, folder / "model.pt"):
        with pytest.raises(ValueError, match=r"zscout opens none: convert it once .*docs/adapters.md"):
            zscout.load(path)
    assert not (tmp_path / "opened").exists()


def change(value: Any, path: str, new: Any) -> Any:
    """A copy of nested dicts with one entry replaced; without it if ``new`` is ``...``."""
    copied = copy.deepcopy(value)
    *above, last = path.split("/")
    inner = copied
    for name in above:
        inner = inner[name]
    if new is ...:
        del inner[last]
    else:
        inner[last] = new
    return copied


@pytest.mark.parametrize(
    ("name", "path", "new", "message"),
    [
        ("metamotivo", "obs_dim", 6, "expects _backward_map.net.0.weight of shape .4, 6., got .4, 5."),
        ("metamotivo", "archi/f/hidden_dim", 99_998, r"expects _forward_map.embed_z.0.weight of shape .*, got \(2, 11"),
        ("metamotivo", "archi/f/hidden_dim", 10**9, "hidden_dim must be from 1 to 100000, got 1000000000"),
        ("metamotivo", "archi/f/hidden_layers", 10**9, "hidden_layers must be from 0 to 64"),
        ("metamotivo", "archi/actor/hidden_dim", 9, "hidden_dim is 9, expected an even number"),
        ("metamotivo", "archi/f/embedding_layers", 2, "expects _forward_map.embed_z.3.weight of shape"),
        ("metamotivo", "archi/f/hidden_layers", 0, r"expects _forward_map.Fs.0.weight of shape"),
        ("metamotivo", "archi/f/model", "wide", "model is 'wide', expected simple or residual"),
        ("metamotivo", "archi/norm_z", False, "norm_z is false"),
        ("metamotivo", "archi/b", ..., "lacks the key 'b'"),
        ("metamotivo", "archi/b", [], "b is list, expected an object"),
        (
            "td-jepa",
            "name",
            "TDJEPAFlowBCModel",
            "name is 'TDJEPAFlowBCModel', expected TDJEPAModel or .*in their project",
        ),
        ("td-jepa", "archi/rgb_encoder/name", "drq", "name is 'drq', expected Identity.*images"),
        ("td-jepa", "obs_normalizer/name", "RGBNormalizerConfig", "expected IdentityNormalizerConfig or Batch"),
        (
            "bfm-zero",
            "archi/b/input_filter/key",
            ["goal"],
            "key 'goal' is not in obs_space, which has .*privileged_state",
        ),
        ("bfm-zero", "archi/b/name", "BackwardFilterArchi", "name is 'BackwardFilterArchi', expected"),
        ("bfm-zero", "obs_normalizer/normalizers/state", ..., "normalizers lacks the key 'state'"),
        ("hilp", "model/feature_type", "value", "feature_type is 'value', expected state or diff or concat"),
        ("hilp", "gamma", 1.0, "gamma must be in"),
        ("hilp-concat", "model/z_dim", 7, "z_dim is 7, expected an even number"),
    ],
)
def test_settings_that_do_not_fit(name: str, path: str, new: Any, message: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]()
    layout.config = change(layout.config, path, new)
    with pytest.raises(ValueError, match=message) as caught:
        loaded(layout, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        ("obs_space", ..., "init_kwargs.json lacks the key 'obs_space'"),
        ("obs_space/type", "Tuple", "type is 'Tuple', expected Box or Dict"),
        ("obs_space/low", [[0.0] * K], "expected one vector each"),
        ("obs_space/low", [float("nan")] * K, "low ≤ high"),
        ("obs_space/low", ["a"], "must be lists of numbers"),
        ("action_dim", 10**9, "action_dim must be from 1 to 100000"),
    ],
)
def test_arguments_that_do_not_fit(path: str, new: Any, message: str, tmp_path: Path) -> None:
    layout = td_jepa()
    layout.arguments = change(layout.arguments, path, new)
    with pytest.raises(ValueError, match=message):
        loaded(layout, tmp_path)


def leaves(value: Any, path: str = "") -> Iterator[str]:
    for name, inner in value.items():
        yield f"{path}{name}"
        if isinstance(inner, dict):
            yield from leaves(inner, f"{path}{name}/")


@pytest.mark.parametrize("name", ["metamotivo", "td-jepa", "bfm-zero", "hilp"])
def test_any_setting_may_be_anything(name: str, tmp_path: Path) -> None:
    """Each value left out, or replaced by two of these in turn: the folder loads, or one line says why not."""
    layout = LAYOUTS[name]()
    folder = layout.write(tmp_path)
    others: Iterator[Any] = cycle([None, -1, 0, 10**30, 1.5, float("nan"), "x", "", [], {}, [[]], True, {"name": 3}])
    refused = []
    for file in ("config.json", "init_kwargs.json") if layout.arguments else ("config.json",):
        good = json.loads((folder / file).read_text())
        for path in leaves(good):
            for new in (..., next(others), next(others)):
                (folder / file).write_text(json.dumps(change(good, path, new)))
                try:
                    zscout.load(folder)
                except ValueError as error:
                    refused.append(str(error))
        (folder / file).write_text(json.dumps(good))
    assert len(refused) > 25
    assert not [said for said in refused if "\n" in said or str(folder) not in said]
    zscout.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("[" * 100_000, "is not JSON"), ("[]", "object"), ("\xff", "is not JSON")],
)
def test_files_that_are_not_json(text: str, message: str, tmp_path: Path) -> None:
    for file in ("config.json", "init_kwargs.json"):
        folder = td_jepa().write(tmp_path / file)
        (folder / file).write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match=message):
            adapters.load_checkpoint(folder)
        with pytest.raises(ValueError, match=message):
            zscout.load(folder)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    folder = metamotivo().write(tmp_path)
    path = folder / "model.safetensors"
    good, whole = load_file(path), path.read_bytes()
    name, variance = "_actor.policy.0.bias", "_obs_normalizer.running_var"
    for tensors, message in (
        ({**good, name: good[name] * float("nan")}, f"NaN, inf or a negative variance in {name}"),
        ({**good, variance: -good[variance]}, f"negative variance in {variance}"),
        ({**good, name: good[name].long()}, f"holds {name} as I64"),
        ({**good, name: good[name][:-1].clone()}, rf"expects {name} of shape \(10,\), got \(9,\)"),
        ({key: value for key, value in good.items() if key != name}, f"expects {name} of shape .*, got nothing"),
        ({**good, "_actor.policy.9.bias": torch.ones(1)}, "expects no _actor.policy.9.bias"),
    ):
        save_file(tensors, path)
        with pytest.raises(ValueError, match=message):
            zscout.load(folder)
    for keep in (0, 7, 300, len(whole) - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match="is damaged or not a safetensors file"):
            zscout.load(folder)


def test_models_that_do_not_fit(tmp_path: Path) -> None:
    for call, message in (
        (adapters.metamotivo, "metamotivo expects a model with backward_map, .*; int has no backward_map"),
        (adapters.td_jepa, "td_jepa expects a model with psi, phi_predictor"),
        (adapters.bfm_zero, "bfm_zero expects a model with cfg"),
        (adapters.hilp, "hilp expects a model with feature_learner"),
        (adapters.controllable_agent, "controllable_agent expects a model with backward_net"),
    ):
        with pytest.raises(ValueError, match=message):
            call(3)
    layout = agent("controllable-agent")
    walker = built_agent(layout, goal_space="simplified_walker")
    with pytest.raises(ValueError, match="see goal_space 'simplified_walker'.*pass goals="):
        adapters.controllable_agent(walker)
    model = adapters.controllable_agent(walker, goals=lambda obs: obs.flip(-1))
    assert torch.allclose(model.phi(layout.obs).double(), layout.features(layout.obs.flip(-1)), atol=NEAR)
    with pytest.raises(ValueError, match="norm_z is False"):
        adapters.controllable_agent(built_agent(layout, norm_z=False))
    with pytest.raises(ValueError, match="feature_type is 'value'"):
        adapters.hilp(built_agent(agent("hilp"), feature_type="value"))
    for changes in ({"boltzmann": True}, {"obs_type": "pixels"}):
        with pytest.raises(ValueError, match="convert writes agents of states"):
            adapters.convert(built_agent(layout, **changes), tmp_path / "no", gamma=0.9)
    other = built_agent(layout, feature_dim=6)
    with pytest.raises(ValueError, match="this agent's settings expect forward_net.obs_action_net.3.weight of shape"):
        adapters.convert(other, tmp_path / "no", gamma=0.9)
    assert not (tmp_path / "no").exists()
    with pytest.raises(ValueError, match="is not a folder of metamotivo"):
        adapters.load_checkpoint(zscout.save(zscout.load("grid9-clusters"), tmp_path / "ours"))
    with pytest.raises(ValueError, match="φ needs no sample"):
        adapters.load_checkpoint(td_jepa().write(tmp_path / "jepa"), layout.obs)

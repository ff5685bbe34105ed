"""What decides a run, and that nothing else does."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena, _ground, finite
from zscout.lab.arenas.plugins import digest_of_code
from zscout.lab.runs.chunks import run_batch, run_chunk
from zscout.lab.runs.spec import Spec, _decided
from zscout.lab.runs.store import Failure
from zscout.transfer.methods import METHODS

MINE = """
from zscout import METHODS, Method
from zscout.transfer.score.search import AtEstimate
from zscout.transfer.score.search import TableSearch
from zscout import ExactModel
from zscout.features import laplacian
import torch

steady = Method(ridge=0.5, search=AtEstimate())

def tuned(*, noise, ridge=0.1):
    return Method(ridge=ridge * (1 + noise), search=TableSearch(50))

class Nowhere:
    def __call__(self, problem, rng):
        if float(problem.posterior.z_hat.norm()) > 0:
            return torch.full((*problem.posterior.runs, 9), float("nan"))
        return AtEstimate()(problem, rng)

def not_a_number():
    return Method(search=Nowhere())

def angry():
    raise RuntimeError("no")

def wrong():
    return 7

def model(world, features):
    return ExactModel(world, 2 * features[:, :5])

def flat(world, features):
    return ExactModel(world, torch.ones(81, 1))

class Blind:
    def __init__(self, world, features):
        self.inner = ExactModel(world, features)
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def phi(self, obs):
        raise RuntimeError("dark")

class Careless(Blind):
    def __getattr__(self, name):
        if name in ("policy", "value"):
            raise AttributeError(name)
        return getattr(self.inner, name)
    def phi(self, obs):
        return self.inner.phi(obs)
    def act(self, obs, z, rng=None):
        return torch.randint(4, torch.as_tensor(obs).shape, generator=rng)

class Acting:
    # no policy(z), so it is asked state by state
    def __init__(self, world, features):
        self.inner = ExactModel(world, features)
    def __getattr__(self, name):
        if name in ("policy", "value", "successor_features"):
            raise AttributeError(name)
        return getattr(self.inner, name)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine_here.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "mine_here", raising=False)
    _decided.cache_clear()
    _ground.cache_clear()
    return tmp_path / "mine_here.py"


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


def test_an_edited_map_or_method_is_another_run(mine: Path) -> None:
    digests = set()
    for text in ("....\n....\n....\n", "....\n.#..\n....\n"):
        Path("map.txt").write_text(text)
        _ground.cache_clear()
        _decided.cache_clear()
        digests.add(spec("greedy", GridArena("map.txt")).digest)
    before = spec("mine_here:tuned").digest
    mine.write_text(MINE + "\n# a comment\n")
    _decided.cache_clear()
    assert spec("mine_here:tuned").digest == before
    mine.write_text(MINE + "\nedited = True\n")
    _decided.cache_clear()
    digests |= {before, spec("mine_here:tuned").digest}
    assert len(digests) == 4


def test_methods_of_ones_own(mine: Path) -> None:
    for name in ("steady", "tuned"):
        run = spec(f"mine_here:{name}")
        run.check()
        assert len(run_chunk([run]).answers[0].steps["state"]) == 12  # type: ignore[union-attr]
    changed = replace(spec("mine_here:tuned"), settings='{"ridge": 1.0}')
    assert changed.build(torch.ones(1, 9)).ridge == pytest.approx(1.3)
    with pytest.raises(ValueError, match="no setting 'colour'"):
        replace(changed, settings='{"colour": 1}').check()


def test_methods_that_fail_fail_their_own_runs(mine: Path) -> None:
    (answer,) = run_chunk([spec("mine_here:not_a_number")]).answers
    assert isinstance(answer, Failure)
    assert "NaN" in answer.error
    for name, why in (("angry", "RuntimeError: no"), ("wrong", "must return a Method, got int")):
        failing = spec(f"mine_here:{name}")
        failing.check()  # nothing that can be seen before it runs
        (answer,) = run_chunk([failing]).answers
        assert isinstance(answer, Failure)
        assert why in answer.error


def test_models_of_ones_own(mine: Path) -> None:
    arena = GridArena(model="mine_here:model")
    run = Spec(arena, "usf-ucb", (1.0, 0.0, 0.0, 0.0, 2.0), steps=20)
    (record,) = run_batch([run])
    assert arena.ground.exact.dim == 5  # its features are its own
    assert record.numbers["lost"] > 0
    acting, exact = (run_batch([spec("usf-ucb-paper", GridArena(model=m))])[0] for m in ("mine_here:Acting", "exact"))
    again = run_batch([spec("oracle", GridArena(model="mine_here:Acting"))])[0]
    assert again.numbers["lost"] == pytest.approx(0, abs=1e-9)
    assert acting.numbers["lost"] < 10 * exact.numbers["lost"]


def test_models_of_ones_own_that_cannot_be(mine: Path) -> None:
    for name, why in (("flat", "worth the same"), ("Blind", "RuntimeError: dark"), ("Careless", "draws its actions")):
        with pytest.raises(ValueError, match=why):
            spec("greedy", GridArena(model=f"mine_here:{name}")).check()


def test_weights_of_ones_own_model_are_in_the_digest(mine: Path) -> None:
    mine.write_text(
        MINE
        + "\nfrom pathlib import Path\nSCALE = float(Path('scale.txt').read_text())\ndef scaled(world, features):\n"
        "    return ExactModel(world, SCALE * features)\n"
    )
    digests = set()
    for scale in ("1.0", "2.0"):
        Path("scale.txt").write_text(scale)
        __import__("sys").modules.pop("mine_here", None)
        _ground.cache_clear()
        _decided.cache_clear()
        digests.add(spec("greedy", GridArena(model="mine_here:scaled")).digest)
    assert len(digests) == 2


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

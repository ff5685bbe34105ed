"""Simulated runs, what they are worth, and the theory along them."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reproduction.pieces.scores import Explore, SelfNormalised
from simulating import simulate
from zscout import METHODS, USFA, ExactModel, Method, load
from zscout.lab.arenas.exact_values import Yardstick
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import Trace
from zscout.lab.evaluation.exact_evaluation import Theory, replay, settled
from zscout.transfer.baselines.explorers import Exploring, RandomWalk
from zscout.transfer.score.search import TableSearch

SEEDS = torch.arange(12) + 50


def theory_of(trace: Trace, exact: ExactModel) -> tuple[Theory, Tensor]:
    """The theory's quantities for runs of the exact model, and their regret."""
    yardstick = Yardstick(exact)
    psi, psi_best = (yardstick.psi(trace.state, z) for z in (trace.z, trace.task.expand_as(trace.z)))
    learnable = yardstick.without_constant(trace.task) if trace.intercept else trace.task
    return replay(trace, exact, learnable, psi, psi_best), yardstick.regret(trace)


def own_regret(yardstick: Yardstick, trace: Trace) -> Tensor:
    """The regret against the model's own π(·,z_r)."""
    psi, task = yardstick.psi(trace.state, trace.task.expand_as(trace.z)), trace.task
    return (psi * task).sum(-1) - yardstick.achieved(trace, task, yardstick.psi(trace.state, trace.z))


def runs(model: ExactModel, method: str | Method, steps: int = 60, tasks: Tensor | None = None, **more: Any) -> Trace:
    tasks = model.sample_z(12, 3) if tasks is None else tasks
    return simulate(model, model.world, tasks, method, seeds=SEEDS[: len(tasks)], steps=steps, noise=0.3, **more)


def test_a_trace_is_what_happened(laplacian_model: ExactModel) -> None:
    trace, model = runs(laplacian_model, "thompson"), laplacian_model
    assert torch.equal(trace.state[1:], trace.entered[:-1])
    assert torch.equal(model.world.step(trace.state, trace.action), trace.entered)
    assert torch.equal(torch.as_tensor(model.act(trace.state[7], trace.z[7])), trace.action[7])
    residual = trace.reward - (model.phi(trace.entered) * trace.task).sum(-1)
    assert residual.std() == pytest.approx(0.3, rel=0.1)
    phi = model.phi(trace.entered[:20, 4])
    V = trace.ridge * torch.eye(9).double() + phi.T @ phi
    assert torch.allclose(trace.z_hat[20, 4], torch.linalg.solve(V, phi.T @ trace.reward[:20, 4]))
    assert len(trace.state[0].unique()) > 6  # starts are uniform


def test_noise_and_starts_are_the_runs_own(laplacian_model: ExactModel) -> None:
    tasks = laplacian_model.sample_z(12, 3)
    together, alone = (runs(laplacian_model, "usf-ucb", 40, part) for part in (tasks, tasks[:1]))
    for name in ("state", "action", "entered"):
        assert torch.equal(getattr(together, name)[:, :1], getattr(alone, name))
    assert torch.allclose(together.reward[:, :1], alone.reward)
    other = runs(laplacian_model, "greedy", 40)
    assert torch.equal(other.state[0], together.state[0])  # paired: the same start and noise for every method
    noise = [t.reward - (laplacian_model.phi(t.entered) * t.task).sum(-1) for t in (together, other)]
    assert torch.allclose(noise[0], noise[1])


def test_regret_by_hand(laplacian_model: ExactModel) -> None:
    model, yardstick = laplacian_model, Yardstick(laplacian_model)
    trace = runs(model, "random-z", 6)
    regret = yardstick.regret(trace)
    for t, run in ((0, 0), (3, 5), (5, 11)):
        z, task, state = trace.z[t, run], trace.task[run], trace.state[t, run]
        achieved = model.successor_features(z)[state] @ task
        assert regret[t, run] == pytest.approx(float(model.value(task)[state] - achieved))
    oracle = runs(model, METHODS["oracle"](dim=9, task=model.sample_z(12, 3)), 6)
    assert yardstick.regret(oracle).abs().max() < 1e-9
    walk = runs(model, "random", 6)
    random = (model.evaluate(model.random_policy)[walk.state] * walk.task).sum(-1)
    assert torch.allclose(yardstick.regret(walk), model.value(walk.task).T.gather(0, walk.state) - random)


def test_settled_means_good_at_every_late_check(laplacian_model: ExactModel) -> None:
    value = torch.ones(40, 3)
    assert settled(value).all()
    for t, counts in ((23, True), (24, False), (29, False), (30, True), (39, False)):  # after 25, 30, 35, 40 rewards
        lapse = value.clone()
        lapse[t, 0] = 0.9  # row t is what t + 1 rewards led to
        assert settled(lapse).tolist() == [counts, True, True]
    tasks, yardstick = laplacian_model.sample_z(12, 3), Yardstick(laplacian_model)
    assert torch.allclose(yardstick.value(tasks, tasks), torch.ones(12).double())
    assert yardstick.value(tasks[:1], torch.zeros(1, 9).double()) == 1  # nothing to lose


def test_a_network_is_judged_by_its_own_policy_too(laplacian_model: ExactModel) -> None:
    network = load("grid9-laplacian")
    yardstick = Yardstick(laplacian_model, network)
    tasks = laplacian_model.sample_z(12, 3)
    method = METHODS["oracle"](dim=9, task=tasks)
    trace = simulate(network, laplacian_model.world, tasks, method, seeds=SEEDS, steps=10, noise=0.3)
    assert own_regret(yardstick, trace).abs().max() < 1e-9
    assert 0 < yardstick.regret(trace).sum() < 0.05 * 10 * 12 * yardstick.gap(tasks)


# Theory


def test_the_lemma_holds_where_its_conditions_do(laplacian_model: ExactModel) -> None:
    method = Method(ridge=0.09, confidence=SelfNormalised(0.1, 3.0), search=TableSearch(200))
    theory, regret = theory_of(runs(laplacian_model, method, 80, told_noise=True), laplacian_model)
    assert theory.inside.double().mean() > 0.99
    assert theory.conditions.double().mean() > 0.7
    assert (regret <= theory.lemma + 1e-6)[theory.conditions].all()
    assert (regret <= theory.naive).all()


def test_the_lemma_can_fail_where_they_do_not(laplacian_model: ExactModel) -> None:
    theory, regret = theory_of(runs(laplacian_model, METHODS["greedy"](dim=9), 80), laplacian_model)
    paper, of_paper = theory_of(runs(laplacian_model, "usf-ucb-paper", 80), laplacian_model)
    assert not theory.conditions[theory.inside].all()  # the argmax is not optimistic
    assert (regret > theory.lemma)[~theory.conditions].any()
    walk = Method(ridge=0.09, confidence=SelfNormalised(0.1, 3.0), search=Exploring(RandomWalk()))
    assert not theory_of(runs(laplacian_model, walk, 80, told_noise=True), laplacian_model)[0].conditions.any()
    assert (of_paper <= paper.lemma + 1e-6)[paper.conditions].all()
    assert not paper.inside.all()  # β = 1 with λ = σ² is no confidence bound: ‖z_r‖_V = .9 at t = 0 is near its edge


def test_the_elliptical_potential_is_not_bounded_by_log_det(laplacian_model: ExactModel) -> None:
    """Σ‖φ‖² ∧ 1 ≤ 2 log det ratio is the bandits' lemma; with ψ in place of φ it fails by far."""
    trace = runs(laplacian_model, "usf-ucb-paper", 80)
    theory, _ = theory_of(trace, laplacian_model)
    assert (theory.log_det.diff(dim=0) > -1e-12).all()
    gain = theory.log_det[-1] - 9 * math.log(trace.ridge)
    assert (theory.psi_squares.sum(0) > 100 * gain).all()


def test_changing_z_can_beat_the_best_fixed_z(laplacian_network: USFA) -> None:
    """A network's policies err, each elsewhere: from the same start a z that changes can earn more than any fixed z."""
    exact_model = ExactModel(GridArena().ground.world, GridArena().ground.exact.features)
    network = laplacian_network
    yardstick = Yardstick(exact_model, network)
    tasks = exact_model.sample_z(40, 11)
    seeds = torch.arange(40)
    method = METHODS["usf-ucb"](dim=9)
    trace = simulate(network, exact_model.world, tasks, method, seeds=seeds, steps=60, noise=0.3)
    own = own_regret(yardstick, trace)
    assert own.min() < -1e-3 * yardstick.gap(tasks)
    assert yardstick.regret(trace).min() > -1e-9  # but nothing beats v*
    # The z that is best from each state, chosen anew at each step by the true ψ, against the best z that is kept.
    fixed = torch.cat([tasks, exact_model.sample_z(60, 12)])
    psi = exact_model.evaluate(network.policy(fixed).argmax(-1))  # [n S d]
    gains = []
    for task in tasks:
        values = psi @ task  # [n S]
        follow = network.policy(fixed).argmax(-1)[values.argmax(0), torch.arange(81)]
        gains.append(exact_model.evaluate(follow) @ task - values.amax(0))
    assert torch.stack(gains).min() > -1e-9
    assert torch.stack(gains).max() > 1e-3


def test_exploration_learns_features_faster_than_walks(laplacian_model: ExactModel) -> None:
    explore = Method(ridge=1.0, acquisition=Explore(gamma=0.8), search=TableSearch(200))
    walks = METHODS["random"](dim=9, ridge=1.0)
    gained = [theory_of(runs(laplacian_model, m, 50), laplacian_model)[0].log_det[-1].mean() for m in (explore, walks)]
    assert gained[0] > gained[1] + 4  # findings: 18.8 against 10.9


def test_a_default_that_needs_no_settings_beats_what_it_should(laplacian_model: ExactModel) -> None:
    tasks, yardstick = laplacian_model.sample_z(24, 3), Yardstick(laplacian_model)
    lost = {}
    for name in ("usf-ucb", "usf-ucb-norm", "greedy", "thompson"):
        trace = simulate(
            laplacian_model, laplacian_model.world, tasks, name, seeds=torch.arange(24), steps=100, noise=0.3
        )
        lost[name] = float((yardstick.regret(trace).sum(0) / yardstick.gap(tasks)).mean())
    assert lost["usf-ucb"] < 22  # 16.5 over 200 steps and 300 runs
    assert lost["usf-ucb-norm"] < 19  # 12.7
    assert lost["usf-ucb"] < min(lost["greedy"], lost["thompson"])


# The one-file version


def test_the_example_chooses_what_the_library_chooses(
    clusters_model: ExactModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    monkeypatch.delitem(sys.modules, "usf_ucb", raising=False)
    import usf_ucb  # type: ignore[import-not-found]

    from zscout import OnlineTransfer

    rng = np.random.default_rng(1)
    next_state, phi = usf_ucb.build_world(), usf_ucb.build_features()
    assert torch.equal(torch.from_numpy(next_state), clusters_model.world.successors[..., 0])
    assert torch.equal(torch.from_numpy(phi), clusters_model.features)
    candidates, task = usf_ucb.sphere(150, 9, rng), usf_ucb.sphere(1, 9, rng)[0]
    psi, policy = usf_ucb.successor_features(candidates, next_state, phi)
    exact = clusters_model.psi(clusters_model.states(), candidates)
    assert np.abs(psi - exact.numpy()).max() < 1e-3

    class Same:
        """A search over the example's candidates, the first of equals."""

        def __call__(self, problem: Any, rng: Any) -> Tensor:
            forecast = problem.forecast(torch.from_numpy(candidates))
            given = forecast.with_psi(torch.from_numpy(psi[int(problem.obs)]))
            return torch.from_numpy(candidates)[problem.scores(given, rng).argmax()]

    method = replace(METHODS["usf-ucb-paper"](dim=9, noise=usf_ucb.NOISE), search=Same())
    agent = OnlineTransfer(clusters_model, method)
    V, b, z_hat, state = method.ridge * np.eye(9), np.zeros(9), np.zeros(9), 13
    for t in range(200):
        ours = agent.ask(state).numpy()
        i = usf_ucb.choose(psi[state], z_hat, V, t)
        assert np.allclose(psi[state, i] @ z_hat, _worth(ours, candidates, psi[state]) @ z_hat)
        assert np.allclose(psi[state, i], _worth(ours, candidates, psi[state]))
        state = int(next_state[state, policy[i, state]])
        reward = float(phi[state] @ task + usf_ucb.NOISE * rng.standard_normal())
        agent.tell(state, reward)
        V, b = V + np.outer(phi[state], phi[state]), b + phi[state] * reward
        z_hat = np.linalg.solve(V, b)
        assert np.allclose(z_hat, agent.z_hat.numpy())


def _worth(z: Any, candidates: Any, psi: Any) -> Any:
    return psi[int(np.abs(candidates - z).sum(1).argmin())]


def test_the_example_is_short_and_finds_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parent.parent / "examples" / "usf_ucb.py"
    text = path.read_text()
    assert len(text.splitlines()) <= 120
    assert [line for line in text.splitlines() if "import" in line.split()[:1]] == ["import numpy as np"]
    exec(compile(text, str(path), "exec"), {"__name__": "__main__"})
    last = capsys.readouterr().out.splitlines()[-1]
    here, best = (
        float(word.rstrip(",;")) for word in (last.split("here")[1].split()[0], last.split("best")[1].split()[0])
    )
    assert here == best

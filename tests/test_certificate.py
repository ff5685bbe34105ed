"""A bound on what is left to gain: its promise, what it leaves unchanged, and how it ends a rollout."""

from itertools import islice

import gymnasium
import pytest
import torch

import zscout
from zscout import Certified, ExactModel, OnlineTransfer, rollout
from zscout.features import laplacian
from zscout.lab.arena import Batch, Tasks
from zscout.lab.grid_arena import GridArena
from zscout.lab.simulation import simulated
from zscout.worlds import open_grid


@pytest.fixture(scope="module")
def model() -> ExactModel:
    world = open_grid()
    return ExactModel(world, laplacian(world))


def test_few_promises_are_broken() -> None:
    """60 runs: at their first certificate, what is left is at most the promised share in all but a few."""
    arena = GridArena("open-grid", "clusters", "exact")
    tasks = Tasks(60, 1, "tuning")
    hidden, seeds = tasks.draw(arena), tasks.run_seeds
    exact, z_r = arena.bfm, arena.vectors(hidden)
    assert isinstance(exact, ExactModel)
    agent = OnlineTransfer(exact, zscout.METHODS["usf-ucb"](dim=9, kappa=3.0), seed=seeds, runs=60)
    best = exact.value(z_r)
    average = (exact.successor_features(exact.sample_z(300, 1)).mean(0) @ z_r.T).T
    left = torch.full((60,), torch.nan, dtype=torch.float64)
    for step in islice(simulated(agent, arena.environment(Batch(hidden, seeds, 0.3))), 120):
        if agent.t % 20 == 0:
            found = agent.certificate(0.05)
            assert found.exact
            here = torch.as_tensor(step.next_obs)[:, None]
            top, middle = best.gather(1, here)[:, 0], average.gather(1, here)[:, 0]
            kept = (exact.psi(step.next_obs, agent.best_z[:, None])[:, 0] * z_r).sum(-1)
            new = (found.share <= 0.05) & left.isnan()
            left[new] = ((top - kept) / (top - middle))[new]
    certified = left[~left.isnan()]
    assert len(certified) >= 40
    assert (certified > 0.05).sum() <= 5  # 5 % of them are 2 to 3
    assert (certified < 0.3).all()


def test_a_certificate_shrinks_with_rewards_and_changes_nothing(model: ExactModel) -> None:
    env = gymnasium.make("zscout/OpenGrid-v0", reward=lambda state: float(state == 80))
    agents = [OnlineTransfer(model, seed=0) for _ in range(2)]
    shares = []
    for number, agent in enumerate(agents):
        for step in rollout(agent, env, 40, seed=0):
            if number and step.t % 13 == 0:
                found = agent.certificate()
                shares.append(float(found.share))
                assert found.gain.shape == ()
                assert found.better.shape == (9,)
                assert 0 <= found.share <= 1
    assert shares[0] > shares[-1]
    assert torch.equal(agents[0].z_hat, agents[1].z_hat)


def test_a_run_has_the_same_certificate_alone_as_in_a_batch(model: ExactModel) -> None:
    batch, alone = OnlineTransfer(model, seed=3, runs=3), OnlineTransfer(model, seed=4)
    for state in (5, 40, 77):
        batch.ask(torch.full((3,), state))
        alone.ask(state)
        batch.tell(torch.tensor([state + 1] * 3), torch.tensor([0.5, 1.0, 2.0]))
        alone.tell(state + 1, 1.0)
    together, single = batch.certificate(0.1), alone.certificate(0.1)
    assert float(together.gain[1]) == pytest.approx(float(single.gain))
    assert float(together.share[1]) == pytest.approx(float(single.share))
    assert torch.allclose(together.better[1], single.better)


def test_a_network_gives_an_estimate() -> None:
    agent = OnlineTransfer(zscout.load("pointmaze-fb"), seed=0)
    agent.ask([3.5, 3.5, 0.0, 0.0])
    found = agent.certificate()
    assert not found.exact
    assert torch.isfinite(found.gain)
    assert found.share == 1  # no reward yet: everything is possible


def test_a_rollout_ends_when_it_is_certified(model: ExactModel) -> None:
    env = gymnasium.make("zscout/OpenGrid-v0", reward=lambda state: float(state == 80))
    agent = OnlineTransfer(model, seed=0)
    until = Certified(0.3, every=5)
    taken = list(rollout(agent, env, 2_000, seed=0, until=until))
    assert len(taken) < 2_000
    assert len(taken) % 5 == 0
    assert until.of(agent.certificate(0.05))
    obs = taken[-1].next_obs
    assert not agent.wants_reward(obs, 0.0, until=until)
    assert agent.wants_reward(obs, 0.0)
    assert len(list(rollout(agent, env, 7, seed=0, until=Certified(0.0, every=100)))) == 7


def test_mistakes(model: ExactModel) -> None:
    agent = OnlineTransfer(model, seed=0)
    with pytest.raises(ValueError, match="there is no observation yet: call ask or tell first, or pass obs"):
        agent.certificate()
    with pytest.raises(ValueError, match="delta"):
        agent.certificate(1.5, obs=3)
    with pytest.raises(ValueError, match="81"):
        agent.certificate(obs=81)
    for bad in ({"share": -0.1}, {"delta": 2.0}, {"every": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Certified(**bad)
    with pytest.raises(ValueError, match="until needs an OnlineTransfer"):
        rollout(object(), gymnasium.make("zscout/OpenGrid-v0"), 5, until=Certified())  # type: ignore[arg-type]

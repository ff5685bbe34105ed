"""Limits: what is tried, what is not, and what it costs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from test_atlas import DriftWorld, atlas, near
from toys import Drift, Drifter
from zscout import AsyncTransfer, Atlas, Limit, OnlineTransfer, chart, rollout

__all__ = ["atlas"]  # the fixture

AT_MOST = 0.1
Cost = Callable[[Any], Tensor]


def beyond(obs: Any) -> Tensor:
    """1 to the right of .2, else 0."""
    return (torch.as_tensor(obs)[..., 0] > 0.2).double()


def learned(atlas: Atlas, limit: Any, reward: Cost, steps: int = 80, runs: int = 4) -> tuple[OnlineTransfer, Tensor]:
    """Agents in Drift without noise, told the cost if the limit has none; and the costs of all steps [steps runs]."""
    agent, world = OnlineTransfer(Drifter(), seed=0, runs=runs, atlas=atlas, limit=limit), DriftWorld()
    told = isinstance(limit, Limit) and limit.cost is None
    state, costs = world.random_states(runs, Generator().manual_seed(1)).double(), []
    for _ in range(steps):
        state, _ = world.advance(state, agent.ask(state))
        costs.append(beyond(state))
        agent.tell(state, reward(state), cost=costs[-1] if told else None)
    return agent, torch.stack(costs)


def test_a_known_cost_is_kept_from_the_first_step_and_a_told_one_is_learned(atlas: Atlas) -> None:
    reward = near(0.6, 0.0)
    free, unlimited = learned(atlas, None, reward)
    assert float(beyond(free.best_z).mean()) == 1  # the best place is beyond
    for limit in (Limit(cost=beyond, at_most=AT_MOST), Limit(at_most=AT_MOST)):
        agent, costs = learned(atlas, limit, reward)
        assert float(beyond(agent.best_z).mean()) == 0
        assert float(costs[20:].mean()) < 0.05 < 0.9 < float(unlimited[20:].mean())
        assert float(reward(agent.best_z).mean()) > 0.3, "near the border"


def test_the_certificate_says_what_the_limit_costs(atlas: Atlas) -> None:
    reward = near(0.6, 0.0)
    values, row = atlas.values(reward), atlas.index_of
    for limit in (None, Limit(cost=beyond, at_most=AT_MOST)):
        agent = OnlineTransfer(Drifter(), atlas=atlas, limit=limit)
        agent.learn(atlas.sample, reward(atlas.sample))
        found = agent.certificate(obs=np.zeros(4))
        expected = values.max() - values[row(agent.best_z.float())]
        assert float(found.limits_cost) == pytest.approx(float(expected), abs=1e-6)
        assert (float(found.limits_cost) > 0.2) == (limit is not None)
        assert float(found.gain) < 0.1, "of those within the limit"


def test_several_limits_hold_together(atlas: Atlas) -> None:
    def above(obs: Any) -> Tensor:
        return (torch.as_tensor(obs)[..., 1] > 0.2).double()

    limits = [Limit(cost=beyond, at_most=AT_MOST, name="east"), Limit(at_most=AT_MOST, name="north")]
    agent, world = OnlineTransfer(Drifter(), runs=6, atlas=atlas, limit=limits), DriftWorld()
    state, reward = world.random_states(6, Generator().manual_seed(1)).double(), near(0.6, 0.6)
    for _ in range(100):
        state, _ = world.advance(state, agent.ask(state))
        agent.tell(state, reward(state), cost={"north": above(state)})
    assert float((beyond(agent.best_z) + above(agent.best_z)).sum()) == 0
    assert float(beyond(state).sum() + above(state).sum()) <= 1


def test_where_nothing_is_within_the_limit_the_cheapest_is_followed(atlas: Atlas) -> None:
    def far_left(obs: Any) -> Tensor:
        return 2 + torch.as_tensor(obs)[..., 0].double()  # at least 1

    agent = OnlineTransfer(Drifter(), atlas=atlas, limit=Limit(cost=far_left, at_most=0.5))
    left = float(atlas.z[:, 0].min())
    assert float(agent.ask(np.zeros(4))[0]) == pytest.approx(left, abs=0.05)
    assert float(agent.best_z[0]) == pytest.approx(left, abs=0.05)


def test_few_behaviours_are_tried_within_the_limit_only() -> None:
    z = torch.tensor([[0.9, 0.0], [-0.9, 0.0], [0.0, 0.9], [0.0, -0.9]])
    four = chart(Drifter(), DriftWorld(), z=z, starts=3, steps=40, progress=False)
    agent, _ = learned(four, Limit(cost=beyond, at_most=AT_MOST), near(0.9, 0.0), steps=40, runs=3)
    tried = agent._state.experience
    assert tried is not None
    assert 0 not in tried.merged().tried.tolist()[0]
    assert {1, 2, 3} <= set(tried.merged().tried.tolist()[0])


def test_a_run_alone_is_the_same_run_in_a_batch_and_goes_on_when_saved(atlas: Atlas, tmp_path: Path) -> None:
    obs = torch.randn(40, 3, 4, generator=Generator().manual_seed(0)).double()
    limit = [Limit(at_most=0.3), Limit(cost=beyond, at_most=0.5, name="east")]
    many = OnlineTransfer(Drifter(), seed=7, runs=3, atlas=atlas, limit=limit)
    alone = [OnlineTransfer(Drifter(), seed=7 + k, atlas=atlas, limit=limit) for k in range(3)]
    for t in range(39):
        if t == 25:
            many.save(tmp_path)
            many = OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas, limit=limit)
        z, cost = many.ask(obs[t]), obs[t + 1, :, 1].abs()
        for k, agent in enumerate(alone):
            assert torch.equal(agent.ask(obs[t, k]), z[k])
            agent.tell(obs[t + 1, k], float(obs[t + 1, k, 0]), cost=float(cost[k]))
        many.tell(obs[t + 1], obs[t + 1, :, 0], cost=cost)
    for wrong in (None, limit[0], [limit[0], Limit(cost=beyond, at_most=0.6, name="east")]):
        with pytest.raises(ValueError, match="limit"):
            OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas, limit=wrong)
    OnlineTransfer(Drifter(), atlas=atlas, limit=limit[0]).save(tmp_path)
    assert OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas).limits[0].at_most == 0.3  # told: the file has it all


def test_wrong_limits_and_costs_are_refused_and_change_nothing(atlas: Atlas) -> None:
    for options in ({"at_most": "low"}, {"at_most": np.nan}, {"delta": 0.0}, {"name": ""}, {"cost": 3}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Limit(**{"at_most": 0.1} | options)
    two = [Limit(at_most=0.1), Limit(at_most=0.2)]
    for limit, why in (
        (two, "same name"),
        ("low", "str"),
        (0.05, "float"),
        (Limit(cost=lambda obs: obs, at_most=0.1), "shape"),
    ):
        with pytest.raises(ValueError, match=why):
            OnlineTransfer(Drifter(), atlas=atlas, limit=limit)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="atlas"):
        OnlineTransfer(Drifter(), limit=Limit(at_most=0.1))
    free = OnlineTransfer(Drifter(), atlas=atlas)
    agent = OnlineTransfer(Drifter(), atlas=atlas, limit=[Limit(at_most=0.1), Limit(at_most=0.2, name="heat")])
    for each, cost in ((free, 0.1), (agent, 0.1), (agent, {"wear": 0.1}), (agent, {"heat": np.nan})):
        each.ask(np.zeros(4))
        before = each._state
        with pytest.raises(ValueError, match="cost|NaN"):
            each.tell(np.ones(4), 1.0, cost=cost)
        assert each._state is before


def test_a_rollout_tells_the_costs_of_the_environment(atlas: Atlas) -> None:
    class Costly(Drift):
        def step(self, action: Any) -> Any:
            obs, _, ended, truncated, _ = super().step(action)
            return obs, float(near(0.6, 0.0)(obs)), ended, truncated, {"cost": float(beyond(obs))}

    agent = OnlineTransfer(Drifter(), atlas=atlas, limit=Limit(at_most=AT_MOST))
    steps = list(rollout(agent, Costly(noise=0.02), 120, seed=0))
    assert float(np.mean([step.cost["cost"] for step in steps[40:]])) < AT_MOST
    assert not beyond(agent.best_z)


def allowed(agent: OnlineTransfer) -> list[int]:
    """The rows within the limits."""
    search: Any = agent.method.search
    problem = agent._problem(np.zeros(4))
    return list(search.allowed(problem, search.forecast(problem)).nonzero()[:, 0].tolist())


def test_a_limit_without_evidence_does_not_loosen_another(atlas: Atlas) -> None:
    known = Limit(cost=beyond, at_most=AT_MOST)
    alone = allowed(OnlineTransfer(Drifter(), atlas=atlas, limit=known))
    for at_most in (0.1, 100.0):  # in any unit
        both = OnlineTransfer(Drifter(), atlas=atlas, limit=[known, Limit(at_most=at_most, name="heat")])
        assert allowed(both) == alone
        one = OnlineTransfer(Drifter(), atlas=atlas, limit=known)
        for row in atlas.sample[:20]:
            for agent, cost in ((one, None), (both, {"heat": 0.0})):
                agent.follow(row, atlas.z[0])
                agent.tell(row, 0.0, cost=cost)
        assert allowed(both) == allowed(one)


def test_the_size_of_rewards_changes_no_choice_within_a_limit(atlas: Atlas) -> None:
    limit, obs = Limit(cost=beyond, at_most=AT_MOST), torch.randn(30, 4, generator=Generator().manual_seed(0)).double()
    large, small = (OnlineTransfer(Drifter(), seed=1, atlas=atlas, limit=limit) for _ in range(2))
    for row, reward in zip(obs, near(-0.5, 0.3)(obs).tolist(), strict=True):
        assert torch.equal(large.ask(row), small.ask(row))
        large.tell(row, reward)
        small.tell(row, 1e-10 * reward)


def test_costs_are_seen_apart_from_rewards(atlas: Atlas) -> None:
    obs = torch.randn(10, 3, 4, generator=Generator().manual_seed(0)).double()
    limits = [Limit(cost=beyond, at_most=0.3, name="east"), Limit(at_most=0.3)]
    agent = OnlineTransfer(Drifter(), runs=3, atlas=atlas, limit=limits)
    before = [cost.posterior.weight.clone() for cost in agent._state.costs]
    for row in obs:
        agent.ask(row)
        cost = torch.tensor([0.0, 1.0, torch.nan], dtype=torch.float64)
        agent.tell(row, row[:, 0], seen=torch.tensor([True, False, False]), cost=cost)
    more = [(cost.posterior.weight - was).tolist() for cost, was in zip(agent._state.costs, before, strict=True)]
    assert more == [[10.0] * 3, [10.0, 10.0, 0.0]]


def test_numbers_of_numpy_make_a_limit_that_is_saved(atlas: Atlas, tmp_path: Path) -> None:
    limit: Any = Limit(at_most=np.float32(0.5), delta=np.float64(0.5))  # type: ignore[arg-type]
    OnlineTransfer(Drifter(), atlas=atlas, limit=limit).save(tmp_path)
    assert OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas).limits[0].at_most == 0.5


class Falls(Drift):
    """An episode ends with a fall, after ``length`` steps; a reset reports a cost, which is none of a step."""

    def __init__(self, length: int = 5, reports: bool = True) -> None:
        super().__init__(noise=0.0)
        self.length, self.reports = length, reports

    def reset(self, **options: Any) -> Any:
        self.t = 0
        return super().reset(**options)[0], {"fall": 7.0}

    def step(self, action: Any) -> Any:
        obs, *_ = super().step(action)
        self.t += 1
        fallen = self.t == self.length
        return obs, 0.0, fallen, False, {"fall": float(fallen)} if self.reports else {"speed": 1.0}


@pytest.mark.parametrize("mode", gymnasium.vector.AutoresetMode)
def test_a_vector_environment_tells_the_cost_of_last_steps_and_none_where_none_is_reported(
    atlas: Atlas, mode: gymnasium.vector.AutoresetMode
) -> None:
    kinds: list[Callable[[], Falls]] = [Falls, partial(Falls, 3), partial(Falls, 4, reports=False)]
    agent = OnlineTransfer(Drifter(), runs=3, atlas=atlas, limit=Limit(at_most=AT_MOST, name="fall"))
    steps = list(rollout(agent, gymnasium.vector.SyncVectorEnv(kinds, autoreset_mode=mode), 20, seed=0))
    costs = np.stack([step.cost["fall"] for step in steps])
    for run in range(2):
        learned = np.array([not step.only_reset[run] for step in steps])
        falls = np.array([step.terminated[run] for step in steps])
        assert np.isnan(costs[~learned, run]).all()
        assert np.array_equal(costs[learned, run], falls[learned])
        belief = agent._state.costs[0].posterior
        assert float(belief.weight[run]) == learned.sum()
        assert belief.means is not None
        assert float(belief.means.reward[run]) == pytest.approx(falls.sum() / learned.sum())
    assert np.isnan(costs[:, 2]).all()
    assert float(belief.weight[2]) == 0


def test_a_rollout_without_the_cost_of_a_limit_is_refused(atlas: Atlas) -> None:
    def agent(**options: Any) -> OnlineTransfer:
        return OnlineTransfer(Drifter(), atlas=atlas, limit=Limit(at_most=AT_MOST, name="fall"), **options)

    why = "info never has 'fall', the cost of a limit, but 'speed'"
    silent = [partial(Falls, reports=False)] * 2
    for steps, learned in ((3, 3), (20, 4)):  # at the end of the rollout; at the end of an episode
        each = agent()
        with pytest.raises(ValueError, match=why):
            list(rollout(each, Falls(reports=False), steps, seed=0))
        assert each.t == learned
        for mode in gymnasium.vector.AutoresetMode:
            each, envs = agent(runs=2), gymnasium.vector.SyncVectorEnv(silent, autoreset_mode=mode)
            with pytest.raises(ValueError, match=why):
                list(rollout(each, envs, steps, seed=0))
            assert each.t == learned
    assert list(rollout(agent(), Falls(reports=False), 0)) == []


def test_what_a_vector_environment_must_report(atlas: Atlas) -> None:
    def without_last(info: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in info.items() if name != "final_info"}

    def wide(info: dict[str, Any]) -> dict[str, Any]:
        return info | {"fall": np.zeros((2, 1))}

    class Wrong(gymnasium.vector.SyncVectorEnv):
        changed = staticmethod(wide)

        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            return *rest, self.changed(info)

    for change, why in ((wide, r"info\['fall'\] has shape \(2, 1\)"), (without_last, "info has no 'final_info'")):
        Wrong.changed = staticmethod(change)
        agent = OnlineTransfer(Drifter(), runs=2, atlas=atlas, limit=Limit(at_most=AT_MOST, name="fall"))
        with pytest.raises(ValueError, match=why):
            list(rollout(agent, Wrong([Falls] * 2, autoreset_mode="SameStep"), 20, seed=0))


def test_beside_a_worker_costs_are_told_in_order_and_wrong_ones_refused(atlas: Atlas) -> None:
    limit = [Limit(at_most=0.1), Limit(at_most=0.2, name="heat")]
    alone, wrapped = (OnlineTransfer(Drifter(), seed=3, atlas=atlas, limit=limit) for _ in range(2))
    place = np.random.default_rng(0).normal(size=(21, 4))
    with AsyncTransfer(wrapped) as robot:
        for t in range(20):
            robot.act(place[t])
            cost: Any = {"cost": np.array(float(t)), "heat": -t} if t % 3 else {"heat": float(t)} if t else None
            robot.tell(place[t + 1], float(t), cost=cost)
            alone.follow(place[t], alone.best_z)
            alone.tell(place[t + 1], float(t), cost=cost)
        robot.act(place[20])
        for wrong in (0.1, {"wear": 0.1}, {"heat": np.inf}, {"heat": np.nan}, {"heat": [0.1, 0.2]}, {"heat": "warm"}):
            with pytest.raises(ValueError, match="cost|inf|shape|heat"):
                robot.tell(place[0], 1.0, cost=wrong)
        robot.tell(place[0], 1.0)
    for mine, other in zip(robot.agent._state.costs, alone._state.costs, strict=True):
        assert float(mine.posterior.weight) > 10
        assert torch.equal(mine.posterior.z_hat, other.posterior.z_hat)


def test_a_rollout_tells_the_costs_to_an_agent_beside_a_worker(atlas: Atlas) -> None:
    with AsyncTransfer(OnlineTransfer(Drifter(), atlas=atlas, limit=Limit(at_most=AT_MOST, name="fall"))) as robot:
        assert sum(step.cost["fall"] for step in rollout(robot, Falls(), 20, seed=0)) == 4
    assert float(robot.agent._state.costs[0].posterior.weight) == 20


def test_another_cost_under_the_same_name_is_refused(atlas: Atlas, tmp_path: Path) -> None:
    """By its values where the atlas has been; the same function, written anew or in float32, goes on."""

    def limits(*costs: Cost) -> list[Limit]:
        known = [Limit(cost=cost, at_most=AT_MOST, name=f"cost {k}") for k, cost in enumerate(costs)]
        return [Limit(at_most=1.0, name="told"), *known]

    def scaled(by: float) -> Cost:
        return lambda obs: by * near(0.5, 0.5)(obs)

    OnlineTransfer(Drifter(), atlas=atlas, limit=limits(beyond, scaled(1.0))).save(tmp_path)
    rounded = Atlas.load(atlas.save(tmp_path / "rounded"), Drifter())  # its observations differ in the third digit
    for same in (scaled(1.0), scaled(1.0 + 1e-8)):
        for where in (atlas, rounded):
            again = OnlineTransfer.load(tmp_path, Drifter(), atlas=where, limit=limits(beyond, same))
            again.save(tmp_path / "again")
            OnlineTransfer.load(tmp_path / "again", Drifter(), atlas=atlas, limit=limits(beyond, same))
    for other in (scaled(1.0 + 1e-5), lambda obs: 1 - beyond(obs), lambda obs: (obs[:, 0] > 0.22).double()):
        with pytest.raises(ValueError, match="limit 'cost 1' has another cost"):
            OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas, limit=limits(beyond, other))
    with pytest.raises(ValueError, match="limit 'cost 0' has another cost"):
        OnlineTransfer.load(tmp_path, Drifter(), atlas=atlas, limit=limits(scaled(1.0), scaled(1.0)))

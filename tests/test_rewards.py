import math

import numpy as np
import pytest
import torch

from zscout.features import grid_clusters
from zscout.worlds import BlackBox, LinearReward, TableReward, open_grid
from zscout.worlds.grids.rewards import as_reward

PHI = grid_clusters(open_grid())


def test_linear_reward_is_phi_dot_z_of_the_state_entered() -> None:
    z = torch.arange(9.0)
    reward = LinearReward(PHI, z)
    assert float(reward(0)) == 0
    assert float(reward(80)) == 8
    assert reward(torch.tensor([[0, 4], [40, 80]])).tolist() == [[0, 1], [4, 8]]
    assert torch.equal(reward.table, PHI @ z.double())


def test_each_run_may_have_its_own_task() -> None:
    reward = LinearReward(PHI, torch.eye(9)[:3])
    assert reward(torch.tensor([0, 0, 8])).tolist() == [1, 0, 1]


def test_noise_has_the_stated_spread_and_comes_from_rng() -> None:
    reward = TableReward(torch.full((81,), 2.0), noise=0.3)
    states = torch.zeros(40_000, dtype=torch.long)
    drawn = reward(states, torch.Generator().manual_seed(0))
    assert float(drawn.mean()) == pytest.approx(2.0, abs=5 * 0.3 / 200)
    assert float(drawn.std()) == pytest.approx(0.3, rel=0.02)
    assert torch.equal(drawn, reward(states, torch.Generator().manual_seed(0)))
    with pytest.raises(ValueError, match="needs rng"):
        reward(0)


def test_a_callable_sees_the_index_of_the_state() -> None:
    seen: list[int] = []

    def black_box(state: int) -> float:
        seen.append(state)
        return state / 2

    reward = BlackBox(black_box)
    assert reward(torch.tensor([[2, 4]])).tolist() == [[1, 2]]
    assert seen == [2, 4]
    assert all(type(state) is int for state in seen)


def test_what_a_user_may_pass() -> None:
    assert float(as_reward(None, 81)(3)) == 0
    assert float(as_reward(np.arange(81), 81)(3)) == 3
    assert float(as_reward([0.5] * 81, 81)(3)) == 0.5
    assert float(as_reward(lambda s: s + 1, 81)(3)) == 4
    assert float(as_reward(np.arange(81) == 3, 81)(3)) == 1
    table = TableReward(torch.ones(81))
    assert as_reward(table, 81) is table


@pytest.mark.parametrize("answer", [math.nan, math.inf, "much", None, [1.0, 2.0]])
def test_a_callable_must_answer_a_finite_number(answer: object) -> None:
    with pytest.raises(ValueError, match="the reward of state 3 is"):
        BlackBox(lambda state: answer)(3)  # type: ignore[arg-type, return-value]


def test_bad_rewards() -> None:
    with pytest.raises(ValueError, match="NaN or inf"):
        TableReward(torch.tensor([0.0, math.nan]))
    with pytest.raises(ValueError, match="the reward has 2 states, this world has 81"):
        as_reward([1.0, 2.0], 81)
    with pytest.raises(ValueError, match="NaN or inf"):
        LinearReward(PHI, torch.full((9,), math.inf))
    with pytest.raises(ValueError, match="task has 8 entries, expected 9"):
        LinearReward(PHI, torch.ones(8))
    with pytest.raises(ValueError, match="noise must be in"):
        TableReward(torch.zeros(3), noise=-1.0)
    with pytest.raises(ValueError, match="whole numbers"):
        BlackBox(float)(torch.tensor(1.7))
    with pytest.raises(ValueError, match=r"states and tasks have batch dimensions \(2,\) and \(3,\)"):
        LinearReward(PHI, torch.eye(9)[:3])([0, 1])
    with pytest.raises(ValueError, match="state 81 is outside"):
        TableReward(torch.zeros(81))(81)

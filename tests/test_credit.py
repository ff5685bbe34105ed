"""Late rewards: the weights of the last steps, and what they teach."""

import pytest
import torch

from zscout import Credit, ExactModel, OnlineTransfer


def test_weights_by_hand() -> None:
    weights = Credit(delay=2, spread=6).weights(10)  # oldest first: ages 9 … 0
    assert torch.allclose(weights, torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 0, 0]).double() / 6)
    assert Credit(delay=0.5, spread=1).weights(3).tolist() == [0.0, 0.5, 0.5]
    assert Credit(delay=1, spread=0).weights(3).tolist() == [0.0, 1.0, 0.0]
    assert Credit(delay=2, spread=2).weights(3).tolist() == [1.0, 0.0, 0.0]  # the window began before the first step
    assert Credit(delay=5, spread=1).weights(2).tolist() == [1.0, 0.0]


def test_a_credited_reward_is_a_label_of_the_mean(laplacian_model: ExactModel) -> None:
    one, other = (OnlineTransfer(laplacian_model, runs=2) for _ in range(2))
    seen = [[1, 2, 3, 4], [50, 51, 60, 61]]
    for reward in ([0.3, 1.0], [0.9, -1.0]):
        one.credit(seen, reward, Credit(delay=1, spread=2))
        seen[0][0] = 80
    assert torch.equal(one.posterior.weight, torch.tensor([2.0, 2.0]).double())
    phi = torch.stack([laplacian_model.phi(row[1:3]).mean(-2) for row in torch.tensor(seen)])
    expected = other.posterior.learn(phi[:, None].expand(2, 2, -1), [[0.3, 0.9], [1.0, -1.0]])
    assert torch.allclose(one.z_hat, expected.z_hat)


def test_late_rewards_teach_more_with_the_right_delay(laplacian_model: ExactModel) -> None:
    """A walk across the grid; the reward of a state comes four steps later."""
    rng = torch.Generator().manual_seed(0)
    z = laplacian_model.sample_z(1, 3)[0]
    states = [40]
    for _ in range(300):
        states.append(int(laplacian_model.world.step(states[-1], int(torch.randint(4, (), generator=rng)))))
    late, naive = (OnlineTransfer(laplacian_model) for _ in range(2))
    for t in range(10, 300):
        reward = float(laplacian_model.phi(states[t - 4]) @ z)
        late.credit(states[t - 9 : t + 1], reward, Credit(delay=4, spread=1))
        naive.learn([states[t]], [reward])
    phi = laplacian_model.phi(laplacian_model.states())
    truth = phi @ z

    def agreement(agent: OnlineTransfer) -> float:
        return float(torch.corrcoef(torch.stack([truth, phi @ agent.z_hat]))[0, 1])

    assert agreement(late) > 0.99
    assert agreement(naive) < 0.95


def test_mistakes_change_nothing(laplacian_model: ExactModel) -> None:
    agent = OnlineTransfer(laplacian_model)
    for observations, reward, message in (
        ([], 1.0, "got no observations"),
        (3, 1.0, "got a single observation"),
        ([1, 2], float("nan"), "reward holds NaN or inf"),
        ([1, 2], [1.0, 2.0], "reward has shape"),
        ([1, 99], 1.0, "outside 0 … 80"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.credit(observations, reward, Credit())
    assert agent.posterior.weight == 0
    with pytest.raises(ValueError, match="delay must be"):
        Credit(delay=-1)

"""The exact model against closed forms, against other ways to compute the same, and against bad input."""

import math
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse.csgraph import shortest_path

import zscout
from benchmarks.naive import linear_solve, rollouts, value_iteration
from zscout import ExactModel
from zscout.base.types import BehaviorModel, FiniteWorld, HasHeads, HasHorizons, HasSecondMoment, HasStates
from zscout.features import grid_clusters, laplacian
from zscout.features.laplacian import adjacency
from zscout.models.exact.solving import Solved
from zscout.worlds import GridWorld, four_rooms, maze, open_grid

UP, DOWN, LEFT, RIGHT = range(4)


class Ring:
    """n states in a circle; action 0 stays, action 1 goes on: cycles of a length that is no power of two."""

    def __init__(self, n: int) -> None:
        self.n_states, self.n_actions = n, 2
        here = torch.arange(n)
        self.successors = torch.stack([here, (here + 1) % n], dim=1)[:, :, None]
        self.probabilities = torch.ones(n, 2, 1, dtype=torch.float64)

    def step(self, state: object, action: object, rng: object = None) -> torch.Tensor:
        raise AssertionError("planning needs no steps")


def norm_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


# Closed forms


def test_a_corridor_by_hand() -> None:
    # Two cells, reward 1 in the right one. Going right for ever enters it at every step.
    world = GridWorld.from_map("..")
    model = ExactModel(world, torch.tensor([[0.0], [1.0]]), gamma=0.9)
    assert model.policy([1.0]).tolist() == [RIGHT, UP]  # at the goal every stay is best: the first is up
    assert model.value([1.0]).tolist() == pytest.approx([10, 10])
    # Fleeing it: from the right one go left, then stay.
    assert model.policy([-1.0]).tolist() == [UP, LEFT]
    assert model.successor_features([-1.0]).flatten().tolist() == pytest.approx([0, 0], abs=1e-12)


def test_a_ring_by_hand() -> None:
    gamma, n = 0.9, 6
    model = ExactModel(Ring(n), torch.eye(n, dtype=torch.float64), gamma)
    round_and_round = model.evaluate(torch.ones(n, dtype=torch.long))
    # From 0 state k is entered first after k − 1 steps (0 after n − 1), then every n steps.
    expected = gamma ** torch.tensor([5.0, 0, 1, 2, 3, 4], dtype=torch.float64) / (1 - gamma**n)
    torch.testing.assert_close(round_and_round[0], expected)


def test_clusters_share_the_time(clusters_model: ExactModel) -> None:
    psi = clusters_model.successor_features(clusters_model.sample_z(50, 0))
    torch.testing.assert_close(psi.sum(-1), torch.full((50, 81), 100.0, dtype=torch.float64))


def test_clusters_make_V_the_visit_counts(clusters_model: ExactModel, rng: torch.Generator) -> None:
    ridge, states = 0.1, clusters_model.world.random_states(500, rng)  # type: ignore[attr-defined]
    phi = clusters_model.phi(states)
    V = ridge * torch.eye(9, dtype=torch.float64) + phi.T @ phi
    visits = torch.bincount(phi.argmax(1), minlength=9).double()
    torch.testing.assert_close(V, torch.diag(ridge + visits))


def test_gamma_zero_looks_one_step_ahead() -> None:
    world = open_grid(3)
    model = ExactModel(world, torch.eye(9, dtype=torch.float64), gamma=0.0)
    z = torch.arange(9.0, dtype=torch.float64)
    best_neighbour = z[world.next_state].amax(1)
    torch.testing.assert_close(model.value(z), best_neighbour)


# Two ways


@pytest.mark.parametrize("world", [open_grid(), four_rooms(), maze()], ids=repr)
@pytest.mark.parametrize("features", [laplacian, lambda world: grid_clusters(world, 2, 2)], ids=["laplacian", "cut"])
def test_values_against_long_value_iteration(world: GridWorld, features: "type[object]") -> None:
    model = ExactModel(world, features(world))  # type: ignore[call-arg, arg-type]
    z = model.sample_z(20, 0)
    v = value_iteration(model, z, sweeps=3000)
    assert norm_difference(model.value(z), v) < 1e-6
    assert norm_difference((model.successor_features(z) * z[:, None]).sum(-1), v) < 1e-6


def test_slippery_values_against_long_value_iteration(slippery_model: ExactModel) -> None:
    model, world = slippery_model, slippery_model.world
    z = model.sample_z(10, 0)
    reward, v = model.features @ z.T, torch.zeros(81, 10, dtype=torch.float64)
    for _ in range(3000):
        entered = (reward + model.gamma * v)[world.successors]  # [S A K n]
        v = (world.probabilities[..., None] * entered).sum(2).amax(1)
    assert norm_difference(model.value(z), v.T) < 1e-6


def test_slippery_psi_against_a_linear_solve(slippery_model: ExactModel) -> None:
    policy = slippery_model.policy(slippery_model.sample_z(20, 0))
    assert norm_difference(slippery_model.evaluate(policy), linear_solve(slippery_model, policy)) < 1e-9


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 0.9999])
def test_any_policy_against_a_linear_solve(gamma: float, rng: torch.Generator) -> None:
    # Random policies run in circles of every length.
    world = four_rooms()
    model = ExactModel(world, laplacian(world), gamma)
    policy = torch.randint(4, (20, world.n_states), generator=rng)
    psi, solved = model.evaluate(policy), linear_solve(model, policy)
    assert norm_difference(psi, solved) < 1e-10 * float(solved.abs().max().clamp(min=1))


def test_psi_against_rollouts(slippery_model: ExactModel, rng: torch.Generator) -> None:
    z = slippery_model.sample_z(3, rng)
    samples = rollouts(slippery_model.world, slippery_model, z, start=17, runs=2000, rng=rng)  # type: ignore[arg-type]
    standard_error = samples.std(1) / 2000**0.5 + 1e-6  # the constant feature does not vary
    assert float(((slippery_model.psi(17, z) - samples.mean(1)) / standard_error).abs().max()) < 4.5


def test_the_random_policy_as_a_mixture(clusters_model: ExactModel) -> None:
    model = clusters_model
    P = torch.zeros(81, 81, dtype=torch.float64)
    for action in range(4):
        P[torch.arange(81), model.world.successors[:, action, 0]] += 0.25
    identity = torch.eye(81, dtype=torch.float64)
    expected = torch.linalg.solve(identity - model.gamma * P, P @ model.features)
    assert norm_difference(model.evaluate(model.random_policy), expected) < 1e-9
    # A mixture that always takes one action is that action.
    policy = model.policy(model.sample_z(3, 0))
    certain = torch.nn.functional.one_hot(policy, 4).double()
    torch.testing.assert_close(model.evaluate(certain), model.evaluate(policy))


def test_the_second_moment_against_its_bellman_equation(slippery_model: ExactModel) -> None:
    model, gamma = slippery_model, 0.8
    z = model.sample_z(4, 0)
    M = model.second_moment(model.states(), z, gamma)  # [S n d d]
    policy = model.policy(z).T  # [S n]
    state, candidate = torch.arange(81)[:, None], torch.arange(4)[:, None]
    successors = model.world.successors[state, policy]  # [S n K]
    probabilities = model.world.probabilities[state, policy][..., None, None]
    phi = model.features[successors]
    entered = phi[..., :, None] * phi[..., None, :] + gamma * M[successors, candidate]
    torch.testing.assert_close(M, (probabilities * entered).sum(2))
    assert torch.linalg.eigvalsh(M).min() > -1e-9


def test_other_horizons_keep_the_policy(laplacian_model: ExactModel) -> None:
    model, z = laplacian_model, laplacian_model.sample_z(6, 0)
    short = model.psi_at(5, z, 0.5)
    torch.testing.assert_close(short, model.evaluate(model.policy(z), gamma=0.5)[:, 5])
    torch.testing.assert_close(model.psi_at(5, z, model.gamma), model.psi(5, z))
    now = model.psi_at(5, z, 0.0)
    entered = model.world.step(torch.full((6,), 5), model.policy(z)[:, 5])
    torch.testing.assert_close(now, model.phi(entered))


# Optimality and ties


def test_no_policy_is_better(laplacian_model: ExactModel, rng: torch.Generator) -> None:
    model = laplacian_model
    z = model.sample_z(30, rng)
    best = model.value(z)
    others = model.evaluate(model.policy(model.sample_z(30, rng)))
    assert ((others * z[:, None]).sum(-1) <= best + 1e-9).all()


@given(
    z=arrays(np.float64, 9, elements=st.floats(-3, 3).map(lambda x: round(x, 1))),
    factor=st.sampled_from([1e-200, 1e-6, 3.7, 1e6, 1e200]),
)
def test_scale_and_rounding_decide_nothing(laplacian_model: ExactModel, z: np.ndarray, factor: float) -> None:
    policy = laplacian_model.policy(z)
    assert torch.equal(laplacian_model.policy(z * factor), policy)
    noise = 1e-15 * np.random.default_rng(0).standard_normal(9) * np.abs(z).max()
    assert torch.equal(laplacian_model.policy(z + noise), policy)


def test_an_offset_changes_no_policy(laplacian_model: ExactModel) -> None:
    z = laplacian_model.sample_z(20, 0)
    tied = torch.round(z)  # small whole numbers: many actions are equally good
    for offset in (50.0, 1e4, 1e8):
        for task in (z, tied) if offset < 100 else (tied,):
            moved = task.clone()
            moved[:, 0] += offset  # the constant feature
            assert torch.equal(laplacian_model.policy(moved), laplacian_model.policy(task))


def test_every_policy_is_optimal_for_zero_and_constant_rewards(
    clusters_model: ExactModel, laplacian_model: ExactModel
) -> None:
    for model, z in (
        (clusters_model, torch.zeros(9)),
        (clusters_model, torch.full((9,), 0.1)),
        (laplacian_model, torch.zeros(9)),
        (laplacian_model, torch.eye(9)[0]),
    ):
        assert model.policy(z).tolist() == [UP] * 81
        v = model.value(z)
        torch.testing.assert_close(v, (model.successor_features(z) * z).sum(-1))


def test_the_first_of_equal_actions_is_taken() -> None:
    # A corner worth having, two shortest ways there at most states: up comes before left.
    world = open_grid(5)
    model = ExactModel(world, torch.eye(25, dtype=torch.float64))
    policy = model.policy(torch.eye(25)[0]).reshape(5, 5)
    assert (policy[1:] == UP).all()
    assert (policy[0, 1:] == LEFT).all()


def test_a_far_goal_is_found_however_short_the_horizon() -> None:
    # At γ = .5 a goal 30 steps away is worth 1e-9 of one at hand, and still the only thing worth walking to.
    world = maze()
    goal = 0
    model = ExactModel(world, torch.eye(world.n_states, dtype=torch.float64), gamma=0.5)
    policy = model.policy(torch.eye(world.n_states)[goal])
    steps = shortest_path(adjacency(world), unweighted=True)[goal]
    near = torch.from_numpy((steps > 0) & (steps <= 30))
    reached = world.step(torch.arange(world.n_states), policy)
    assert (torch.from_numpy(steps)[reached] == torch.from_numpy(steps) - 1)[near].all()


@pytest.mark.parametrize("slip", [0.0, 0.2, 1.0])
def test_horizons_close_to_endless_end(slip: float) -> None:
    world = open_grid(slip=slip)
    model = ExactModel(world, laplacian(world), gamma=1 - 1e-7)
    z = torch.cat([model.sample_z(30, 0), torch.eye(9, dtype=torch.float64)])
    torch.testing.assert_close((model.successor_features(z) * z[:, None]).sum(-1), model.value(z), rtol=1e-6, atol=1)


def test_the_model_is_its_own_copy_and_carries_no_gradients() -> None:
    features = laplacian(open_grid()).requires_grad_()
    model = ExactModel(open_grid(slip=0.1), features)
    z = model.sample_z(2, 0).requires_grad_()
    before = model.value(z)
    with torch.no_grad():
        features *= 0
    assert torch.equal(model.value(z), before)
    for answer in (before, model.psi(0, z), model.project_z(z), model.phi(0)):
        assert not answer.requires_grad


# The contract


def test_it_is_a_behavior_model_with_every_extra(laplacian_model: ExactModel) -> None:
    for protocol in (BehaviorModel, HasHeads, HasHorizons, HasSecondMoment, HasStates):
        assert isinstance(laplacian_model, protocol)
    assert isinstance(laplacian_model.world, FiniteWorld)


@pytest.mark.parametrize("world", [open_grid(), open_grid(slip=0.2), four_rooms(), maze(), GridWorld.from_map("..")])
@pytest.mark.parametrize("gamma", [0.5, 0.99])
def test_the_public_checker_passes(world: GridWorld, gamma: float) -> None:
    model = ExactModel(world, laplacian(world, min(9, world.n_states)), gamma)
    zscout.check_model(model, world, tolerance=1e-9)


def test_batches_are_their_entries(slippery_model: ExactModel) -> None:
    model = slippery_model
    obs = torch.tensor([[3, 40, 77], [0, 8, 80]])
    z = model.sample_z(12, 0).reshape(2, 3, 2, 9)
    psi, shared = model.psi(obs, z), model.psi(obs, z[0, 0])
    actions = model.act(obs, z[:, :, 0])
    assert isinstance(actions, torch.Tensor)
    for i in range(2):
        for j in range(3):
            alone = model.psi(int(obs[i, j]), z[i, j])
            assert norm_difference(alone, psi[i, j]) < 1e-9
            assert norm_difference(model.psi(int(obs[i, j]), z[0, 0]), shared[i, j]) < 1e-9
            assert int(actions[i, j]) == model.act(int(obs[i, j]), z[i, j, 0])
    assert model.psi(obs, z[:1, :, :]).shape == (2, 3, 2, 9)  # z broadcasts over runs
    assert model.psi_heads(obs, z).shape == (2, 3, 1, 2, 9)
    assert model.second_moment(obs, z, 0.9).shape == (2, 3, 2, 9, 9)


def test_large_batches_are_cut_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> tuple[torch.Tensor, ...]:
        model = ExactModel(open_grid(), laplacian(open_grid()))  # a new one, which remembers nothing
        z = model.sample_z(7, 0)
        far = model.psi(torch.arange(40), z), model.psi(3, z.reshape(7, 1, 9)), model.second_moment(3, z, 0.9)
        return model.policy(z), model.value(z), *far

    whole = answers()
    monkeypatch.setattr("zscout.models.exact.solving.CHUNK", 200)  # two z at a time
    monkeypatch.setattr("zscout.models.exact.solving.SMALLEST_BATCH", 2)
    for one, other in zip(whole, answers(), strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_in_nothing_out(laplacian_model: ExactModel) -> None:
    assert laplacian_model.policy(torch.empty(0, 9)).shape == (0, 81)
    assert laplacian_model.psi([], torch.ones(2, 9)).shape == (0, 2, 9)
    assert laplacian_model.psi(3, torch.empty(0, 9)).shape == (0, 9)


def test_actions_come_as_the_environment_wants_them(laplacian_model: ExactModel) -> None:
    z = laplacian_model.sample_z(1, 0)[0]
    assert isinstance(laplacian_model.act(torch.tensor(3), z), torch.Tensor)
    for obs in (3, np.int64(3), np.array(3)):
        assert laplacian_model.act(obs, z) in laplacian_model.action_space
    assert isinstance(laplacian_model.act(np.array([3, 4]), z.numpy()), np.ndarray)


def test_z_lies_on_the_sphere_and_zero_has_an_image(laplacian_model: ExactModel) -> None:
    z = laplacian_model.sample_z(4000, 0)
    torch.testing.assert_close(z.norm(dim=1), torch.full((4000,), 3.0, dtype=torch.float64))
    # Uniform on the sphere of radius √d: mean 0, covariance I.
    assert float(z.mean(0).abs().max()) < 0.08
    assert norm_difference(torch.cov(z.T), torch.eye(9, dtype=torch.float64)) < 0.12
    image = laplacian_model.project_z(torch.zeros(2, 9))
    assert image.tolist() == [[1.0] * 9] * 2
    for size in (1e-300, 1e-20, 1e20, 1e300):
        torch.testing.assert_close(laplacian_model.project_z(z[:3] * size), z[:3])


# Bad input


@pytest.mark.parametrize("gamma", [1.0, -0.1, 2.0, math.nan])
def test_gamma_outside(gamma: float, laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match=r"gamma must be in \[0.0, 1.0\)"):
        ExactModel(open_grid(), laplacian_model.features, gamma)
    with pytest.raises(ValueError, match="gamma must be in"):
        laplacian_model.psi_at(0, torch.ones(1, 9), gamma)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_z_must_be_finite(bad: float, laplacian_model: ExactModel) -> None:
    z = torch.ones(2, 9)
    z[1, 3] = bad
    with pytest.raises(ValueError, match="z holds NaN or inf"):
        laplacian_model.policy(z)
    with pytest.raises(ValueError, match="z holds NaN or inf"):
        laplacian_model.psi(0, z)
    with pytest.raises(ValueError, match="z holds NaN or inf"):
        laplacian_model.act(0, z[1])
    with pytest.raises(ValueError, match="z holds NaN or inf"):
        laplacian_model.project_z(z)


def test_wrong_shapes_and_types(laplacian_model: ExactModel) -> None:
    model = laplacian_model
    with pytest.raises(ValueError, match="z has 8 entries, expected 9"):
        model.value(torch.ones(8))
    with pytest.raises(ValueError, match=r"expected candidates \[\*b n 9\]"):
        model.psi(0, torch.ones(9))
    with pytest.raises(ValueError, match="z is a single number"):
        model.policy(torch.tensor(1.0))
    with pytest.raises(ValueError, match="real numbers"):
        model.policy(torch.ones(9, dtype=torch.complex64))
    with pytest.raises(ValueError, match="observation 81 is outside"):
        model.phi(81)
    with pytest.raises(ValueError, match="whole numbers"):
        model.phi(torch.tensor(1.5))
    with pytest.raises(ValueError, match=r"features have shape \(80, 9\), expected \[81 d\]"):
        ExactModel(open_grid(), model.features[:80])
    with pytest.raises(ValueError, match="features hold NaN or inf at row"):
        ExactModel(open_grid(), torch.full((81, 9), math.nan))
    with pytest.raises(ValueError, match=r"expected a policy of actions \[\*n 81\]"):
        model.evaluate(torch.zeros(80, dtype=torch.long))
    with pytest.raises(ValueError, match="action 4 is outside"):
        model.evaluate(torch.full((81,), 4))
    with pytest.raises(ValueError, match="sum to 1"):
        model.evaluate(torch.full((81, 4), 0.3))
    with pytest.raises(ValueError, match=r"expected a policy of probabilities \[\*n 81 4\]"):
        model.evaluate(torch.full((81, 3), 1 / 3))
    with pytest.raises(ValueError, match="rng must be a torch.Generator or a seed"):
        model.sample_z(3, True)


def test_worlds_with_bad_tables() -> None:
    ring = Ring(3)
    ring.probabilities = ring.probabilities / 2
    with pytest.raises(ValueError, match="≥ 0 and sum to 1"):
        ExactModel(ring, torch.eye(3))
    ring = Ring(3)
    ring.successors = ring.successors - 1
    with pytest.raises(ValueError, match="the world's successor -1 is outside 0 … 2"):
        ExactModel(ring, torch.eye(3))
    ring = Ring(3)
    ring.successors = ring.successors.expand(-1, -1, 2)
    with pytest.raises(ValueError, match=r"both \[3 2 K\], got \(3, 2, 2\) and \(3, 2, 1\)"):
        ExactModel(ring, torch.eye(3))
    ring = Ring(3)  # thirds in float32 are no thirds
    ring.successors = torch.arange(3).expand(3, 2, 3)
    ring.probabilities = torch.full((3, 2, 3), 1 / 3)
    psi = ExactModel(ring, torch.eye(3), gamma=0.9999).evaluate(torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(psi.sum(-1), torch.full((3,), 1e4, dtype=torch.float64))


def test_ordinary_numpy_is_welcome(laplacian_model: ExactModel) -> None:
    z = np.arange(9.0)
    expected = laplacian_model.policy(torch.arange(8.0, -1, -1))
    assert torch.equal(laplacian_model.policy(z[::-1]), expected)
    z = z[::-1].copy()
    z.flags.writeable = False
    assert torch.equal(laplacian_model.policy(z), expected)
    assert torch.equal(laplacian_model.policy([np.float32(x) for x in z]), expected)


def test_batches_that_do_not_match(laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match=r"observations and z have batch dimensions \(3,\) and \(2,\)"):
        laplacian_model.psi([0, 1, 2], torch.ones(2, 4, 9))
    with pytest.raises(ValueError, match="which do not match"):
        laplacian_model.act([0, 1, 2], torch.ones(2, 9))
    with pytest.raises(ValueError, match="policy must be real numbers, got numpy"):
        laplacian_model.evaluate("up")
    with pytest.raises(ValueError, match="values overflow: scale z down"):
        laplacian_model.value(torch.eye(9, dtype=torch.float64)[1] * 1.7e308)


@pytest.mark.parametrize("name", ["laplacian_model", "slippery_model"])
def test_what_given_policies_are_worth_without_tables(name: str, request: pytest.FixtureRequest) -> None:
    model: ExactModel = request.getfixturevalue(name)
    policy, tasks = model.policy(model.sample_z(4, 0)), model.sample_z(4, 1)
    psi = model.evaluate(policy)
    assert torch.allclose(model.worth(policy, tasks), (psi * tasks[:, None]).sum(-1), rtol=1e-9)
    whose, state = torch.tensor([0, 3, 3, 1, 2]), torch.tensor([80, 0, 40, 7, 7])
    assert torch.allclose(model.psi_of(policy, whose, state), psi[whose, state], rtol=1e-9)
    mixed = torch.nn.functional.one_hot(policy, 4).double()
    assert torch.allclose(model.psi_of(mixed, whose, state), psi[whose, state], rtol=1e-9)
    with pytest.raises(ValueError, match=r"worth expects actions \[\*n 81\] and tasks \[\*n 9\] of the same \*n"):
        model.worth(policy, tasks[:3])


def test_few_states_and_all_states_answer_alike(laplacian_model: ExactModel) -> None:
    z, everywhere = laplacian_model.sample_z(6, 0), laplacian_model.states()
    whole = laplacian_model.psi(everywhere, z)
    assert torch.allclose(laplacian_model.psi([3, 77], z), whole[[3, 77]], rtol=1e-12)
    assert torch.allclose(laplacian_model.psi(40, z), whole[40], rtol=1e-12)


def test_what_is_remembered_is_right_from_many_threads_and_when_full() -> None:
    z = torch.arange(120.0).double()[:, None]

    def solve(rows: torch.Tensor) -> torch.Tensor:
        time.sleep(0)  # so that others come between
        return rows.to(torch.int8)

    def ask(seed: int) -> bool:
        rng = torch.Generator().manual_seed(seed)
        wanted = [z[torch.randint(120, (25,), generator=rng)] for _ in range(20)]  # some twice, some known
        return all(torch.equal(solved.recall(rows, solve), rows.to(torch.int8)) for rows in wanted)

    for most in (40, 1_000):
        solved = Solved(1, torch.int8, torch.device("cpu"))
        solved._most = most
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(ask, range(8)))


def test_each_z_is_solved_once_and_forgotten_when_told(laplacian_model: ExactModel) -> None:
    solved, asked = Solved(1, torch.int8, torch.device("cpu")), []

    def solve(rows: torch.Tensor) -> torch.Tensor:
        asked.append(len(rows))
        return rows.to(torch.int8)

    rows = torch.tensor([[1.0], [2.0], [1.0], [1.0]]).double()
    for _ in range(2):
        assert solved.recall(rows, solve).tolist() == [[1], [2], [1], [1]]
    solved.forget()
    solved._most = 1  # fewer than there are
    for _ in range(2):
        assert solved.recall(rows, solve).tolist() == [[1], [2], [1], [1]]
    assert asked == [2, 2, 2]
    assert len(pickle.dumps(laplacian_model)) < 100_000  # what is remembered does not travel


def test_a_model_can_be_made_and_asked_in_and_out_of_inference_mode() -> None:
    world = open_grid()
    with torch.inference_mode():
        model = ExactModel(world, grid_clusters(world))
        inside = model.policy(model.sample_z(3, 0))
    assert model.policy(model.sample_z(5, 1)).shape == (5, 81)
    assert torch.equal(ExactModel(world, grid_clusters(world)).policy(model.sample_z(3, 0)), inside)


def test_psi_of_says_what_it_wants(laplacian_model: ExactModel) -> None:
    policy = laplacian_model.policy(laplacian_model.sample_z(2, 0))
    for table, whose, state in ((policy, [0, 1], [3]), (policy[0], [0], [3]), (policy, 0, 3)):
        with pytest.raises(ValueError, match="psi_of expects a table of policies"):
            laplacian_model.psi_of(table, whose, state)

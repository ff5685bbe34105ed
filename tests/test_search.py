import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor

from toys import PAPER_MODELS, Fixed
from zscout import ExactModel, TaskPosterior, load
from zscout.base.randomness import Rng, Streams
from zscout.base.types import BehaviorModel, Obs
from zscout.features import grid_clusters
from zscout.transfer.score.acquisition import UCB, Greedy, PathUCB
from zscout.transfer.score.problem import Problem, argmax_at_random
from zscout.transfer.score.search import (
    AnyZ,
    AtEstimate,
    Automatic,
    Ellipsoid,
    FixedPoint,
    Known,
    PosteriorDraw,
    Search,
    Shooting,
    TableSearch,
)
from zscout.transfer.score.table import Table, TabulatedForecast, distinct_rows, table_of
from zscout.worlds import open_grid

RNG = Streams(torch.tensor(0))


def problem(model: BehaviorModel, state: int = 40, radius: float = 1.0, seed: int = 0, **changes: object) -> Problem:
    """After twelve rewards of a random task."""
    rng = Generator().manual_seed(seed)
    visited = torch.randint(81, (12,), generator=rng)
    phi = model.phi(visited).double()
    reward = phi @ torch.randn(model.dim, generator=rng, dtype=torch.float64)
    posterior = TaskPosterior.prior(dim=model.dim, ridge=0.3).learn(phi, reward)
    now = Problem(state, model, posterior, torch.tensor(radius, dtype=torch.float64), UCB())
    return replace(now, **changes)  # type: ignore[arg-type]


def score(now: Problem, z: Tensor) -> float:
    return best_score(now, z[None])


def best_score(now: Problem, z: Tensor) -> float:
    return float(now.scores(now.forecast(z.double()), RNG).max())


def test_ties_are_broken_evenly_and_only_ties() -> None:
    scores = torch.tensor([1.0, 5.0, 5.0 - 1e-12, 5.0 - 1e-6, 5.0]).double().expand(30_000, 5)
    counts = argmax_at_random(scores, Streams(torch.arange(30_000))).bincount(minlength=5)
    assert counts[0] == counts[3] == 0
    assert ((counts[[1, 2, 4]] - 10_000).abs() < 5 * math.sqrt(10_000 * 2 / 3)).all()


def test_a_single_run_takes_the_same_of_equal_scores_as_in_a_batch() -> None:
    scores = torch.randint(4, (200, 12), generator=Generator().manual_seed(0)).double() - 1  # many ties
    together = argmax_at_random(scores, Streams(torch.arange(200)))
    alone = [argmax_at_random(own, Streams(torch.tensor(seed))) for seed, own in enumerate(scores)]
    assert torch.equal(together, torch.stack(alone))


def test_shooting_finds_the_best_of_its_own_draws_and_of_the_anchors(laplacian_model: ExactModel) -> None:
    now = problem(laplacian_model, last=laplacian_model.sample_z(1, 5)[0])
    found = score(now, Shooting(200)(now, Streams(torch.tensor(3))))
    drawn = now.fresh(200, Streams(torch.tensor(3)))
    assert found == pytest.approx(best_score(now, torch.cat([drawn, now.anchors])))


@pytest.mark.parametrize("search", [Shooting(1), TableSearch(1), FixedPoint(1, 1)], ids=lambda s: type(s).__name__)
def test_the_estimate_and_the_last_z_are_always_candidates(laplacian_model: ExactModel, search: Search) -> None:
    greedy = problem(laplacian_model, acquisition=Greedy(), radius=0.0)
    assert score(greedy, search(greedy, RNG)) >= score(greedy, greedy.posterior.z_hat) - 1e-9
    now, z = problem(laplacian_model), laplacian_model.sample_z(300, 9)
    best = z[now.scores(now.forecast(z), RNG).argmax()]
    now = replace(now, last=best)
    assert score(now, search(now, RNG)) >= score(now, best) - 1e-9


def test_nothing_known_leaves_the_estimate_out(laplacian_model: ExactModel) -> None:
    prior = TaskPosterior.prior(dim=9, ridge=1.0, runs=(2,))
    first = Problem(torch.tensor([3, 4]), laplacian_model, prior, torch.ones(2).double(), UCB())
    assert first.anchors.shape == (2, 0, 9)
    later = replace(first, last=torch.ones(2, 9).double())
    assert torch.equal(later.anchors, torch.ones(2, 2, 9).double())


def test_a_bank_is_brute_force_over_its_z(laplacian_model: ExactModel) -> None:
    for seed in range(5):
        now = problem(laplacian_model, state=7 * seed, seed=seed)
        z = laplacian_model.sample_z(300, Generator().manual_seed(4))
        best = best_score(now, torch.cat([z, now.anchors]))
        assert score(now, TableSearch(300, seed=4)(now, RNG)) == pytest.approx(best)


def test_equal_rows_stand_once_and_none_is_lost(clusters_model: ExactModel) -> None:
    table = Table(clusters_model, 500, seed=1)
    z, psi = table.z, clusters_model.psi(clusters_model.states(), table.z)
    assert table.rows.shape[1] < 100  # of 500
    for state in (0, 40, 77):
        kept = psi[state][table.rows[state]]
        nearest = torch.cdist(psi[state], kept).amin(1)
        assert nearest.max() < 1e-4
        distinct = kept[: len(kept.unique(dim=0))].unique(dim=0)
        assert torch.pdist(distinct).min() > 1e-4
    assert torch.equal(TabulatedForecast(clusters_model, 3, table).z, z[table.rows[3]])
    forecast = TabulatedForecast(clusters_model, torch.tensor([40, 77]), table)
    assert torch.allclose(forecast.psi[1], psi[77][table.rows[77]])
    moment = clusters_model.second_moment(77, z[table.rows[77]], 0.8)
    assert torch.allclose(forecast.second_moment(0.8)[1], moment)


def test_distinct_rows_of_all_different_rows_are_all() -> None:
    psi = torch.randn(3, 20, 4, generator=Generator().manual_seed(0), dtype=torch.float64)
    assert distinct_rows(psi).sort(1).values.tolist() == [list(range(20))] * 3


def test_tables_are_shared_and_let_go_of_their_model(clusters_model: ExactModel) -> None:
    import gc
    import weakref

    assert table_of(clusters_model, 50, 0) is table_of(clusters_model, 50, 0)
    own = ExactModel(clusters_model.world, clusters_model.features)
    table_of(own, 10, 0)
    watched = weakref.ref(own)
    del own
    gc.collect()
    assert watched() is None


def test_rounds_of_the_fixed_point_never_lose_with_exact_psi(laplacian_model: ExactModel) -> None:
    gained = 0.0
    for seed in range(10):
        now = problem(laplacian_model, state=8 * seed, seed=seed)
        start = best_score(now, now.fresh(8, Streams(torch.tensor(seed))))
        few, many = (score(now, FixedPoint(8, rounds)(now, Streams(torch.tensor(seed)))) for rounds in (1, 4))
        assert many >= few - 1e-9 >= start - 2e-9
        gained += few - start
        assert score(now, Shooting(2000)(now, RNG)) <= many * 1.02
    assert gained > 0


def test_ellipsoid_candidates_are_inside_and_the_shipped_ones_are_not(laplacian_model: ExactModel) -> None:
    now = problem(laplacian_model, radius=0.5)

    def farthest(search: Ellipsoid) -> float:
        draws = [search(replace(now, acquisition=_Random()), Streams(torch.tensor(i))) for i in range(100)]
        return float(now.posterior.distance(torch.stack(draws)).max())

    assert farthest(Ellipsoid(4, scale=2.0)) <= 1.0 + 1e-9
    assert farthest(Ellipsoid(4, scale=2.0, surface=True)) == pytest.approx(1.0)
    assert farthest(Ellipsoid(4, scale=2.0, shipped=True)) > 1.5


class _Random:
    """A score that does not care."""

    def __call__(self, forecast: object, posterior: TaskPosterior, radius: Tensor, rng: Rng) -> Tensor:
        return torch.zeros(4, dtype=torch.float64)


def test_automatic_tabulates_an_exact_psi_or_a_learned_one_that_is_better_in_a_table(
    laplacian_model: ExactModel,
) -> None:
    automatic = Automatic(table=TableSearch(20))
    for model in (laplacian_model, load("grid9-laplacian")):
        now = problem(model)
        assert torch.equal(automatic(now, Streams(torch.tensor(1))), TableSearch(20)(now, Streams(torch.tensor(1))))
    plain = problem(load(PAPER_MODELS / "grid9-laplacian-paper"))
    assert torch.equal(automatic(plain, Streams(torch.tensor(1))), FixedPoint()(plain, Streams(torch.tensor(1))))


def test_searches_that_look_at_no_score(clusters_model: ExactModel) -> None:
    now = problem(clusters_model)
    assert torch.allclose(AtEstimate()(now, RNG), clusters_model.project_z(now.posterior.z_hat))
    assert torch.allclose(PosteriorDraw(0.0)(now, RNG), clusters_model.project_z(now.posterior.z_hat))
    task = torch.arange(1.0, 10.0)
    assert torch.allclose(Known.of(task)(now, RNG), clusters_model.project_z(task))
    assert not torch.equal(AnyZ()(now, Streams(torch.tensor(1))), AnyZ()(now, Streams(torch.tensor(2))))
    unknown = replace(now, posterior=TaskPosterior.prior(dim=9, ridge=1.0))
    assert AtEstimate()(unknown, RNG).norm() == pytest.approx(3.0)


def test_what_a_search_cannot_do_it_says(laplacian_model: ExactModel) -> None:
    with pytest.raises(ValueError, match="needs a finite world"):
        TableSearch()(
            Problem(0, Fixed(torch.ones(1, 2)), TaskPosterior.prior(dim=2, ridge=1.0), torch.tensor(1.0), UCB()), RNG
        )
    with pytest.raises(ValueError, match="8 entries"):
        Known.of(torch.ones(8))(problem(laplacian_model), RNG)
    for wrong in (
        lambda: Shooting(0),
        lambda: TableSearch(0),
        lambda: FixedPoint(starts=0),
        lambda: Ellipsoid(scale=0.0),
    ):
        with pytest.raises(ValueError, match="from 1 to|above 0"):
            wrong()


def test_a_bank_without_anchors_asks_the_model_nothing(
    laplacian_model: ExactModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = problem(laplacian_model, last=laplacian_model.sample_z(1, 5)[0])
    with_anchors, alone = TableSearch(50), TableSearch(50, anchors=False)
    assert (table_of(laplacian_model, 50, 0).z == alone(now, RNG)).all(-1).any()

    def silent(*_: object) -> Tensor:
        raise AssertionError("asked")

    monkeypatch.setattr(laplacian_model, "psi", silent)
    alone(now, RNG)
    with pytest.raises(AssertionError, match="asked"):
        with_anchors(now, RNG)


@pytest.mark.parametrize("acquisition", [UCB(), PathUCB()], ids=lambda score: type(score).__name__)
def test_a_bank_takes_runs_of_any_shape(laplacian_model: ExactModel, acquisition: UCB | PathUCB) -> None:
    state = torch.tensor([[3, 40, 3], [77, 12, 0]])
    posterior = TaskPosterior.prior(dim=9, ridge=0.3, runs=(2, 3)).update(laplacian_model.phi(state), state.double())
    now = Problem(state, laplacian_model, posterior, torch.ones(2, 3).double(), acquisition)
    found = TableSearch(50)(now, Streams(torch.arange(6).reshape(2, 3)))
    alone = TaskPosterior.prior(dim=9, ridge=0.3).update(laplacian_model.phi(12), 12.0)
    one = Problem(12, laplacian_model, alone, torch.ones(()).double(), acquisition)
    assert torch.allclose(TableSearch(50)(one, Streams(torch.tensor(4))), found[1, 1])


def test_draws_for_many_runs_are_those_for_each_alone(laplacian_model: ExactModel) -> None:
    for model in (laplacian_model, load("grid9-laplacian")):
        runs = replace(problem(model), posterior=TaskPosterior.prior(dim=9, ridge=0.3, runs=(3,)))
        alone = [model.sample_z(5, rng).double() for rng in Streams(torch.arange(3)).generators()]
        assert torch.allclose(runs.fresh(5, Streams(torch.arange(3))), torch.stack(alone), rtol=1e-12, atol=0)


def test_rows_are_scored_alike_in_parts_where_they_stand_and_all_at_once(
    laplacian_model: ExactModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = torch.tensor([3, 40, 3, 77, 12])
    phi, reward = laplacian_model.phi(state), torch.arange(5.0).double()
    posterior = TaskPosterior.prior(dim=9, ridge=0.3, runs=(5,)).update(phi, reward)
    found = []
    for rows in (10**6, 300, 1):  # all runs together, a few of them, each for itself
        monkeypatch.setattr("zscout.transfer.score.table.ROWS_AT_ONCE", rows)
        forecast = TabulatedForecast(laplacian_model, state, Table(laplacian_model, 100, seed=0))
        found.append([*forecast.value_and_width(posterior), forecast.information(posterior, 0.9)])
        assert torch.allclose(forecast.psi @ posterior.z_hat[..., None], found[-1][0][..., None])
        assert torch.allclose(posterior.width(forecast.psi), found[-1][1])
        M = forecast.second_moment(0.9)
        inverse = torch.linalg.inv(posterior.V)[:, None]
        assert torch.allclose((M * inverse).sum((-2, -1)), found[-1][2])
    for others in found[1:]:
        assert all(torch.allclose(one, other) for one, other in zip(found[0], others, strict=True))


def test_a_model_that_draws_otherwise_than_its_parent_is_asked_itself() -> None:
    class Positive(ExactModel):
        def sample_z(self, n: int, rng: Generator | int) -> Tensor:
            return super().sample_z(n, rng).abs()

    model = Positive(open_grid(), grid_clusters(open_grid()))
    now = replace(problem(model), posterior=TaskPosterior.prior(dim=9, ridge=0.3, runs=(3,)))
    assert (now.fresh(20, Streams(torch.arange(3))) > 0).all()


def test_rows_of_one_state_are_those_of_the_table_and_take_bounded_room(
    laplacian_model: ExactModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moments(obs: Obs, z: Tensor) -> Tensor:
        return laplacian_model.second_moment(obs, z, 0.9)

    table, other = Table(laplacian_model, 50, 0), Table(laplacian_model, 50, 0)
    size = table.row("M", 0, moments).nbytes
    monkeypatch.setattr("zscout.transfer.score.table.CACHED_BYTES", 3 * size)
    for state in range(20):
        assert torch.equal(table.row("M", state, moments), other.column("M", moments)[state])
        assert sum(row.nbytes for row in table._single.values()) <= 3 * size

"""M and ψ at a short horizon, learned: against rollouts and the exact model, and what a model without them does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zscout
from zscout import USFA, ExactModel
from zscout.base.types import HasHorizons, HasSecondMoment
from zscout.features import laplacian
from zscout.lab.training.grid import GridPretraining, GridTraining
from zscout.models.usfa.judging import moment_error
from zscout.models.usfa.moment_training import MomentTrainer
from zscout.models.usfa.moments import MomentUSFA
from zscout.models.usfa.recipe import RECIPES
from zscout.models.usfa.training import Trainer
from zscout.models.usfa.transitions import Transitions
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.score.acquisition import PathUCB
from zscout.transfer.score.forecast import Forecast
from zscout.worlds import open_grid

WORLD = open_grid(5)
PHI = laplacian(WORLD, 4)
TINY = replace(RECIPES["robust"], policy_steps=60, evaluation_steps=40, tasks=8, hidden=32, layers=2, moment_steps=150)


@pytest.fixture(scope="module")
def plain() -> USFA:
    trainer = Trainer(Transitions.of_world(WORLD), PHI, WORLD.cells.double() / 2 - 1, TINY)
    for _ in trainer.train():
        pass
    return trainer.model


@pytest.fixture(scope="module")
def model(plain: USFA) -> MomentUSFA:
    return trained(plain)


def trained(plain: USFA, seed: int = 0) -> MomentUSFA:
    trainer = MomentTrainer(plain, Transitions.of_world(WORLD), TINY, seed)
    first, *_, last = trainer.train(every=50)
    assert last < first
    return trainer.model


def score(model: USFA, gamma: float, intercept: bool = True) -> torch.Tensor:
    posterior = TaskPosterior.prior(dim=4, ridge=0.1, intercept=intercept)
    for state, reward in ((3, 1.0), (7, -0.5), (11, 0.2)):
        posterior = posterior.update(model.phi(state).double(), torch.tensor(reward))
    forecast = Forecast(model, 6, model.sample_z(9, 0).double())
    return PathUCB(gamma)(forecast, posterior, torch.tensor(0.7), torch.Generator())


# Targets and training


def test_a_target_follows_stored_transitions(plain: USFA) -> None:
    data = Transitions.of_buffer([0, 1], [0, 1], [1, 2], n_states=25, n_actions=4)  # 0 → 1 → 2, and no more
    trainer = MomentTrainer(plain, data, replace(TINY, moment_gamma=0.5))
    actions = torch.zeros(2, 25, dtype=torch.long)
    actions[:, 1] = 1
    visits = trainer._visits(actions, torch.tensor([0, 1]))
    assert visits[0, :3].tolist() == pytest.approx([0, 0.5, 0.5])
    assert visits[1, :3].tolist() == pytest.approx([0, 0, 1])


def test_training_lowers_the_error_of_m_and_leaves_the_rest_alone(plain: USFA, model: MomentUSFA) -> None:
    exact, z = ExactModel(WORLD, PHI), plain.sample_z(30, 1)
    untrained = MomentTrainer(plain, Transitions.of_world(WORLD), TINY).model
    assert moment_error(untrained, exact, z.double()) > 0.5
    assert moment_error(model, exact, z.double()) < 0.35  # measured: .20
    assert torch.equal(model.psi(model.states(), z), plain.psi(plain.states(), z))
    assert torch.equal(model.policy(z), plain.policy(z))
    again = trained(plain)
    assert all(torch.equal(one, other) for one, other in zip(again.parameters(), model.parameters(), strict=True))


def test_a_random_policy_is_refused(plain: USFA) -> None:
    warm = USFA(replace(plain.config, temperature=1.0), plain.features, plain.state_inputs).freeze()
    with pytest.raises(ValueError, match="deterministic policies only"):
        MomentTrainer(warm, Transitions.of_world(WORLD), TINY)


# Answers


def test_m_is_positive_also_when_centred(model: MomentUSFA) -> None:
    z = model.sample_z(7, 2)
    p = model.occupancy(model.states(), z)
    torch.testing.assert_close(p.sum(-1), torch.ones(25, 7))
    apart = model.features - model.features.mean(0)
    centred = torch.einsum("bns,si,sj->bnij", p, apart, apart) / 0.2
    M, psi, mean = (
        model.second_moment(model.states(), z, 0.8),
        model.psi_at(model.states(), z, 0.8),
        model.features.mean(0),
    )
    cross = psi[..., :, None] * mean
    torch.testing.assert_close(M - cross - cross.mT + mean[:, None] * mean / 0.2, centred, atol=1e-4, rtol=1e-4)


def test_the_table_of_psi_follows_from_the_occupancy(model: MomentUSFA, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, z = ExactModel(WORLD, PHI), model.sample_z(70, 3)  # more than are solved at once
    policy = model.policy(z).argmax(-1)
    truth = exact.evaluate(policy).movedim(0, 1)

    def error(psi: torch.Tensor) -> float:
        return float((psi - truth).norm(dim=-1).mean() / truth.norm(dim=-1).mean())

    assert error(model.psi_table(z)) < 0.5 * error(model.psi(model.states(), z))  # measured: .16 and .83
    visits = ExactModel(WORLD, torch.eye(25)).evaluate(policy, 0.8) * 0.2  # [n S S]
    parts = iter(visits.movedim(0, 1).split(64, dim=1))
    monkeypatch.setattr(model, "occupancy", lambda obs, z: next(parts))
    torch.testing.assert_close(model.psi_table(z), truth)  # a true occupancy gives the true ψ


def test_other_discounts_are_refused(model: MomentUSFA) -> None:
    z = model.sample_z(3, 0)
    with pytest.raises(ValueError, match=r"gamma=0.9, but this model learned γ = 0.8 only"):
        model.second_moment(0, z, 0.9)
    with pytest.raises(ValueError, match=r"learned γ = 0.8 and 0.99 only"):
        model.psi_at(0, z, 0.5)
    assert torch.equal(model.psi_at(0, z, 0.99), model.psi(0, z))
    with pytest.raises(ValueError, match="moment_gamma must be in"):
        replace(model.config, moment_gamma=1.0)
    with pytest.raises(ValueError, match="moment_hidden must be at least 1"):
        replace(model.config, moment_hidden=0)
    with pytest.raises(ValueError, match="moment_gamma is None, expected a discount"):
        MomentUSFA(replace(model.config, moment_gamma=None), model.features, model.state_inputs)
    with pytest.raises(ValueError, match="moment_gamma is 0.8, expected None, or a MomentUSFA"):
        USFA(model.config, model.features, model.state_inputs)


def test_a_changed_model_answers_anew_and_z_has_a_gradient(plain: USFA) -> None:
    model = trained(plain, seed=1)
    z = model.sample_z(3, 0)
    before = model.second_moment(2, z, 0.8)
    assert torch.equal(model.second_moment(2, z, 0.8), before)
    assert not torch.equal(model.second_moment(3, z, 0.8), before)
    with torch.no_grad():
        model.occupancy_network.biases[-1][..., 0] += 5
    assert not torch.allclose(model.second_moment(2, z, 0.8), before, rtol=1e-3)
    with torch.inference_mode():
        inside = model.psi_at(2, z, 0.8)
    free = z.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model.psi_at(2, free, 0.8).sum(), free)
    assert slope.abs().sum() > 0
    torch.testing.assert_close(model.psi_at(2, z, 0.8), inside)


def test_a_certificate_compares_psi_of_tables(model: MomentUSFA, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, batch = zscout.OnlineTransfer(model, seed=1), zscout.OnlineTransfer(model, seed=0, runs=3)
    for state in (3, 12, 20, 6):
        agent.ask(state)
        agent.tell(state + 1, state / 20)
        batch.ask([state] * 3)
        batch.tell([state + 1] * 3, [0.5, state / 20, 1.0])
    monkeypatch.setattr(model, "psi", lambda obs, z: pytest.fail("the network's ψ has other errors than the table's"))
    alone, together = agent.certificate(), batch.certificate()
    assert not alone.exact
    assert 0 < float(alone.share) <= 1
    torch.testing.assert_close(together.share[1], alone.share, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(together.gain[1], alone.gain, rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("inference", [False, True])
def test_m_and_psi_at_share_one_pass(plain: USFA, inference: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, passes = trained(plain, seed=1), list[int]()
    network = model.occupancy_logits

    def counted(state: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        passes.append(len(inputs))
        return network(state, inputs)

    monkeypatch.setattr(model, "occupancy_logits", counted)
    with torch.inference_mode(inference):
        z = model.sample_z(3, 0)
        model.second_moment(2, z, 0.8)
        model.psi_at(2, z, 0.8)
    assert passes == [3]


# The default score


@pytest.mark.parametrize("intercept", [True, False])
def test_the_score_uses_m_at_its_own_discount_only(plain: USFA, model: MomentUSFA, intercept: bool) -> None:
    assert torch.equal(score(model, 0.9, intercept), score(plain, 0.9, intercept))  # eq. 5
    assert not torch.allclose(score(model, 0.8, intercept), score(plain, 0.8, intercept), rtol=1e-2)


def test_a_model_without_m_offers_none(plain: USFA) -> None:
    assert not isinstance(plain, HasSecondMoment)
    assert not isinstance(plain, HasHorizons)


# Files


def test_saved_and_loaded_are_the_same(model: MomentUSFA, tmp_path: Path) -> None:
    z = model.sample_z(5, 0)
    loaded = zscout.load(zscout.save(model, tmp_path / "whole"))
    assert isinstance(loaded, MomentUSFA)
    assert torch.equal(loaded.second_moment(3, z, 0.8), model.second_moment(3, z, 0.8))
    half = zscout.load(zscout.save(model, tmp_path / "half", half=True))
    assert isinstance(half, MomentUSFA)
    size = model.second_moment(3, z, 0.8).norm()
    assert 0 < float((half.second_moment(3, z, 0.8) - model.second_moment(3, z, 0.8)).norm() / size) < 0.05


def test_files_from_before_have_no_m(plain: USFA, tmp_path: Path) -> None:
    path = zscout.save(plain, tmp_path / "old") / "config.json"
    config = json.loads(path.read_text())
    config["model"] = {name: value for name, value in config["model"].items() if not name.startswith("moment")}
    path.write_text(json.dumps(config))
    loaded = zscout.load(tmp_path / "old")
    assert type(loaded) is USFA
    assert loaded.config == plain.config
    config["model"]["moment_gamma"] = "short"
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="moment_gamma must be a number or null, got 'short'"):
        zscout.load(tmp_path / "old")


def test_the_shipped_model_knows_m_as_well_as_its_card_says() -> None:
    model = zscout.load("grid9-laplacian")
    assert isinstance(model, MomentUSFA)
    exact = ExactModel(open_grid(), laplacian(open_grid()))
    error = moment_error(model, exact, exact.sample_z(1000, 20_002)[:50])
    assert error < 0.25
    assert error == pytest.approx(model.about["verdict"]["moment_error"], abs=0.02)  # of 200 z


# The command


def test_pretrain_adds_m_to_a_trained_model(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("....\n....\n....\n")
    what = GridPretraining(world=str(tmp_path / "map.txt"), dim=4, quick=True, changes=("hidden=32",))
    run = GridTraining(what, tmp_path / "plain")
    list(run.train(100))
    run.finish(1.0)
    before = zscout.load(tmp_path / "plain")
    assert type(before) is USFA
    added = replace(what, base=str(tmp_path / "plain"), changes=("hidden=32", "moment_steps=20"))
    run = GridTraining(added, tmp_path / "more")
    assert [(line.step, run.step) for line in run.train(10)] == [(310, 310), (320, 320)]
    log = run.finish(1.0)
    model = zscout.load(tmp_path / "more")
    assert isinstance(model, MomentUSFA)
    assert torch.equal(model.psi(3, model.sample_z(2, 0)), before.psi(3, before.sample_z(2, 0)))
    assert 0 < log["verdict"]["moment_error"] < 2
    assert model.about["command"] == before.about["command"]
    assert model.about["moment_command"] in (tmp_path / "more" / "README.md").read_text()
    with pytest.raises(ValueError, match="is not a model of this world, these features and this recipe"):
        GridTraining(replace(added, base="grid9-laplacian"), tmp_path / "other")
    with pytest.raises(ValueError, match="there is nothing to train"):
        GridTraining(replace(added, changes=("hidden=32",)), tmp_path / "other")

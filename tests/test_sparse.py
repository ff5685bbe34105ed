"""Rewards that are 0 nearly everywhere: where the agent looks for them, and what it says meanwhile."""

import pytest
import torch

import zscout
from benchmarks.sparse import PointMass, main
from zscout import OnlineTransfer, check_model


def test_the_model_made_by_hand_is_right() -> None:
    model = PointMass()
    check_model(model)
    start, z = torch.tensor([0.9, -0.9]), model.sample_z(5, 0)
    total, state = torch.zeros(5, model.dim), start.expand(5, 2)
    for k in range(400):
        state, _ = model.advance(state, model.act(state, z))
        total = total + model.gamma**k * model.phi(state)
    assert torch.allclose(model.psi(start, z), total, atol=1e-3)


def test_while_all_rewards_are_equal_the_behaviour_with_the_largest_width_is_tried() -> None:
    model = PointMass()
    atlas = zscout.chart(model, model, behaviours=64, starts=2, steps=40, progress=False)
    agent, state, chosen = OnlineTransfer(model, atlas=atlas, seed=0), torch.zeros(1, 2), list[int]()
    for step in range(3 * atlas.hold):
        z = agent.ask(state[0])
        if step and step % atlas.hold == 0:
            posterior = agent.posterior
            assert posterior.means is not None
            chosen.append(int(atlas.index_of(z.float())))
            assert chosen[-1] == int(posterior.width(atlas.psi - posterior.means.phi).argmax())
        state, _ = model.advance(state, model.act(state, z[None]))
        agent.tell(state[0], 0.0)
    assert len(chosen) == 2
    assert float(agent.certificate().share) == 1


def test_the_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main(quick=True)
    assert capsys.readouterr().out.count("met it") == 8

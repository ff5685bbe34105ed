"""Trains an FB model in a simulated world, on reward-free transitions; yields metrics and does not print or plot."""

import copy
import math
from collections.abc import Callable, Iterator
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.models.fb.data import BatchWorld, Experience, random_forces
from zscout.models.fb.graphs import as_graph
from zscout.models.fb.learner import SAMPLE, FBLearner, LearnerTrainer, Rows, centred, least
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import FBProgress, FBRecipe

PAIRS = 24  # states of a rollout that are trained on; n more steps follow


class FBTrainer(LearnerTrainer):
    """The learner, the data, rollouts of the learner's policies, and the phases of training.

    A resumed training equals an uninterrupted one.
    """

    recipe: FBRecipe

    def __init__(self, world: BatchWorld, recipe: FBRecipe, seed: int = 0, device: torch.device | str = "cpu") -> None:
        super().__init__(
            FBLearner(world.observation_space, world.action_space.shape[0], recipe, seed, device), recipe, seed
        )
        self.world = world
        # On the CPU, so that the same seed gives the same data on every device
        data = random_forces(
            world,
            recipe.transitions,
            Generator().manual_seed(seed),
            correlation=recipe.correlation,
            size=recipe.force,
        )
        self.data = data.shuffled(Generator().manual_seed(seed)).to(self.device)
        self.learner.standardise(self.data.next_obs)
        self.online, self.target, self.rng = self.learner.online, self.learner.target, self.learner.rng
        self.rollouts = Rollouts(self.online, world, self.data, recipe.runs, recipe.chain)
        self._refill: Callable[[], Tensor] | None = None

    @property
    def model(self) -> FB:
        """A frozen copy of the current model, with its moments."""
        model = copy.deepcopy(self.online).freeze()
        return model.calibrate(self._sample()) if self.step <= self._ends[0] else model

    @property
    def phase(self) -> int:
        """0: features, 1: policies, 2: evaluation."""
        return sum(self.step >= end for end in self._ends[:2])

    @property
    def _ends(self) -> list[int]:
        return list(accumulate(self.recipe.phases))

    def train(self, every: int = 500) -> Iterator[FBProgress]:
        """Train to the end; yield a log line every ``every`` steps."""
        while not self.finished:
            steps = min(every - self.step % every, self._ends[self.phase] - self.step)
            if self.step in (0, *self._ends):
                self._begin_phase()
            self.log.append(FBProgress(self.step, *self._advance(steps)))
            yield self.log[-1]

    def _advance(self, steps: int) -> tuple[float, float, float]:
        update, refill = self._functions()
        total = torch.zeros(3, device=self.device)
        recipe = self.recipe
        with self.stopwatch.updates():
            for done in range(steps):
                if self.phase and done % recipe.refresh == 0:  # also at each start, as when training is resumed
                    refill()
                    self.stopwatch.frames += recipe.runs * len(self.rollouts.action)
                self._set_rates()
                total += update()
                self.step += 1
        loss, orthonormality, value = (total / steps).tolist()
        return loss, orthonormality, value

    def _begin_phase(self) -> None:
        """Once B is fixed, ψ of the whitened features is a plain regression."""
        self._update = None
        if self.phase == 1:
            sample = self._sample()
            self.target.backward_map.load_state_dict(self.online.backward_map.state_dict())
            for model in (self.online, self.target):
                model.calibrate(sample)

    def _sample(self) -> Float[Tensor, "n k"]:
        """Observations in random order."""
        return self.data.next_obs[:SAMPLE]

    # One update

    def _rows(self, n: int) -> Rows:
        """Rows of the data; the features are those of one step."""
        data, online = self.data, self.online
        index = torch.randint(len(data), (n,), generator=self.rng, device=self.device)
        next_obs = data.next_obs[index]
        B = centred(online.backward_of(next_obs)) if self.phase == 0 else online.features_of(next_obs)
        z = self.learner.draw_z(B.detach() if self.phase == 0 else B @ online.root)
        discount = (self.recipe.gamma * ~data.over[index])[:, None]
        return Rows(data.obs[index], data.action[index], z, B, next_obs, discount)

    def _refill_rollouts(self) -> Tensor:
        index = torch.randint(len(self.data), (self.recipe.runs,), generator=self.rng, device=self.device)
        with torch.no_grad():
            z = self.learner.draw_z(centred(self.online.backward_of(self.data.next_obs[index])))
        return self.rollouts.refill(self.online, z, self.rng)

    def _feature_update(self) -> Float[Tensor, "3"]:
        rows = self._rows(self.recipe.batch)
        return self.learner.update(rows, self.online.config.goals(rows.tail_obs))

    def _regression_update(self) -> Float[Tensor, "3"]:
        """‖ψ(s,a;z) − Σ_{k<n} γᵏφ(S_{k+1}) − γⁿψ(S_n,π(S_n,z);z)‖² for each head, n = 1 for rows of the data."""
        recipe, online, target = self.recipe, self.online, self.target
        # The last phase needs ψ at the policies' own actions only.
        share = int(recipe.on_policy * recipe.batch) if self.phase == 1 else recipe.batch
        with torch.no_grad():
            parts = [self._rows(recipe.batch - share), self.rollouts.draw(share, recipe.gamma, self.rng)]
            rows = Rows(*(torch.cat(both) for both in zip(*(vars(part).values() for part in parts), strict=True)))
            here, there, z = online.encode(rows.obs), online.encode(rows.tail_obs), rows.z
            tails = target.forward_of(there, online.action_of(there, z), z)
            tail = least(tails, z) if self.phase == 1 else tails.mean(0)
            wanted = rows.features + rows.discount * (tail @ online.root)
        psi = online.forward_of(here, rows.action, z) @ online.root
        loss = ((psi - wanted) * (1 - recipe.gamma)).square().mean()
        self.learner.descend(loss, "forward_map")
        value = self.learner.improve(here, z) if self.phase == 1 else torch.zeros_like(loss)
        self.learner.follow()
        return torch.stack([loss.detach(), torch.zeros_like(loss), value.detach()])

    def _set_rates(self) -> None:
        """From the recipe's rates to 0 along a half cosine, in each phase."""
        left = (self._ends[self.phase] - self.step) / self.recipe.phases[self.phase]
        self.learner.set_rates(0.5 + 0.5 * math.cos(math.pi * (1 - left)))

    def _functions(self) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """The update of this phase and the refill of rollouts; on CUDA one graph each."""
        if self._update is None or self._refill is None:
            update = self._regression_update if self.phase else self._feature_update
            self._refill = as_graph(self._refill_rollouts, dict, self.rng)
            self._update = as_graph(update, self.learner.live_tensors, self.rng)
        return self._update, self._refill

    @property
    def fixed(self) -> list[Tensor]:
        """What must be the same when training is resumed: the seed's data."""
        return [self.data.obs, self.data.next_obs]


class Rollouts:
    """Rollouts of π(·,z) from states of the data, one z each, in tensors that are refilled in place.

    Their n-step sums of features keep errors of ψ from piling up over a horizon.
    """

    def __init__(self, model: FB, world: BatchWorld, data: Experience, runs: int, steps: int) -> None:
        self.world, self.data, self.runs, self.steps = world, data, runs, steps
        k, a = data.obs.shape[1], data.action.shape[1]
        new = data.obs.new_zeros
        self.obs, self.action = new(PAIRS + steps + 1, runs, k), new(PAIRS + steps, runs, a)
        self.alive = new(PAIRS + steps + 1, runs, 1)
        self.z, self.features = new(runs, model.dim), new(PAIRS, runs, model.dim)

    @torch.no_grad()
    def refill(self, model: FB, z: Float[Tensor, "runs d"], rng: Generator) -> Tensor:
        """New rollouts with these z; the first action of each is random."""
        self.z.copy_(z)
        index = torch.randint(len(self.data), (self.runs,), generator=rng, device=rng.device)
        state, action = self.data.obs[index], self.data.action[index.roll(1)]
        alive = torch.ones_like(self.alive[0])
        for t in range(len(self.action)):
            self.obs[t], self.action[t], self.alive[t] = state, action, alive
            state, over = self.world.advance(state, action)
            alive = alive * ~over[:, None]
            action = model.action_of(model.encode(state), z)
        self.obs[-1], self.alive[-1] = state, alive
        phi = model.features_of(self.obs[1:].flatten(0, 1)).reshape(*self.obs[1:].shape[:2], -1) * self.alive[:-1]
        total = torch.zeros_like(self.features)
        for step in reversed(range(self.steps)):
            total = phi[step : step + PAIRS] + model.gamma * total
        self.features.copy_(total)
        return alive.mean()

    def draw(self, n: int, gamma: float, rng: Generator) -> Rows:
        """n rows at random places of random rollouts."""
        t = torch.randint(PAIRS, (n,), generator=rng, device=rng.device)
        run = torch.randint(self.runs, (n,), generator=rng, device=rng.device)
        later = t + self.steps
        discount = gamma**self.steps * self.alive[later, run]
        return Rows(
            self.obs[t, run], self.action[t, run], self.z[run], self.features[t, run], self.obs[later, run], discount
        )

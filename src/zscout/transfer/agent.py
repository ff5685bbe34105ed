"""The agent that infers the task of a frozen model from rewards: ask and tell."""

import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zscout.base.edge import as_finite, as_given, as_positive, as_vectors
from zscout.base.types import Action, BehaviorModel, Obs, PolicySet, RewardModel, Vectors
from zscout.transfer import inputs
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.charted import Charted
from zscout.transfer.atlas.choice import OWN, choose_atlas, over_atlas
from zscout.transfer.atlas.experience import Experience, ForecastErrors
from zscout.transfer.atlas.limits import CostBelief, Limit, as_limits, told_costs
from zscout.transfer.baselines.explorers import Exploring
from zscout.transfer.belief.change import Recent
from zscout.transfer.belief.feedback import Credit, clip_features, difference
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.choosers import ACT, ASK, TELL, Chooser, drawn_action
from zscout.transfer.constants import ALIKE
from zscout.transfer.inputs import Flags, Labels, Rewards
from zscout.transfer.learned import Learned
from zscout.transfer.methods import Method, among, resolved
from zscout.transfer.offline import constant_part_of
from zscout.transfer.saving import load_agent, save_agent
from zscout.transfer.score.acquisition import unused_gamma
from zscout.transfer.score.confidence import Residual
from zscout.transfer.score.search import Among
from zscout.transfer.state import AgentState, first_belief

SAFE_SHARE = 1e-14  # of the largest ẑ: below, no other prior makes ẑ overflow; V's condition number is below 1e14


class OneThread:
    """A guard that refuses a second thread: two threads would mix their steps. Copies of an agent get a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("another thread is using this agent: give each thread its own agent")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class OnlineTransfer(Learned):
    """Infers the task of a frozen model from rewards: ask Z_t at S_t, follow it, tell S_{t+1} and R_{t+1}.

        agent = OnlineTransfer(bfm)
        z = agent.ask(obs)
        obs, reward, *_ = env.step(bfm.act(obs, z))
        agent.tell(obs, reward)

    ``method`` is a name or a ``Method``. ``runs=300`` batches 300 agents: obs [300], z [300 d], reward [300]. Run i has
    seed + i, or the i-th of a list of seeds, and gives the same result alone as in the batch (a model with random
    actions must declare ``DrawsForEachRun``). ``noise=None`` estimates σ. ``norm_bound``: ‖z_r‖ (default √d), used by
    the method named ``"usf-ucb-norm"`` only; a ``Method`` has its own. ``bank`` [n d]: choose among these z only.
    ``atlas``: choose among its behaviours, by its features. If z decides more of what a behaviour does than the start
    (``Atlas.is_steady``), usf-ucb with its default settings uses the model's own atlas; ``atlas=None`` switches it off.
    ``limit``: with an atlas, a ``Limit`` or several: only behaviours within them are tried.
    A call that raises leaves the agent unchanged.
    """

    def __init__(
        self,
        bfm: PolicySet,
        method: str | Method = "usf-ucb",
        *,
        seed: int | Sequence[int] = 0,
        runs: int | None = None,
        noise: float | None = None,
        norm_bound: float | None = None,
        bank: Vectors | None = None,
        atlas: Atlas | str | None = OWN,
        limit: Limit | Sequence[Limit] | None = None,
        **settings: object,
    ) -> None:
        chosen = choose_atlas(bfm, method, bank, atlas)
        inputs.check_model_kind(bfm, charted=chosen is not None)
        self.method = resolved(method, bfm.dim, noise, norm_bound, settings)
        if chosen is not None:
            self.method = over_atlas(self.method, chosen.hold)
        if bank is not None:
            self.method = among(self.method, Among.of(bank, cast(BehaviorModel, bfm)))
        self.model = cast(BehaviorModel, bfm) if chosen is None else Charted(bfm, chosen)
        self.atlas = self.model.atlas if isinstance(self.model, Charted) else None
        search = self.method.search
        self._chooser = search if isinstance(search, Chooser) else Chooser(search)
        self.bfm = cast(BehaviorModel, bfm)
        self.method_name = method if isinstance(method, str) else None
        self.norm_bound = None if norm_bound is None else as_positive(norm_bound, "norm_bound")
        self.seeds = inputs.seeds_of_runs(seed, runs)
        self.runs = tuple(self.seeds.shape)
        self._z_shape = (*self.runs, bfm.dim)
        self._constant = constant_part_of(self.bfm) if self.method.intercept and self.atlas is None else None
        example = bfm.sample_z(1, 0)
        prior = first_belief(self.method, self.model, noise, self.runs, example.device)
        self._largest_z = math.sqrt(torch.finfo(example.dtype).max / bfm.dim)
        self._one_thread = OneThread()
        self.noise, self._prior, change = prior.given_noise, prior, self.method.change
        new = torch.full(self.runs, math.inf, dtype=torch.float64, device=prior.device)
        recent = {} if change is None else change.begin(prior)
        self._state = AgentState(prior, new, memory=self._chooser.first(self.bfm, self.runs), recent=recent)
        self.limits = as_limits(limit)
        if self.limits and self.atlas is None:
            raise ValueError("a limit needs an atlas: pass atlas=zscout.chart(bfm, env)")
        if self.atlas is not None:
            fits = isinstance(self.method.confidence, Residual) and self.method.intercept
            errors = ForecastErrors.none(prior) if fits else None
            experience = Experience.none(self.runs, self.atlas.psi)
            costs = tuple(CostBelief.begin(one, self.atlas, self.runs) for one in self.limits)
            self._state = replace(self._state, experience=experience, errors=errors, costs=costs)
        if unused := unused_gamma(self.method.acquisition, self.bfm, self.method.intercept):
            warnings.warn(unused, stacklevel=2)

    # The algorithm

    def ask(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """Z_t for S_t. Asking again at the same obs, before any new label, gives the same z."""
        if self._chooser.acts_at(self._state.t):
            raise ValueError("this method chooses actions now, not z: call act(obs) instead of ask(obs)")
        with self._one_thread:
            self._state, z = self._choose(obs)
        return z.clone()

    def _choose(self, obs: Obs) -> tuple[AgentState, Float[Tensor, "*b d"]]:
        """Z_t = argmax over Z of ψ(S_t;z)·ẑ_t + √β_t‖ψ(S_t;z)‖_{V_t⁻¹}  (eq. 5), kept for ``hold`` steps.

        The search proposes z and takes the argmax of ``method.acquisition``.
        """
        state, asked = self._state, self._asked(obs)
        with torch.no_grad():
            memory, found = self._chooser.z(
                state.memory,
                lambda: (self._problem(obs), self._streams(ASK)),
                state.last,
                state.due(self.method.hold),
            )
        z = found if found is state.last else inputs.checked_z(found, self._z_shape)
        return state.changed(**asked, memory=memory, z=z), z

    def act(self, obs: Obs) -> Action:
        """A_t ~ π(·|S_t, Z_t): a tensor if ``obs`` is a tensor, else numpy; or the explorer's action."""
        with self._one_thread:
            rng = self._streams(ACT)
            if self.exploring:
                assert isinstance(self._chooser, Exploring)
                state = self._state.changed(**self._asked(obs))
                action = as_given(self._chooser.explorer.act(state.memory, obs, self.bfm, rng), obs)
            else:
                state, z = self._choose(obs)
                action = drawn_action(self.bfm, obs, z, rng)
            self._state = state.changed(action=inputs.copied(action))
            return action

    def follow(self, obs: Obs, z: Vectors, action: Action | None = None) -> None:
        """Say which z is followed at S_t instead of asking for one; ``tell`` then learns from the step.

        The next ask chooses a new z, whatever ``hold`` says.
        """
        if not self.can_follow:
            raise ValueError("this method chooses actions or whole rollouts: it learns from its own choices only")
        with self._one_thread:
            inputs.check_observation(obs, self.bfm.observation_space, self.runs)
            last = as_vectors(z, self.bfm.dim, device=self._state.age.device).detach()
            if last.shape != self._z_shape:
                raise ValueError(f"z has shape {tuple(last.shape)}, expected {self._z_shape}")
            if torch.linalg.vector_norm(last, math.inf) > self._largest_z:
                raise ValueError(f"z has entries over {self._largest_z:.2g}, which overflow the model's dtype")
            self._state = self._state.changed(
                asked=inputs.copied(obs),
                action=None if action is None else inputs.copied(action),
                last=last.clone(),
                z=None,
                age=torch.full_like(self._state.age, math.inf),
            )

    def tell(
        self,
        next_obs: Obs,
        reward: Rewards | None = None,
        done: Flags = False,
        seen: Flags | None = None,
        cost: Rewards | Mapping[str, Rewards] | None = None,
    ) -> None:
        """(S_{t+1}, R_{t+1}): V ← V + φφᵀ, b ← b + φr, ẑ = V⁻¹b  (eq. 3); with an intercept, φ and r less their means.

        ``done``: the episode ended, terminated or truncated. ``reward=None``: no reward was seen. ``seen`` [runs]:
        which runs saw a reward. A run without a reward learns nothing from it. ``cost``: what a limit
        bounds; with several limits, a dict by their names. Of many runs, NaN is a cost that was not seen.
        """
        with self._one_thread:
            before = self._state
            if before.asked is None:
                raise ValueError("each tell needs an ask(obs) or act(obs) before it")
            inputs.check_observation(next_obs, self.bfm.observation_space, self.runs)
            ended = inputs.flags_of_runs(done, self.runs, "done").to(before.age.device)
            if cost is not None and not self.limits:
                raise ValueError("got a cost without a limit: pass limit=zscout.Limit(at_most=…) to OnlineTransfer")
            if reward is None and seen is not None:
                raise ValueError("got seen without a reward: pass both or neither")
            phi = labels = None
            if self.atlas is not None:
                phi = self.atlas.features(next_obs).detach()
            elif reward is not None:
                phi = inputs.checked_phi(self.model, next_obs, self.runs, before.asked, before.action)
            if reward is not None:
                labels = inputs.as_rewards(reward, seen, self.runs, before.age.device)
            posterior, recent, restarted = self._learned(phi, labels)
            state, due = before, before.due(self.method.hold)
            if phi is not None and self.atlas is not None:
                state = state.visited(phi, self.atlas, due, restarted)
                state = state.changed(costs=told_costs(state.costs, phi, cost, next_obs)) if self.limits else state
            after = state.after_step(inputs.copied(next_obs), posterior, recent, due, ended, restarted)
            after = after if reward is None else self._usable(after)
            self._state = self._remembered(after, next_obs, labels, ended)

    def _learned(
        self, phi: Float[Tensor, "*b d"] | None, labels: Labels | None
    ) -> tuple[TaskPosterior, Recent, Bool[Tensor, "*b"] | None]:
        """The posterior with one more reward, the rewards of the change test, and which runs it restarted."""
        state, change = self._state, self.method.change
        if phi is None or labels is None:
            return state.posterior, state.recent, None
        posterior = state.posterior.plus(phi, *labels)  # eq. 3
        if change is None:
            return posterior, state.recent, None
        together = 1.0 if state.experience is None else ALIKE
        return change(self._prior, posterior, state.recent, phi, *labels, together)

    def _remembered(
        self, after: AgentState, next_obs: Obs, labels: Labels | None, ended: Bool[Tensor, "*b"]
    ) -> AgentState:
        """The state with what the chooser remembers of this step."""
        if not self._chooser.remembers:
            return after
        assert self._state.asked is not None
        reward = None if labels is None or not torch.as_tensor(labels[1]).all() else labels[0]
        with torch.no_grad():
            memory = self._chooser.told(
                after.memory,
                self._state.asked,
                lambda: (replace(self._problem(next_obs), posterior=after.posterior), self._streams(TELL)),
                reward,
                ended,
            )
        return replace(after, memory=memory)

    def learn(self, observations: Obs, rewards: Rewards | RewardModel, seen: Flags | None = None) -> None:
        """Learn labelled pairs at any time, observations [*b m …] and rewards [*b m]: warm start or late feedback.

        ``rewards`` may be a reward model, with ``compute_reward(observations)``. ``seen`` [*b m]: which have a reward.
        """
        inputs.check_some(observations)
        phi = inputs.checked_phi(self.model, observations)
        given = rewards.compute_reward(observations) if isinstance(rewards, RewardModel) else rewards
        with self._one_thread:
            self._state = self._usable(replace(self._state, posterior=self._state.posterior.learn(phi, given, seen)))

    def credit(self, observations: Obs, reward: Rewards, by: Credit) -> None:
        """Learn a late reward of the last observations [*b m …], oldest first: r ≈ Σ wₖφ(Sₖ)·z with weights of ``by``.

        agent.credit(entered[-20:], reward, zscout.Credit(delay=2, spread=6))
        """
        inputs.check_some(observations)
        phi = inputs.checked_phi(self.model, observations)
        with self._one_thread:
            label = by.mean(phi)[..., None, :]
            rewards = as_finite(reward, "reward", phi.device)[..., None]
            self._state = self._usable(replace(self._state, posterior=self._state.posterior.learn(label, rewards)))

    def prefer(self, better: Obs, worse: Obs) -> None:
        """Learn that a person likes the first clip more; a clip [*b n …] is the observations entered along it.

        P(better) = f + (1 − 2f)/(1 + e⁻ˣ), x = s·(Φ_better − Φ_worse)·z, Φ the mean of φ over a clip. The share f of
        flipped answers and the scale s are estimated. Rewards and answers share one posterior.
        """
        if self._chooser.needs_every_reward:
            raise ValueError("this method scores rollouts by their returns, not by preferences: use usf-ucb")
        with self._one_thread:
            clips = {"the better clip": better, "the worse clip": worse}
            first, second = (clip_features(self.model, clip, self.runs, name) for name, clip in clips.items())
            new, old = difference(first, second)[..., None, :], self._state.answers
            answers = new if old is None else torch.cat([old, new], -2)
            self._state = self._usable(replace(self._state, answers=answers, sites=None))

    # Saving

    def save(self, folder: str | Path) -> None:
        """Write method, seeds and state to one file in ``folder``."""
        save_agent(self, Path(folder))

    @classmethod
    def load(
        cls,
        folder: str | Path,
        bfm: PolicySet,
        method: Method | None = None,
        atlas: Atlas | None = None,
        limit: Limit | Sequence[Limit] | None = None,
    ) -> "OnlineTransfer":
        """Load a saved agent, to continue it; pass ``method`` if it has parts from outside zscout.

        Pass the ``atlas`` that it had, unless that is the model's own, and limits whose cost is a function.
        """
        return load_agent(cls, Path(folder), bfm, method, atlas, limit)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_one_thread"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _one_thread=OneThread())  # a copy can be used by another thread

    # Parts

    def _asked(self, obs: Obs) -> dict[str, Any]:
        """The fields of the state with S_t = obs; an action chosen at another observation is dropped."""
        inputs.check_observation(obs, self.bfm.observation_space, self.runs)
        again = self._state.action is not None and inputs.same(obs, self._state.asked)
        return {"asked": inputs.copied(obs), "action": self._state.action if again else None}

    def _usable(self, state: AgentState) -> AgentState:
        """The state; raises if its ẑ overflows the model's dtype, or would with a reward far from the mean."""
        first = state.posterior
        sizes = [first.z_hat] if state.answers is None else [first.z_hat, first.noise]  # answers move ẑ by few σ
        z_hat = max(size.abs().max().item() for size in sizes)
        if z_hat >= SAFE_SHARE * self._largest_z:  # else it is found when needed
            z_hat = torch.linalg.vector_norm(state.belief.z_hat, math.inf).item()
        mean = 0.0 if first.means is None else first.means.reward.abs().max().item()
        if max(z_hat, mean) > self._largest_z:
            largest = f"{self._largest_z:.2g}"
            raise ValueError(f"ẑ has entries over {largest}, which overflow the model's dtype: scale the reward down")
        return state

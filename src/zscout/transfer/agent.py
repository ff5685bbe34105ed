"""OnlineTransfer: ask for a z, do it, tell what came of it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from zscout.edge import all_finite, as_finite, as_given, as_positive, in_range
from zscout.randomness import Streams
from zscout.transfer.constant import constant_part_of
from zscout.transfer.direct import Known
from zscout.transfer.forecast import finite
from zscout.transfer.incoming import (
    OneThread,
    check_model_kind,
    check_observation,
    copied,
    flags_of_runs,
    seeds_of_runs,
)
from zscout.transfer.method import Method
from zscout.transfer.methods import Factory, factory_named
from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.saving import method_from_json, method_to_json, read, write
from zscout.transfer.search import Problem
from zscout.transfer.state import State
from zscout.transfer.trials import Trials
from zscout.types import Action, BehaviorModel, DrawsForEachRun, Obs

ASK, TELL, ACT, PLACES = 0, 1, 2, 3  # of a step's three draws, which stream: what is drawn depends on seed and t alone


class OnlineTransfer:
    """Finds the task of a frozen model from rewards alone: at S_t ask Z_t, do it, tell S_{t+1} and R_{t+1}.

        agent = OnlineTransfer(bfm)
        z = agent.ask(obs)
        obs, reward, *_ = env.step(bfm.act(obs, z))
        agent.tell(obs, reward)

    ``runs=300`` is 300 agents in one: obs [300], z [300 d], reward [300]; run i draws from seed + i, or from the i-th
    of a list of seeds, and does what it would do alone (of models that draw their actions, those that declare
    ``DrawsForEachRun``). ``noise=None`` estimates σ; ``norm_bound`` is a bound on
    ‖z_r‖, √d if it is None. A call that raises leaves everything as it was.
    """

    def __init__(
        self,
        bfm: Any,  # a BehaviorModel
        method: Any = "usf-ucb",  # a name or a Method
        seed: int | Sequence[int] = 0,
        runs: int | None = None,
        noise: float | None = None,
        norm_bound: float | None = None,
    ) -> None:
        check_model_kind(bfm)
        self.bfm: BehaviorModel = bfm
        self.method_name = method if isinstance(method, str) else None
        self.noise = noise
        self.norm_bound = None if norm_bound is None else as_positive(norm_bound, "norm_bound")
        self.method = self._resolve(method)
        self.seeds = seeds_of_runs(seed, runs)
        self._runs = tuple(self.seeds.shape)
        self._constant = constant_part_of(bfm) if self.method.intercept else None
        example = bfm.sample_z(1, 0)
        prior = TaskPosterior.prior(
            dim=bfm.dim,
            ridge=self.method.ridge,
            noise=noise,
            forgetting=self.method.forgetting,
            intercept=self.method.intercept,
            runs=self._runs,
            device=example.device,
        )
        # Sums of squares of ẑ must be numbers of the model's, too.
        self._largest = math.sqrt(torch.finfo(example.dtype).max / bfm.dim)
        self._in_use = OneThread()
        self._state = State(prior, torch.full(self._runs, math.inf, dtype=torch.float64, device=prior.device))
        if self.method.explorer is not None:
            self._state = replace(self._state, visits=self.method.explorer.begin(bfm, self._runs))

    # The loop

    def ask(self, obs: Any) -> Float[Tensor, "*b d"]:
        """Z_t for S_t  (eq. 5); asked again without tell, it answers the same."""
        if self.exploring:
            raise ValueError("this method chooses actions now, not z: call act(obs)")
        with self._in_use:
            self._state = asked = self._asked(obs)
        assert asked.z is not None
        return asked.z.clone()

    def act(self, obs: Any) -> Action:
        """A_t ~ π(·|S_t, Z_t), or what the method's explorer does: a tensor for a tensor, else numpy."""
        with self._in_use:
            return self._acted(obs)

    def _acted(self, obs: Any) -> Action:
        if self.exploring:
            check_observation(obs, self.bfm.observation_space, self._runs)
            assert self.method.explorer is not None
            action = self.method.explorer.act(self._state.visits, obs, self.bfm, self._streams(ACT))
            self._state = replace(self._state, asked=copied(obs))
            return as_given(action, obs)
        asked, streams = self._asked(obs), self._streams(ACT)
        assert asked.z is not None
        for_each = isinstance(self.bfm, DrawsForEachRun) and self.bfm.draws_for_each_run
        first = int(streams.integers(1).flatten()[0]) & (2**62 - 1)
        one_for_all = Generator(device=asked.z.device).manual_seed(first)
        done = self.bfm.act(obs, asked.z.clone(), streams if for_each else one_for_all)
        self._state = asked
        return done

    def tell(self, next_obs: Any, reward: Any = None, done: Any = False, seen: Any = None) -> None:
        """(S_{t+1}, R_{t+1}): V ← V + φφᵀ, b ← b + φr  (eq. 3). None: no reward was seen; done: it ended.

        Of many runs, ``seen`` [runs] says whose rewards were seen, if not all were. Where none was, nothing is learned,
        and with forgetting what is known grows older all the same.
        """
        with self._in_use:
            self._state = self._told(next_obs, reward, done, seen)

    def _told(self, next_obs: Any, reward: Any, done: Any, seen: Any) -> State:
        state, search = self._state, self.method.search
        if state.asked is None:
            raise ValueError("tell came before ask: each tell wants an ask(obs) or act(obs) of its own before it")
        check_observation(next_obs, self.bfm.observation_space, self._runs)
        ended = flags_of_runs(done, self._runs, "done").to(state.age.device)
        memory, visits = state.memory, state.visits
        if reward is None:
            if seen is not None:
                raise ValueError("seen says whose rewards were seen, but no reward came: leave it out")
            posterior = state.posterior.aged()
        else:
            posterior = self._usable(state.posterior.update(self._phi_of_runs(next_obs), reward, seen))
        if isinstance(search, Trials) and memory:
            if reward is None or not (seen is None or flags_of_runs(seen, self._runs, "seen").all()):
                raise ValueError("this method scores whole rollouts: it needs every reward")
            if ended.any() and not ended.all():
                raise ValueError("rollouts of a batch go in step for this method: done must be the same for all runs")
            problem = replace(self._problem(next_obs), posterior=posterior)
            score = as_finite(reward, "reward", posterior.device)
            with torch.no_grad():
                memory = search.tell(memory, problem, score, bool(ended.all()), self._streams(TELL))
        if self.method.explorer is not None:
            visits = self.method.explorer.tell(visits, state.asked)
        age = torch.where(self._due(), 0.0, state.age) + 1
        return State(
            posterior,
            torch.where(ended, math.inf, age),
            t=state.t + 1,
            last=state.last if state.z is None else state.z,
            memory=memory,
            visits=visits,
        )

    def wants_reward(self, next_obs: Any, least: float | int = 0.5) -> bool | Bool[Tensor, " runs"]:
        """Whether a reward for S_{t+1} would teach something: its ``posterior.reward_width`` > least, for each run.

            agent.tell(obs, ask_the_person() if agent.wants_reward(obs) else None)

        σ² times the square of that width is the variance of the reward expected there, σ² that of one answer: at .5
        the place is known as well as by four answers given right there. Methods that score whole rollouts want every
        reward.
        """
        least = in_range(least, "least", 0.0, math.inf, open_end=True)
        check_observation(next_obs, self.bfm.observation_space, self._runs)
        unsure = self._state.posterior.reward_width(self._phi_of_runs(next_obs)) > least
        wanted = unsure | isinstance(self.method.search, Trials)
        return wanted if self._runs else bool(wanted)

    def learn(self, observations: Any, rewards: Any) -> None:
        """Labelled pairs at any time, observations [*b m …] and rewards [*b m]: a warm start, or late feedback."""
        phi = self._phi(observations)
        with self._in_use:
            self._state = replace(self._state, posterior=self._usable(self._state.posterior.learn(phi, rewards)))

    # What it knows

    @property
    def posterior(self) -> TaskPosterior:
        """What the rewards so far say about z_r: a copy, which may be written to."""
        return self._state.posterior.copy()

    @property
    def t(self) -> int:
        """How many times it was told."""
        return self._state.t

    @property
    def present_z(self) -> Float[Tensor, "*b d"] | None:
        """The z that was asked for or followed last; None while an explorer acts."""
        state = self._state
        z = state.last if state.z is None else state.z
        return None if self.exploring or z is None else z.clone()

    @property
    def z_hat(self) -> Float[Tensor, "*b d"]:
        """ẑ_t, the estimate of z_r, not projected."""
        return self._state.posterior.z_hat.clone()

    @property
    def best_z(self) -> Float[Tensor, "*b d"]:
        """The z to keep if nothing more could be learned: ẑ projected to Z, or what a policy search has settled for."""
        search = self.method.search
        if isinstance(search, Trials) and self._state.memory:
            return search.best(self._state.memory).clone()
        if isinstance(search, Known):
            return search.best(self.bfm, self._state.posterior)
        z_hat = self.z_hat if self._constant is None else self._constant.removed_from(self.z_hat)
        return self.bfm.project_z(z_hat).double()

    @property
    def radius(self) -> Float[Tensor, "*b"]:
        """√β_t, as it is now."""
        posterior = self._state.posterior
        radius = as_finite(self.method.confidence(self.t, posterior), "the radius", posterior.device)
        if (radius < 0).any() or tuple(radius.shape) not in ((), self._runs):
            raise ValueError(f"the radius must be at least 0, one number or one for each run, got {radius}")
        return radius.expand(self._runs)

    @property
    def exploring(self) -> bool:
        """Whether the next action is an explorer's and not a z's."""
        method = self.method
        return method.explorer is not None and (method.explore_for is None or self.t < method.explore_for)

    @property
    def wants_reset(self) -> bool:
        """Whether the method asks to begin its next rollout at the common start."""
        search, memory = self.method.search, self._state.memory
        return isinstance(search, Trials) and bool(memory) and search.wants_reset(memory)

    # Keeping it

    def save(self, folder: str | Path) -> None:
        """Method, seeds and state, in one file of that folder."""
        description = {
            "name": self.method_name,
            "method": method_to_json(self.method),
            "ridge": self.method.ridge,
            "forgetting": self.method.forgetting,
            "intercept": self.method.intercept,
            "noise": self.noise,
            "norm_bound": self.norm_bound,
            "dim": self.bfm.dim,
            "runs": self._runs[0] if self._runs else None,
            "state": self._state.numbers(),
        }
        write(Path(folder), description, {"seeds": self.seeds} | self._state.tensors())

    @classmethod
    def load(cls, folder: str | Path, bfm: BehaviorModel, method: Method | None = None) -> "OnlineTransfer":
        """An agent that goes on as if it had never stopped; ``method`` if it was built from pieces of your own."""
        description, tensors = read(Path(folder))
        try:
            found = method or method_from_json(description["method"])
            if found is None:
                raise ValueError("its method has pieces that are not zscout's own: pass method=")
            for piece in ("ridge", "forgetting", "intercept"):
                if getattr(found, piece) != description[piece]:
                    raise ValueError(f"it learned with {piece} = {description[piece]}, this method has another")
            if description["dim"] != bfm.dim:
                raise ValueError(f"it was saved with a model of {description['dim']} features, this one has {bfm.dim}")
            seeds, runs = tensors.pop("seeds"), description["runs"]
            seed = int(seeds) if runs is None else seeds.tolist()
            agent = cls(bfm, found, seed, runs, description["noise"], description["norm_bound"])
            agent.method_name = description["name"]
            agent._state = agent._state.restored(description["state"], tensors)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise ValueError(f"the agent in {folder} cannot be restored: {error}") from error
        return agent

    # How

    def _resolve(self, method: object) -> Method:
        if isinstance(method, Method):
            return method
        if not isinstance(method, str):
            hint = ": call it, METHODS[name](dim=…)" if isinstance(method, Factory) else ""
            raise ValueError(f"method must be a name or a Method, got {type(method).__name__}{hint}")
        return factory_named(method)(dim=self.bfm.dim, noise=self.noise, norm_bound=self.norm_bound)

    def _asked(self, obs: Any) -> State:
        check_observation(obs, self.bfm.observation_space, self._runs)
        state, search = self._state, self.method.search
        if isinstance(search, Trials):
            with torch.no_grad():
                memory = state.memory or search.begin(self._problem(obs), self._streams(ASK))
            return replace(state, memory=memory, z=search.current(memory), asked=copied(obs))
        due = self._due()
        z = state.last
        if z is None or due.any():
            with torch.no_grad():
                found = _finite_z(search(self._problem(obs), self._streams(ASK)))
            z = found if z is None else torch.where(due[..., None], found, z)
        return replace(state, z=z, asked=copied(obs))

    def _due(self) -> Bool[Tensor, "*b"]:
        """For which runs the last z has been followed long enough."""
        hold = self.method.hold
        return self._state.age >= (math.inf if isinstance(hold, str) else hold)

    def _problem(self, obs: Any) -> Problem:
        state = self._state
        return Problem(obs, self.bfm, state.posterior, self.radius, self.method.acquisition, state.last, self._constant)

    def _streams(self, which: int) -> Streams:
        return Streams(self.seeds.to(self._state.posterior.device), PLACES * self.t + which)

    def _usable(self, posterior: TaskPosterior) -> TaskPosterior:
        """The posterior, if ẑ can be given to the model."""
        if torch.linalg.vector_norm(posterior.z_hat, math.inf) > self._largest:
            raise ValueError(
                f"ẑ would have entries over {self._largest:.2g}, whose squares the model's numbers cannot hold: scale "
                "the reward"
            )
        return posterior

    def _phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        return finite(self.bfm.phi(obs).detach(), "φ")

    def _phi_of_runs(self, obs: Obs) -> Float[Tensor, "*b d"]:
        phi = self._phi(obs)
        if tuple(phi.shape[:-1]) != self._runs:
            raise ValueError(f"the model's φ has shape {tuple(phi.shape)}, {[*self._runs, self.bfm.dim]} is wanted")
        return phi


def _finite_z(z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    if not all_finite(z):
        raise ValueError("the search came to a z that holds NaN or inf")
    return z.detach().double()

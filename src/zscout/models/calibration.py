"""Wrap a model to centre and whiten its features, so that one prior on tasks fits every model."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import all_finite, as_discount, as_vectors
from zscout.base.types import (
    Action,
    BehaviorModel,
    DrawsForEachRun,
    FitsToSample,
    HasDiscount,
    HasExactPsi,
    HasHeads,
    HasHorizons,
    HasMomentDiscount,
    HasMoments,
    HasPsiTable,
    HasSecondMoment,
    HasStates,
    HasTaskPrior,
    HasTransitionFeatures,
    Obs,
    SamplesForEachRun,
    Vectors,
)
from zscout.models.sphere import project_sphere

WELL_CONDITIONED = 1e-8  # smallest ÷ largest variance above which C^{-1/2} is accurate
NO_VARIANCE = 1e-6  # relative to a feature's size: directions that vary less are dropped


def calibrated(model: Any, observations: Any = None) -> "Calibrated":
    """The model with features φ′ = C^{-1/2}(φ − φ̄); mean and covariance are over observations [m …].

    Default moments: the model's ``feature_moments()``, or φ of all ``states()``. For a model with transition features,
    pass (observations, actions, next observations). Directions in which φ does not vary, such as a constant, are
    dropped. The result is a BehaviorModel with the same optional abilities (M only if the model
    also has ``psi_at``); ``to_z`` maps its tasks to the model's z.

        agent = OnlineTransfer(calibrated(bfm, observations))
    """
    if not isinstance(model, BehaviorModel) or isinstance(model, type):
        raise ValueError(f"{type(model).__name__} is not a BehaviorModel: run zscout.check_model(model)")
    if not isinstance(model, HasDiscount):
        raise ValueError(f"{type(model).__name__} has no gamma, which centring ψ needs: ψ − φ̄/(1 − γ)")
    if observations is not None and isinstance(model, FitsToSample):
        model = model.fitted(observations)
    mean, covariance = _moments(model, observations)
    members: dict[str, Any] = {"__doc__": Calibrated.__doc__}
    for needed, extra in _EXTRAS.items():
        if all(isinstance(model, one) for one in needed):
            members |= extra
    kind: type[Calibrated] = type("Calibrated", (Calibrated,), members)
    return kind(model, mean, covariance)


def _moments(model: BehaviorModel, observations: Any) -> tuple[Tensor, Tensor]:
    if observations is None and isinstance(model, HasMoments):
        mean, covariance = (part.double() for part in model.feature_moments())
        if tuple(mean.shape) != (model.dim,) or tuple(covariance.shape) != (model.dim, model.dim):
            raise ValueError(
                f"feature_moments() has shapes {tuple(mean.shape)} and {tuple(covariance.shape)}, d = {model.dim}"
            )
        if not (all_finite(mean) and all_finite(covariance)):
            raise ValueError("feature_moments() of this model holds NaN or inf")
        return mean, covariance
    of_transition = model.phi_of_transition if isinstance(model, HasTransitionFeatures) else None
    if of_transition and not (isinstance(observations, tuple) and len(observations) == 3):
        raise ValueError(
            f"{type(model).__name__} has transition features: pass a sample of transitions, (observations, actions, "
            "next observations)"
        )
    if observations is None:
        if not isinstance(model, HasStates):
            raise ValueError(
                f"{type(model).__name__} has no feature_moments() and no states(): pass a sample of observations"
            )
        observations = model.states()
    with torch.no_grad():
        phi = (of_transition(*observations) if of_transition else model.phi(observations)).double()
    if phi.ndim != 2 or len(phi) < 2:
        raise ValueError(f"expected a list of at least 2 observations, got φ of shape {tuple(phi.shape)}")
    if not all_finite(phi):
        raise ValueError("φ of these observations holds NaN or inf: run zscout.check_model(model)")
    return phi.mean(0), torch.cov(phi.mT, correction=0).reshape(model.dim, model.dim)


def whitening(mean: Float[Tensor, " d"], covariance: Float[Tensor, "d d"]) -> Float[Tensor, "k d"]:
    """A with A C Aᵀ = I: C^{-1/2}; if C is (nearly) singular, one row for each direction that varies.

    Directions without variance are found on standardised features, so the unit of a feature does not matter.
    """
    deviation = covariance.diagonal().clamp(min=0).sqrt()
    varies = deviation > NO_VARIANCE * (deviation**2 + mean**2).sqrt()
    if not varies.any():
        raise ValueError("φ is the same for all of these observations: pass observations in which φ varies")
    unit = deviation[varies]
    variances, directions = torch.linalg.eigh(covariance[varies][:, varies] / unit[:, None] / unit)
    kept = variances > NO_VARIANCE
    if bool(varies.all()) and bool(kept.all()):
        raw, turned = torch.linalg.eigh(covariance)
        if raw[0] > WELL_CONDITIONED * raw[-1]:
            root: Tensor = turned / raw.sqrt() @ turned.mT
            return root
    A = torch.zeros(int(kept.sum()), len(mean)).to(covariance)
    A[:, varies] = (directions[:, kept] / variances[kept].sqrt() / unit[:, None]).mT
    return A


class Calibrated:
    """A model with centred, whitened features: φ′ = A(φ − φ̄), ψ′ = A(ψ − φ̄/(1 − γ)), and z = Aᵀw, projected.

    A is C^{-1/2}. If directions without variance were dropped, the rows of A are the others, each divided by its
    standard deviation. A task w is the reward φ′·w, whose mean over the sample is 0.
    """

    def __init__(self, model: Any, mean: Float[Tensor, " d"], covariance: Float[Tensor, "d d"]) -> None:
        self.model = model
        self.observation_space, self.action_space = model.observation_space, model.action_space
        self.mean = mean
        self.whitening: Float[Tensor, "k d"] = whitening(mean, covariance)  # A
        self.dim = len(self.whitening)  # k, the number of directions that vary
        self._unwhitening: Tensor = torch.linalg.pinv(self.whitening)  # [d k]

    @property
    def gamma(self) -> float:
        """The model's γ."""
        return as_discount(self.model.gamma)

    def phi(self, obs: Obs) -> Float[Tensor, "*b k"]:
        """φ′(s) = A(φ(s) − φ̄)."""
        phi: Tensor = self.model.phi(obs).double()
        return (phi - self.mean) @ self.whitening.mT

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n k"]:
        """ψ′(s;w)."""
        return self._whitened(self.model.psi(obs, self.to_z(z, candidates=True)), self.gamma)

    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        """A ~ π(·|s,z) with the model's z."""
        action: Action = self.model.act(obs, self.to_z(z), rng)
        return action

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n k"]:
        """The model's draws, as tasks of the whitened features."""
        return self._from_z(self.model.sample_z(n, rng))

    def project_z(self, z: Vectors) -> Float[Tensor, "*b k"]:
        """z projected to the sphere of radius √k; 0 maps to (1, …, 1)."""
        return project_sphere(self._w(z))

    def feature_moments(self) -> tuple[Float[Tensor, " k"], Float[Tensor, "k k"]]:
        """Mean 0 and covariance I, by construction."""
        eye = torch.eye(self.dim).to(self.whitening)
        return torch.zeros_like(eye[0]), eye

    def to_z(self, z: Vectors, candidates: bool = False) -> Float[Tensor, "*b d"]:
        """The model's z for tasks w: Aᵀw, projected."""
        own: Tensor = self.model.project_z(self._w(z, candidates) @ self.whitening)
        return own

    def _w(self, z: Vectors, candidates: bool = False) -> Float[Tensor, "*b k"]:
        return as_vectors(z, self.dim, device=self.whitening.device, candidates=candidates)

    def _from_z(self, z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b k"]:
        return project_sphere(z.double() @ self._unwhitening)

    def _whitened(self, psi: Float[Tensor, "*b d"], gamma: float) -> Float[Tensor, "*b k"]:
        return (psi.double() - self.mean / (1 - gamma)) @ self.whitening.mT


# Optional abilities of models


def _phi_of_transition(self: Calibrated, obs: Obs, action: Action | None, next_obs: Obs) -> Float[Tensor, "*b k"]:
    """φ′ of a transition."""
    phi: Tensor = self.model.phi_of_transition(obs, action, next_obs).double()
    return (phi - self.mean) @ self.whitening.mT


def _psi_heads(self: Calibrated, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n k"]:
    """ψ′ of each head."""
    return self._whitened(self.model.psi_heads(obs, self.to_z(z, candidates=True)), self.gamma)


def _psi_at(self: Calibrated, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n k"]:
    """ψ′ at another discount."""
    return self._whitened(self.model.psi_at(obs, self.to_z(z, candidates=True), gamma), gamma)


def _psi_table(self: Calibrated, z: Vectors) -> Float[Tensor, "S n k"]:
    """ψ′ of every state."""
    return self._whitened(self.model.psi_table(self.to_z(z, candidates=True)), self.gamma)


def _second_moment(self: Calibrated, obs: Obs, z: Vectors, gamma: float) -> Float[Tensor, "*b n k k"]:
    """M of φ′: A(M − ψφ̄ᵀ − φ̄ψᵀ + φ̄φ̄ᵀ/(1 − γ))Aᵀ."""
    own, mean, A = self.to_z(z, candidates=True), self.mean, self.whitening
    cross = self.model.psi_at(obs, own, gamma).double()[..., :, None] * mean
    M = self.model.second_moment(obs, own, gamma).double()
    centred: Tensor = M - cross - cross.mT + mean[:, None] * mean / (1 - gamma)
    return A @ centred @ A.mT


def _task_covariance(self: Calibrated) -> Float[Tensor, "k k"] | None:
    """The model's prior over tasks, for tasks of φ′."""
    own = self.model.task_covariance()
    return None if own is None else self._unwhitening.mT @ own.double() @ self._unwhitening


def _sample_z_each(self: Calibrated, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n k"]:
    """The model's draws for many runs."""
    return self._from_z(self.model.sample_z_each(n, rngs))


_EXTRAS: dict[tuple[type, ...], dict[str, Any]] = {
    (HasTaskPrior,): {"task_covariance": _task_covariance},
    (HasHeads,): {"psi_heads": _psi_heads},
    (HasTransitionFeatures,): {"phi_of_transition": _phi_of_transition},
    (HasHorizons,): {"psi_at": _psi_at},
    (HasSecondMoment, HasHorizons): {"second_moment": _second_moment},
    (HasPsiTable,): {"psi_table": _psi_table},
    (HasMomentDiscount,): {"moment_gamma": property(lambda self: self.model.moment_gamma)},
    # ``Problem.fresh`` requires both in the same class.
    (SamplesForEachRun,): {"sample_z": Calibrated.sample_z, "sample_z_each": _sample_z_each},
    (HasStates,): {"states": lambda self: self.model.states()},
    (DrawsForEachRun,): {"draws_for_each_run": property(lambda self: bool(self.model.draws_for_each_run))},
    (HasExactPsi,): {"psi_is_exact": property(lambda self: bool(self.model.psi_is_exact))},
}

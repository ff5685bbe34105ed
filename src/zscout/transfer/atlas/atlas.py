"""An atlas: what each of N behaviours visits, measured once, before any task."""

import hashlib
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.edge import LARGEST_COUNT, as_finite
from zscout.base.files import parsed, read_headed, write_headed
from zscout.base.packing import by_columns, unpacked
from zscout.base.types import Obs, Vectors
from zscout.transfer.atlas.behaviours import columns, names_of
from zscout.transfer.atlas.features import Map, RichFeatures
from zscout.transfer.belief.posterior import TaskPosterior
from zscout.transfer.constants import ATLAS_RIDGES, HOLD_SHARE, SETTLED, STEADY

FILE, FORMAT = "atlas.safetensors", 3
LARGEST_FILE = 2**28  # bytes
KEPT_OBSERVATIONS = 4_096  # visited observations that are kept, for ``values``
UNROUNDED_ENTRIES = 16_384  # entries: smaller tables are stored as they are
SAME_FEATURES = 1e-2  # the features of one observation agree within this if the model is the same

Reward = Callable[[Any], Any]  # observations [m o] → rewards [m]


@dataclass(frozen=True, eq=False)
class Atlas:
    """N behaviours and their measured consequences: ψ is the mean of the features over the states that each visits.

    Rows with the same z are one behaviour, with one ψ, the mean of theirs.

    atlas = zscout.chart(bfm, env)
    z = atlas.best(lambda obs: obs[:, 0] > 1.2)    # any reward: it need not be linear in φ
    agent = zscout.OnlineTransfer(bfm, atlas=atlas)
    """

    z: Float[Tensor, "N d"]
    psi: Float[Tensor, "N D"]
    sample: Float[Tensor, "m o"]  # visited observations
    start_share: float  # share of the variance of consequences that the start decides: 0 … 1
    settling: float  # steps that a behaviour needs to reach its mean consequences, after a switch
    map: Map  # obs → features
    digest: str  # of z and ψ as they were measured; a saved agent names its atlas by it
    names: tuple[str, ...] | None = None  # of the entries of z, if these are ``Behaviours``

    def __post_init__(self) -> None:
        first, number = self.distinct
        if not torch.equal(self.psi, self.psi[first][number]):
            object.__setattr__(self, "psi", _means(self.psi, number)[number])

    # Use

    @cached_property
    def distinct(self) -> tuple[Int[Tensor, " K"], Int[Tensor, " N"]]:
        """The first row of each behaviour, and the number of each row's: rows with the same z are one."""
        return _in_order(self.z)

    @property
    def dim(self) -> int:
        """D, the number of features."""
        return self.psi.shape[1]

    @property
    def hold(self) -> int:
        """Steps for which an agent follows a z: half of the settling time."""
        return max(1, round(HOLD_SHARE * self.settling))

    @property
    def is_steady(self) -> bool:
        """Whether z decides more of what a behaviour does than the start: then an agent needs no ψ of the start."""
        return self.start_share < STEADY

    def features(self, obs: Obs) -> Float[Tensor, "*b D"]:
        """The features of observations [*b o], in float64."""
        found = features_of(self.map, obs, self.psi.device)
        if found.shape[-1] != self.dim:
            raise ValueError(f"features(obs) has {found.shape[-1]} entries, this atlas has {self.dim} features")
        return found

    def values(self, reward: Reward) -> Float[Tensor, " N"]:
        """The expected reward per step of each behaviour, for any reward that is a function of observations [m o].

        The reward is evaluated on the visited observations that the atlas keeps, and fitted by the features.
        """
        labels = as_finite(reward(self.sample.clone()), "the reward", self.psi.device)
        if labels.shape != self.sample.shape[:1]:
            raise ValueError(f"the reward has shape {tuple(labels.shape)}, expected one for each of {len(self.sample)}")
        return self.values_of_labels(self.sample, labels)

    def values_of_labels(self, observations: Obs, rewards: Vectors) -> Float[Tensor, " N"]:
        """The expected reward per step of each behaviour, from labelled observations."""
        prior = TaskPosterior.prior(
            dim=self.dim, ridge=ATLAS_RIDGES, noise=None, intercept=True, device=self.psi.device
        )
        belief = prior.learn(self.features(observations), rewards).with_likely_prior
        return belief.reward(self.psi)

    def best(self, reward: Reward) -> Float[Tensor, " d"]:
        """The z with the highest value."""
        return self.z[self.values(reward).argmax()].clone()

    def index_of(self, z: Float[Tensor, "*b d"]) -> Int[Tensor, "*b"]:
        """The first row of each z; −1 if it is not in the atlas."""
        same = (z[..., None, :] == self.z.to(z)).all(-1)
        return torch.where(same.any(-1), same.to(torch.uint8).argmax(-1), -1)

    def to(self, device: torch.device | str) -> "Atlas":
        """The atlas on another device."""
        found = copy(self)
        vars(found).update({name: getattr(self, name).to(device) for name in ("z", "psi", "sample")})
        vars(found)["distinct"] = tuple(part.to(device) for part in self.distinct)
        vars(found)["map"] = self.map.to(device) if isinstance(self.map, RichFeatures) else self.map
        return found

    def for_model(self, bfm: object) -> "Atlas":
        """The atlas with the entries of z in the order of these behaviours; raises if others are named."""
        order = columns(self.names, bfm, "the atlas")
        return self if order is None else replace(self, z=self.z[:, order], names=names_of(bfm))

    def __repr__(self) -> str:
        return f"Atlas({len(self.z)} behaviours, {self.dim} features, start_share {self.start_share:.2f})"

    # Making

    @classmethod
    def from_rollouts(
        cls, z: Vectors, observations: Any, *, bfm: object = None, features: Map | None = None, seed: int = 0
    ) -> "Atlas":
        """From logs: z [n d], and for each the observations that were entered, [n steps o] or a list of [steps o].

        The same z may come several times, from different starts. ``bfm`` adds its φ and goal features.
        """
        each = as_finite(z, "z").float()
        paths = [_path(path, number) for number, path in enumerate(observations)]
        if each.ndim != 2 or len(each) != len(paths) or not paths:
            raise ValueError(f"z has shape {tuple(each.shape)}, expected [n d], one z for each of {len(paths)} paths")
        if len({path.shape[1] for path in paths}) > 1:
            raise ValueError("the observations of the paths differ in their number of entries")
        rng = Generator().manual_seed(seed)
        everything = torch.cat(paths)
        sample = everything[torch.randperm(len(everything), generator=rng)[:KEPT_OBSERVATIONS]]
        own = RichFeatures.of(bfm, sample, seed) if features is None else features
        first, row = _in_order(each)
        means, curves = [], []
        with torch.no_grad():
            for path in paths:
                f = features_of(own, path)
                means.append(f[round(SETTLED * len(f)) :].mean(0))
                curves.append((f - means[-1]).square().sum(-1))
        found = assembled(each[first], row, torch.stack(means), sample, _typical(curves), own)
        return replace(found, names=names_of(bfm))

    # Files

    def save(self, folder: str | Path) -> Path:
        """Write one safetensors file; large tables in 8 bits, with a centre and a scale for each column."""
        rich = self.map if isinstance(self.map, RichFeatures) else None
        tables = {"z": self.z, "psi": self.psi, "sample": self.sample}
        about = {
            "format": FORMAT,
            "start_share": self.start_share,
            "settling": self.settling,
            "digest": self.digest,
            "names": self.names,
            "features": "own" if rich is None else "rich",
            "phi": rich is not None and rich.phi is not None,
        }
        tensors = {"check.obs": self.sample[0].float(), "check": self.features(self.sample[0]).float()}
        for name, table in tables.items():
            centre = table.mean(0) if table.numel() > UNROUNDED_ENTRIES else torch.zeros_like(table[0])
            apart = (table - centre).float()
            tensors |= by_columns(name, apart) if table.numel() > UNROUNDED_ENTRIES else {name: apart}
            tensors[f"{name}.centre"] = centre.float()
        tensors |= {} if rich is None else rich.tensors()
        write_headed(Path(folder) / FILE, "atlas", about, tensors)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, bfm: object = None, *, features: Map | None = None) -> "Atlas":
        """Load an atlas; pass its model if its features use φ or goal features, or its own ``features``."""
        path = Path(folder) / FILE
        try:
            about, tensors = _read(path)
            place = None if bfm is None else bfm.sample_z(1, 0).device  # type: ignore[attr-defined]
            tensors = {name: tensor.to(place) for name, tensor in tensors.items()}
            z, psi, sample = (tensors[name].double() + tensors[f"{name}.centre"] for name in ("z", "psi", "sample"))
            numbers = {name: float(about[name]) for name in ("start_share", "settling")}
            _check(z, psi, sample, numbers)
            if about["format"] < FORMAT and len(psi) > 1 and bool((psi == psi[0]).all()):  # it has no checksum
                raise ValueError("ψ is the same for all behaviours")
            own = features
            if own is None:
                if about["features"] != "rich":
                    raise ValueError("it has features of your own: pass features=")
                own = RichFeatures.restored(tensors, bfm, uses_phi=about["phi"] is True)
            names = about.get("names") and parsed(about["names"], tuple[str, ...], "names")
            if names and len(names) != z.shape[1]:
                raise ValueError(f"it has {len(names)} names for z of {z.shape[1]} entries")
            digest = parsed(about["digest"], str, "digest")
            found = cls(z.float(), psi, sample.float(), **numbers, map=own, digest=digest, names=names)
            if bfm is not None:
                found = found.for_model(bfm)
                if z.numel() > UNROUNDED_ENTRIES:  # rounded: back to Z
                    found = replace(found, z=bfm.project_z(found.z).float())  # type: ignore[attr-defined]
            came, wanted = found.features(tensors["check.obs"]), tensors["check"].double()
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
            raise ValueError(f"cannot load the atlas in {folder}: {error}") from None
        if came.shape != wanted.shape or float((came - wanted).abs().max()) > SAME_FEATURES:
            raise ValueError(f"the atlas in {folder} is of another model: its features differ")
        return found


def features_of(own: Map, observations: Obs, device: torch.device | None = None) -> Float[Tensor, "*b D"]:
    """The features of observations [*b o] by any map, in float64; raises unless they are finite, [*b D]."""
    given = as_finite(observations, "observations", device).float()
    found = as_finite(own(given), "features(obs)", device)
    if found.ndim != given.ndim or found.shape[:-1] != given.shape[:-1]:
        raise ValueError(f"features(obs) has shape {tuple(found.shape)} for observations {tuple(given.shape)}")
    return found


def assembled(
    z: Float[Tensor, "N d"],
    row: Int[Tensor, " n"],
    means: Float[Tensor, "n D"],
    sample: Float[Tensor, "m o"],
    curve: Float[Tensor, " t"],
    features: Map,
    every: int = 1,
) -> Atlas:
    """The atlas of n paths, each with its row of z and the mean of its features; ``curve``: ``settling_time``.

    What was measured little is shrunk towards the mean of all behaviours: ψ = ψ̄ + s(ψ − ψ̄), with s the share of
    variance that is not noise of the starts (James and Stein). One start for each z cannot tell: the share is then 1.
    """
    number = _in_order(z)[1].to(row.device)
    row = number[row]
    count, psi = row.bincount().to(means), _means(means, row)
    between_starts = (means - psi[row]).square().sum(-1)
    repeated = count > 1
    free = (count - 1).clamp(min=1)
    noise = torch.zeros_like(count).index_add_(0, row, between_starts) / free  # variance between starts of each z
    typical = noise[repeated].mean() if repeated.any() else noise.new_zeros(())
    noise = torch.where(repeated, noise, typical)
    centre = psi.mean(0)
    spread = (psi - centre).square().sum(-1).mean()  # between behaviours, with the noise of their means
    true = (spread - (noise / count).mean()).clamp(min=0)
    kept = true / (true + noise / count).clamp(min=1e-30)
    share = float(typical / (typical + true).clamp(min=1e-30)) if repeated.any() else 1.0
    psi = (centre + kept[:, None] * (psi - centre))[number]
    digest = hashlib.sha256(b"".join(part.cpu().float().numpy().tobytes() for part in (z, psi))).hexdigest()[:16]
    return Atlas(z, psi, sample, share, settling_time(curve, every), features, digest)


def settling_time(curve: Float[Tensor, " t"], every: int = 1) -> float:
    """Steps from a start to the mean consequences, of ‖f(S_t) − ψ‖² by steps: the area above its second half."""
    later = curve[len(curve) // 2 :].mean()
    above = (curve - later).clamp(min=0)
    return float(every * above.sum() / above[0]) if above[0] > 0 else float(every)


def _typical(curves: list[Float[Tensor, " t"]]) -> Float[Tensor, " t"]:
    """The mean of the curves, without those shorter than the settling time of the others."""
    for shortest in sorted(set(map(len, curves)))[:-1]:
        longer = [curve for curve in curves if len(curve) > shortest]
        mean = _by_steps(longer)
        if shortest >= min(settling_time(mean), len(mean) / 2):  # the second half counts as settled
            break
        curves = longer
    return _by_steps(curves)


def _by_steps(curves: list[Float[Tensor, " t"]]) -> Float[Tensor, " t"]:
    """The mean, at each step over the curves that are as long."""
    steps = torch.cat([torch.arange(len(curve)) for curve in curves])
    return _means(torch.cat(curves)[:, None], steps)[:, 0]


def _in_order(z: Float[Tensor, "n d"]) -> tuple[Int[Tensor, " K"], Int[Tensor, " n"]]:
    """The first row of each distinct z, in order, and the number of each row's z among these; −0 is 0."""
    same = (z.float() + 0.0).unique(dim=0, return_inverse=True)[1]
    first = torch.full_like(same, len(z)).scatter_reduce(0, same, torch.arange(len(z)).to(same), "amin")
    found: tuple[Tensor, Tensor] = first[same].unique(return_inverse=True)
    return found


def _means(values: Float[Tensor, "n D"], row: Int[Tensor, " n"]) -> Float[Tensor, "K D"]:
    """The mean of the values of each row."""
    count = row.bincount().to(values)
    return torch.zeros(len(count), values.shape[1]).to(values).index_add_(0, row, values) / count[:, None]


def _path(path: Any, number: int) -> Float[Tensor, "steps o"]:
    rows = as_finite(path, f"the observations of path {number}").float()
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"the observations of path {number} have shape {tuple(rows.shape)}, expected [steps o]")
    return rows


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{FILE} has {path.stat().st_size:,} bytes, expected at most {LARGEST_FILE:,}")
    about, tensors = read_headed(path, "atlas", FORMAT)
    tensors = unpacked(tensors, FILE)
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or not torch.isfinite(tensor).all():
            raise ValueError(f"{name} is {tensor.dtype} or not finite, expected finite float32")
    return about, tensors


def _check(z: Tensor, psi: Tensor, sample: Tensor, numbers: dict[str, float]) -> None:
    if any(table.ndim != 2 or not table.numel() for table in (z, psi, sample)) or len(z) != len(psi):
        raise ValueError(f"z {tuple(z.shape)}, psi {tuple(psi.shape)} and sample {tuple(sample.shape)} do not match")
    if not 0 <= numbers["start_share"] <= 1 or not 0 <= numbers["settling"] <= LARGEST_COUNT:
        raise ValueError(f"its numbers are invalid: {numbers}")

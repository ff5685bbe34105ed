"""ψ of a fixed set of z in every state of a finite world, computed once for each model."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.edge import as_index
from zscout.transfer.forecast import Forecast, finite
from zscout.types import BehaviorModel, HasStates, Obs

COLUMNS = 3  # that a table keeps, ψ among them
SAME = 1e-9  # rows of ψ nearer than this, relative to the largest entry, are one row


class Table:
    """N random z of a model, and what it says of them in every state; rows that are equal at a state stand once.

    States differ in how many distinct rows they have: shorter ones are filled up with their own first row, which can
    win no score that it would not have won anyway. The model itself is not kept, so that it can be forgotten.
    """

    def __init__(self, model: BehaviorModel, n: int, seed: int) -> None:
        if not isinstance(model, HasStates):
            raise ValueError(f"{type(model).__name__} has no states(): a bank is for finite worlds")
        self.states = model.states()
        self.bank: Float[Tensor, "n d"] = model.sample_z(n, torch.Generator().manual_seed(seed)).double()
        psi = self._ask(model.psi)
        self.rows: Int[Tensor, "S m"] = distinct_rows(psi)
        self.z: Float[Tensor, "S m d"] = self.bank[self.rows]
        self._columns: dict[Any, Tensor] = {"psi": self._kept(psi)}

    def column(self, key: Any, ask_model: Callable[[Obs, Tensor], Tensor]) -> Float[Tensor, "S m *shape"]:
        """What the model says of the kept rows; it is asked once, while not too many other things are asked."""
        if key not in self._columns:
            if len(self._columns) == COLUMNS:  # second moments are large
                del self._columns[next(name for name in self._columns if name != "psi")]
            self._columns[key] = self._kept(self._ask(ask_model))
        return self._columns[key]

    def forecast(self, model: BehaviorModel, obs: Obs) -> Forecast:
        """The candidates that differ at obs, and what follows from them."""
        state = as_index(obs, len(self.states), "observation", self.bank.device)
        return _Tabulated(model, obs, self.z[state], table=self, state=state)

    def _ask(self, ask_model: Callable[[Obs, Tensor], Tensor]) -> Float[Tensor, "S n *shape"]:
        with torch.no_grad():
            return finite(ask_model(self.states, self.bank))

    def _kept(self, column: Float[Tensor, "S n *shape"]) -> Float[Tensor, "S m *shape"]:
        return column[torch.arange(len(column), device=column.device)[:, None], self.rows]


@dataclass(frozen=True, eq=False)
class _Tabulated(Forecast):
    """A forecast that looks up what others compute."""

    table: Table | None = None
    state: Tensor | None = None

    def _once(self, key: Any, ask_model: Callable[[Obs, Tensor], Tensor]) -> Tensor:
        assert self.table is not None
        if key not in self._seen:
            self._seen[key] = self.table.column(key, ask_model)[self.state]
        return self._seen[key]


def table_of(model: BehaviorModel, n: int, seed: int) -> Table:
    """The model's table, made when it is first wanted; models are frozen, so it stays true."""
    if id(model) not in _TABLES:
        _TABLES[id(model)] = {}
        weakref.finalize(model, _TABLES.pop, id(model), None)
    tables = _TABLES[id(model)]
    if (n, seed) not in tables:
        tables[n, seed] = Table(model, n, seed)
    return tables[n, seed]


_TABLES: dict[int, dict[tuple[int, int], Table]] = {}  # by identity: anyone's model need not be hashable


def distinct_rows(psi: Float[Tensor, "S n d"]) -> Int[Tensor, "S m"]:
    """For each state, which of the n rows to keep so that all others equal one of them."""
    # Rows are compared by two random projections: sorted by the first, equal ones are neighbours.
    directions = torch.randn(psi.shape[-1], 2, generator=torch.Generator().manual_seed(0), dtype=psi.dtype)
    shadow = psi @ directions.to(psi.device)  # [S n 2]
    near = SAME * shadow.abs().amax((1, 2), keepdim=True)
    order = shadow[..., 0].argsort(dim=1, stable=True)
    shadow = shadow.gather(1, order[..., None].expand_as(shadow))
    new = torch.ones_like(order, dtype=torch.bool)
    new[:, 1:] = (shadow.diff(dim=1).abs() > near).any(-1)
    rank = new.cumsum(1) - 1
    rows = order[:, :1].repeat(1, int(rank.max()) + 1)
    state, place = new.nonzero(as_tuple=True)
    rows[state, rank[state, place]] = order[state, place]
    return rows

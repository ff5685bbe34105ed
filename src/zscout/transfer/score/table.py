"""ψ of a fixed set of z in every state of a finite world, computed once per model."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.base.edge import as_index
from zscout.base.types import BehaviorModel, HasPsiTable, HasStates, Obs
from zscout.transfer.inputs import checked_output, finite
from zscout.transfer.offline import ConstantPart
from zscout.transfer.score.forecast import AskModel, Both, Centre, Forecast, Numbers, once_per_model, value_and_width

CACHED_BYTES = 2**27  # bytes of cached single rows
CACHED_COLUMNS = 3  # cached columns, including ψ
ROWS_AT_ONCE = 8192  # of ψ that are scored together
FEWEST_TOGETHER = 2  # runs: if fewer fit, they are scored one by one
DUPLICATE_ROWS = 1e-9  # rows of ψ closer than this, relative to the largest entry, are duplicates


class Table:
    """n random z and the model's outputs for them in every state, without duplicate rows.

    States differ in the number m of distinct rows. Shorter ones are padded with their first row, which cannot change
    the argmax. The table holds no reference to the model, so the model can be garbage collected.
    """

    def __init__(self, model: BehaviorModel, n: int, seed: int, constant: ConstantPart | None = None) -> None:
        if not isinstance(model, HasStates):
            raise ValueError(
                f"{type(model).__name__} has no states(), and a table needs a finite world: search with FixedPoint "
                "or Shooting"
            )
        self.states = model.states()
        self.z: Float[Tensor, "n d"] = model.sample_z(n, torch.Generator().manual_seed(seed)).double()
        if constant is not None:
            self.z = model.project_z(constant.removed_from(self.z)).double()
        with torch.no_grad():
            psi = model.psi_table(self.z) if isinstance(model, HasPsiTable) else model.psi(self.states, self.z)
        what = f"ψ of all states of {type(model).__name__}"
        psi = finite(checked_output(psi, (len(self.states), n, model.dim), what))
        self.rows: Int[Tensor, "S m"] = distinct_rows(psi)
        kept = psi[torch.arange(len(psi), device=psi.device)[:, None], self.rows]
        if ROWS_AT_ONCE // kept.shape[1] < FEWEST_TOGETHER:  # read run by run: this memory order is faster there
            kept = kept.mT.contiguous().mT
        self._columns: dict[Any, Tensor] = {"psi": kept}
        self._single: dict[tuple[Any, int], Tensor] = {}  # rows of the states that a single run visited

    def column(self, key: Any, ask_model: AskModel) -> Float[Tensor, "S m *shape"]:
        """The model's output for the kept rows of all states; the last few columns are cached."""
        if key not in self._columns:
            if len(self._columns) == CACHED_COLUMNS:  # second moments are large
                del self._columns[next(name for name in self._columns if name != "psi")]
            # State by state: second moments of all z at once take gigabytes.
            self._columns[key] = torch.stack([self._at(state, ask_model) for state in range(len(self.states))])
        return self._columns[key]

    def row(self, key: Any, state: int, ask_model: AskModel) -> Float[Tensor, "m ..."]:
        """The model's output for the kept rows of one state: a single run visits few states."""
        if key in self._columns:
            return self._columns[key][state]
        if (key, state) not in self._single:
            found = self._at(state, ask_model)
            if len(self._single) * found.nbytes >= CACHED_BYTES:
                self._single.clear()
            self._single[key, state] = found
        return self._single[key, state]

    def _at(self, state: int, ask_model: AskModel) -> Float[Tensor, "m ..."]:
        with torch.no_grad():
            return finite(ask_model(self.states[state : state + 1], self.z[self.rows[state]][None]))[0]


class TabulatedForecast(Forecast):
    """Of the distinct z of a table at the states of all runs; outputs are read from the table."""

    def __init__(self, model: BehaviorModel, obs: Obs, table: Table) -> None:
        self.model, self.obs, self.count, self._outputs = model, obs, table.rows.shape[1], {}
        self._table, self._state = table, as_index(obs, len(table.states), "observation", table.z.device)

    @property
    def z(self) -> Float[Tensor, "*b m d"]:
        """The distinct z."""
        return self._table.z[self._table.rows[self._state]]

    def pick(self, index: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """One z for each run."""
        return self._table.z[self._table.rows[self._state, index]]

    def _output(self, key: Any, ask_model: AskModel) -> Float[Tensor, "..."]:
        """The column or row of the table."""
        if key not in self._outputs:
            state, table = self._state, self._table
            found = table.column(key, ask_model)[state] if state.ndim else table.row(key, int(state), ask_model)
            self._outputs[key] = found
        return self._outputs[key]

    def _weighted(self, key: Any, ask_model: AskModel, weights: Float[Tensor, "*b k"]) -> Numbers:
        """The weighted sum, grouped by state, so that rows are not copied."""
        if not self._in_parts(weights.shape[:-1]):
            return super()._weighted(key, ask_model, weights)
        column, answer = self._table.column(key, ask_model), weights.new_empty(len(weights), self.count)
        for state in self._state.unique().tolist():
            here = (self._state == state).nonzero()[:, 0]
            answer[here] = weights[here] @ column[state].T
        return answer

    def _value_and_width(self, both: Both, centre: Centre) -> tuple[Numbers, Numbers]:
        """ψ·ẑ and ‖Fᵀψ − centre‖, a few runs at a time, so that their rows stay in the CPU cache."""
        if self._given_psi is not None or not self._in_parts(both.shape[:-2]):
            return super()._value_and_width(both, centre)
        psi, runs = self._table.column("psi", self._ask("psi")), ROWS_AT_ONCE // self.count
        if runs >= FEWEST_TOGETHER:
            centres = [None] * -(-len(both) // runs) if centre is None else centre.split(runs)
            parts = zip(self._state.split(runs), both.split(runs), centres, strict=True)
            found = [value_and_width(psi.index_select(0, at), own, mean) for at, own, mean in parts]
            return torch.cat([value for value, _ in found]), torch.cat([width for _, width in found])
        # Many rows: one run at a time, without copying rows
        value = psi.new_empty(len(both), self.count)
        squares, product = torch.empty_like(value), psi.new_empty(both.shape[-1], self.count)
        for run, here in enumerate(self._state.tolist()):
            torch.mm(both[run].mT, psi[here].mT, out=product)
            value[run] = product[-1]
            apart = product[:-1] if centre is None else product[:-1].sub_(centre[run].mT)
            torch.sum(apart.square_(), 0, out=squares[run])
        return value, squares.sqrt_()

    def _in_parts(self, runs: torch.Size) -> bool:
        """Whether to compute in parts: for a list of runs on the CPU, whose cache is small."""
        return len(runs) == 1 and self._state.shape == runs and self._state.device.type == "cpu"


def table_of(model: BehaviorModel, n: int, seed: int, constant: ConstantPart | None = None) -> Table:
    """The model's table, built at first use and cached."""
    return once_per_model(model, ("table", n, seed, constant is not None), lambda: Table(model, n, seed, constant))


def distinct_rows(psi: Float[Tensor, "S n d"]) -> Int[Tensor, "S m"]:
    """For each state, the indices of its distinct rows."""
    # Compare rows by two random projections: sorted by the first, equal rows are neighbours.
    directions = torch.randn(psi.shape[-1], 2, generator=torch.Generator().manual_seed(0), dtype=psi.dtype)
    shadow = psi @ directions.to(psi.device)  # [S n 2]
    near = DUPLICATE_ROWS * shadow.abs().amax((1, 2), keepdim=True)
    order = shadow[..., 0].argsort(dim=1, stable=True)
    shadow = shadow.gather(1, order[..., None].expand_as(shadow))
    new = torch.ones_like(order, dtype=torch.bool)
    new[:, 1:] = (shadow.diff(dim=1).abs() > near).any(-1)
    rank = new.cumsum(1) - 1
    rows = order[:, :1].repeat(1, int(rank.max()) + 1)
    state, place = new.nonzero(as_tuple=True)
    rows[state, rank[state, place]] = order[state, place]
    return rows

"""A SELECT that grows: what the methods of a relation add to its text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tickstone.texts import bracketed, by_place, ended, quoted

if TYPE_CHECKING:
    from tickstone import _tickstone
    from tickstone.texts import Parameters

__all__ = ["Select", "beside"]


@dataclasses.dataclass(frozen=True)
class Select:
    """One SELECT, as long as clauses can be added to it; `nested` is another one over its rows."""

    #: What stands in FROM.
    source: str
    params: Parameters = None
    frames: Mapping[str, _tickstone.Frame] = dataclasses.field(default_factory=dict)
    #: The name its source goes by, "" for its own.
    alias: str = ""
    what: str = "*"
    where: tuple[str, ...] = ()
    #: GROUP BY or SAMPLE BY.
    grouped: str = ""
    order: str = ""
    limit: str = ""
    #: The series key of its rows, None where that is not known.
    series: tuple[str, ...] | None = None

    def sql(self) -> str:
        """Its text."""
        conditions = self.where if len(self.where) < 2 else [f"({ended(condition)})" for condition in self.where]
        where = f" WHERE {ended(' AND '.join(conditions))}" if conditions else ""
        return f"SELECT {self.what} FROM {self.named()}{where}{self.grouped}{self.order}{self.limit}"

    def named(self, default: str = "") -> str:
        """Its source and the name that goes by, `default` where it has none."""
        alias = self.alias or default
        return f"{self.source} {quoted(alias)}" if alias else self.source

    def item(self, alias: str) -> str:
        """All of it as one side of a join."""
        of = self if self.plain and not self.where else self.nested()
        return f"{of.source} {alias if alias in ('l', 'r') else quoted(alias)}"

    @property
    def plain(self) -> bool:
        """Whether its rows are those of its source, but for a condition."""
        return self.what == "*" and not (self.grouped or self.order or self.limit)

    def nested(self) -> Select:
        """All rows of it, to add other clauses to."""
        series = self.series if self.what == "*" else None
        return Select(bracketed(self.sql()), self.params, self.frames, self.alias, series=series)

    def unordered(self) -> Select:
        """What takes columns, conditions and groups."""
        return self if self.plain else self.nested()

    def with_(self, **changes: Any) -> Select:
        """The same but for some clauses."""
        return dataclasses.replace(self, **changes)


def beside(left: Select, right: Select) -> tuple[Select, Select]:
    """Two of them as parts of one statement, which has the parameters and the frames of both."""
    frames = {**left.frames, **right.frames}
    if not right.params:
        return left.with_(frames=frames), right.with_(params=left.params, frames=frames)
    if not left.params:
        return left.with_(params=right.params, frames=frames), right.with_(frames=frames)
    text, values = by_place(left.nested().source, left.params, 0)
    other, more = by_place(right.nested().source, right.params, len(values))
    shared: dict[str, Any] = {"params": [*values, *more], "frames": frames}
    return (
        Select(text, alias=left.alias, series=left.series if left.what == "*" else None, **shared),
        Select(other, alias=right.alias, **shared),
    )

"""The states that the rows of a table can be in when a question is asked.

An answer must be the same in all of them. Rows of one series with equal times keep their order of arrival in
every state, so that "the last of equals" has one meaning; across series parts keep no such order.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

import tickstone

__all__ = ["STATES", "State", "TestTable", "overlapping"]

# Pieces in which the shuffled rows arrive.
PIECES = 3
# Shares of the shuffled rows that become parts, one after the other, and runs: each of these more than twice as
# long as those after it together, so that they are not merged.
SEALED_SHARES = (0.4, 0.2, 0.15)
RUN_SHARES = (0.17, 0.06, 0.02)


@dataclass(frozen=True)
class TestTable:
    """A table of a question: its rows in order of arrival, its designated timestamp and series key."""

    __test__ = False  # not a test class, whatever pytest makes of the name

    rows: pa.Table
    timestamp: str | None
    series: str | Sequence[str] | None


Tables: TypeAlias = Mapping[str, TestTable]


@dataclass(frozen=True)
class State:
    """A way to bring rows into a database. `opened` gives a database that answers questions about them."""

    name: str
    fill: Callable[[tickstone.Database, Tables], None]
    reopened: bool = False

    @contextmanager
    def opened(self, tables: Tables) -> Iterator[tickstone.Database]:
        """A database that holds the tables in this state; gone afterwards."""
        if not self.reopened:
            with tickstone.open(":memory:") as database:
                self.fill(database, tables)
                yield database
            return
        with tempfile.TemporaryDirectory(prefix="tickstone-") as folder:
            with tickstone.open(folder) as database:
                self.fill(database, tables)
            with tickstone.open(folder) as database:
                yield database


def append(database: tickstone.Database, name: str, table: TestTable, rows: pa.Table) -> None:
    """Appends rows to the table, making it if it is not there."""
    database.append(name, rows, timestamp=table.timestamp, series=table.series, create=True)


def memory(database: tickstone.Database, tables: Tables) -> None:
    """All rows in memory."""
    for name, table in tables.items():
        append(database, name, table, table.rows)


def parts(database: tickstone.Database, tables: Tables) -> None:
    """All rows in sealed parts."""
    memory(database, tables)
    database.seal()


def half(database: tickstone.Database, tables: Tables) -> None:
    """The first half of the arrivals in parts, the second in memory."""
    for name, table in tables.items():
        append(database, name, table, table.rows.slice(0, table.rows.num_rows // 2))
    database.seal()
    for name, table in tables.items():
        append(database, name, table, table.rows.slice(table.rows.num_rows // 2))


def shuffled(database: tickstone.Database, tables: Tables) -> None:
    """Late and early rows mixed, in several appends, some of them sealed; equal times in their order."""
    for name, table in tables.items():
        rows = table.rows.take(pa.array(arrival(table), pa.int64()))
        step = max(-(-rows.num_rows // PIECES), 1)
        for at in range(0, max(rows.num_rows, 1), step):
            append(database, name, table, rows.slice(at, step))
            if at == step:
                database.seal()


def overlapping(database: tickstone.Database, tables: Tables) -> None:
    """Several parts whose times overlap, and several runs over the same times; equal times in their order."""
    for name, table in tables.items():
        rows = table.rows.take(pa.array(arrival(table), pa.int64()))
        at, share = 0, 0.0
        for place, piece in enumerate(SEALED_SHARES + RUN_SHARES):
            share += piece
            end = round(rows.num_rows * share)
            append(database, name, table, rows.slice(at, end - at))
            at = end
            if place < len(SEALED_SHARES):
                database.seal(name)


def changed(database: tickstone.Database, tables: Tables) -> None:
    """The same rows after others among them were deleted, a column dropped and one renamed: half in parts that were
    written anew, half in memory where nothing went."""
    for name, table in tables.items():
        rows = table.rows
        keys = [table.series] if isinstance(table.series, str) else list(table.series or [])
        renamed = next((each for each in reversed(rows.column_names) if each not in [table.timestamp, *keys]), None)
        before = [f"{each} before" if each == renamed else each for each in rows.column_names]
        middle = rows.num_rows // 2
        for at, end in ((0, middle), (middle, rows.num_rows)):
            piece = rows.slice(at, end - at)
            doubled = pa.concat_tables([piece, piece]).take(pa.array(in_pairs(piece.num_rows), pa.int64()))
            goes = pa.array([at % 2 == 1 for at in range(doubled.num_rows)], pa.bool_())
            append(database, name, table, doubled.rename_columns(before).append_column("goes", goes))
            if end == middle:
                database.seal(name)
        database.sql(f'DELETE FROM "{name}" WHERE goes')
        database.sql(f'ALTER TABLE "{name}" DROP COLUMN goes')
        if renamed is not None:
            database.sql(f'ALTER TABLE "{name}" RENAME COLUMN "{renamed} before" TO "{renamed}"')


def in_pairs(count: int) -> list[int]:
    """0, count, 1, count + 1, …: each row beside its copy."""
    return [at // 2 + (at % 2) * count for at in range(2 * count)]


def arrival(table: TestTable) -> list[int]:
    """A random order of the rows in which those with equal times keep theirs; the same for the same rows."""
    count = table.rows.num_rows
    order = list(range(count))
    if table.timestamp is None:
        return order
    random.Random(count).shuffle(order)
    times = table.rows.column(table.timestamp).to_pylist()
    of_time: dict[object, list[int]] = {}
    for row in reversed(range(count)):
        of_time.setdefault(times[row], []).append(row)
    return [of_time[times[row]].pop() for row in order]


def frames(database: tickstone.Database, tables: Tables) -> None:
    """Never stored: the tables are registered frames."""
    for name, table in tables.items():
        database.register(name, table.rows, timestamp=table.timestamp, series=table.series)


#: Every state, by name.
STATES: dict[str, State] = {
    state.name: state
    for state in (
        State("memory", memory),
        State("parts", parts),
        State("half", half),
        State("shuffled", shuffled),
        State("overlapping", overlapping),
        State("reopened", half, reopened=True),
        State("changed", changed),
        State("changed, reopened", changed, reopened=True),
        State("frames", frames),
    )
}

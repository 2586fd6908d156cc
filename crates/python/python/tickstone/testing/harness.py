"""`check`: one question, the same frames, Tickstone in every state against its peers. `asking`: many questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from tickstone.testing.comparing import assert_same
from tickstone.testing.states import STATES, State, TestTable

if TYPE_CHECKING:
    import duckdb

    import tickstone

__all__ = ["Asking", "asking", "check", "peer_answer"]

Peer = str | Callable[..., Any] | None
Key: TypeAlias = str | Sequence[str] | None
TIMESTAMPS = ("ts", "timestamp", "time")


def check(
    tick: str,
    *,
    duckdb: str | None = None,
    polars: Callable[..., Any] | None = None,
    pandas: Callable[..., Any] | None = None,
    expect: Sequence[tuple[Any, ...]] | None = None,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
    ordered: bool = False,
    exact: bool = False,
    states: Iterable[str | State] = tuple(STATES),
    timestamp: str | Mapping[str, str | None] | None = None,
    series: Key | Mapping[str, Key] = None,
    **frames: Any,
) -> pa.Table:
    """Asks Tickstone `tick` in every state and compares with each peer; returns Tickstone's answer.

    `frames` are the tables by name: polars, pandas, pyarrow, dicts, anything with `__arrow_c_stream__`, in
    order of arrival. `duckdb` is SQL over the same names. `polars` and `pandas` are functions that get frames
    of their kind by the names of their parameters. `expect` is the answer itself. Without any of them the
    states are compared with each other.

    `timestamp` and `series` name the designated timestamp and the series key, for all tables or by table; a
    table's timestamp is otherwise its only timestamp column, or that named ts, timestamp or time.

    Columns are compared by place, rows as a multiset or, with `ordered`, in order; doubles to a relative 1e-9
    or, with `exact`, as they are. pandas cannot tell NULL from NaN, so against it both count as NULL.

    Raises Mismatch, an AssertionError that shows the rows that differ.
    """
    tables = {name: test_table(name, frame, timestamp, series) for name, frame in frames.items()}
    asked = {name: table.rows for name, table in tables.items()}
    peers = {"duckdb": duckdb, "polars": polars, "pandas": pandas}
    answers = {peer: peer_answer(peer, how, asked) for peer, how in peers.items() if how is not None}
    if expect is not None:
        answers["expected"] = list(expect)
    ours: pa.Table | None = None
    for state in map(state_of, states):
        with state.opened(tables) as database:
            ours = database.sql(tick, params).arrow()
        if not answers:
            answers = {f"state {state.name}": ours}
            continue
        compare(tick, state.name, ours, answers, ordered=ordered, exact=exact)
    if ours is None:
        raise ValueError("states is empty: nothing was asked")
    return ours


@contextmanager
def asking(
    *,
    states: Iterable[str | State] = tuple(STATES),
    timestamp: str | Mapping[str, str | None] | None = None,
    series: Key | Mapping[str, Key] = None,
    **frames: Any,
) -> Iterator[Asking]:
    """Many questions about the same frames: fills each state and DuckDB once. What it takes is as for `check`."""
    tables = {name: test_table(name, frame, timestamp, series) for name, frame in frames.items()}
    rows = {name: table.rows for name, table in tables.items()}
    with ExitStack() as stack:
        opened = {state.name: stack.enter_context(state.opened(tables)) for state in map(state_of, states)}
        yield Asking(rows, opened, stack.enter_context(duckdb_with(rows)))


@dataclass(frozen=True)
class Asking:
    """Frames in databases of every state, and in DuckDB."""

    rows: Mapping[str, pa.Table]
    states: Mapping[str, tickstone.Database]
    peer: duckdb.DuckDBPyConnection

    def check(
        self,
        tick: str,
        *,
        duckdb: str | None = None,
        polars: Callable[..., Any] | None = None,
        pandas: Callable[..., Any] | None = None,
        expect: Sequence[tuple[Any, ...]] | None = None,
        ordered: bool = False,
        exact: bool = False,
    ) -> pa.Table:
        """One question, as the function `check` asks it; at least one peer must be asked."""
        others = {"polars": polars, "pandas": pandas}
        answers = {peer: peer_answer(peer, how, self.rows) for peer, how in others.items() if how is not None}
        if duckdb is not None:
            answers["duckdb"] = self.peer.sql(duckdb).to_arrow_table()
        if expect is not None:
            answers["expected"] = list(expect)
        if not answers:
            raise ValueError("no peer is asked")
        ours: pa.Table | None = None
        for name, database in self.states.items():
            ours = database.sql(tick).arrow()
            compare(tick, name, ours, answers, ordered=ordered, exact=exact)
        assert ours is not None, "states is empty: nothing was asked"
        return ours


def state_of(state: str | State) -> State:
    """A state by its name."""
    return STATES[state] if isinstance(state, str) else state


def compare(
    tick: str, state: str, ours: pa.Table, answers: Mapping[str, Any], *, ordered: bool, exact: bool
) -> None:
    """Compares the answer of one state with those of the peers."""
    for peer, answer in answers.items():
        assert_same(
            ours,
            answer,
            ordered=ordered,
            exact=exact,
            nan_is_null=peer == "pandas",
            what=f"state {state}, against {peer}\n  {tick.strip()}\n ",
            names=("tickstone", peer),
        )


def test_table(
    name: str,
    frame: Any,
    timestamp: str | Mapping[str, str | None] | None,
    series: Key | Mapping[str, Key],
) -> TestTable:
    """A frame as a table of a question."""
    rows = frame if isinstance(frame, pa.Table) else pa.table(frame)
    by_name = timestamp if isinstance(timestamp, Mapping) else {}
    chosen = by_name[name] if name in by_name else timestamp if isinstance(timestamp, str) else designated(rows)
    key = series.get(name) if isinstance(series, Mapping) else series
    columns = [key] if isinstance(key, str) else key or []
    return TestTable(rows, chosen, key if set(columns) <= set(rows.column_names) else None)


test_table.__test__ = False  # type: ignore[attr-defined]


def designated(rows: pa.Table) -> str | None:
    """The column that is the designated timestamp if nobody says."""
    times = [field.name for field in rows.schema if pa.types.is_timestamp(field.type)]
    named = [name for name in TIMESTAMPS if name in times]
    return times[0] if len(times) == 1 else named[0] if named else None


def peer_answer(peer: str, question: str | Callable[..., Any], tables: Mapping[str, pa.Table]) -> pa.Table:
    """What a peer ("duckdb", "polars" or "pandas") answers about these tables."""
    if peer == "duckdb":
        return ask_duckdb(str(question), tables)
    assert callable(question), f"{peer} is asked with a function"
    names = question.__code__.co_varnames[: question.__code__.co_argcount]
    convert = {"polars": polars_frame, "pandas": pandas_frame}[peer]
    answer = question(*(convert(tables[name]) for name in names))
    if hasattr(answer, "collect"):
        answer = answer.collect()
    if peer == "pandas":
        return pa.Table.from_pandas(answer, preserve_index=False)
    return pa.table(answer)


def ask_duckdb(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The answer of DuckDB."""
    with duckdb_with(tables) as connection:
        return connection.sql(sql).to_arrow_table()


@contextmanager
def duckdb_with(tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with these tables, in one thread, so that ties fall the same way each time."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        for name, rows in tables.items():
            # A name that DuckDB registers as it is, and a table that keeps the order of the rows.
            connection.register("tickstone_rows", rows)
            connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM tickstone_rows")
            connection.unregister("tickstone_rows")
        yield connection


def quoted(name: str) -> str:
    """A name as SQL takes it whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def polars_frame(rows: pa.Table) -> Any:
    """A Polars frame, its text as strings so that sides with different dictionaries join."""
    import polars as pl

    frame = pl.DataFrame(rows)
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def pandas_frame(rows: pa.Table) -> Any:
    """A pandas frame; integers and booleans with NULLs in nullable dtypes, so that they stay exact."""
    import pandas as pd

    nullable: dict[pa.DataType, Any] = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    plain = pa.table(
        {
            name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        }
    )
    with_nulls = {column.type for column in plain.columns if column.null_count}
    # Text as Python objects: merge_asof of empty frames fails with text that Arrow holds.
    texts = {pa.string(): pd.StringDtype("python"), pa.large_string(): pd.StringDtype("python")}
    mapped = texts | {kind: dtype for kind, dtype in nullable.items() if kind in with_nulls}
    return plain.to_pandas(types_mapper=mapped.get)

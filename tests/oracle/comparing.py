"""Comparing answers of two systems: integers and text exactly, doubles to 1e-9 of their size."""

import math

import duckdb
import pyarrow as pa

# The largest relative difference between two doubles that count as equal.
TOLERANCE = 1e-9


def plain(table: pa.Table) -> list[tuple]:
    """The rows of an Arrow table as Python values: timestamps as ns, dictionaries as their values."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def same_value(ours, theirs) -> bool:
    """Whether two values count as equal."""
    if isinstance(ours, float) or isinstance(theirs, float):
        if ours is None or theirs is None:
            return ours is theirs
        return math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=0) or (ours != ours and theirs != theirs)
    return ours == theirs


def assert_same(ours: pa.Table, theirs: list[tuple], what: str) -> None:
    """Asserts that two answers are equal row by row; both must be in a defined order."""
    rows = plain(ours)
    for at, (our_row, their_row) in enumerate(zip(rows, theirs)):
        if len(our_row) != len(their_row) or not all(map(same_value, our_row, their_row)):
            raise AssertionError(f"{what}: row {at} differs\n  ours   {our_row}\n  theirs {their_row}")
    assert len(rows) == len(theirs), f"{what}: {len(rows)} rows, DuckDB has {len(theirs)}"


class Oracle:
    """DuckDB on the same files. Every table gets a column `n`, the place of the row in its file."""

    def __init__(self):
        self.connection = duckdb.connect()
        self.connection.sql("SET threads = 1")

    def load(self, name: str, path, columns: dict[str, str]) -> None:
        """Makes a table of a CSV file."""
        types = ", ".join(f"'{column}': '{kind}'" for column, kind in columns.items())
        self.connection.sql(
            f"CREATE TABLE {name} AS SELECT row_number() OVER () AS n, * "
            f"FROM read_csv('{path}', header = true, columns = {{{types}}})"
        )

    def rows(self, sql: str) -> list[tuple]:
        """The rows of a query."""
        return self.connection.sql(sql).fetchall()

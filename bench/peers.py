"""Peers that need more than a line: ClickHouse inside this process (PyPI `chdb`), and how rows are compared.

chdb is in bench/requirements-peers.txt, not among the requirements of the tests: its wheel has hundreds of
megabytes. Where it cannot be imported the reports say "missing".
"""

import pathlib
import shutil
import statistics
import time
import warnings
from collections.abc import Callable

import duckdb
import polars as pl
import pyarrow as pa

try:
    import chdb
    from chdb import session as chdb_session
except ImportError:
    chdb = chdb_session = None

# DuckDB's types: ClickHouse's.
CLICKHOUSE_TYPES = {"TIMESTAMP": "DateTime64(6, 'UTC')", "VARCHAR": "LowCardinality(String)", "DOUBLE": "Float64", "BIGINT": "Int64"}
# Rows leave as Arrow that nothing compresses, text as text.
ARROW_SETTINGS = (
    "SET output_format_arrow_compression_method = 'none'",
    "SET output_format_arrow_string_as_string = 1",
    "SET date_time_input_format = 'best_effort'",
    "SET session_timezone = 'UTC'",
    # A bucket may be called as its column, and conditions still mean the column.
    "SET prefer_column_name_to_alias = 1",
)
RUNS = 20
SLOW_RUNS = 5
SLOW_MS = 1_000


class ClickHouse:
    """A ClickHouse in this process, over a folder; only one at a time can be open."""

    def __init__(self, folder: pathlib.Path) -> None:
        if chdb_session is None:
            raise ImportError("chdb is missing")
        self.session = chdb_session.Session(str(folder))
        self.session.query("CREATE DATABASE IF NOT EXISTS bench")
        for setting in ("USE bench", *ARROW_SETTINGS):
            self.session.query(setting)

    def load(self, table: str, file: pathlib.Path, columns: dict[str, str], key: str) -> None:
        """A MergeTree ordered by `key` with the rows of a CSV file, merged into one part."""
        types = ", ".join(f"{name} {CLICKHOUSE_TYPES[kind]}" for name, kind in columns.items())
        quoted = types.replace("'", "''")
        self.session.query(f"DROP TABLE IF EXISTS {table}")
        self.session.query(f"CREATE TABLE {table} ({types}) ENGINE = MergeTree ORDER BY ({key})")
        self.session.query(f"INSERT INTO {table} SELECT * FROM file('{file}', 'CSVWithNames', '{quoted}')")
        self.session.query(f"OPTIMIZE TABLE {table} FINAL")

    def arrow(self, sql: str) -> pa.Table:
        """The rows of a query."""
        return pa.ipc.open_file(pa.py_buffer(self.session.query(sql, "Arrow").bytes())).read_all()

    def close(self) -> None:
        """Lets go of the folder."""
        self.session.close()


def clickhouse_version() -> str:
    """For reports."""
    return f"chdb {chdb.__version__}" if chdb else "chdb missing"


def open_clickhouse(folder: pathlib.Path, files: pathlib.Path, tables: dict[str, dict[str, str]], key: str, say) -> ClickHouse | None:
    """A ClickHouse with the tables of a folder of CSV files, loaded once; None where chdb is missing."""
    if chdb_session is None:
        say("chdb is missing: pip install -r bench/requirements-peers.txt")
        return None
    loaded = folder.with_name(f"{folder.name}.loaded")
    if not loaded.exists():
        shutil.rmtree(folder, ignore_errors=True)
    clickhouse = ClickHouse(folder)
    if not loaded.exists():
        for name, columns in tables.items():
            say("loading chdb with", name)
            clickhouse.load(name, (files / f"{name}.csv").resolve(), columns, key)
        loaded.touch()
    return clickhouse


def median_ms(call: Callable[[], object]) -> float:
    """Median milliseconds of a call after two to warm up: of 20, or of 5 where one takes more than a second."""
    taken = []
    while len(taken) < 2 + (RUNS if len(taken) < 2 or taken[1] < SLOW_MS else SLOW_RUNS):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken[2:])


def normal(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of any system with the same names and types, in one order: by all columns that are not doubles."""
    frame = frame.rename({name: f"c{at}" for at, name in enumerate(frame.columns)})
    casts = []
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Categorical | pl.Enum):
            casts.append(pl.col(name).cast(pl.String))
        elif kind == pl.Binary:
            casts.append(pl.col(name).cast(pl.String))
        elif isinstance(kind, pl.Datetime):
            casts.append(pl.col(name).dt.replace_time_zone(None).cast(pl.Datetime("us")))
        elif kind.is_integer():
            casts.append(pl.col(name).cast(pl.Int64))
    frame = frame.with_columns(casts)
    keys = [name for name, kind in frame.schema.items() if not kind.is_float()]
    return frame.sort(keys or frame.columns)


def duckdb_ms(connection: duckdb.DuckDBPyConnection, sql: str) -> float:
    """Median milliseconds of a query until its rows are an Arrow table, by the faster of DuckDB's two ways.

    `execute` copies the rows of a large result once more, `sql` has more to do before a small one.
    """
    relation = median_ms(lambda: connection.sql(sql).to_arrow_table())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
        return min(relation, median_ms(lambda: connection.execute(sql).to_arrow_table()))


def seconds_as_times(frame: pl.DataFrame, like: pl.DataFrame) -> pl.DataFrame:
    """ClickHouse's DateTime leaves as whole seconds: times again where the other frame has times."""
    pairs = zip(frame.iter_columns(), like.dtypes, strict=False)
    return frame.with_columns(
        pl.from_epoch(column, time_unit="s")
        for column, kind in pairs
        if isinstance(kind, pl.Datetime) and column.dtype.is_integer()
    )


def difference(ours: pl.DataFrame, theirs: pl.DataFrame, absolute: float = 1e-12) -> str | None:
    """Where two results differ: text and integers exactly, doubles to a relative 1e-9. None where nowhere."""
    ours, theirs = normal(seconds_as_times(ours, theirs)), normal(theirs)
    if ours.schema != theirs.schema:
        return f"{ours.schema} and {theirs.schema}"
    if len(ours) != len(theirs):
        return f"{len(ours)} and {len(theirs)} rows"
    for name, kind in ours.schema.items():
        a, b = ours[name], theirs[name]
        if kind.is_float():
            # NaN and NULL are what a correlation of equal values may be.
            a, b = a.fill_nan(None), b.fill_nan(None)
            limit = pl.select(pl.max_horizontal(a.abs(), b.abs())).to_series() * 1e-9 + absolute
            near = (a - b).abs() <= limit
            # Of infinities only the same one is alike.
            near = (near & a.is_finite() & b.is_finite()) | (a == b)
            bad = ~near.fill_null(False) & ~(a.is_null() & b.is_null())
        else:
            bad = a.ne_missing(b)
        if bad.any():
            at = bad.arg_max()
            return f"{bad.sum()} rows, the first {ours.row(at)} and {theirs.row(at)}"
    return None

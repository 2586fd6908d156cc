"""The data of bench/breadth.py: files of `tickstone gen equities --wide`, and Tickstone, DuckDB and Polars with them."""

import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import run as tools
from breadth_shapes import Asked, Scope

import tickstone

QUOTES = {
    "timestamp": "TIMESTAMP",
    "symbol": "SYMBOL",
    "venue": "SYMBOL",
    "bid": "FLOAT",
    "bid_size": "INT",
    "ask": "FLOAT",
    "ask_size": "INT",
    "condition": "SYMBOL",
    "sequence": "INT",
    **dict.fromkeys(("source", "nbbo", "retail", "short_sale", "luld", "halt", "cancelled", "maker"), "SYMBOL"),
    "participant_time": "TIMESTAMP",
    "adf_time": "TIMESTAMP",
}
TRADES = {
    "timestamp": "TIMESTAMP",
    "symbol": "SYMBOL",
    "venue": "SYMBOL",
    "condition": "SYMBOL",
    "price": "FLOAT",
    "size": "INT",
    "side": "SYMBOL",
    "id": "BIGINT",
    "sequence": "INT",
    **dict.fromkeys(("source", "exempt", "retail", "halt", "cancelled"), "SYMBOL"),
    "participant_time": "TIMESTAMP",
}
TABLES = {"quotes": QUOTES, "trades": TRADES}
ORDERS = {"quotes": ["symbol", "timestamp"], "trades": ["symbol", "timestamp", "id"]}
VENUES = {
    "A": "NYSE American",
    "B": "Nasdaq BX",
    "C": "NYSE National",
    "D": "FINRA",
    "H": "MIAX Pearl",
    "I": "Nasdaq ISE",
    "J": "Cboe EDGA",
    "K": "Cboe EDGX",
    "L": "Long-Term Stock Exchange",
    "M": "NYSE Chicago",
    "N": "New York Stock Exchange",
    "P": "NYSE Arca",
    "Q": "Nasdaq",
    "U": "MEMX",
    "V": "IEX",
    "W": "Cboe",
    "X": "Nasdaq PSX",
    "Y": "Cboe BYX",
    "Z": "Cboe BZX",
}
# At scale 1 of the generator.
QUOTES_ROWS = 15_000_000


@dataclass(frozen=True)
class Systems:
    """The three with the rows in them."""

    ours: tickstone.Database
    duck: duckdb.DuckDBPyConnection
    scopes: dict[str, Scope]
    names: list[str]  # Symbols, the busiest first.

    def calls(self, asked: Asked) -> dict[str, Callable[[], pa.Table]]:
        """How each is asked, until the rows are an Arrow table."""
        newest = pl.CompatLevel.newest()
        return {
            "Tickstone": lambda: self.ours.sql(asked.tickstone).arrow(),
            "DuckDB": lambda: self.duck.sql(asked.duckdb).to_arrow_table(),
            "Polars": lambda: asked.polars.collect().to_arrow(compat_level=newest),
        }


def make_files(program: Path, folder: Path, rows: int) -> Path:
    """The CSV files, made once."""
    if not (folder / "complete").exists():
        tools.say("making", folder)
        tools.run(program, "gen", "equities", "--wide", "--scale", rows / QUOTES_ROWS, "--out", folder)
        (folder / "complete").touch()
    return folder


def load_tickstone(program: Path, data: Path, files: Path) -> tickstone.Database:
    """Both tables imported into parts and the venues beside them, once."""
    imported = data.with_name(f"{data.name}.imported")
    if not imported.exists():
        shutil.rmtree(data, ignore_errors=True)
        for name, columns in TABLES.items():
            tools.say("importing", name)
            types = itertools.chain.from_iterable(("--type", f"{column}={kind}") for column, kind in columns.items())
            options = ("--data", data, "--table", name, "--timestamp", "timestamp", "--series", "symbol")
            tools.run(program, "import", *options, *types, files / f"{name}.csv")
        with tickstone.open(data) as db:
            db.sql("CREATE TABLE venues (code SYMBOL, name VARCHAR)")
            db.append("venues", pl.DataFrame({"code": list(VENUES), "name": list(VENUES.values())}))
            db.seal()
        imported.touch()
    return tickstone.open(data)


def fill_duckdb(connection: duckdb.DuckDBPyConnection, files: Path) -> None:
    """The tables sorted; symbols are ENUMs in the order of their texts, one type for the columns of one name."""
    for name, columns in TABLES.items():
        tools.say("loading DuckDB with", name)
        kinds = {column: "VARCHAR" if kind == "SYMBOL" else kind for column, kind in columns.items()}
        connection.sql(f"CREATE TEMP TABLE raw_{name} AS FROM {tools.read_csv(files / f'{name}.csv', kinds)}")
    for column in sorted({column for columns in TABLES.values() for column, kind in columns.items() if kind == "SYMBOL"}):
        sources = [f"SELECT {column} AS x FROM raw_{name}" for name, columns in TABLES.items() if column in columns]
        texts = f"SELECT DISTINCT x FROM ({' UNION ALL '.join(sources)}) WHERE x IS NOT NULL ORDER BY x"
        if column == "venue":
            texts = f"SELECT unnest({sorted(VENUES)})"
        connection.sql(f"CREATE TYPE {column}s AS ENUM ({texts})")
    for name, columns in TABLES.items():
        typed = [f"{column}::{column}s AS {column}" if kind == "SYMBOL" else column for column, kind in columns.items()]
        connection.sql(f"CREATE TABLE {name} AS SELECT {', '.join(typed)} FROM raw_{name} ORDER BY {', '.join(ORDERS[name])}")
    connection.sql("CREATE TABLE venues (code venues, name VARCHAR)")
    connection.executemany("INSERT INTO venues VALUES (?, ?)", list(VENUES.items()))


def load_duckdb(path: Path, files: Path) -> duckdb.DuckDBPyConnection:
    """A database file with the tables, made once."""
    if not path.exists():
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with duckdb.connect(partial) as connection:
            fill_duckdb(connection, files)
        partial.rename(path)
    connection = duckdb.connect(path, read_only=True)
    connection.sql(f"SET threads = {os.cpu_count()}")
    # A grid made by generate_series is taken for one row, and one row by loops over the quotes.
    connection.sql("SET asof_loop_join_threshold = 0")
    return connection


def load_polars(connection: duckdb.DuckDBPyConnection, name: str) -> pl.DataFrame:
    """A frame in memory, its rows in the order of DuckDB's, its symbols categorical."""
    frame: pl.DataFrame = connection.sql(f"SELECT * FROM {name}").pl()
    symbols = [column for column, kind in TABLES[name].items() if kind == "SYMBOL"]
    return frame.with_columns(pl.col(symbols).cast(pl.Categorical))


def load(program: Path, work: Path, rows: int) -> Systems:
    """All systems with the same rows, and the symbols that the questions are about."""
    work.mkdir(parents=True, exist_ok=True)
    files = make_files(program, work / f"breadth-{rows}", rows)
    ours = load_tickstone(program, work / f"breadth-{rows}-tickstone", files)
    duck = load_duckdb(work / f"breadth-{rows}.duckdb", files)
    quotes, trades = (load_polars(duck, name).lazy() for name in TABLES)
    venues = pl.LazyFrame({"code": list(VENUES), "name": list(VENUES.values())}, schema={"code": pl.Categorical, "name": pl.String})
    ranked = duck.sql("SELECT symbol::VARCHAR FROM quotes GROUP BY 1 ORDER BY count(*) DESC, 1").fetchall()
    names = [name for (name,) in ranked]
    # Of the 50 and the 1,000 some are busy and some rare.
    chosen = {"rare": names[-1:], "busiest": names[:1], "fifty": names[19::40], "thousand": names[1::2]}
    scopes = {"all": Scope("all", "", quotes, trades, venues)}
    for group, of in chosen.items():
        listed = ", ".join(f"'{name}'" for name in of)
        condition = f"symbol IN ({listed})" if len(of) > 1 else f"symbol = {listed}"
        is_one = pl.col("symbol").is_in(of) if len(of) > 1 else pl.col("symbol") == of[0]
        scopes[group] = Scope(group, condition, quotes.filter(is_one), trades.filter(is_one), venues)
    return Systems(ours, duck, scopes, names)

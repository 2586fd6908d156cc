"""What the questions of bench/breadth.py are made of: symbols to ask about, and questions with their symbols left open."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

GROUPS = {
    "rare": "one rare symbol",
    "busiest": "the busiest symbol",
    "fifty": "50 symbols",
    "thousand": "1,000 symbols",
    "all": "all symbols",
}


@dataclass(frozen=True)
class Scope:
    """Some symbols: a condition in SQL, empty for all of them, and their quotes (`q`) and trades (`t`) as frames, which are
    sorted by symbol and time."""

    group: str
    condition: str
    q: pl.LazyFrame
    t: pl.LazyFrame
    venues: pl.LazyFrame

    def of(self, table: str, condition: str = "") -> str:
        """What stands after FROM for the rows of a table that are asked for."""
        conditions = " AND ".join(filter(None, (self.condition, condition)))
        return f"{table} WHERE {conditions}" if conditions else table


@dataclass(frozen=True)
class Asked:
    """A question in each system's words. `absolute` is how far doubles near zero may be apart."""

    tickstone: str
    duckdb: str
    polars: pl.LazyFrame
    absolute: float = 1e-9

    @property
    def is_ordered(self) -> bool:
        """Whether the rows come in an order that the question asks for."""
        return "ORDER BY" in self.tickstone.rsplit(")", 1)[-1]


def same(sql: str, polars: pl.LazyFrame, absolute: float = 1e-9) -> Asked:
    """A question that Tickstone and DuckDB are asked in the same words."""
    return Asked(sql, sql, polars, absolute)


@dataclass(frozen=True)
class Shape:
    """A question whose symbols are left open."""

    title: str
    groups: tuple[str, ...]
    ask: Callable[[Scope], Asked]


Ask = Callable[[Scope], Asked]


def adder(shapes: list[Shape]) -> Callable[[str, str], Callable[[Ask], Ask]]:
    """A decorator that adds a function to some shapes: its title, and the groups it is asked of."""

    def shape(title: str, groups: str) -> Callable[[Ask], Ask]:
        def add(ask: Ask) -> Ask:
            shapes.append(Shape(title, tuple(groups.split()), ask))
            return ask

        return add

    return shape


def bars(columns: str, rows: str, minutes: int, duckdb_columns: str = "") -> tuple[str, str]:
    """Buckets of time by symbol, for Tickstone and DuckDB."""
    bucket = f"time_bucket(INTERVAL '{minutes} minutes', timestamp) AS t"
    return (
        f"SELECT timestamp, symbol, {columns} FROM {rows} SAMPLE BY {minutes}m",
        f"SELECT {bucket}, symbol, {duckdb_columns or columns} FROM {rows} GROUP BY symbol, t",
    )


def last_rows(count: int) -> str:
    """A window of so many rows of each symbol in order of time."""
    return f"(PARTITION BY symbol ORDER BY timestamp ROWS BETWEEN {count - 1} PRECEDING AND CURRENT ROW)"

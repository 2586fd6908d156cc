"""PIVOT and UNPIVOT against DuckDB, Polars and pandas on generated trades, in every state."""

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import given

import tickstone
from tickstone.testing import check, strategies

SYMBOLS = strategies.SYMBOLS
NAMES = [f"c{at}" for at in range(len(SYMBOLS))]
# Every symbol there can be, each with a name that needs no quoting.
VALUES = ", ".join(f"'{symbol.replace(chr(39), chr(39) * 2)}' AS {name}" for symbol, name in zip(SYMBOLS, NAMES))


def same(sql: str, trades: pa.Table) -> None:
    """Asks DuckDB, whose PIVOT in FROM is spelled the same, the same question."""
    check(sql, duckdb=sql, trades=trades)


@given(strategies.trades(null_symbols=True))
def test_several_aggregates(trades: pa.Table) -> None:
    same(
        "SELECT * FROM trades PIVOT (count(*) AS n, sum(size) AS total, max(price) AS top "
        "FOR side IN ('buy', 'sell') GROUP BY symbol)",
        trades,
    )


@given(strategies.trades(null_symbols=True))
def test_groups_are_the_columns_that_nothing_names(trades: pa.Table) -> None:
    same(f"SELECT * FROM (SELECT side, symbol, size FROM trades) PIVOT (sum(size) FOR symbol IN ({VALUES}))", trades)
    same("SELECT * FROM (SELECT side, symbol, size FROM trades) PIVOT (min(size) FOR side IN ('sell', 'no'))", trades)


@given(strategies.trades(nulls=False))
def test_one_column_per_instrument(trades: pa.Table) -> None:
    def by_pandas(trades: pd.DataFrame) -> pd.DataFrame:
        hours = trades.assign(ts=trades.ts.dt.floor("h"))
        turned = hours.pivot_table(index="ts", columns="symbol", values="size", aggfunc="sum")
        return turned.reindex(columns=SYMBOLS).reset_index()

    def by_polars(trades: pl.DataFrame) -> pl.DataFrame:
        hours = trades.with_columns(pl.col("ts").dt.truncate("1h"))
        sums = [pl.col("size").filter(pl.col("symbol") == symbol) for symbol in SYMBOLS]
        each = [pl.when(of.len() > 0).then(of.sum()).alias(name) for of, name in zip(sums, NAMES)]
        return hours.group_by("ts").agg(each)

    bars = "SELECT ts, symbol, sum(size) AS size FROM trades SAMPLE BY 1h"
    check(
        f"SELECT * FROM ({bars}) PIVOT (max(size) FOR symbol IN ({VALUES}))",
        polars=by_polars,
        trades=trades,
    )
    # pandas has no integers with NULL in a pivot table: it is compared as doubles.
    doubles = ", ".join(f"CAST({name} AS DOUBLE)" for name in NAMES)
    if trades.num_rows:
        check(
            f"SELECT ts, {doubles} FROM ({bars}) PIVOT (max(size) FOR symbol IN ({VALUES}))",
            pandas=by_pandas,
            trades=trades,
        )


@given(strategies.trades(null_symbols=True))
def test_unpivot(trades: pa.Table) -> None:
    same("SELECT id, what, x FROM trades UNPIVOT (x FOR what IN (price, size))", trades)
    same("SELECT id, what, x FROM trades UNPIVOT INCLUDE NULLS (x FOR what IN (symbol, side AS 'which'))", trades)


def test_a_list_gives_a_column_each(directory: Any) -> None:
    with tickstone.open(directory) as db:
        db.append("t", {"k": ["a", "b", "a"], "x": [1, 2, 4]}, create=True)
        sql = "SELECT * FROM t PIVOT (sum(x) FOR k IN ($1))"
        assert db.sql(sql, [["a", "b", "c"]]).arrow().to_pydict() == {"a": [5], "b": [2], "c": [None]}
        assert db.sql(sql, ["b"]).arrow().to_pydict() == {"b": [2]}

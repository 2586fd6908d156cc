"""Time series questions against DuckDB, Polars and pandas on generated frames, in every state."""

import datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tickstone.testing import check, strategies

ASOF = ["id", "id_right", "bid", "ask"]


def renamed(frame: Any) -> Any:
    """The columns of a pandas as-of join as Polars names them."""
    return frame.rename(columns={"id_x": "id", "id_y": "id_right"})[ASOF]


@given(strategies.trades(), strategies.quotes())
def test_asof_join(trades: pa.Table, quotes: pa.Table) -> None:
    check(
        "SELECT t.id, q.id, q.bid, q.ask FROM trades t ASOF JOIN quotes q ON (symbol)",
        polars=lambda trades, quotes: trades.join_asof(quotes, on="ts", by="symbol").select(ASOF),
        pandas=lambda trades, quotes: renamed(pd.merge_asof(trades, quotes, on="ts", by="symbol")),
        trades=trades,
        quotes=quotes,
    )


@given(strategies.trades(), strategies.quotes(ties=False))
def test_asof_join_without_keys(trades: pa.Table, quotes: pa.Table) -> None:
    """Parts do not keep which of two rows of different series and the same time came last."""
    check(
        "SELECT t.id, q.id, q.bid, q.ask FROM trades t ASOF JOIN quotes q",
        polars=lambda trades, quotes: trades.join_asof(quotes, on="ts").select(ASOF),
        pandas=lambda trades, quotes: renamed(pd.merge_asof(trades, quotes, on="ts")),
        trades=trades,
        quotes=quotes,
    )


@given(strategies.trades(), strategies.quotes())
def test_asof_join_with_a_tolerance(trades: pa.Table, quotes: pa.Table) -> None:
    minute = datetime.timedelta(minutes=1)
    check(
        "SELECT t.id, q.id, q.bid, q.ask FROM trades t ASOF JOIN quotes q ON (symbol) TOLERANCE 1m",
        polars=lambda trades, quotes: trades.join_asof(quotes, on="ts", by="symbol", tolerance=minute).select(ASOF),
        pandas=lambda trades, quotes: renamed(
            pd.merge_asof(trades, quotes, on="ts", by="symbol", tolerance=pd.Timedelta(minute))
        ),
        trades=trades,
        quotes=quotes,
    )


@given(strategies.trades(), strategies.quotes())
def test_strictly_earlier(trades: pa.Table, quotes: pa.Table) -> None:
    check(
        """SELECT t.id, q.id, q.bid, q.ask FROM trades t
           ASOF JOIN quotes q MATCH_CONDITION (t.ts > q.ts) ON t.symbol = q.symbol""",
        pandas=lambda trades, quotes: renamed(
            pd.merge_asof(trades, quotes, on="ts", by="symbol", allow_exact_matches=False)
        ),
        polars=lambda trades, quotes: trades.join_asof(
            quotes, on="ts", by="symbol", allow_exact_matches=False
        ).select(ASOF),
        trades=trades,
        quotes=quotes,
    )


@given(strategies.trades(), strategies.quotes(ties=False))
def test_asof_inner_join(trades: pa.Table, quotes: pa.Table) -> None:
    """DuckDB takes any of several rows with the same time, so there are none."""
    check(
        "SELECT t.id, q.id, q.bid, q.ask FROM trades t ASOF INNER JOIN quotes q ON (symbol)",
        duckdb="""SELECT t.id, q.id, q.bid, q.ask FROM trades t
                  ASOF JOIN quotes q ON t.symbol = q.symbol AND t.ts >= q.ts""",
        trades=trades,
        quotes=quotes,
    )


BARS = """SELECT ts, symbol, first(price), max(price), min(price), last(price), sum(size), count(*), count(price)
          FROM trades SAMPLE BY {}"""


def dynamic(trades: pl.DataFrame, every: str) -> pl.DataFrame:
    """Polars' bars."""
    price = pl.col("price")
    whole = pl.when(pl.col("size").count() > 0).then(pl.col("size").sum())
    return trades.group_by_dynamic("ts", every=every, group_by="symbol").agg(
        price.first(), price.max().alias("high"), price.min().alias("low"), price.last().alias("close"),
        whole.alias("volume"), pl.len(), price.count().alias("prices"),
    ).select("ts", "symbol", "price", "high", "low", "close", "volume", "len", "prices")  # fmt: skip


@pytest.mark.parametrize(("stride", "every"), [("1m", "1m"), ("7s", "7s"), ("1h", "1h"), ("1d", "1d"), ("1w", "1w")])
@given(strategies.trades())
@settings(max_examples=5)
def test_bars(stride: str, every: str, trades: pa.Table) -> None:
    check(BARS.format(stride), polars=lambda trades: dynamic(trades, every), trades=trades)


@given(strategies.trades())
def test_bars_against_duckdb(trades: pa.Table) -> None:
    check(
        BARS.format("90s"),
        duckdb="""SELECT make_timestamp_ns(epoch_ns(ts) // 90_000_000_000 * 90_000_000_000) AS bucket, symbol,
                         arg_min_null(price, id), max(price), min(price), arg_max_null(price, id),
                         sum(size), count(*), count(price)
                  FROM trades GROUP BY bucket, symbol""",
        trades=trades,
    )


@given(strategies.trades())
def test_vwap(trades: pa.Table) -> None:
    check(
        "SELECT symbol, vwap(price, size) FROM trades GROUP BY symbol",
        duckdb="""SELECT symbol, sum(price * size) / sum(size) FILTER (price IS NOT NULL)
                  FROM trades GROUP BY symbol""",
        polars=lambda trades: trades.group_by("symbol").agg(
            pl.when((pl.col("price") * pl.col("size")).count() > 0).then(
                (pl.col("price") * pl.col("size")).sum()
                / pl.col("size").filter(pl.col("price").is_not_null()).sum()
            )
        ),
        trades=trades,
    )


@given(strategies.trades())
def test_latest(trades: pa.Table) -> None:
    check(
        "SELECT * FROM trades LATEST ON ts PARTITION BY symbol",
        duckdb="SELECT * FROM trades QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY ts DESC, id DESC) = 1",
        polars=lambda trades: trades.group_by("symbol", maintain_order=True).last().select(trades.columns),
        pandas=lambda trades: trades.groupby("symbol").tail(1),
        trades=trades,
    )


@given(strategies.trades(null_symbols=True, nan=True))
def test_aggregates_with_nulls_and_nan(trades: pa.Table) -> None:
    check(
        """SELECT symbol, side, count(*), count(price), sum(size), min(size), max(size), avg(size)
           FROM trades GROUP BY symbol, side""",
        duckdb="""SELECT symbol, side, count(*), count(price), sum(size), min(size), max(size), avg(size)
                  FROM trades GROUP BY symbol, side""",
        trades=trades,
    )


@given(strategies.trades(null_symbols=True, nan=True))
def test_rows_come_back_as_they_were(trades: pa.Table) -> None:
    check("SELECT * FROM trades", polars=lambda trades: trades, duckdb="SELECT * FROM trades", trades=trades)


@given(strategies.trades())
def test_order_by_time_keeps_the_order_of_arrival(trades: pa.Table) -> None:
    check("SELECT id, ts FROM trades ORDER BY ts, id", duckdb="SELECT id, ts FROM trades", ordered=True, trades=trades)


@given(strategies.trades())
def test_filters_on_time_and_symbol(trades: pa.Table) -> None:
    check(
        "SELECT id FROM trades WHERE ts >= '2024-03-30T23:00:00' AND ts < '2024-03-31T12:00:00' AND symbol <> 'A'",
        duckdb="""SELECT id FROM trades
                  WHERE ts >= '2024-03-30 23:00:00' AND ts < '2024-03-31 12:00:00' AND symbol <> 'A'""",
        trades=trades,
    )


@given(strategies.quotes(nulls=False))
def test_window_functions(quotes: pa.Table) -> None:
    check(
        """SELECT id, spread(bid, ask), mid(bid, ask), lag(bid) OVER (PARTITION BY symbol ORDER BY ts, id)
           FROM quotes""",
        duckdb="""SELECT id, ask - bid, (bid + ask) / 2, lag(bid) OVER (PARTITION BY symbol ORDER BY ts, id)
                  FROM quotes""",
        polars=lambda quotes: quotes.select(
            "id",
            pl.col("ask") - pl.col("bid"),
            ((pl.col("bid") + pl.col("ask")) / 2).alias("mid"),
            pl.col("bid").shift().over("symbol").alias("before"),
        ),
        quotes=quotes,
    )


@given(strategies.trades(min_rows=1, max_rows=4), strategies.names(), strategies.names())
def test_odd_names(trades: pa.Table, table: str, column: str) -> None:
    named = trades.select(["ts", "id"]).rename_columns(["ts", column])
    if column.lower() == "ts" or table == "tick":
        return
    quoted = ['"' + name.replace('"', '""') + '"' for name in (table, column)]
    check(f"SELECT {quoted[1]} FROM {quoted[0]}", expect=[(i,) for i in range(trades.num_rows)], **{table: named})

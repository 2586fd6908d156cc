"""Tables: the common questions without SQL, against the SQL that they stand for and against peers."""

import datetime

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

import tickstone
from tickstone.testing import assert_same, strategies

SQL = """INSERT INTO trades VALUES
  ('2024-08-08T09:30:05', 'BTC', 'X', 100.0, 1.0), ('2024-08-08T09:30:20', 'ETH', 'X', 10.0, 5.0),
  ('2024-08-08T09:30:40', 'BTC', 'Y', 102.0, 3.0), ('2024-08-08T09:31:10', 'BTC', 'X', 101.0, 2.0),
  ('2024-08-08T09:33:00', 'BTC', 'Y', 105.0, 1.0), ('2024-08-08T09:33:30', 'ETH', 'Y', 12.0, 5.0)"""


@pytest.fixture
def market(db: tickstone.Database) -> tickstone.Database:
    """Trades and quotes of two instruments."""
    db.sql("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, venue SYMBOL, price DOUBLE, amount DOUBLE) TIMESTAMP(ts)")
    db.sql(SQL)
    db.sql("CREATE TABLE quotes (ts TIMESTAMP, symbol SYMBOL, bid DOUBLE, ask DOUBLE) TIMESTAMP(ts)")
    db.sql(
        """INSERT INTO quotes VALUES ('2024-08-08T09:30:00', 'BTC', 99.0, 101.0),
           ('2024-08-08T09:30:30', 'BTC', 101.0, 103.0), ('2024-08-08T09:30:00', 'ETH', 9.0, 11.0)"""
    )
    return db


def test_what_a_table_is(market: tickstone.Database) -> None:
    trades = market.table("trades")
    assert trades.columns == ["ts", "symbol", "venue", "price", "amount"]
    assert pa.schema(trades.schema).field("ts").type == pa.timestamp("ns")
    assert trades.count() == 6
    assert sorted(market.tables()) == ["quotes", "trades"]
    assert "trades" in repr(trades)


def test_a_table_that_does_not_exist(db: tickstone.Database) -> None:
    with pytest.raises(tickstone.Error, match="'nowhere' does not exist"):
        db.table("nowhere")


def test_bars(market: tickstone.Database) -> None:
    bars = market.table("trades").bars("1m", size="amount")
    by_sql = market.sql(
        """SELECT ts, symbol, first(price) AS open, max(price) AS high, min(price) AS low, last(price) AS close,
           sum(amount) AS volume FROM trades SAMPLE BY 1m"""
    )
    frame = bars.polars()
    assert frame.height == 5
    for name in by_sql.columns:
        assert name in frame.columns, f"{name} is not among {frame.columns}"
    assert_same(frame.select(by_sql.columns).to_arrow(), by_sql.arrow())


def test_bars_by_nothing_and_by_others(market: tickstone.Database) -> None:
    trades = market.table("trades")
    assert trades.bars("1h", by=[]).arrow().num_rows == 1
    assert trades.bars("1h", by="venue").arrow().num_rows == 2
    assert trades.bars("1h", by=["symbol", "venue"]).arrow().num_rows == 4


def test_bars_with_a_range_and_fill(market: tickstone.Database) -> None:
    bars = market.table("trades").where("symbol = 'BTC'")
    assert bars.fetchall()
    filled = market.table("trades").bars(
        "1m", by=[], fill="prev", start="2024-08-08T09:30:00", end=datetime.datetime(2024, 8, 8, 9, 35)
    )
    assert filled.arrow().num_rows == 5
    assert filled.polars().sort("ts")["close"].to_list()[-2:] == [12.0, 12.0]


def test_bars_of_days_in_a_zone(market: tickstone.Database) -> None:
    bars = market.table("trades").bars("1d", by=[], tz="America/New_York").arrow()
    assert bars.column("ts").cast(pa.int64()).to_pylist() == [1_723_089_600_000_000_000]


def test_asof(market: tickstone.Database) -> None:
    joined = market.table("trades").asof("quotes", on="symbol").polars().sort("ts")
    assert joined["bid"].to_list() == [99.0, 9.0, 101.0, 101.0, 101.0, 9.0]
    near = market.table("trades").asof(market.table("quotes"), on=["symbol"], tolerance="10s").polars().sort("ts")
    assert near["bid"].to_list() == [99.0, None, 101.0, None, None, None]


def test_asof_with_a_frame(market: tickstone.Database) -> None:
    frame = market.table("quotes").polars()
    joined = market.table("trades").asof(frame, on="symbol").polars().sort("ts")
    assert joined["ask"].to_list() == [101.0, 11.0, 103.0, 103.0, 103.0, 11.0]


def test_asof_with_nothing(market: tickstone.Database) -> None:
    """A frame without rows is one all the same."""
    trades, quotes = market.table("trades"), market.table("quotes")
    frame = quotes.polars().clear()
    for other in (frame, frame.to_pandas(), frame.to_arrow(), quotes.where("bid < 0")):
        joined = trades.asof(other, on="symbol")
        assert joined.polars()["bid"].to_list() == [None] * 6
        assert "ASOF" in joined.sql.upper() and joined.explain()


def test_latest(market: tickstone.Database) -> None:
    trades = market.table("trades")
    assert sorted(trades.latest().polars()["price"].to_list()) == [12.0, 105.0]
    assert sorted(trades.latest(by=["symbol", "venue"]).polars()["price"].to_list()) == [10.0, 12.0, 101.0, 105.0]


def test_between_is_half_open(market: tickstone.Database) -> None:
    trades = market.table("trades")
    start = datetime.datetime(2024, 8, 8, 9, 30, 20, tzinfo=datetime.UTC)
    assert len(trades.between(start, "2024-08-08T09:31:10").fetchall()) == 2
    assert len(trades.between(None, "2024-08-08T09:30:20").fetchall()) == 1
    assert len(trades.between(start, None).fetchall()) == 5


def test_where_select_head(market: tickstone.Database) -> None:
    trades = market.table("trades")
    assert trades.where("price > 100 AND venue = 'Y'").polars().height == 2
    assert trades.select("symbol", "price * 2 AS twice").columns == ["symbol", "twice"]
    assert len(trades.head(2).fetchall()) == 2


def test_the_text_is_sql(market: tickstone.Database) -> None:
    trades = market.table("trades")
    for relation in (trades.bars("1m"), trades.latest(), trades.where("price > 1"), trades.asof("quotes", on="symbol")):
        text = relation.sql if isinstance(relation.sql, str) else ""
        assert text
        assert_same(market.sql(text).arrow(), relation.arrow())


def test_a_table_is_a_relation(market: tickstone.Database) -> None:
    trades = market.table("trades")
    assert trades.arrow().num_rows == len(trades.fetchall()) == trades.polars().height == 6
    assert pl.DataFrame(trades).height == 6


@given(strategies.trades(min_rows=1), strategies.quotes(min_rows=1))
def test_asof_against_polars(trades: pa.Table, quotes: pa.Table) -> None:
    with tickstone.open(":memory:") as db:
        db.append("trades", trades, timestamp="ts", series="symbol", create=True)
        db.append("quotes", quotes, timestamp="ts", series="symbol", create=True)
        ours = db.table("trades").asof("quotes", on="symbol").polars().select("price", "bid", "ask")
    theirs = pl.DataFrame(trades).join_asof(pl.DataFrame(quotes), on="ts", by="symbol").select("price", "bid", "ask")
    assert_same(ours.to_arrow(), theirs.to_arrow())

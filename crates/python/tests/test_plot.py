"""Charts: what is drawn, by the figure's data; no pictures are compared."""

import builtins
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

import tickstone
from tickstone.relation import Relation

BARS = """SELECT ts, symbol, first(price) AS open, max(price) AS high, min(price) AS low, last(price) AS close,
          sum(size) AS volume FROM trades SAMPLE BY 1m"""


@pytest.fixture
def market(db: tickstone.Database) -> tickstone.Database:
    """Trades of two instruments, the last minute first, and a few quotes."""
    start = np.datetime64("2024-08-08T09:30:00", "ns")
    seconds = np.array([70, 0, 20, 40, 10])
    trades = pl.DataFrame(
        {
            "ts": start + seconds * np.timedelta64(1, "s"),
            "symbol": ["A", "A", "A", "A", "B"],
            "price": [4.0, 1.0, 3.0, 2.0, 50.0],
            "size": [1, 2, 3, 4, 5],
        }
    )
    quotes = pl.DataFrame({"ts": trades["ts"], "bid": [9.0, 8.0, 7.0, 6.0, None], "ask": [10.0] * 5})
    db.append("trades", trades, timestamp="ts", series="symbol", create=True)
    db.append("quotes", quotes, timestamp="ts", create=True)
    return db


def data(figure: go.Figure, index: int = 0) -> Any:
    """A trace of a figure."""
    return figure.data[index]


def test_candles_are_inferred_and_split_by_instrument(market: tickstone.Database) -> None:
    figure = market.sql(BARS).plot(title="bars", height=300)
    candles = {trace.name: trace for trace in figure.data if isinstance(trace, go.Candlestick)}
    assert set(candles) == {"A", "B"}
    a = candles["A"]
    assert list(a.open) == [1.0, 4.0] and list(a.close) == [2.0, 4.0]
    assert list(a.high) == [3.0, 4.0] and list(a.low) == [1.0, 4.0]
    assert np.array(a.x, dtype="datetime64[s]").tolist() == sorted(np.array(a.x, dtype="datetime64[s]").tolist())
    volumes = [list(trace.y) for trace in figure.data if isinstance(trace, go.Bar)]
    assert sorted(volumes) == [[5.0], [9.0, 1.0]]
    assert figure.layout.title.text == "bars" and figure.layout.height == 300


def test_candles_take_names_in_any_case(market: tickstone.Database) -> None:
    figure = market.sql('SELECT ts, 1.0 AS "Open", 2.0 AS "HIGH", 0.5 AS "Low", 1.5 AS "Close" FROM trades').plot()
    assert [type(trace) for trace in figure.data] == [go.Candlestick]
    assert set(data(figure).high) == {2.0}


def test_depth_is_cumulative_from_the_best_price(db: tickstone.Database) -> None:
    book = db.sql(
        """SELECT * FROM (VALUES ('bid', 98.0, 1.0), ('ask', 102.0, 10.0), ('bid', 99.0, 2.0), ('ask', 101.0, 20.0))
           AS book (side, price, size)"""
    )
    figure = book.plot()
    assert [trace.name for trace in figure.data] == ["bid", "ask"]
    bid, ask = figure.data
    assert (list(bid.x), list(bid.y)) == ([99.0, 98.0], [2.0, 3.0])
    assert (list(ask.x), list(ask.y)) == ([101.0, 102.0], [20.0, 30.0])


def test_depth_of_numbered_levels_is_the_newest_book(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE books (ts TIMESTAMP, b1price DOUBLE, b1size DOUBLE, b2price DOUBLE, b2size DOUBLE,"
           " a1price DOUBLE, a1size DOUBLE) TIMESTAMP(ts)")
    db.sql("INSERT INTO books VALUES ('2024-08-08T00:00:01', 9, 1, 8, 2, 10, 3), ('2024-08-08', 1, 1, 1, 1, 1, 1)")
    bid, ask = db.sql("SELECT * FROM books").plot().data
    assert (list(bid.x), list(bid.y)) == ([9.0, 8.0], [1.0, 3.0])
    assert (list(ask.x), list(ask.y)) == ([10.0], [3.0])


def test_depth_refuses_unknown_sides(db: tickstone.Database) -> None:
    with pytest.raises(ValueError, match="side is bid or ask.*up"):
        db.sql("SELECT 'up' AS side, 1.0 AS price, 1.0 AS size").plot("depth")


def test_spread_of_bid_and_ask(market: tickstone.Database) -> None:
    figure = market.sql("SELECT * FROM quotes").plot()
    trace = data(figure)
    assert np.array_equal(np.array(trace.y), [2.0, np.nan, 3.0, 4.0, 1.0], equal_nan=True)
    assert trace.line.shape == "hv"


def test_spread_column(market: tickstone.Database) -> None:
    figure = market.sql("SELECT ts, spread(bid, ask) * 2 AS spread FROM quotes WHERE bid > 8").plot()
    assert list(data(figure).y) == [2.0]


def test_lines_otherwise(market: tickstone.Database) -> None:
    figure = market.sql("SELECT ts, symbol, price, size FROM trades").plot()
    assert {trace.name for trace in figure.data} == {"A price", "A size", "B price", "B size"}
    only = market.sql("SELECT ts, symbol, price, size FROM trades").plot(y="price")
    assert {trace.name for trace in only.data} == {"A", "B"}


def test_lines_over_another_column(market: tickstone.Database) -> None:
    figure = market.sql("SELECT size, price FROM trades").plot("lines", x="size")
    assert list(data(figure).x) == [1, 2, 3, 4, 5]
    assert list(data(figure).y) == [4.0, 1.0, 3.0, 2.0, 50.0]


@pytest.mark.parametrize(
    ("kind", "missing"), [("candles", "'high'"), ("spread", "'ask'"), ("depth", "'side'")]
)
def test_a_missing_column_is_named(market: tickstone.Database, kind: Any, missing: str) -> None:
    relation = market.sql("SELECT ts, price, size, price AS open, price AS bid FROM trades")
    with pytest.raises(ValueError, match=f"{missing}.*the result has 'ts', 'price'"):
        relation.plot(kind)


def test_a_wrong_kind_is_refused(market: tickstone.Database) -> None:
    with pytest.raises(ValueError, match="kind is one of candles, depth, spread, lines, not 'pie'"):
        market.sql("SELECT * FROM trades").plot("pie")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["candles", "depth", "spread", "lines"])
def test_no_rows_is_an_empty_chart(db: tickstone.Database, kind: Any) -> None:
    empty: Relation = db.sql(
        """SELECT CAST('2024-08-08' AS TIMESTAMP) AS ts, 'bid' AS side, 1.0 AS price, 1.0 AS size, 1.0 AS open,
           1.0 AS high, 1.0 AS low, 1.0 AS close, 1.0 AS bid, 1.0 AS ask WHERE false"""
    )
    assert all(trace.x is None or len(trace.x) == 0 for trace in empty.plot(kind).data)


def test_without_plotly_it_says_what_to_install(
    market: tickstone.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.startswith("plotly"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *arguments, **keywords)

    relation = market.sql("SELECT * FROM trades")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install 'tickstone\[plot\]'"):
        relation.plot()

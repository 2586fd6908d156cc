"""nbbo against a plain Python version and, for its prices, pandas."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from fast.markets import BUSY, Market, opened

Row = dict[str, Any]


@pytest.fixture(scope="module", params=["crowd", "auction", "venues", "one symbol", "one row", "empty"])
def market(request: pytest.FixtureRequest) -> Iterator[Market]:
    """Quotes: `price` is the bid, `odd` the ask, which may lie below it and be NaN."""
    with opened(request.param) as found:
        yield found


def best(book: dict[Any, Row], price: str, better: Any) -> tuple[float | None, float | None, str | None]:
    """The best price of a side, what is offered at it, and by whom."""
    prices = {venue: row[price] for venue, row in book.items() if row[price] is not None and not math.isnan(row[price])}
    if not prices:
        return None, None, None
    found = better(prices.values())
    venues = [venue for venue, of in prices.items() if of == found]
    sizes = [book[venue]["size"] for venue in venues if book[venue]["size"] is not None]
    return found, float(sum(sizes)) if sizes else None, ",".join(sorted(venue or "NULL" for venue in venues))


def consolidated(rows: list[Row]) -> list[tuple[Any, ...]]:
    """The best of both sides after each quote."""
    books: dict[Any, dict[Any, Row]] = {}
    found = []
    for row in rows:
        book = books.setdefault(row["symbol"], {})
        book[row["venue"]] = row
        bid, bid_size, bidders = best(book, "price", max)
        ask, ask_size, askers = best(book, "odd", min)
        # Of the two zeros the one that came last may stand: they are equal.
        found.append((row["ts"], row["symbol"], bid, bid_size, bidders, ask + 0.0 if ask == 0 else ask, ask_size, askers))
    return found


COLUMNS = "ts::bigint, symbol, bid, bid_size, bid_venues, ask + 0.0, ask_size, ask_venues"
ARGUMENTS = "series => symbol, venue => venue, bid => price, ask => odd, bid_size => size, ask_size => size"


def rows_of(market: Market) -> list[Row]:
    table = market.asking.rows["ticks"]
    rows: list[Row] = table.set_column(0, "ts", table.column("ts").cast(pa.int64())).to_pylist()
    return rows


def test_nbbo(market: Market) -> None:
    market.asking.check(
        f"SELECT {COLUMNS} FROM nbbo(TABLE ticks, {ARGUMENTS})",
        expect=consolidated(rows_of(market)),
    )


@pytest.mark.parametrize("condition", ["price > 100", f"symbol = '{BUSY}'", "symbol IS NULL", "price > 1e9"])
def test_nbbo_of_a_query(market: Market, condition: str) -> None:
    """What the query leaves out is no quote."""
    conditions: dict[str, Callable[[Row], bool]] = {
        "price > 100": lambda row: row["price"] is not None and row["price"] > 100,
        f"symbol = '{BUSY}'": lambda row: row["symbol"] == BUSY,
        "symbol IS NULL": lambda row: row["symbol"] is None,
        "price > 1e9": lambda _: False,
    }
    keeps = conditions[condition]
    market.asking.check(
        f"SELECT {COLUMNS} FROM nbbo((SELECT * FROM ticks WHERE {condition}), {ARGUMENTS})",
        expect=consolidated([row for row in rows_of(market) if keeps(row)]),
    )


def test_a_condition_outside_does_not_change_the_book(market: Market) -> None:
    rows = rows_of(market)
    half = rows[len(rows) // 2]["ts"] if rows else 0
    market.asking.check(
        f"SELECT {COLUMNS} FROM nbbo(TABLE ticks, {ARGUMENTS}) WHERE symbol = '{BUSY}' AND ts::bigint >= {half}",
        expect=[found for found in consolidated(rows) if found[0] >= half and found[1] == BUSY],
    )


def test_nbbo_in_order_of_time(market: Market) -> None:
    """Without a series all is one instrument; rows come in order of time."""
    if market.ties:
        return
    rows = [{**row, "symbol": None} for row in rows_of(market)]
    arguments = ARGUMENTS.replace("series => symbol, ", "")
    market.asking.check(
        f"SELECT {COLUMNS.replace('symbol', 'NULL')} FROM nbbo(TABLE ticks, {arguments})",
        expect=consolidated(rows),
        ordered=True,
    )


def test_nbbo_below_other_clauses(market: Market) -> None:
    """SAMPLE BY over the consolidated bid, against the last quotes carried forward venue by venue."""

    def hourly(ticks: pd.DataFrame) -> pd.DataFrame:
        ticks = ticks[ticks["symbol"] == BUSY].reset_index(drop=True)
        if ticks.empty:
            return pd.DataFrame({"ts": [], "bid": []})
        # A quote without a bid takes the last one back: a mark that is carried forward as a price is.
        marked = ticks.assign(price=ticks["price"].fillna(-1.0), venue=ticks["venue"].fillna("?"))
        last = marked.pivot(columns="venue", values="price").ffill()
        bid = last.max(axis=1).where(lambda of: of >= 0)
        closing = bid.groupby(ticks["ts"].dt.floor("1h")).apply(lambda of: of.iloc[-1])
        return pd.DataFrame({"ts": closing.index.astype("int64"), "bid": closing.to_numpy()})

    market.asking.check(
        f"""SELECT ts::bigint, last(bid) FROM nbbo((SELECT * FROM ticks WHERE symbol = '{BUSY}'), {ARGUMENTS})
            SAMPLE BY 1h""",
        pandas=hourly,
    )

"""LATEST ON, ORDER BY and LIMIT against DuckDB, and what the markets are."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast.markets import CONDITIONS, LATE_REOPENED, MARKETS, Market, drawn_range, literal
from tickstone import Database
from tickstone.testing import STATES, asking, check


def test_the_markets_are_what_they_say() -> None:
    """Symbols longer than two blocks and of one row, several partitions, SYMBOL columns beside the series key, late
    rows and equal times: else the tests below would not meet them."""
    rows, series, _ = MARKETS["crowd"]
    with asking(states=(*STATES, LATE_REOPENED), series=series, ticks=rows()) as ask:
        counts = ask.peer.sql("SELECT count(*) FROM ticks GROUP BY symbol ORDER BY 1").fetchall()
        assert counts[0] == (1,) and counts[-1][0] > 2_048 and len(counts) > 250
        for name, database in ask.states.items():
            if name == "frames":
                continue
            kinds = {row[0]: row[1] for row in database.sql("DESCRIBE ticks").fetchall()}
            assert [kinds[column] for column in ("symbol", "venue", "side")] == ["SYMBOL"] * 3, name
            (shown,) = database.sql("SHOW TABLES").fetchall()
            assert shown[2] == "symbol" and shown[-2:] == (14_000, 4), name
    for name, (rows, _, ties) in MARKETS.items():
        times = rows().column("ts").cast(pa.int64()).to_pylist()
        assert times == sorted(times) and (len(set(times)) < len(times)) == (ties != "none"), name


def sorts(database: Database, asked: str) -> bool:
    """Whether the plan of a statement has a sort in it."""
    return "SortExec" in "".join(str(row) for row in database.sql(f"EXPLAIN {asked}").fetchall())


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT * FROM ticks ORDER BY symbol, ts",
        "SELECT id, price + 1 AS p FROM ticks WHERE price > 100.5 ORDER BY symbol DESC, venue, ts DESC LIMIT 5",
        "SELECT venue, id FROM ticks WHERE ts > '2024-03-31' ORDER BY venue, ts",
        "SELECT symbol FROM ticks ORDER BY symbol LIMIT 3",
    ],
)
def test_an_order_by_series_sorts_no_rows(venues: Market, asked: str) -> None:
    for name, database in venues.asking.states.items():
        assert name == "frames" or not sorts(database, asked), name
        assert name == "frames" or sorts(database, asked.replace("ORDER BY", "ORDER BY id,")), name


# LATEST ON.


@pytest.mark.parametrize("condition", CONDITIONS)
def test_latest_on(market: Market, condition: str) -> None:
    """Of equal times in one series the one that arrived last: the greatest `id`."""
    keys = ["symbol", "symbol, venue"] + (["side"] if market.ordered_across else [])
    tick, peer = (f"WHERE {each}" if each else "" for each in CONDITIONS[condition])
    for key in keys:
        market.asking.check(
            f"SELECT * FROM ticks {tick} LATEST ON ts PARTITION BY {key}",
            duckdb=f"""SELECT * FROM ticks {peer}
                       QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY ts DESC, id DESC) = 1""",
        )


def test_latest_on_and_what_is_asked_of_it(market: Market) -> None:
    market.asking.check(
        "SELECT symbol, price, odd, id FROM ticks LATEST ON ts PARTITION BY symbol",
        duckdb="""SELECT symbol, arg_max_null(price, id), arg_max_null(odd, id), max(id) FROM ticks GROUP BY symbol""",
        exact=True,
    )
    market.asking.check(
        "SELECT * FROM ticks LATEST ON ts PARTITION BY symbol",
        polars=lambda ticks: ticks.group_by("symbol").agg(pl.all().last()).select(ticks.columns),
    )
    market.asking.check(
        """SELECT count(*), sum(id), sum(price) FROM (SELECT * FROM ticks LATEST ON ts PARTITION BY symbol)
           WHERE size > 50""",
        duckdb="""SELECT count(*), sum(id), sum(price) FROM (
                    SELECT * FROM ticks QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY id DESC) = 1)
                  WHERE size > 50""",
        exact=True,
    )
    market.asking.check(
        "SELECT symbol, id FROM ticks LATEST ON ts PARTITION BY symbol ORDER BY symbol NULLS LAST LIMIT 5 OFFSET 2",
        duckdb="SELECT symbol, max(id) FROM ticks GROUP BY symbol ORDER BY symbol NULLS LAST LIMIT 5 OFFSET 2",
        ordered=True,
    )


@given(st.data())
@settings(max_examples=10)
def test_latest_on_before_a_time(large: Market, data: st.DataObject) -> None:
    """As of a moment: at a row, and beside it by a nanosecond."""
    end = drawn_range(data, large.times)[1]
    market_open = f"make_timestamp_ns({end})"
    large.asking.check(
        f"SELECT id FROM ticks WHERE ts < {literal(end)} LATEST ON ts PARTITION BY symbol",
        duckdb=f"SELECT max(id) FROM ticks WHERE ts < {market_open} GROUP BY symbol",
    )


# Orders.


# Here -0.0 stands before 0.0, in DuckDB they are equal: adding 0.0 makes one of them.
ORDERS = [
    "ts, id",
    "ts DESC, id DESC",
    "symbol NULLS LAST, ts, id",
    "symbol DESC NULLS FIRST, ts DESC, id",
    "price DESC NULLS LAST, id",
    "odd + 0.0 NULLS FIRST, id",
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("limit", ["", "LIMIT 10", "LIMIT 1025 OFFSET 1000"])
def test_order_by(market: Market, order: str, limit: str) -> None:
    market.asking.check(
        f"SELECT id, symbol, price FROM ticks ORDER BY {order} {limit}",
        duckdb=f"SELECT id, symbol, price FROM ticks ORDER BY {order} {limit}",
        ordered=True,
    )


@pytest.mark.parametrize("limit", ["", "LIMIT 7 OFFSET 3", "LIMIT 2000"])
@pytest.mark.parametrize("order", ["ts", "ts DESC", "symbol NULLS LAST, ts", "symbol NULLS FIRST, ts DESC"])
def test_order_by_time_alone(market: Market, order: str, limit: str) -> None:
    """Rows that `order` does not tell apart may stand in any order, so only what it names is asked for."""
    for condition in ("everything", "one symbol", "all at once"):
        tick, peer = (f"WHERE {each}" if each else "" for each in CONDITIONS[condition])
        columns = "ts, symbol" if "symbol" in order else "ts"
        market.asking.check(
            f"SELECT {columns} FROM ticks {tick} ORDER BY {order} {limit}",
            duckdb=f"SELECT {columns} FROM ticks {peer} ORDER BY {order} {limit}",
            ordered=True,
        )


@pytest.mark.parametrize("condition", ["price > 0", "symbol <> 'B'"])
def test_equal_times_of_a_series_stay_as_they_came(condition: str) -> None:
    """docs/sql/insert.md: rows of one series with equal times stay in the order they came."""
    once = {"ts": pa.array(range(17), pa.timestamp("ns")), "symbol": ["A"] * 17, "price": [1.0] * 17}
    twice = pa.concat_tables([pa.table({**once, "id": range(first, first + 17)}) for first in (0, 17)])
    asked = "SELECT id FROM ticks {} ORDER BY ts"
    right = [(at + later,) for at in range(17) for later in (0, 17)]
    check(asked.format(""), expect=right, ordered=True, states=["half"], ticks=twice)
    check(asked.format(f"WHERE {condition}"), expect=right, ordered=True, states=["half"], ticks=twice)


def test_limits_at_the_ends(market: Market) -> None:
    count = market.asking.rows["ticks"].num_rows
    for limit in ("LIMIT 0", "LIMIT 1", f"LIMIT {count + 5}", f"LIMIT 3 OFFSET {max(count - 1, 0)}", f"OFFSET {count}"):
        for order in ("ts, id", "ts DESC, id DESC"):
            market.asking.check(
                f"SELECT id FROM ticks ORDER BY {order} {limit}",
                duckdb=f"SELECT id FROM ticks ORDER BY {order} {limit}",
                ordered=True,
            )


def test_whole_rows_in_order_of_time(untied: Market) -> None:
    """With times that are all different each row has its place."""
    for order, limit in (
        ("ts", ""),
        ("ts DESC", ""),
        ("ts DESC", "LIMIT 100"),
        ("ts", "LIMIT 100 OFFSET 2000"),
        ("symbol NULLS LAST, ts", ""),
        ("symbol NULLS FIRST, ts DESC", "LIMIT 1500"),
        ("symbol DESC NULLS LAST, ts", "LIMIT 7"),
        ("venue NULLS FIRST, symbol DESC NULLS FIRST, ts DESC", ""),
        ("venue DESC NULLS LAST, ts", "LIMIT 1000 OFFSET 500"),
    ):
        for condition in ("everything", "one symbol", "a middle", "all at once"):
            tick, peer = (f"WHERE {each}" if each else "" for each in CONDITIONS[condition])
            untied.asking.check(
                f"SELECT * FROM ticks {tick} ORDER BY {order} {limit}",
                duckdb=f"SELECT * FROM ticks {peer} ORDER BY {order} {limit}",
                ordered=True,
            )

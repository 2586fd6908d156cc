"""The main job on real input: recorded trades and quotes, imported, asked, compared with DuckDB."""

import pytest

from comparing import Oracle, assert_same

TRADES = 34_419
QUOTES = 131_932
# 2024-08-09T00:00:00Z, ns since the Unix epoch.
MIDNIGHT = 1_723_161_600_000_000_000


@pytest.fixture(scope="module")
def database(module_tickstone, sample):
    """The two files, imported as a user would."""
    module_tickstone.run("import", "--table", "trades", sample / "trades.csv")
    module_tickstone.run("import", "--table", "quotes", sample / "quotes.csv")
    return module_tickstone


@pytest.fixture(scope="module")
def oracle(sample):
    """DuckDB on the same files."""
    oracle = Oracle()
    oracle.load(
        "trades",
        sample / "trades.csv",
        {
            "timestamp": "BIGINT",
            "exchange_time": "BIGINT",
            "symbol": "VARCHAR",
            "side": "VARCHAR",
            "price": "DOUBLE",
            "amount": "DOUBLE",
            "id": "BIGINT",
        },
    )
    oracle.load(
        "quotes",
        sample / "quotes.csv",
        {
            "timestamp": "BIGINT",
            "symbol": "VARCHAR",
            "bid": "DOUBLE",
            "bid_size": "DOUBLE",
            "ask": "DOUBLE",
            "ask_size": "DOUBLE",
            "update_id": "BIGINT",
        },
    )
    return oracle


def test_every_row_is_there(database, oracle):
    assert int(database.value("SELECT count(*) FROM trades")) == TRADES
    assert int(database.value("SELECT count(*) FROM quotes")) == QUOTES
    assert_same(
        database.table("SELECT * FROM trades ORDER BY symbol, id"),
        oracle.rows("SELECT * EXCLUDE n FROM trades ORDER BY symbol, id"),
        "all trades",
    )
    assert_same(
        database.table("SELECT * FROM quotes ORDER BY symbol, update_id, timestamp"),
        oracle.rows("SELECT * EXCLUDE n FROM quotes ORDER BY symbol, update_id, timestamp"),
        "all quotes",
    )


def test_a_file_is_not_imported_twice(database, sample):
    again = database.run("import", "--table", "trades", sample / "trades.csv", check=False)
    assert again.returncode != 0
    assert int(database.value("SELECT count(*) FROM trades")) == TRADES


@pytest.mark.parametrize(("stride", "nanos"), [("1s", 1_000_000_000), ("1m", 60_000_000_000)])
def test_bars(database, oracle, stride, nanos):
    ours = database.table(f"""
        SELECT timestamp, symbol, first(price), max(price), min(price), last(price), sum(amount), count(*)
        FROM trades SAMPLE BY {stride} ORDER BY timestamp, symbol""")
    theirs = oracle.rows(f"""
        SELECT timestamp // {nanos} * {nanos} AS bucket, symbol, first(price ORDER BY timestamp, n), max(price),
               min(price), last(price ORDER BY timestamp, n), sum(amount), count(*)
        FROM trades GROUP BY bucket, symbol ORDER BY bucket, symbol""")
    assert_same(ours, theirs, f"bars of {stride}")


def test_vwap(database, oracle):
    ours = database.table("""
        SELECT timestamp, symbol, side, vwap(price, amount) FROM trades
        SAMPLE BY 10s ORDER BY timestamp, symbol, side""")
    theirs = oracle.rows("""
        SELECT timestamp // 10_000_000_000 * 10_000_000_000 AS bucket, symbol, side,
               sum(price * amount) / sum(amount)
        FROM trades GROUP BY ALL ORDER BY bucket, symbol, side""")
    assert_same(ours, theirs, "VWAP")


@pytest.mark.parametrize(
    "join",
    [
        "trades t ASOF JOIN quotes q ON (symbol)",
        "trades t ASOF JOIN quotes q MATCH_CONDITION (t.timestamp >= q.timestamp) ON t.symbol = q.symbol",
        "trades t ASOF LEFT JOIN quotes q ON t.symbol = q.symbol AND t.timestamp >= q.timestamp",
    ],
)
def test_asof_join_of_trades_to_quotes(database, oracle, join):
    ours = database.table(f"""
        SELECT t.symbol, t.id, t.timestamp, t.price, q.timestamp, q.bid, q.ask, q.update_id
        FROM {join} ORDER BY t.symbol, t.id""")
    # Of quotes with one time and symbol the last to arrive counts; DuckDB leaves that open.
    theirs = oracle.rows("""
        WITH q AS (SELECT * FROM quotes QUALIFY row_number() OVER (PARTITION BY symbol, timestamp ORDER BY n DESC) = 1)
        SELECT t.symbol, t.id, t.timestamp, t.price, q.timestamp, q.bid, q.ask, q.update_id
        FROM trades t ASOF LEFT JOIN q ON t.symbol = q.symbol AND t.timestamp >= q.timestamp
        ORDER BY t.symbol, t.id""")
    assert len(theirs) == TRADES
    assert_same(ours, theirs, join)


def test_spread_over_midnight(database, oracle):
    ours = database.table("""
        SELECT timestamp, symbol, avg(spread(bid, ask)), min(ask - bid), max(ask - bid), avg(mid(bid, ask)), count(*)
        FROM quotes WHERE timestamp >= '2024-08-08T23:59:00' AND timestamp < '2024-08-09T00:01:00'
        SAMPLE BY 1s ORDER BY timestamp, symbol""")
    theirs = oracle.rows(f"""
        SELECT timestamp // 1_000_000_000 * 1_000_000_000 AS bucket, symbol, avg(ask - bid), min(ask - bid),
               max(ask - bid), avg((bid + ask) / 2), count(*)
        FROM quotes WHERE timestamp >= {MIDNIGHT} - 60_000_000_000 AND timestamp < {MIDNIGHT} + 60_000_000_000
        GROUP BY bucket, symbol ORDER BY bucket, symbol""")
    assert len({row[0] >= MIDNIGHT for row in theirs}) == 2, "the sample crosses midnight"
    assert_same(ours, theirs, "spread over midnight")


def test_latest_quote(database, oracle):
    ours = database.table("SELECT * FROM quotes LATEST ON timestamp PARTITION BY symbol ORDER BY symbol")
    theirs = oracle.rows("""
        SELECT * EXCLUDE n FROM quotes
        QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY timestamp DESC, n DESC) = 1 ORDER BY symbol""")
    assert_same(ours, theirs, "latest quotes")


def test_everything_survives_sealing(database, oracle):
    """The same rows from parts; imported rows may be there already, which changes nothing."""
    database.run("sql", "-c", "CHECKPOINT")
    ours = database.table("SELECT symbol, side, count(*), sum(amount), max(price) FROM trades GROUP BY 1, 2 ORDER BY 1, 2")
    theirs = oracle.rows("SELECT symbol, side, count(*), sum(amount), max(price) FROM trades GROUP BY 1, 2 ORDER BY 1, 2")
    assert_same(ours, theirs, "totals")

"""DELETE, UPDATE and ALTER TABLE against the same statements in DuckDB, then what reads the rows that are left."""

import random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tickstone
from tickstone.testing import Asking, asking
from tickstone.testing.markets import market

STORED = ("memory", "parts", "half", "overlapping", "reopened", "changed")
CONDITIONS = [
    "symbol = 'S000'",
    "symbol IN ('S001', 'S002', 'nowhere') AND price > 100",
    "symbol IS NULL",
    "price < 98 OR size > 90",
    "side = 'buy' AND size % 3 = 0",
    "id IN (SELECT id FROM ticks WHERE size = 7)",
    "price > (SELECT avg(price) FROM ticks) + 4",
    "odd IS NULL",
    "false",
]
SETS = [
    ("price = price * 2", "size < 40"),
    ("size = size + 1000, price = NULL", "symbol = 'S000'"),
    ("side = 'sell'", "side IS NULL"),
    ("venue = 'NEW'", "id % 5 = 0"),
    ("price = size, size = CAST(id AS BIGINT)", "symbol > 'S003'"),
    ("odd = 0.5", "odd <> odd OR odd IS NULL"),
]
READS = [
    "SELECT id, symbol, side, venue, price, size, odd + 0.0 FROM ticks",
    "SELECT count(*), count(price), sum(price), min(price), max(price), sum(size), min(size), max(size) FROM ticks",
    "SELECT symbol, count(*), sum(price), max(size), min(price) FROM ticks GROUP BY symbol",
    "SELECT side, venue, count(*), sum(size) FROM ticks GROUP BY side, venue",
    "SELECT min(ts), max(ts) FROM ticks",
]
NEWEST = (
    "SELECT symbol, id, price FROM ticks LATEST ON ts PARTITION BY symbol",
    "SELECT symbol, id, price FROM ticks QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY ts DESC, id DESC) = 1",
)
HOURS = (
    "SELECT ts, symbol, count(*), sum(price), first(id), last(price) FROM ticks SAMPLE BY 1h",
    """SELECT time_bucket(INTERVAL 1 HOUR, ts) AS bucket, symbol, count(*), sum(price), arg_min(id, id),
       arg_max_null(price, id) FROM ticks GROUP BY bucket, symbol""",
)
WINDOWS = (
    "SELECT id, sum(price) OVER (PARTITION BY symbol ORDER BY ts ROWS 4 PRECEDING) FROM ticks",
    "SELECT id, sum(price) OVER (PARTITION BY symbol ORDER BY ts, id ROWS 4 PRECEDING) FROM ticks",
)


def ticks(seed: int, rows: int = 3_000) -> pa.Table:
    """Rows of 40 symbols with equal times in a series, late ones, NULLs and NaN."""
    return market(seed, rows, 40, ties="series")


def both(ask: Asking, statement: str) -> None:
    """Carries a statement out in every state and in DuckDB."""
    for database in ask.states.values():
        database.sql(statement)
    ask.peer.execute(statement)


def compare_reads(ask: Asking) -> None:
    """Asks what reads the rows in every way."""
    for read in READS:
        ask.check(read, duckdb=read)
    for tick, peer in (NEWEST, HOURS, WINDOWS):
        ask.check(tick, duckdb=peer)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_delete(condition: str) -> None:
    with asking(states=STORED, series="symbol", timestamp="ts", ticks=ticks(11)) as ask:
        both(ask, f"DELETE FROM ticks WHERE {condition}")
        compare_reads(ask)


@pytest.mark.parametrize(("sets", "condition"), SETS)
def test_update(sets: str, condition: str) -> None:
    with asking(states=STORED, series="symbol", timestamp="ts", ticks=ticks(12)) as ask:
        both(ask, f"UPDATE ticks SET {sets} WHERE {condition}")
        compare_reads(ask)


def test_with_another_table() -> None:
    """USING and FROM."""
    factors = pa.table({"who": ["S000", "S003"], "factor": [2.0, 0.5]})
    with asking(states=STORED, series="symbol", timestamp="ts", ticks=ticks(13)) as ask:
        for database in ask.states.values():
            database.sql("CREATE TABLE factors (who VARCHAR, factor DOUBLE)")
            database.append("factors", factors)
        ask.peer.register("factors", factors)
        both(ask, "UPDATE ticks SET price = price * factors.factor FROM factors WHERE factors.who = ticks.symbol AND size < 80")
        both(ask, "DELETE FROM ticks USING factors WHERE factors.who = ticks.symbol AND size > 90")
        compare_reads(ask)


@given(st.randoms(use_true_random=False))
@settings(max_examples=4)
def test_sequences(rng: random.Random) -> None:
    """Deletions, updates, appends and seals in any order."""
    rows = ticks(14, 2_000)
    with asking(states=STORED, series="symbol", timestamp="ts", ticks=rows.slice(0, 1_000)) as ask:
        at = 1_000
        for _ in range(6):
            kind = rng.choice(["delete", "update", "append", "seal"])
            if kind == "delete":
                both(ask, f"DELETE FROM ticks WHERE id % {rng.randint(3, 9)} = 1 AND {rng.choice(CONDITIONS[:5])}")
            elif kind == "update":
                sets, condition = rng.choice(SETS)
                both(ask, f"UPDATE ticks SET {sets} WHERE {condition}")
            elif kind == "append":
                piece = rows.slice(at, 300)
                at += piece.num_rows
                for database in ask.states.values():
                    database.append("ticks", piece)
                ask.peer.register("piece", piece)
                ask.peer.execute("INSERT INTO ticks SELECT * FROM piece")
            else:
                for database in ask.states.values():
                    database.seal()
            compare_reads(ask)


CLAUSES = [
    "WHEN MATCHED AND n.kind = 1 THEN UPDATE SET price = n.price",
    "WHEN MATCHED AND n.price > b.price THEN UPDATE SET price = n.price, note = b.note || n.symbol",
    "WHEN MATCHED THEN UPDATE SET note = NULL, price = b.price + 1",
    "WHEN NOT MATCHED AND n.kind < 3 THEN INSERT (ts, symbol, price) VALUES (n.ts, n.symbol, n.price)",
    "WHEN NOT MATCHED THEN INSERT (symbol, ts, note) VALUES (n.symbol, n.ts, 'new')",
]


@given(st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_merge(rng: random.Random) -> None:
    def rows(count: int) -> list[str]:
        keys = {(rng.randint(1, 5), rng.choice("ABC")) for _ in range(count)}
        prices = ["NULL", *map(str, range(9)), *(f"{whole}.5" for whole in range(9))]
        return [f"('2024-01-0{day}'::TIMESTAMP, '{symbol}', {rng.choice(prices)}" for day, symbol in sorted(keys)]

    with tickstone.open(":memory:") as ours, duckdb.connect() as theirs:
        ours.sql("""CREATE TABLE book (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, note VARCHAR)
                    TIMESTAMP(ts) SERIES BY (symbol) DEDUP UPSERT KEYS (ts, symbol)""")
        theirs.sql("CREATE TABLE book (ts TIMESTAMP, symbol VARCHAR, price DOUBLE, note VARCHAR)")
        kept, news = [f"{row}, 'n')" for row in rows(8)], [f"{row}, {rng.randint(1, 4)})" for row in rows(8)]
        # DuckDB wants those without a condition last.
        some = sorted(rng.sample(CLAUSES, rng.randint(1, 4)), key=lambda clause: " AND n." not in clause.split("THEN")[0])
        clauses = " ".join(some)
        source = f"(SELECT * FROM (VALUES {', '.join(news)}) AS v(ts, symbol, price, kind))"
        on = rng.choice(["b.ts = n.ts AND b.symbol = n.symbol", "(b.symbol, b.ts) = (n.symbol, n.ts)"])
        for database in (ours, theirs):
            database.sql(f"INSERT INTO book VALUES {', '.join(kept)}")
        if rng.random() < 0.5:
            ours.seal()
        merge = f"MERGE INTO book AS b USING {source} AS n ON {on} {clauses}"
        for database in (ours, theirs):
            database.sql(merge)
        read = "SELECT ts::VARCHAR, symbol::VARCHAR, price, note FROM book ORDER BY 1, 2"
        read_ours = "SELECT strftime(ts, '%Y-%m-%d %H:%M:%S'), symbol::VARCHAR, price, note FROM book ORDER BY 1, 2"
        assert ours.sql(read_ours).fetchall() == theirs.sql(read).fetchall(), merge


def test_returning() -> None:
    with tickstone.open(":memory:") as database:
        database.sql("CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, price DECIMAL(10, 2)) TIMESTAMP(ts)")
        returned = database.sql("INSERT INTO t (ts, price) VALUES ('2024-01-01', 1.5), ('2024-01-02', 2) RETURNING price, symbol")
        for _ in range(3):
            # It has run once, however often it is read.
            assert [(float(price), symbol) for price, symbol in returned.fetchall()] == [(1.5, None), (2.0, None)]
            database.sql("INSERT INTO t (ts, price) VALUES ('2024-01-03', 9)")
        assert database.sql("SELECT count(*) FROM t").fetchall() == [(5,)]
        assert returned.filter("price > 1.6").fetchall() == [(returned.fetchall()[1][0], None)]
        with pytest.raises(tickstone.SqlError):
            database.sql("INSERT INTO t (ts, price) VALUES ('2024-01-01', 0) RETURNING 1 / price")
        with database.transaction() as transaction:
            inside = transaction.sql("INSERT INTO t (ts, price) VALUES ('2024-01-05', 3) RETURNING count(*)")
            assert inside.fetchall() == [(1,)]
        assert database.sql("SELECT count(*) FROM t").fetchall() == [(6,)]
        changed = database.sql("UPDATE t SET price = price + $1 WHERE price < 2 RETURNING ts::DATE AS day, price", [0.25])
        for _ in range(2):
            assert [(day.day, float(price)) for day, price in changed.fetchall()] == [(1, 1.75)]
        gone = database.sql("DELETE FROM t AS old WHERE old.price > 5 RETURNING count(*) AS n, max(old.price)")
        assert [(n, float(most)) for n, most in gone.fetchall()] == [(3, 9.0)]
        assert database.sql("SELECT count(*) FROM t").fetchall() == [(3,)]


def test_what_is_refused() -> None:
    with tickstone.open(":memory:") as database:
        database.append("ticks", ticks(15, 10), timestamp="ts", series="symbol", create=True)
        for statement, said in [
            ("UPDATE ticks SET ts = '2024-01-01'", "designated timestamp"),
            ("UPDATE ticks SET symbol = 'x'", "series"),
            ("UPDATE ticks SET size = 'many'", "many"),
            ("UPDATE ticks t SET price = u.id FROM ticks u", "several"),
            ("ALTER TABLE ticks DROP COLUMN symbol", "series"),
        ]:
            with pytest.raises(tickstone.SqlError, match=said):
                database.sql(statement)
        assert database.sql("SELECT count(*) FROM ticks").fetchall() == [(10,)]

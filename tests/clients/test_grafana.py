"""Grafana's PostgreSQL data source, by the statements that it sends.

Grafana itself is not run: these are statements of the forms that it sends, macros expanded, in the simple protocol with
results in text, and of its schema browser in the extended one (its documentation, "PostgreSQL query editor").
"""

import datetime as dt
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

# What a panel asks, as somebody writes it and as it is sent (`$__timeFilter(ts)`, `$__timeGroupAlias(ts, '5m')`).
PANEL = """SELECT floor(extract(epoch from ts)/300)*300 AS "time", symbol AS metric, avg(price) AS "value"
FROM trades WHERE ts BETWEEN '2024-08-08T09:30:00Z' AND '2024-08-08T10:30:00.123Z'
GROUP BY 1, 2 ORDER BY 1, 2"""


@pytest.fixture
def db(server: Any) -> Any:
    port = server.ports["pg_port"]
    with psycopg.connect(
        f"host=127.0.0.1 port={port} user=quest password=quest dbname=qdb", autocommit=True
    ) as connection:
        connection.execute("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)")
        start = dt.datetime(2024, 8, 8, 9, 30)
        rows = [(start + dt.timedelta(minutes=n), "BTC" if n % 2 else "ETH", n / 2, n) for n in range(120)]
        connection.cursor().executemany("INSERT INTO trades VALUES (%s, %s, %s, %s)", rows)
        connection.execute("CREATE VIEW seen AS SELECT ts, price FROM trades")
        yield connection


NUMBERS, TEXTS, TIMES = {20, 23, 700, 701, 1700}, {25, 1043}, {1114, 1184}
NINE_THIRTY = 1_723_109_400


def test_a_panel(db: Any) -> None:
    cursor = db.execute(PANEL)
    time, metric, value = cursor.description
    # Grafana takes a number for seconds, a text for the name of a series, and asks the types by their OIDs.
    assert (time.name, metric.name, value.name) == ("time", "metric", "value")
    assert time.type_code in NUMBERS and metric.type_code in TEXTS and value.type_code == 701
    rows = cursor.fetchall()
    assert [float(row[0]) for row in rows] == [NINE_THIRTY + 300 * (n // 2) for n in range(25)]
    assert rows[0][1:] == ("BTC", 1.0) and rows[1][1:] == ("ETH", 1.0)


RANGE = "ts BETWEEN '2024-08-08T09:30:00Z' AND '2024-08-08T10:30:00Z'"
MACROS: list[tuple[str, set[int], int]] = [
    # $__time, $__timeFilter
    (f'SELECT ts AS "time", price FROM trades WHERE {RANGE} ORDER BY 1', TIMES, 61),
    # $__timeEpoch, $__timeFrom, $__timeTo
    ("""SELECT extract(epoch from ts) as "time", price FROM trades WHERE ts >= '2024-08-08T09:30:00Z'"""
     " AND ts <= '2024-08-08T10:30:00Z'", NUMBERS, 61),
    # $__timeGroup in GROUP BY and SELECT, on a server said to have TimescaleDB
    (f"""SELECT time_bucket('300.000s',ts) AS "time", avg(price) FROM trades WHERE {RANGE}"""
     " GROUP BY time_bucket('300.000s',ts) ORDER BY 1", TIMES, 13),
    ("""SELECT time_bucket('0.020s',ts) AS "time", count(*) FROM trades GROUP BY 1 ORDER BY 1""", TIMES, 120),
    ("""SELECT time_bucket('86400.000s',ts) AS "time", count(*) FROM trades GROUP BY 1 ORDER BY 1""", TIMES, 1),
    # $__timeGroup without it
    (f'SELECT floor(extract(epoch from ts)/0.02)*0.02 AS "time", count(*) FROM trades WHERE {RANGE} GROUP BY "time"', NUMBERS, 61),
    # $__unixEpochFilter, $__unixEpochGroup, $__unixEpochNanoFilter
    ('SELECT floor((size)/60)*60 AS "time", count(*) FROM trades WHERE size >= 10 AND size <= 100 GROUP BY 1 ORDER BY 1', NUMBERS, 2),
    ('SELECT size AS "time", price FROM trades WHERE size >= 1723109400000000000 AND size <= 1723113000000000000', NUMBERS, 0),
    # the query builder's own
    (f"""SELECT AVG(price) AS "avg price", ts AS "time" FROM trades WHERE ({RANGE}) GROUP BY ts ORDER BY ts LIMIT 50""", {701}, 50),
    (f"""SELECT ts AS "time", price AS "Value" FROM "trades" WHERE {RANGE} AND "symbol" IN ('BTC','ETH')""", TIMES, 61),
    # variables
    ("SELECT DISTINCT symbol FROM trades", TEXTS, 2),
    ("SELECT symbol AS __text, symbol AS __value FROM trades GROUP BY symbol", TEXTS, 2),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "first", "count"), MACROS, ids=[str(n) for n in range(len(MACROS))])
def test_expanded_macros(db: Any, sql: str, first: set[int], count: int) -> None:
    cursor = db.execute(f"{sql} /*app='grafana'*/")
    assert cursor.description[0].type_code in first
    assert len(cursor.fetchall()) == count


def test_health_and_versions(db: Any) -> None:
    assert db.execute("-- ping").pgresult.status == ExecStatus.EMPTY_QUERY
    assert db.execute("SELECT 1").fetchone() == (1,)
    (version,) = db.execute("SELECT current_setting('server_version_num')::int/100 as version").fetchone()
    assert version >= 1200
    # With a row Grafana would take the server for TimescaleDB.
    assert db.execute("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchall() == []


def test_the_lists_of_the_query_builder(db: Any) -> None:
    """What its lists are made of: quoted names outside of the schemas of the system, and the types of their columns."""
    tables = db.execute(
        """SELECT quote_ident(table_name) AS "table" FROM information_schema.tables"""
        " WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1"
    )
    assert tables.fetchall() == [("seen",), ("trades",)]
    columns = db.execute(
        """SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns"""
        " WHERE quote_ident(table_name) = 'trades'"
    )
    found = dict(columns.fetchall())
    # By these names Grafana knows the column of the time and the columns of numbers.
    assert found.pop("symbol") in ("text", "character varying")
    assert found == {"ts": "timestamp without time zone", "price": "double precision", "size": "bigint"}


def test_the_schema_browser(db: Any) -> None:
    def ask(sql: str, *parameters: str) -> list[Any]:
        rows: list[Any] = db.cursor(binary=True).execute(sql, parameters or None).fetchall()
        return rows

    schemas = ask(
        "SELECT schema_name FROM information_schema.schemata"
        " WHERE schema_name NOT LIKE 'pg_%' AND schema_name != 'information_schema' ORDER BY schema_name"
    )
    assert schemas == [("public",)]
    tables = ask(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = %s AND table_type IN ('BASE TABLE', 'VIEW') ORDER BY table_name",
        "public",
    )
    assert tables == [("seen",), ("trades",)]
    columns = ask(
        "SELECT column_name, data_type, udt_name, numeric_precision, numeric_scale FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        "public",
        "trades",
    )
    assert [(row[0], row[2]) for row in columns if row[0] != "symbol"] == [
        ("ts", "timestamp"),
        ("price", "float8"),
        ("size", "int8"),
    ]
    values = (
        """SELECT 'symbol' AS col_name, "symbol"::text AS val FROM (SELECT DISTINCT "symbol" FROM "public"."trades" """
        """WHERE "symbol" IS NOT NULL ORDER BY "symbol" LIMIT 100) sub_0 UNION ALL """
        """SELECT 'size' AS col_name, "size"::text AS val FROM (SELECT DISTINCT "size" FROM "public"."trades" """
        """WHERE "size" IS NOT NULL ORDER BY "size" LIMIT 100) sub_1"""
    )
    assert len(ask(values)) == 102

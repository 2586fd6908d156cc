"""asyncpg at the PostgreSQL port: it asks for the types of all parameters, and sends and takes binary values only."""

import asyncio
import datetime as dt
import functools
import io
import math
import struct
import time
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import asyncpg
import pytest


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 60))

    return run


@asynchronous
async def test_tables_rows_and_questions(server: Any) -> None:
    port = server.ports["pg_port"]
    db = await asyncpg.connect(host="127.0.0.1", port=port, user="admin", password="quest", database="qdb")
    await db.execute("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)")
    await db.executemany(
        "INSERT INTO trades VALUES ($1, $2, $3, $4)",
        [
            (dt.datetime(2024, 8, 8, 9, 30, 5), "BTC", 61500.5, 2),
            (dt.datetime(2024, 8, 8, 9, 30, 40), "BTC", 61503.5, 1),
            (dt.datetime(2024, 8, 8, 9, 31, 10), "ETH", 2650.25, 3),
        ],
    )
    bars = await db.fetch(
        "SELECT time_bucket('1 minute', ts) AS minute, vwap(price, size) AS vwap FROM trades"
        " WHERE symbol = $1 AND ts >= $2 GROUP BY minute ORDER BY minute",
        "BTC",
        dt.datetime(2024, 8, 8),
    )
    await db.close()
    assert [dict(bar) for bar in bars] == [{"minute": dt.datetime(2024, 8, 8, 9, 30), "vwap": 61501.5}]


AT = dt.datetime(2024, 8, 8, 9, 30)
ROWS = [(AT + dt.timedelta(seconds=n), "BTC" if n % 2 else "ETH", n / 4, n) for n in range(5)]


async def connect(server: Any, **more: Any) -> Any:
    login = {"host": "127.0.0.1", "user": "admin", "password": "quest", "database": "qdb"}
    return await asyncpg.connect(port=server.ports["pg_port"], **(login | more))


async def trades(server: Any) -> Any:
    """A connection, and a table of five trades."""
    db = await connect(server)
    await db.execute("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)")
    await db.executemany("INSERT INTO trades VALUES ($1, $2, $3, $4)", ROWS)
    return db


TEXT, TEXTS = {"text", "varchar"}, {"text[]", "varchar[]"}
ASKED: list[tuple[str, list[set[str]], list[Any], int]] = [
    ("SELECT * FROM trades WHERE symbol = $1 AND ts >= $2 AND price > $3 LIMIT $4",
     [TEXT, {"timestamp"}, {"float8"}, {"int8"}], ["BTC", AT, 0.3, 10], 1),
    ("SELECT * FROM trades WHERE $1 = symbol AND $2 < price", [TEXT, {"float8"}], ["BTC", 0.3], 1),
    ("SELECT * FROM trades WHERE ts BETWEEN $1 AND $2 ORDER BY ts LIMIT $3 OFFSET $4",
     [{"timestamp"}, {"timestamp"}, {"int8"}, {"int8"}], [AT, AT + dt.timedelta(seconds=3), 10, 1], 3),
    ("SELECT * FROM trades WHERE symbol IN ($1, $2) AND size NOT IN ($3)", [TEXT, TEXT, {"int8"}], ["BTC", "x", 1], 1),
    ("SELECT * FROM trades WHERE symbol = ANY($1) AND size = ANY($2)", [TEXTS, {"int8[]"}], [["BTC", "ETH"], [1, 2]], 2),
    ("SELECT * FROM trades WHERE symbol = ANY($1::text[])", [TEXTS], [["BTC"]], 2),
    ("SELECT * FROM trades WHERE symbol LIKE $1 OR lower(symbol) = $2", [TEXT, TEXT], ["B%", "eth"], 5),
    ("SELECT $1::int + 1, $2::text, $3::float8, $4::timestamp",
     [{"int4"}, TEXT, {"float8"}, {"timestamp"}], [1, "a", 1.5, AT], 1),
    ("SELECT $1::bool, $2::date, $3::numeric, $4::uuid, $5::bytea",
     [{"bool"}, {"date"}, {"numeric"}, {"uuid"}, {"bytea"}], [True, AT.date(), Decimal("1.5"), uuid.UUID(int=1), b"\0"], 1),
    ("SELECT CAST($1 AS BIGINT), CAST($2 AS SMALLINT), CAST($3 AS REAL)", [{"int8"}, {"int2"}, {"float4"}], [1, 2, 1.5], 1),
    ("SELECT * FROM trades WHERE ts > $1::timestamp - $2::interval", [{"timestamp"}, {"interval"}],
     [AT + dt.timedelta(seconds=4), dt.timedelta(seconds=2)], 2),
    ("SELECT * FROM trades WHERE ts >= $1::timestamptz", [{"timestamptz"}], [AT.replace(tzinfo=dt.timezone.utc)], 5),
    ("SELECT * FROM trades WHERE price * $1 > $2 AND coalesce($3, size) = size", [{"float8"}, {"float8"}, {"int8"}],
     [2.0, 1.0, 3], 1),
    ("SELECT symbol, sum(size) FROM trades WHERE size >= $1 GROUP BY symbol HAVING sum(size) > $2",
     [{"int8"}, {"int8", "numeric"}], [0, 4], 1),
    ("SELECT t.size FROM trades t JOIN trades u ON t.ts = u.ts AND u.symbol = $1 WHERE t.size > $2",
     [TEXT, {"int8"}], ["BTC", 1], 1),
    ("WITH b AS (SELECT * FROM trades WHERE symbol = $1) SELECT * FROM b WHERE size = $2", [TEXT, {"int8"}], ["BTC", 1], 1),
    ("SELECT * FROM (SELECT size FROM trades WHERE price < $1 UNION ALL SELECT size FROM trades WHERE size = $2) AS u",
     [{"float8"}, {"int8"}], [0.3, 4], 3),
    ("SELECT CASE WHEN size > $1 THEN symbol ELSE $2 END FROM trades WHERE symbol = $3", [{"int8"}, TEXT, TEXT],
     [1, "small", "BTC"], 2),
    ("INSERT INTO trades VALUES ($1, $2, $3, $4)", [{"timestamp"}, TEXT, {"float8"}, {"int8"}], [AT, None, None, None], 0),
    ("INSERT INTO trades (size, ts) VALUES ($1, $2), ($3, $4)", [{"int8"}, {"timestamp"}] * 2, [1, AT, 2, AT], 0),
    ("UPDATE trades SET price = $1 WHERE size = $2", [{"float8"}, {"int8"}], [9.5, 3], 0),
    ("DELETE FROM trades WHERE size = $1 AND symbol = $2", [{"int8"}, TEXT], [4, "ETH"], 0),
    ("SELECT * FROM trades WHERE size = $2 AND symbol = $1 OR size = $2", [TEXT, {"int8"}], ["BTC", 1], 1),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "types", "values", "count"), ASKED, ids=[sql[:40] for sql, *_ in ASKED])
@asynchronous
async def test_types_of_parameters_are_told(
    server: Any, sql: str, types: list[set[str]], values: list[Any], count: int
) -> None:
    db = await trades(server)
    statement = await db.prepare(sql)
    told = [parameter.name for parameter in statement.get_parameters()]
    assert len(told) == len(types)
    assert all(name in wanted for name, wanted in zip(told, types, strict=True)), told
    for _ in range(2):
        assert len(await statement.fetch(*values)) == count
    await db.close()


NAN = float("nan")
TYPES: list[tuple[str, str, list[Any]]] = [
    ("ts", "TIMESTAMP", [AT, dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11, 23, 47, 16, 854775),
                         dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1)]),
    ("b", "BOOLEAN", [True, False, True, False, None]),
    ("i1", "TINYINT", [1, -128, 127, 0, None]),
    ("i2", "SMALLINT", [1, -32768, 32767, -1, None]),
    ("i4", "INT", [1, -(2**31), 2**31 - 1, -1, None]),
    ("i8", "BIGINT", [1, -(2**63), 2**63 - 1, -1, None]),
    ("u8", "BIGINT UNSIGNED", [Decimal(1), Decimal(0), Decimal(2**64 - 1), Decimal(10_000), None]),
    ("f4", "FLOAT", [1.5, -3.4028234663852886e38, 1e-45, NAN, None]),
    ("f8", "DOUBLE", [0.1, -1.7976931348623157e308, 5e-324, NAN, None]),
    ("g8", "DOUBLE", [-0.0, math.inf, -math.inf, 1e15, None]),
    ("n", "DECIMAL(38,10)", [Decimal("1.5000000000"), Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal("0E-10"),
                             Decimal("10000.0001000000"), None]),
    ("v", "VARCHAR", ["text", "", "zwölf Ω 漢字 🚀\n\t\\ 'x' \"y\"", "NULL", None]),
    ("s", "SYMBOL", ["BTC-USD", "", "Ünï 🚀", "null", None]),
    ("d", "DATE", [AT.date(), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), None]),
    ("u", "UUID", [uuid.UUID(int=0x67E55044_10B1_426F_9247_BB680E5FE0C8), uuid.UUID(int=0), uuid.UUID(int=2**128 - 1),
                   uuid.UUID(int=1), None]),
    ("y", "BINARY", [b"\x00\xff\\x'", b"", bytes(range(256)), b"\\x00", None]),
    ("a", "DOUBLE[]", [[1.5, -2.0], [], [None, math.inf], [0.1], None]),
    ("ai", "INT[]", [[1, -(2**31)], [], [None, 2**31 - 1], [0], None]),
    ("av", "VARCHAR[]", [["a", ""], [], [None, 'q"\\,{} '], ["NULL", "Ω"], None]),
    ("at", "TIMESTAMP[]", [[AT], [], [None, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], [AT, AT], None]),
]  # fmt: skip
EVERYTHING = f"CREATE TABLE everything ({', '.join(f'{name} {kind}' for name, kind, _ in TYPES)}) TIMESTAMP(ts)"
VALUES = sorted(zip(*(values for _, _, values in TYPES), strict=True))


def check(rows: list[Any]) -> None:
    """By bits: NaN is NaN, -0.0 is not 0.0, and a FLOAT is compared as one."""
    assert len(rows) == len(VALUES)
    for row, values in zip(rows, VALUES, strict=True):
        for found, wanted, (name, kind, _) in zip(row, values, TYPES, strict=True):
            if kind == "FLOAT" and wanted is not None:
                wanted = struct.unpack("f", struct.pack("f", wanted))[0]
            assert repr(found) == repr(wanted) or (kind == "BIGINT UNSIGNED" and found == wanted), (
                f"{name}: {found!r}, not {wanted!r}"
            )


@asynchronous
async def test_every_type_there_and_back(server: Any) -> None:
    db = await connect(server)
    await db.execute(EVERYTHING)
    await db.executemany(f"INSERT INTO everything VALUES ({', '.join(f'${n + 1}' for n in range(len(TYPES)))})", VALUES)
    check(await db.fetch("SELECT * FROM everything ORDER BY ts"))
    for column, (name, kind, _) in enumerate(TYPES):
        for row in VALUES:
            value = row[column]
            if value is not None and value == value and not kind.endswith("]") and kind != "FLOAT":
                count = await db.fetchval(f"SELECT count(*) FROM everything WHERE {name} = $1", value)
                assert count >= 1, f"{name} = {value!r}"
    await db.close()


@asynchronous
async def test_copies_of_every_type(server: Any) -> None:
    db = await connect(server)
    await db.execute(EVERYTHING)
    assert await db.copy_records_to_table("everything", records=VALUES) == "COPY 5"
    check(await db.fetch("SELECT * FROM everything ORDER BY ts"))
    for form in ("binary", "csv", "text"):
        out = io.BytesIO()
        assert await db.copy_from_table("everything", output=out, format=form) == "COPY 5"
        await db.execute("TRUNCATE TABLE everything")
        out.seek(0)
        assert await db.copy_to_table("everything", source=out, format=form) == "COPY 5"
        check(await db.fetch("SELECT * FROM everything ORDER BY ts"))
    await db.close()


@asynchronous
async def test_copies(server: Any) -> None:
    db = await trades(server)
    rows = [(AT + dt.timedelta(microseconds=n), f"S{n % 5}", n) for n in range(50_000)]
    done = await db.copy_records_to_table("trades", records=rows, columns=["ts", "symbol", "size"])
    assert done == "COPY 50000"
    assert await db.fetchrow("SELECT count(*), sum(size) FROM trades WHERE price IS NULL") == (
        50_000,
        sum(range(50_000)),
    )
    out = io.BytesIO()
    await db.copy_from_query("SELECT symbol, size FROM trades WHERE size < $1 AND price < $2 ORDER BY size", 3, 10.0,
                             output=out, format="csv", header=True, delimiter=";")  # fmt: skip
    assert out.getvalue() == b"symbol;size\nETH;0\nBTC;1\nETH;2\n"
    out = io.BytesIO()
    await db.copy_from_table("trades", columns=["size"], output=out, null="nil")
    assert len(out.getvalue().splitlines()) == 50_005

    # An error in a row, or in the program that gives the rows, leaves nothing.
    with pytest.raises(asyncpg.PostgresError):
        lines = io.BytesIO(b"2024-08-08,A,1,1\n" * 1000 + b"2024-08-08,A,1,many\n")
        await db.copy_to_table("trades", source=lines, format="csv")

    async def fails() -> Any:
        for _ in range(1000):
            yield (AT, "A", 1.0, 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await db.copy_records_to_table("trades", records=fails())
    assert await db.fetchval("SELECT count(*) FROM trades") == 50_005
    async with db.transaction():
        await db.copy_records_to_table("trades", records=[(AT, "A", 1.0, 1)])
    assert await db.fetchval("SELECT count(*) FROM trades") == 50_006
    with pytest.raises(asyncpg.UndefinedTableError):
        await db.copy_records_to_table("nosuch", records=[(1,)])
    await db.close()


@asynchronous
async def test_executemany_is_all_or_nothing(server: Any) -> None:
    db = await trades(server)
    insert = "INSERT INTO trades VALUES ($1, $2, $3, $4)"
    many = [(AT, "M", n / 2, n) for n in range(2000)]
    await db.executemany(insert, many)
    assert await db.fetchval("SELECT count(*) FROM trades") == 2005
    with pytest.raises(asyncpg.NotNullViolationError):
        await db.executemany(insert, [*many, (None, "M", 1.0, 1)])
    assert await db.fetchval("SELECT count(*) FROM trades") == 2005
    await db.close()


@asynchronous
async def test_cursors_are_portals_with_row_limits(server: Any) -> None:
    db = await connect(server)
    async with db.transaction():
        total = 0
        async for record in db.cursor("SELECT x FROM generate_series(1, $1::int) AS s(x)", 10_000, prefetch=7):
            total += record["x"]
        assert total == 10_000 * 10_001 // 2
        one = await db.cursor("SELECT x FROM generate_series(1, 100) AS s(x)")
        two = await db.cursor("SELECT x FROM generate_series(101, 200) AS s(x)")
        assert [row["x"] for row in await one.fetch(3)] == [1, 2, 3]
        assert (await two.fetchrow())["x"] == 101
        await one.forward(10)
        assert (await one.fetchrow())["x"] == 14
        assert len(await one.fetch(1000)) == 86
        assert await one.fetchrow() is None
        statement = await db.prepare("SELECT $1::int AS x")
        assert [row["x"] async for row in statement.cursor(5)] == [5]
    await db.close()


@asynchronous
async def test_a_timeout_cancels(server: Any) -> None:
    db = await trades(server)
    endless = (
        "SELECT sum(a.x * b.x) FROM generate_series(1, 1000000) AS a(x) CROSS JOIN generate_series(1, 1000000) AS b(x)"
    )
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await db.fetch(endless, timeout=0.2)
        assert await db.fetchval("SELECT count(*) FROM trades") == 5
        assert time.monotonic() - began < 5
    task = asyncio.create_task(db.fetch(endless))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await db.fetchval("SELECT count(*) FROM trades") == 5
    await db.execute("SET statement_timeout = 100")
    with pytest.raises(asyncpg.QueryCanceledError):
        await db.fetch(endless)
    await db.close()


@asynchronous
async def test_transactions(server: Any) -> None:
    db = await trades(server)
    other = await connect(server)
    insert = "INSERT INTO trades VALUES ($1, 'T', 1, 1)"
    for isolation in ("read_committed", "repeatable_read", "serializable"):
        async with db.transaction(isolation=isolation):
            await db.execute(insert, AT)
            assert await other.fetchval("SELECT count(*) FROM trades WHERE symbol = 'T'") == 0
        assert await other.fetchval("SELECT count(*) FROM trades WHERE symbol = 'T'") == 1
        await db.execute("DELETE FROM trades WHERE symbol = 'T'")
    with pytest.raises(asyncpg.UndefinedTableError):
        async with db.transaction():
            await db.execute(insert, AT)
            await db.fetch("SELECT * FROM nosuch")
    assert await other.fetchval("SELECT count(*) FROM trades") == 5
    transaction = db.transaction()
    await transaction.start()
    await db.execute(insert, AT)
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await db.fetch("SELEC 1")
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await db.fetch("SELECT 1")
    assert db.is_in_transaction()
    await transaction.rollback()
    assert not db.is_in_transaction()
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        async with db.transaction(readonly=True):
            assert await db.fetchval("SELECT count(*) FROM trades") == 5
            await db.execute(insert, AT)
    assert await other.fetchval("SELECT count(*) FROM trades") == 5
    await db.close()
    await other.close()


@asynchronous
async def test_cached_statements_while_others_change_the_table(server: Any) -> None:
    db = await trades(server)
    other = await connect(server)
    ask = "SELECT * FROM trades WHERE size < $1 ORDER BY size"
    assert [len(row) for row in await db.fetch(ask, 2)] == [4, 4]
    await other.execute("ALTER TABLE trades ADD COLUMN venue VARCHAR")
    # asyncpg prepares anew by itself where the server says that the plan is of another time.
    assert [len(row) for row in await db.fetch(ask, 2)] == [5, 5]
    await other.execute("DROP TABLE trades")
    await other.execute("CREATE TABLE trades (ts TIMESTAMP, size DOUBLE) TIMESTAMP(ts)")
    await other.execute("INSERT INTO trades VALUES ('2024-08-08', 1.5)")
    for _ in range(2):
        try:
            assert [tuple(row) for row in await db.fetch(ask, 2.0)] == [(dt.datetime(2024, 8, 8), 1.5)]
        except (asyncpg.InvalidCachedStatementError, asyncpg.DataError):
            await db.reload_schema_state()
            continue
    assert [tuple(row) for row in await db.fetch(ask + " LIMIT 5", 2.0)] == [(dt.datetime(2024, 8, 8), 1.5)]
    await db.close()
    await other.close()


@asynchronous
async def test_a_pool(server: Any) -> None:
    db = await trades(server)
    login = {"host": "127.0.0.1", "port": server.ports["pg_port"], "user": "quest", "password": "x", "database": "qdb"}
    async with asyncpg.create_pool(min_size=2, max_size=8, server_settings={"jit": "off"}, **login) as pool:

        async def write(writer: int) -> None:
            for n in range(10):
                await pool.execute("INSERT INTO trades VALUES ($1, $2, $3, $4)", AT, f"W{writer}", 1.0, n)

        await asyncio.gather(*(write(writer) for writer in range(16)))
        async with pool.acquire() as one:
            await one.execute("SET application_name = 'changed'")
            await one.execute("SET statement_timeout = 1234")
        async with pool.acquire() as one:  # RESET ALL has undone it
            assert await one.fetchval("SHOW statement_timeout") == "0"
        with pytest.raises(asyncpg.UndefinedTableError):
            await pool.fetch("SELECT * FROM nosuch")
    counts = await db.fetch("SELECT symbol, count(*) FROM trades WHERE symbol LIKE 'W%' GROUP BY symbol")
    assert sorted(map(tuple, counts)) == sorted((f"W{writer}", 10) for writer in range(16))
    await db.close()


@asynchronous
async def test_errors_and_notices(server: Any) -> None:
    db = await trades(server)
    for sql, error, position in (
        ("SELECT * FROM nosuch", asyncpg.UndefinedTableError, "15"),
        ("SELECT nosuch FROM trades", asyncpg.UndefinedColumnError, "8"),
        ("SELEC 1", asyncpg.PostgresSyntaxError, "1"),
        ("SELECT nosuch(1)", asyncpg.UndefinedFunctionError, "8"),
        ("SELECT 1/0", asyncpg.DivisionByZeroError, None),
        ("SELECT * FROM trades WHERE size = 'x'", asyncpg.InvalidTextRepresentationError, None),
        ("CREATE TABLE trades (ts TIMESTAMP, x INT) TIMESTAMP(ts)", asyncpg.DuplicateTableError, None),
    ):
        for ask in (db.fetch, db.execute):
            with pytest.raises(error) as raised:
                await ask(sql)
            assert position is None or raised.value.position == position
    with pytest.raises(asyncpg.DataError):  # by the client, which knows the type
        await db.fetch("SELECT * FROM trades WHERE size = $1", "x")
    with pytest.raises(asyncpg.InterfaceError, match="expects 1 argument"):
        await db.fetch("SELECT * FROM trades WHERE size = $1")
    notices: list[str] = []
    db.add_log_listener(lambda _, message: notices.append(message.sqlstate))
    await db.execute("DROP TABLE IF EXISTS nosuch")
    await db.execute("COMMIT")
    await asyncio.sleep(0)
    assert notices == ["00000", "25P01"]
    assert await db.fetch(";") == []
    assert await db.execute("SELECT 1; SELECT 2") == "SELECT 1"
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await db.prepare("SELECT 1; SELECT 2")
    version = db.get_server_version()
    assert version.major >= 12
    assert db.get_settings().client_encoding in ("UTF8", "utf-8", "UTF-8")
    await db.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=float, format="text")
    assert await db.fetchval("SELECT 1.5::numeric(5, 2)") == 1.5
    await db.close()


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("a BIGINT", "(100000), (3)"),
        ("a VARCHAR", "('x'), ('3')"),
        ("a DOUBLE", "(1e300), (3)"),
        ("b SMALLINT", "(1), (3)"),
        ("a SMALLINT, b INT", "(1, 2), (3, 4)"),
    ],
)
@asynchronous
async def test_a_table_that_is_made_anew_gives_no_null_in_place_of_a_value(server: Any, columns: str, rows: str) -> None:
    db = await connect(server)
    await db.execute("CREATE TABLE pp (a SMALLINT)")
    statement = await db.prepare("SELECT * FROM pp")
    await db.execute("DROP TABLE pp")
    await db.execute(f"CREATE TABLE pp ({columns})")
    await db.execute(f"INSERT INTO pp VALUES {rows}")
    with pytest.raises(asyncpg.exceptions.InvalidCachedStatementError, match="cached statement plan is invalid"):
        await statement.fetch()
    # Statements that the driver keeps by itself are prepared again by itself.
    keeping = await connect(server)
    wanted = [tuple(row) for row in await keeping.fetch("SELECT * FROM pp")]
    assert len(wanted) == 2 and all(value is not None for row in wanted for value in row)
    await db.execute("ALTER TABLE pp ADD COLUMN more VARCHAR")
    assert [tuple(row) for row in await keeping.fetch("SELECT * FROM pp")] == [(*row, None) for row in wanted]
    await keeping.close()
    await db.close()

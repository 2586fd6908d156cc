"""psycopg 3 at the PostgreSQL port: types both ways, transactions, errors, COPY, cursors, cancelling."""

import contextlib
import datetime as dt
import ipaddress
import math
import resource
import struct
import threading
import time
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.types import TypeInfo
from psycopg.types.json import Json, Jsonb


def test_tables_rows_and_questions(server: Any) -> None:
    port = server.ports["pg_port"]
    with psycopg.connect(f"host=127.0.0.1 port={port} user=admin password=quest dbname=qdb", autocommit=True) as db:
        db.execute("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)")
        with db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO trades VALUES (%s, %s, %s, %s)",
                [
                    (dt.datetime(2024, 8, 8, 9, 30, 5), "BTC", 61500.5, 2),
                    (dt.datetime(2024, 8, 8, 9, 30, 40), "BTC", 61503.5, 1),
                    (dt.datetime(2024, 8, 8, 9, 31, 10), "ETH", 2650.25, 3),
                ],
            )
        bars = db.execute(
            "SELECT time_bucket('1 minute', ts) AS minute, vwap(price, size) AS vwap FROM trades"
            " WHERE symbol = %s AND ts >= %s GROUP BY minute ORDER BY minute",
            ("BTC", dt.datetime(2024, 8, 8)),
        ).fetchall()
    assert bars == [(dt.datetime(2024, 8, 8, 9, 30), 61501.5)]


def connect(server: Any, autocommit: bool = True, **more: Any) -> psycopg.Connection[Any]:
    login: dict[str, Any] = {"host": "127.0.0.1", "user": "admin", "password": "quest", "dbname": "qdb"}
    return psycopg.connect(port=server.ports["pg_port"], autocommit=autocommit, **(login | more))


TRADES = "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts) PARTITION BY DAY"
AT = dt.datetime(2024, 8, 8, 9, 30)
ROWS = [(AT + dt.timedelta(seconds=n), "BTC" if n % 2 else "ETH", n / 4, n) for n in range(5)]


@pytest.fixture
def db(server: Any) -> Any:
    """A connection that commits each statement, and a table of five trades."""
    with connect(server) as connection:
        connection.execute(TRADES)
        connection.cursor().executemany("INSERT INTO trades VALUES (%s, %s, %s, %s)", ROWS)
        yield connection


# What each type is, its OID, and values: usual, least, greatest, odd, NULL.
NAN = float("nan")
TYPES: list[tuple[str, str, set[int], list[Any]]] = [
    ("ts", "TIMESTAMP", {1114}, [AT, dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11, 23, 47, 16, 854775),
                                 dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1)]),
    ("b", "BOOLEAN", {16}, [True, False, True, False, None]),
    ("i1", "TINYINT", {21}, [1, -128, 127, 0, None]),
    ("i2", "SMALLINT", {21}, [1, -32768, 32767, -1, None]),
    ("i4", "INT", {23}, [1, -(2**31), 2**31 - 1, -1, None]),
    ("i8", "BIGINT", {20}, [1, -(2**63), 2**63 - 1, -1, None]),
    ("u8", "BIGINT UNSIGNED", {1700}, [1, 0, 2**64 - 1, 2**63, None]),
    ("f4", "FLOAT", {700}, [1.5, -3.4028234663852886e38, 1e-45, NAN, None]),
    ("f8", "DOUBLE", {701}, [0.1, -1.7976931348623157e308, 5e-324, NAN, None]),
    ("g8", "DOUBLE", {701}, [-0.0, math.inf, -math.inf, 1e15, None]),
    ("n", "DECIMAL(38,10)", {1700}, [Decimal("1.5000000000"), Decimal("-" + "9" * 28 + "." + "9" * 10),
                                     Decimal("9" * 28 + "." + "9" * 10), Decimal("0E-10"), None]),
    ("v", "VARCHAR", {25, 1043}, ["text", "", "zwölf Ω 漢字 🚀\n\t\\ 'x' \"y\"", "NULL", None]),
    ("s", "SYMBOL", {25, 1043}, ["BTC-USD", "", "Ünï 🚀", "null", None]),
    ("d", "DATE", {1082}, [AT.date(), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), None]),
    ("u", "UUID", {2950}, [uuid.UUID(int=0x67E55044_10B1_426F_9247_BB680E5FE0C8), uuid.UUID(int=0),
                           uuid.UUID(int=2**128 - 1), uuid.UUID(int=1), None]),
    ("y", "BINARY", {17}, [b"\x00\xff\\x'", b"", bytes(range(256)), b"\\x00", None]),
    ("a", "DOUBLE[]", {1022}, [[1.5, -2.0], [], [None, math.inf], [0.1], None]),
    ("ai", "INT[]", {1007}, [[1, -(2**31)], [], [None, 2**31 - 1], [0], None]),
    ("av", "VARCHAR[]", {1009, 1015}, [["a", ""], [], [None, 'q"\\,{} '], ["NULL", "Ω"], None]),
]  # fmt: skip
EVERYTHING = f"CREATE TABLE everything ({', '.join(f'{name} {kind}' for name, kind, _, _ in TYPES)}) TIMESTAMP(ts)"
VALUES = sorted(zip(*(values for _, _, _, values in TYPES), strict=True))


def same(found: Any, wanted: Any, kind: str) -> bool:
    """Equality by bits: NaN is NaN, -0.0 is not 0.0, and a FLOAT is compared as one."""
    if kind == "FLOAT" and wanted is not None and found is not None:
        return struct.pack("f", found) == struct.pack("f", wanted)
    return repr(found) == repr(wanted) or (kind == "BIGINT UNSIGNED" and found == wanted)


@pytest.mark.parametrize("results", ["text", "binary"])
@pytest.mark.parametrize("parameters", ["text", "binary", "literals"])
def test_every_type_there_and_back(server: Any, parameters: str, results: str) -> None:
    placeholder = {"text": "%t", "binary": "%b", "literals": "%s"}[parameters]
    with connect(server) as db:
        db.execute(EVERYTHING)
        cursor: psycopg.Cursor[Any] = psycopg.ClientCursor(db) if parameters == "literals" else db.cursor()
        insert = f"INSERT INTO everything VALUES ({', '.join([placeholder] * len(TYPES))})"
        for row in VALUES:
            cursor.execute(insert, row)
            assert cursor.rowcount == 1
        with db.cursor(binary=results == "binary") as reader:
            rows = reader.execute("SELECT * FROM everything ORDER BY ts").fetchall()
            for column, (name, kind, oids, _) in enumerate(TYPES):
                assert reader.description is not None
                assert reader.description[column].name == name
                assert reader.description[column].type_code in oids, name
                for found, wanted in zip(rows, VALUES, strict=True):
                    # The literal -0.0 is a minus before a zero that has no sign.
                    zero = parameters == "literals" and wanted[column] == 0
                    assert same(found[column], wanted[column], kind) or (zero and found[column] == 0), (
                        f"{name}: {found[column]!r}, not {wanted[column]!r}"
                    )
                    # A value is also found by itself, whatever type the parameter has.
                    if wanted[column] is not None and kind[-1] != "]" and wanted[column] == wanted[column]:
                        text = f"SELECT count(*) FROM everything WHERE {name} = {placeholder}"
                        count = cursor.execute(text, (wanted[column],)).fetchone()
                        # 1e-45 is the nearest double of a FLOAT, not the FLOAT.
                        assert count is not None and (count[0] >= 1 or kind == "FLOAT"), f"{name} = {wanted[column]!r}"
            assert reader.description is not None and reader.description[10].scale == 10


@pytest.mark.parametrize("binary", [False, True])
def test_nanoseconds_are_cut_to_microseconds_and_never_misread(server: Any, binary: bool) -> None:
    with connect(server) as db:
        db.execute("CREATE TABLE t (ts TIMESTAMP, x INT) TIMESTAMP(ts)")
        db.execute(
            "INSERT INTO t VALUES ('2024-08-08T09:30:00.123456789', 1), ('2024-08-08T09:30:01.000000001', 2),"
            " ('1969-12-31T23:59:59.999999999', 3)"
        )
        found = dict(db.cursor(binary=binary).execute("SELECT x, ts FROM t").fetchall())
        whole = dict(db.execute("SELECT x, CAST(ts AS VARCHAR) FROM t").fetchall())
    assert found[1] == AT.replace(microsecond=123456)
    assert found[2] == AT.replace(second=1), "a nanosecond became a microsecond"
    assert found[3] == dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "before 1970 the cut goes down, not up"
    assert ".123456789" in whole[1] and ".000000001" in whole[2]


@pytest.mark.parametrize("binary", [False, True])
def test_types_that_only_results_have(db: Any, binary: bool) -> None:
    sql = "SELECT TIME '10:00:00.5', INTERVAL '2 days 3 hours', max(ts) - min(ts), NULL, avg(price), 1, 2.5, 'x' FROM trades"
    row = db.cursor(binary=binary).execute(sql).fetchone()
    hours = dt.timedelta(days=2, hours=3)
    assert row == (dt.time(10, 0, 0, 500000), hours, dt.timedelta(seconds=4), None, 0.5, 1, 2.5, "x")


@pytest.mark.parametrize("binary", [False, True])
def test_arrays_of_every_element_are_arrays(db: Any, binary: bool) -> None:
    cursor = db.cursor(binary=binary)
    asked = "SELECT array_agg(symbol ORDER BY ts), [symbol, 'q'], array_agg(DISTINCT symbol) FROM trades WHERE symbol = 'BTC' GROUP BY symbol"
    assert cursor.execute(asked).fetchone() == (["BTC", "BTC"], ["BTC", "q"], ["BTC"])
    # Types of elements whose values are widened, beside those that stay.
    for type_, values in [
        ("TINYINT", [1, -2]),
        ("SMALLINT", [1, -2]),
        ("TINYINT UNSIGNED", [1, 255]),
        ("SMALLINT UNSIGNED", [1, 65535]),
        ("INT", [1, -2]),
        ("VARCHAR", ["a", "b,c"]),
        ("SYMBOL", ["a", 'b"c']),
        ("DATE", [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
    ]:
        listed = ", ".join(f"('{value}'::{type_})" for value in values)
        row = cursor.execute(f"SELECT array_agg(v), array_agg(nullif(v, v)) FROM (VALUES {listed}) x(v)").fetchone()
        assert row == (values, [None, None]), (type_, row)


def test_parameters_take_the_type_of_their_place(db: Any) -> None:
    def ask(sql: str, *parameters: Any) -> list[Any]:
        found: list[Any] = db.execute(sql, parameters, binary=len(parameters) % 2 == 0).fetchall()
        return found

    assert ask("SELECT size FROM trades WHERE symbol = %s AND ts >= %s AND price > %s ORDER BY ts LIMIT %s",
               "BTC", AT, 0.1, 1) == [(1,)]  # fmt: skip
    assert ask("SELECT size FROM trades WHERE ts >= %s ORDER BY ts", "2024-08-08T09:30:03") == [(3,), (4,)]
    assert ask("SELECT count(*) FROM trades WHERE ts IN %s", "2024-08-08T09:30") == [(5,)]
    assert ask("SELECT count(*) AS n FROM trades WHERE size < %s SAMPLE BY %s ORDER BY ts LIMIT 1", 100, "1h") == [(5,)]
    east = dt.timezone(dt.timedelta(hours=2))
    assert ask(
        "SELECT size FROM trades WHERE ts = %s", (AT + dt.timedelta(hours=2, seconds=3)).replace(tzinfo=east)
    ) == [(3,)]
    assert ask("SELECT %s::int + 1, %s::text, %s::double precision", 1, "a", 2) == [(2, "a", 2.0)]
    assert ask("SELECT %s::timestamp, %s::date", "2024-08-08 09:30:00", "2024-08-08") == [(AT, AT.date())]
    assert ask("SELECT count(*) FROM trades WHERE symbol = ANY(%s)", ["BTC", "SOL"]) == [(2,)]
    assert ask("SELECT count(*) FROM trades WHERE size = ANY(%s) AND symbol <> %s", [1, 2, 3], "x") == [(3,)]
    assert ask("SELECT count(*) FROM trades WHERE symbol IN (%s, %s)", "BTC", "ETH") == [(5,)]
    assert ask("SELECT count(*) FROM trades WHERE ts BETWEEN %s AND %s", AT, AT + dt.timedelta(seconds=2)) == [(3,)]
    assert ask("SELECT count(*) FROM trades WHERE size = %s OR %s::text IS NULL", 1, None) == [(5,)]
    assert ask("SELECT sum(price * %s) FROM trades", Decimal("2")) == [(5.0,)]
    assert ask("SELECT %s", "alone") == [("alone",)]
    # A cast to numeric without a size keeps the digits of the value, alone and in lists.
    tail = Decimal("0.123456789012345")
    assert ask("SELECT %s::numeric, %s::decimal, %s::numeric", tail, str(tail), Decimal("-1E-12")) == [
        (tail, tail, Decimal("-1E-12"))
    ]
    among = "SELECT count(*) FROM (VALUES (0.123456789012345::DECIMAL(38,15))) v(m) WHERE m = ANY(%s::numeric[])"
    assert ask(among, [tail, Decimal(12)]) == [(1,)]
    assert ask(among, [Decimal("0.1234567890"), Decimal(12)]) == [(0,)]
    assert ask("SELECT count(*) FROM (VALUES (0.5), (0.25)) v(m) WHERE m = %s::numeric", Decimal("0.25")) == [(1,)]


UTC, EAST = dt.timezone.utc, dt.timezone(dt.timedelta(hours=5, minutes=30))
HOUR = dt.timedelta(hours=1)
# As text and as binary a value is the same: what is asked, with which values, and what comes of it.
SAID: list[tuple[str, list[Any], Any]] = [
    ("SELECT {} < {}", [dt.datetime(2024, 8, 8, tzinfo=EAST), dt.datetime(2024, 8, 7, 23, tzinfo=UTC)], True),
    ("SELECT {} = {}", [dt.datetime(2024, 8, 8, 5, 30, tzinfo=EAST), dt.datetime(2024, 8, 8, tzinfo=UTC)], True),
    ("SELECT {} + interval '1 hour'", [AT], AT + HOUR),
    ("SELECT {} - {}", [AT + HOUR, AT], HOUR),
    ("SELECT max(ts) - {} FROM trades", [AT], dt.timedelta(seconds=4)),
    ("SELECT {} + {}", [AT, HOUR], AT + HOUR),
    ("SELECT {} - {}", [AT, -HOUR], AT + HOUR),
    ("SELECT {}", [dt.timedelta(days=-3, hours=2, microseconds=7)], dt.timedelta(days=-3, hours=2, microseconds=7)),
    ("SELECT {} + interval '1 day'", [AT], AT + 24 * HOUR),
    ("SELECT {} < {}", [dt.date(2024, 8, 8), dt.date(2024, 10, 1)], True),
    ("SELECT {} > {}", [dt.time(9, 30), dt.time(9, 29, 59, 999999)], True),
    ("SELECT count(*) FROM trades WHERE ts > {} - {}", [AT + HOUR, HOUR - dt.timedelta(seconds=2)], 2),
    ("SELECT count(*) FROM trades WHERE ts = ANY({})", [[AT, AT + HOUR]], 1),
    ("SELECT count(*) FROM trades WHERE ts = ANY({})", [[AT.replace(tzinfo=EAST) + 5.5 * HOUR]], 1),
    ("SELECT extract(hour FROM {})", [dt.datetime(2024, 8, 8, 1, tzinfo=EAST)], 19),
    ("SELECT {} = {}", [dt.date.min, dt.date.max], False),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "values", "wanted"), SAID)
def test_values_of_a_type_that_is_said(db: Any, sql: str, values: list[Any], wanted: Any) -> None:
    for form in ("%t", "%b"):
        found = db.execute(sql.format(*[form] * len(values)), values).fetchone()
        assert found == (wanted,), form


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("timestamp", "xx", errors.InvalidDatetimeFormat),
        ("timestamptz", "2024-08-08 24:61", errors.InvalidDatetimeFormat),
        ("timestamp", "infinity", errors.DatetimeFieldOverflow),
        ("timestamptz", "-infinity", errors.DatetimeFieldOverflow),
        ("timestamp", "9999-12-31 23:59:59", errors.DatetimeFieldOverflow),
        ("date", "2024-02-30", errors.InvalidDatetimeFormat),
        ("time", "25:00", errors.DatetimeFieldOverflow),
        ("interval", "soon", errors.InvalidDatetimeFormat),
        ("interval", "1 month", errors.FeatureNotSupported),
        ("uuid", "zz", errors.InvalidTextRepresentation),
        ("int2", "99999", errors.NumericValueOutOfRange),
        ("int4", "2147483648", errors.NumericValueOutOfRange),
        ("int8", "1.5", errors.InvalidTextRepresentation),
        ("float8", "1e999", errors.NumericValueOutOfRange),
        ("float4", "1e39", errors.NumericValueOutOfRange),
        ("bool", "perhaps", errors.InvalidTextRepresentation),
        ("timestamp[]", '{"xx"}', errors.InvalidDatetimeFormat),
    ],
)
def test_texts_that_are_no_value_of_the_type_that_is_said(
    server: Any, name: str, text: str, error: type[psycopg.Error]
) -> None:
    of = psycopg.adapters.types.get_oid(name)
    with connect(server) as db:
        result = db.pgconn.exec_params(b"SELECT $1", [text.encode()], param_types=[of])
        assert result.status == ExecStatus.FATAL_ERROR
        assert type(errors.error_from_result(result)) is error


def test_binary_of_a_type_that_is_not_known(db: Any) -> None:
    address, clock = ipaddress.ip_address("10.0.0.1"), dt.time(9, 30, tzinfo=EAST)
    for value, name in ((address, "inet"), (clock, "timetz"), ([address], "_inet")):
        with pytest.raises(errors.FeatureNotSupported, match=f"{name} .OID [0-9]+.") as raised:
            db.execute("INSERT INTO trades (ts, symbol) VALUES (now(), %b)", (value,))
        assert raised.value.diag.message_hint == "send it as text"
    assert db.execute("SELECT count(*) FROM trades").fetchone() == (5,)
    assert db.execute("SELECT %t", (address,)).fetchone() == ("10.0.0.1",)
    assert db.execute("SELECT %b::varchar", (Jsonb({"a": 1}),)).fetchone() == ('{"a": 1}',)
    assert db.execute("SELECT %b::varchar", (Json([1]),)).fetchone() == ("[1]",)


@pytest.mark.parametrize("user", ["admin", "quest", "qdb", "O'Brien"])
@pytest.mark.parametrize("sslmode", ["disable", "prefer"])
def test_who_may_come(server: Any, user: str, sslmode: str) -> None:
    with connect(server, user=user, password="anything", sslmode=sslmode, application_name="a client") as db:
        assert db.execute("SELECT 1").fetchone() == (1,)
        assert db.execute("SHOW application_name").fetchone() == ("a client",)
        assert db.info.server_version >= 120000
        assert db.info.encoding == "utf-8"
        told = {name: db.info.parameter_status(name) for name in ("standard_conforming_strings", "integer_datetimes")}
        assert set(told.values()) == {"on"}
        assert (db.info.parameter_status("DateStyle") or "").startswith("ISO")
        assert (db.info.parameter_status("TimeZone") or "").lower() in ("utc", "etc/utc", "gmt")


def test_tls_that_is_asked_for_is_refused_clearly(server: Any) -> None:
    with pytest.raises(psycopg.OperationalError, match="SSL"):
        connect(server, sslmode="require")


def test_settings_of_a_session(server: Any) -> None:
    with connect(server, options="-c statement_timeout=5000 -c search_path=public") as db:

        def show(name: str) -> str:
            return str(db.execute(f"SHOW {name}").fetchone()[0])  # type: ignore[index]

        assert (show("statement_timeout"), show("search_path")) == ("5s", "public")
        for change in (
            "SET statement_timeout = 250",
            "SET extra_float_digits = 3",
            "SET client_encoding TO 'UTF8'",
            "SET application_name = 'renamed'",
            "SET TIME ZONE 'UTC'",
            "SET timezone TO 'UTC'",
            "SET DateStyle = 'ISO, MDY'",
            "SET standard_conforming_strings = on",
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET search_path TO public, pg_catalog",
        ):
            db.execute(change)
        assert (show("statement_timeout"), show("application_name")) == ("250ms", "renamed")
        assert db.info.parameter_status("application_name") == "renamed", "ParameterStatus follows a SET"
        assert db.execute("SELECT current_setting('application_name')").fetchone() == ("renamed",)
        db.execute("RESET statement_timeout")
        assert show("statement_timeout") == "5s", "RESET goes back to what the connection began with"
        db.execute("RESET ALL")
        db.execute("DISCARD ALL")
        for name in ("server_version", "transaction_isolation", "standard_conforming_strings", "client_encoding",
                     "timezone", "datestyle", "integer_datetimes", "max_identifier_length"):  # fmt: skip
            assert show(name)
        with pytest.raises(errors.UndefinedObject):
            show("no_such_setting")
        version, database, schema = db.execute("SELECT version(), current_database(), current_schema()").fetchone()  # type: ignore[misc]
        assert version.startswith("PostgreSQL ") and (database, schema) == ("qdb", "public")
        assert db.execute("SELECT current_user, session_user").fetchone() == ("admin", "admin")
        assert TypeInfo.fetch(db, "hstore") is None
        double = TypeInfo.fetch(db, "float8")
        assert double is not None and (double.oid, double.array_oid) == (701, 1022)


def test_sessions_that_only_read(server: Any, db: Any) -> None:
    insert = "INSERT INTO trades VALUES ('2024-08-08', 'x', 1, 1)"

    def shown(connection: Any) -> list[str]:
        names = ("default_transaction_read_only", "transaction_read_only")
        return [connection.execute(f"SHOW {name}").fetchone()[0] for name in names]

    def check(connection: Any, read_only: bool) -> None:
        assert shown(connection) == ["on" if read_only else "off"] * 2
        for sql in (insert, "DELETE FROM trades WHERE false", "CREATE TABLE never (x INT)") if read_only else ():
            with pytest.raises(errors.ReadOnlySqlTransaction):
                connection.execute(sql)
        if not read_only:
            connection.execute("DELETE FROM trades WHERE false")

    for options in ("-c default_transaction_read_only=on", "--default_transaction_read_only=true"):
        with connect(server, options=options) as reader:
            for again in ("RESET ALL", "DISCARD ALL", "RESET default_transaction_read_only"):
                check(reader, True)
                reader.execute("SET default_transaction_read_only = off")
                check(reader, False)
                reader.execute(again)
            check(reader, True)
            reader.execute("BEGIN READ WRITE")
            assert shown(reader) == ["on", "off"]
            reader.execute(insert)
            reader.execute("ROLLBACK")
            check(reader, True)
    for on, off in (
        ("SET default_transaction_read_only = on", "SET default_transaction_read_only TO 'no'"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET default_transaction_read_only TO DEFAULT"),
    ):
        db.execute(on)
        check(db, True)
        assert db.info.parameter_status("default_transaction_read_only") == "on"
        db.execute(off)
        check(db, False)
    # Of a transaction alone.
    db.execute("SET transaction_read_only = on")
    check(db, False)
    for begin in ("BEGIN; SET transaction_read_only = on", "BEGIN READ ONLY", "BEGIN; SET TRANSACTION READ ONLY"):
        db.execute(begin)
        assert shown(db) == ["off", "on"]
        with pytest.raises(errors.ReadOnlySqlTransaction):
            db.execute(insert)
        db.execute("ROLLBACK")
        check(db, False)
    db.execute("BEGIN")
    db.execute("SET default_transaction_read_only = on")
    assert shown(db) == ["on", "off"], "the transaction goes on as it began"
    db.execute(insert)
    db.execute("ROLLBACK")
    check(db, True)
    with pytest.raises(errors.InvalidParameterValue):
        db.execute("SET default_transaction_read_only = perhaps")


def test_settings_that_there_are_not(server: Any, db: Any) -> None:
    for options, said in (
        ("-c nosuch=1", "nosuch"),
        ("--nosuch=1", "nosuch"),
        ("-c timezone=Nosuch/Zone", "no such time zone"),
        ("-c server_version=16", "cannot be changed"),
        ("-e", "sets nothing"),
    ):
        with pytest.raises(psycopg.OperationalError, match=said):
            connect(server, options=options)
    for zone in ("Nosuch/Zone", "nosuch", "+99"):
        for sql in (f"SET TimeZone = '{zone}'", f"SET TIME ZONE '{zone}'"):
            with pytest.raises(errors.InvalidParameterValue):
                db.execute(sql)
    for zone in ("UTC", "Europe/Berlin", "america/new_york", "+02:00", "GMT-3", "Etc/GMT+5"):
        db.execute(f"SET TimeZone = '{zone}'")
        assert db.execute("SHOW timezone").fetchone() == (zone,)
        with connect(server, options=f"-c timezone={zone}") as other:
            assert other.info.parameter_status("TimeZone") == zone


def test_what_a_statement_says_it_did(db: Any) -> None:
    def tag(sql: str) -> tuple[str, int]:
        done = db.execute(sql)
        return done.statusmessage, done.rowcount

    insert = "INSERT INTO trades VALUES ('2024-08-08T10:00:00', 'SOL', 1, 1), ('2024-08-08T10:00:01', 'SOL', 2, 2)"
    assert tag(insert) == ("INSERT 0 2", 2)
    assert tag("SELECT * FROM trades LIMIT 3") == ("SELECT 3", 3)
    assert tag("UPDATE trades SET price = 3 WHERE symbol = 'SOL'") == ("UPDATE 2", 2)
    assert tag("DELETE FROM trades WHERE symbol = 'SOL' AND size = 1") == ("DELETE 1", 1)
    assert tag("CREATE TABLE u (ts TIMESTAMP, x INT) TIMESTAMP(ts)")[0] == "CREATE TABLE"
    assert tag("TRUNCATE TABLE u")[0] == "TRUNCATE TABLE"
    assert tag("DROP TABLE u")[0] == "DROP TABLE"
    assert db.execute("").pgresult.status == ExecStatus.EMPTY_QUERY
    assert db.execute(" ; ").pgresult.status == ExecStatus.EMPTY_QUERY
    assert db.execute("-- ping").pgresult.status == ExecStatus.EMPTY_QUERY


def test_several_statements_in_one_text(db: Any) -> None:
    cursor = db.execute(
        "SELECT 1 AS a; SELECT 'x' AS b, 2 AS c; DELETE FROM trades WHERE size = 4; SELECT count(*) FROM trades"
    )
    found = [result.fetchall() if result.description else result.statusmessage for result in cursor.results()]
    assert found == [[(1,)], [("x", 2)], "DELETE 1", [(4,)]]
    # Several INSERTs are one transaction, and after an error nothing of a text is run.
    insert = "INSERT INTO trades VALUES ('2024-08-08T11:00:00', 'A', 1, 1)"
    for text in (
        f"{insert}; INSERT INTO trades VALUES ('2024-08-08T11:00:00', 'B', 'dear', 1); {insert}",
        f"SELECT nosuch FROM trades; {insert}",
    ):
        with pytest.raises(psycopg.Error):
            db.execute(text)
        assert db.execute("SELECT count(*) FROM trades").fetchone() == (4,)
    with pytest.raises(errors.SyntaxError):
        db.execute("SELECT %s; SELECT 2", (1,))


def test_notices(db: Any) -> None:
    notices: list[Any] = []
    db.add_notice_handler(lambda diagnostic: notices.append((diagnostic.severity_nonlocalized, diagnostic.sqlstate)))
    for sql in ("DROP TABLE IF EXISTS nosuch", "CREATE TABLE IF NOT EXISTS trades (ts TIMESTAMP, x INT) TIMESTAMP(ts)",
                "COMMIT", "ROLLBACK", "BEGIN; BEGIN; COMMIT"):  # fmt: skip
        db.execute(sql)
    assert notices == [("NOTICE", "00000"), ("NOTICE", "42P07"), ("WARNING", "25P01"), ("WARNING", "25P01"),
                       ("WARNING", "25001")]  # fmt: skip
    notices.clear()
    # Nothing is said to be done that is refused.
    for sql in ("CREATE TABLE made (x INT)", "DROP TABLE IF EXISTS nosuch", "CREATE TABLE IF NOT EXISTS trades (x INT)"):
        with pytest.raises(errors.ReadOnlySqlTransaction):
            db.execute(f"BEGIN READ ONLY; {sql}")
        db.execute("ROLLBACK")
    with pytest.raises(errors.DuplicateTable):
        db.execute("BEGIN; CREATE TABLE trades (x INT)")
    db.execute("ROLLBACK")
    assert notices == []
    db.execute("BEGIN; CREATE TABLE made (x INT); ROLLBACK")
    assert notices == [("WARNING", "01000")]


ERRORS: list[tuple[str, type[psycopg.Error], str | None]] = [
    ("SELECT * FROM nosuch", errors.UndefinedTable, "nosuch"),
    ("INSERT INTO nosuch VALUES (1)", errors.UndefinedTable, None),
    ("DROP TABLE nosuch", errors.UndefinedTable, None),
    ("TRUNCATE TABLE nosuch", errors.UndefinedTable, None),
    ("LISTEN nosuch", errors.UndefinedTable, None),
    ("SELECT nosuch FROM trades", errors.UndefinedColumn, "nosuch"),
    ("SELECT 'zwölf 🚀', nosuch FROM trades", errors.UndefinedColumn, "nosuch"),
    ("INSERT INTO trades (ts, nosuch) VALUES ('2024-08-08', 1)", errors.UndefinedColumn, None),
    ("UPDATE trades SET nosuch = 1", errors.UndefinedColumn, None),
    ("SELEC 1", errors.SyntaxError, "SELEC"),
    ("SELECT 1 FROM trades WHERE", errors.SyntaxError, None),
    ("SELECT (1", errors.SyntaxError, None),
    ("SELECT 'abc", errors.SyntaxError, None),
    ("CREATE TABLE trades (ts TIMESTAMP, x INT) TIMESTAMP(ts)", errors.DuplicateTable, None),
    ("SELECT CAST('x' AS INT)", errors.InvalidTextRepresentation, None),
    ("SELECT CAST('x' AS UUID)", errors.InvalidTextRepresentation, None),
    ("INSERT INTO trades VALUES ('2024-08-08', 'BTC', 'dear', 1)", errors.InvalidTextRepresentation, None),
    ("INSERT INTO trades VALUES ('not a time', 'BTC', 1, 1)", errors.DataError, None),
    ("INSERT INTO trades VALUES (NULL, 'BTC', 1, 1)", errors.NotNullViolation, None),
    ("SELECT 1/0", errors.DivisionByZero, None),
    ("SELECT size / (size - size) FROM trades", errors.DivisionByZero, None),
    ("SELECT 9223372036854775807 + size FROM trades", errors.NumericValueOutOfRange, None),
    ("SELECT nosuch(1)", errors.UndefinedFunction, "nosuch"),
    ("SELECT count(*), symbol FROM trades", errors.GroupingError, None),
    ("CREATE TABLE t (x NOSUCHTYPE)", errors.UndefinedObject, None),
    ("EXECUTE nosuch", errors.InvalidSqlStatementName, None),
    ("FETCH 1 FROM nosuch", errors.InvalidCursorName, None),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "error", "at"), ERRORS)
def test_errors_by_their_class(db: Any, sql: str, error: type[psycopg.Error], at: str | None) -> None:
    for prepare in (False, True):
        with pytest.raises(error) as raised:
            db.execute(sql, prepare=prepare)
        told = raised.value.diag
        assert told.severity_nonlocalized == "ERROR" and told.message_primary
        assert told.sqlstate == raised.value.sqlstate
        if at is not None:
            assert told.statement_position == str(sql.index(at) + 1), "positions count characters, from 1"
        assert db.info.transaction_status == TransactionStatus.IDLE
        assert db.execute("SELECT count(*) FROM trades").fetchone() == (5,)


@pytest.mark.parametrize("sql", ["CREATE INDEX i ON trades (price)", "CREATE SEQUENCE s", "CREATE TABLE t (x SERIAL)",
                                 "ALTER TABLE trades ADD FOREIGN KEY (size) REFERENCES trades (size)",
                                 "PREPARE TRANSACTION 'x'"])  # fmt: skip
def test_what_there_is_not_is_said(db: Any, sql: str) -> None:
    with pytest.raises((errors.FeatureNotSupported, errors.SyntaxError, errors.UndefinedObject)):
        db.execute(sql)
    assert db.execute("SELECT count(*) FROM trades").fetchone() == (5,)


def test_returning(server: Any) -> None:
    with connect(server) as db:
        db.execute("CREATE TABLE returned (ts TIMESTAMP, n BIGINT, note VARCHAR) TIMESTAMP(ts)")
        for at, prepare in enumerate((False, True)):
            cursor = db.execute(
                "INSERT INTO returned (ts, n) VALUES (%s, %s), ('2024-08-09', 7) RETURNING n * 2 AS twice, note, ts",
                ("2024-08-08", at),
                prepare=prepare,
            )
            assert cursor.statusmessage == "INSERT 0 2"
            assert [column.name for column in cursor.description or ()] == ["twice", "note", "ts"]
            assert [row[:2] for row in cursor.fetchall()] == [(at * 2, None), (14, None)]
        assert db.execute("SELECT count(*) FROM returned").fetchone() == (4,)
        with pytest.raises(errors.DivisionByZero):
            db.execute("INSERT INTO returned (ts, n) VALUES ('2024-08-08', 0) RETURNING 1 / n")
        assert db.execute("SELECT count(*) FROM returned").fetchone() == (4,)
        cursor = db.execute("UPDATE returned SET n = n + %s WHERE n = 7 RETURNING n, note", (1,))
        assert (cursor.fetchall(), cursor.statusmessage) == ([(8, None)] * 2, "UPDATE 2")
        with pytest.raises(errors.DivisionByZero):
            db.execute("DELETE FROM returned WHERE n = %s RETURNING 1 / (n - 8)", (8,))
        cursor = db.execute("DELETE FROM returned WHERE n = %s RETURNING n AS gone", (8,))
        assert (cursor.fetchall(), cursor.statusmessage) == ([(8,)] * 2, "DELETE 2")
        cursor = db.execute("INSERT INTO returned (ts, n) SELECT ts, n FROM returned WHERE n > 99 RETURNING *")
        assert cursor.statusmessage == "INSERT 0 0" and cursor.fetchall() == []
        db.execute("DROP TABLE returned")


def test_tables_of_one_session(server: Any, db: Any) -> None:
    with connect(server) as one, connect(server) as other:
        notices: list[str] = []
        one.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        one.execute("CREATE TEMP TABLE trades (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)")
        with one.cursor().copy("COPY trades (ts, n) FROM STDIN") as copy:
            for n in range(4):
                copy.write_row(("2024-08-08", n))
        # INSERTs that come together are seen by what reads their table.
        one.execute("INSERT INTO trades VALUES ('2024-08-09', 4); INSERT INTO trades VALUES ('2024-08-09', 5)")
        for prepare in (False, True):
            counted = one.execute("SELECT count(*), max(trades.n) FROM trades WHERE n >= %s", (1,), prepare=prepare)
            assert counted.fetchone() == (5, 5)
        assert other.execute("SELECT count(price) FROM trades").fetchone() == (5,)
        assert db.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '%~%'").fetchone() == (0,)
        with one.transaction():
            one.execute("INSERT INTO trades SELECT ts, n + 10 FROM trades")
        assert one.execute("SELECT count(*) FROM trades").fetchone() == (12,)
        with one.cursor().copy("COPY trades (n) TO STDOUT") as copy:
            assert len(list(copy.rows())) == 12
        with pytest.raises(errors.UndefinedColumn, match="'trades' has no column 'price'"):
            one.execute("INSERT INTO trades (price) VALUES (1)")
        one.execute("CREATE TEMP TABLE IF NOT EXISTS trades (x BIGINT)")
        one.execute("DROP TABLE IF EXISTS trades, nothing_there")
        assert ["trades" in notice for notice in notices] == [True, False], notices
        assert one.execute("SELECT count(price) FROM trades").fetchone() == (5,)
        one.execute("CREATE TEMP TABLE scratch (x BIGINT)")
        one.execute("DISCARD ALL")
        with pytest.raises(errors.UndefinedTable):
            one.execute("SELECT * FROM scratch")


def test_transactions(server: Any, db: Any) -> None:
    with connect(server, autocommit=False) as writer:

        def count() -> int:
            return int(db.execute("SELECT count(*) FROM trades").fetchone()[0])

        insert = "INSERT INTO trades VALUES (%s, 'NEW', 1, 1)"
        writer.execute(insert, (AT,))
        assert writer.info.transaction_status == TransactionStatus.INTRANS
        assert count() == 5, "others do not see an open transaction"
        writer.rollback()
        assert writer.info.transaction_status == TransactionStatus.IDLE
        assert count() == 5
        writer.execute(insert, (AT,))
        writer.cursor().executemany(insert, [(AT,), (AT,)])
        writer.commit()
        assert count() == 8
        assert writer.execute("SELECT count(*) FROM trades").fetchone() == (8,)
        writer.commit()

        # An error fails the transaction: nothing but its end is taken, and COMMIT is a ROLLBACK.
        writer.execute(insert, (AT,))
        with pytest.raises(errors.UndefinedTable):
            writer.execute("SELECT * FROM nosuch")
        assert writer.info.transaction_status == TransactionStatus.INERROR
        for sql in ("SELECT 1", "INSERT INTO trades VALUES ('2024-08-08', 'x', 1, 1)"):
            with pytest.raises(errors.InFailedSqlTransaction):
                writer.execute(sql)
        assert writer.execute("COMMIT").statusmessage == "ROLLBACK"
        assert writer.info.transaction_status == TransactionStatus.IDLE
        assert count() == 8
        with pytest.raises(ZeroDivisionError), writer.transaction():
            writer.execute(insert, (AT,))
            raise ZeroDivisionError
        with writer.transaction():
            writer.execute(insert, (AT,))
        assert count() == 9
        writer.execute(insert, (AT,))
        writer.close()
        assert count() == 9, "what was not committed goes with the connection"


def test_kinds_of_transactions(server: Any, db: Any) -> None:
    for level in psycopg.IsolationLevel:
        with connect(server, autocommit=False) as other:
            other.isolation_level = level
            other.read_only = True
            assert other.execute("SELECT count(*) FROM trades").fetchone() == (5,)
            with pytest.raises(errors.ReadOnlySqlTransaction):
                other.execute("INSERT INTO trades VALUES ('2024-08-08', 'x', 1, 1)")
            other.rollback()
    for begin in ("BEGIN READ ONLY", "START TRANSACTION READ ONLY", "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY",
                  "BEGIN; SET TRANSACTION READ ONLY"):  # fmt: skip
        db.execute(begin)
        with pytest.raises(errors.ReadOnlySqlTransaction):
            db.execute("DELETE FROM trades")
        db.execute("ROLLBACK")
    db.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    with pytest.raises(errors.ReadOnlySqlTransaction):
        db.execute("INSERT INTO trades VALUES ('2024-08-08', 'x', 1, 1)")
    db.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
    for end in ("COMMIT", "END", "COMMIT WORK", "ROLLBACK", "ABORT", "ROLLBACK TRANSACTION"):
        db.execute("BEGIN")
        db.execute(end)
        assert db.info.transaction_status == TransactionStatus.IDLE


def test_a_table_is_made_in_a_transaction_that_has_no_rows_yet(server: Any, db: Any) -> None:
    with connect(server, autocommit=False) as maker:
        maker.execute("CREATE TABLE made (ts TIMESTAMP, x INT) TIMESTAMP(ts)")
        maker.execute("INSERT INTO made VALUES (%s, 1)", (AT,))
        maker.commit()
        assert db.execute("SELECT x FROM made").fetchall() == [(1,)]
        maker.execute("DROP TABLE made")
        maker.commit()
        with pytest.raises(errors.UndefinedTable):
            db.execute("SELECT x FROM made")


def test_savepoints_hold_or_are_refused(db: Any) -> None:
    def kept() -> list[str]:
        found = db.execute("SELECT symbol FROM trades WHERE symbol LIKE '%NER' OR symbol = 'OUTER'").fetchall()
        return [symbol for (symbol,) in found]

    # What fails without inserting is taken back alone.
    with db.transaction():
        db.execute("INSERT INTO trades VALUES (%s, 'OUTER', 1, 1)", (AT,))
        with pytest.raises(errors.UndefinedTable), db.transaction():
            db.execute("SELECT * FROM nosuch")
    assert kept() == ["OUTER"]
    # Rows cannot be: the transaction fails as a whole.
    with contextlib.suppress(psycopg.Error), db.transaction():
        db.execute("INSERT INTO trades VALUES (%s, 'OUTER', 1, 1)", (AT,))
        with pytest.raises(ZeroDivisionError), db.transaction():
            db.execute("INSERT INTO trades VALUES (%s, 'INNER', 1, 1)", (AT,))
            raise ZeroDivisionError
        db.execute("SELECT 1")
    assert db.info.transaction_status == TransactionStatus.IDLE
    assert kept() == ["OUTER"]


def test_prepared_statements_while_others_change_the_table(server: Any, db: Any) -> None:
    with connect(server) as other:
        for _ in range(8):
            assert len(db.execute("SELECT * FROM trades WHERE size < %s", (3,), prepare=True).fetchall()) == 3
        assert db.execute("SELECT count(*) FROM trades", prepare=True).fetchone() == (5,)
        other.execute("INSERT INTO trades VALUES ('2024-08-08', 'x', 1, 1)")
        assert db.execute("SELECT count(*) FROM trades", prepare=True).fetchone() == (6,), "the newest rows are seen"
        for change, columns in (
            ("ALTER TABLE trades ADD COLUMN venue VARCHAR", 5),
            ("ALTER TABLE trades DROP COLUMN price", 4),
            ("DROP TABLE trades; CREATE TABLE trades (ts TIMESTAMP, size DOUBLE) TIMESTAMP(ts)", 2),
        ):
            for statement in change.split(";"):
                other.execute(statement)
            try:
                found = db.execute("SELECT * FROM trades WHERE size < %s", (3,), prepare=True)
                assert len(found.description) == columns
            except errors.FeatureNotSupported:
                pass  # "cached plan must not change result type": the client prepares it again
            db.execute("DEALLOCATE ALL")
            found = db.execute("SELECT * FROM trades WHERE size < %s", (3,), prepare=True)
            assert len(found.description) == columns
        other.execute("DROP TABLE trades")
        with pytest.raises(errors.UndefinedTable):
            db.execute("SELECT * FROM trades WHERE size < %s", (3,), prepare=True)


def test_pipelines(db: Any) -> None:
    with db.pipeline():
        for n in range(500):
            db.execute("INSERT INTO trades VALUES (%s, %s, %s, %s)", (AT, "P", n / 2, n))
        counted = db.execute("SELECT count(*) FROM trades WHERE symbol = 'P'")
    assert counted.fetchone() == (500,)
    with pytest.raises(errors.UndefinedTable), db.pipeline() as pipeline:
        db.execute("SELECT * FROM nosuch")
        db.execute("DELETE FROM trades")
        pipeline.sync()
    assert db.execute("SELECT count(*) FROM trades").fetchone() == (505,), (
        "after an error all is skipped until the sync"
    )
    # An error takes back what was inserted since the last sync.
    for wrong in ("SELECT 1/0", "SELECT * FROM nosuch", "INSERT INTO trades VALUES ('x', 'R', 1, 1)"):
        with pytest.raises(psycopg.Error), db.pipeline() as pipeline:
            db.execute("INSERT INTO trades VALUES (%s, 'R', 888, 1)", (AT,))
            db.execute("SELECT 1")
            db.execute("INSERT INTO trades VALUES (%s, 'R', 889, 1)", (AT,))
            db.execute(wrong)
            pipeline.sync()
        assert db.execute("SELECT count(*) FROM trades WHERE symbol = 'R'").fetchone() == (0,), wrong
    with db.pipeline(), db.transaction():
        db.execute("INSERT INTO trades VALUES (%s, 'Q', 1, 1)", (AT,))
        db.execute("INSERT INTO trades VALUES (%s, 'Q', 2, 2)", (AT,))
    assert db.execute("SELECT count(*) FROM trades WHERE symbol = 'Q'").fetchone() == (2,)


def test_cursors_of_the_server(db: Any) -> None:
    """DECLARE, FETCH and CLOSE, which named cursors are."""
    with db.transaction(), db.cursor("series", binary=True) as cursor:
        cursor.itersize = 1000
        cursor.execute("SELECT x, x / 2.0 AS half FROM generate_series(1, %s) AS s(x)", (10_000,))
        assert [column.name for column in cursor.description] == ["x", "half"]
        assert cursor.fetchone() == (1, 0.5)
        assert len(cursor.fetchmany(10)) == 10
        assert sum(x for x, _ in cursor) == 10_000 * 10_001 // 2 - 11 * 12 // 2
        assert cursor.fetchall() == []
    with db.transaction():
        one, two = db.cursor("one"), db.cursor("two")
        one.execute("SELECT size FROM trades ORDER BY ts")
        two.execute("SELECT symbol FROM trades ORDER BY ts")
        assert [one.fetchone(), two.fetchone(), one.fetchone()] == [(0,), ("ETH",), (1,)]
        one.close()
        two.close()
    with pytest.raises(errors.NoActiveSqlTransaction):
        db.execute("DECLARE c CURSOR FOR SELECT 1")


def test_a_million_rows_in_bounded_memory(server: Any) -> None:
    """2 GB of rows, of which the client takes some and then waits: the server waits for it."""
    sql = "SELECT x, repeat('x', 2000) AS note FROM generate_series(1, 1000000) AS s(x)"
    with connect(server) as db:
        with db.cursor(binary=True) as cursor:
            for n, (x, note) in enumerate(cursor.stream(sql), 1):
                assert (x, len(note)) == (n, 2000)
                if n == 50_000:
                    reading = resident_mb(server)
                    time.sleep(1)
                    assert resident_mb(server) - reading < 50, "rows are made that nobody takes"
                    break
        assert db.execute("SELECT 1").fetchone() == (1,), "a result that is not read to its end is given up"
        total = sum(x for (x,) in db.cursor(binary=True).stream("SELECT x FROM generate_series(1, 1000000) AS s(x)"))
        assert total == 500_000_500_000


def resident_mb(server: Any) -> int:
    with open(f"/proc/{server.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() >> 20


def test_long_values(db: Any) -> None:
    db.execute("CREATE TABLE notes (ts TIMESTAMP, note VARCHAR, bytes BINARY, xs DOUBLE[]) TIMESTAMP(ts)")
    row = (AT, "Ω" * 4_000_000, bytes(range(256)) * 16_384, [n / 3 for n in range(200_000)])
    db.execute("INSERT INTO notes VALUES (%s, %s, %s, %s)", row)
    for binary in (False, True):
        assert db.cursor(binary=binary).execute("SELECT * FROM notes").fetchone() == row


ENDLESS = (
    "SELECT sum(a.x * b.x) FROM generate_series(1, 1000000) AS a(x) CROSS JOIN generate_series(1, 1000000) AS b(x)"
)


@pytest.mark.parametrize("how", ["cancel", "cancel_safe", "statement_timeout"])
def test_statements_are_cancelled(server: Any, db: Any, how: str) -> None:
    if how == "statement_timeout":
        db.execute("SET statement_timeout = '100ms'")
    else:
        threading.Timer(0.3, getattr(db, how)).start()
    began = time.monotonic()
    with pytest.raises(errors.QueryCanceled):
        db.execute(ENDLESS)
    assert time.monotonic() - began < 5
    assert db.execute("SELECT count(*) FROM trades").fetchone() == (5,)
    with connect(server) as other:
        other.cancel()  # nothing runs there: nothing happens
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_client_that_goes_away_ends_its_statement(server: Any, db: Any) -> None:
    gone = connect(server)
    gone.pgconn.send_query(ENDLESS.encode())
    gone.pgconn.flush()
    time.sleep(0.3)
    gone.pgconn.finish()
    end = time.monotonic() + 10
    # Only Tickstone lists statements so; a server that does not know it has no such table.
    while db.execute("SELECT count(*) FROM queries() WHERE statement LIKE 'SELECT sum(a.x%'").fetchone() != (0,):
        assert time.monotonic() < end, "the statement still runs"
        time.sleep(0.05)


COPIES: list[tuple[str, str, bytes]] = [
    ("(FORMAT text)", "text", b"2024-08-08 10:00:00\tA\\tb\t1.5\t7\n2024-08-08 10:00:01\t\\N\t\\N\t-8\n\\.\n"),
    ("(FORMAT text, DELIMITER '|', NULL 'nil')", "text", b"2024-08-08 10:00:00|A\\tb|1.5|7\n2024-08-08 10:00:01|nil|nil|-8\n"),
    ("(FORMAT csv)", "csv", b'2024-08-08 10:00:00,"A\tb",1.5,7\r\n2024-08-08 10:00:01,,,-8\r\n'),
    ("(FORMAT csv, HEADER true, DELIMITER ';', NULL 'nil', QUOTE '''')", "csv",
     b"ts;symbol;price;size\n2024-08-08 10:00:00;'A\tb';1.5;7\n2024-08-08 10:00:01;nil;nil;-8\n"),
    ("WITH CSV HEADER", "csv", b"ts,symbol,price,size\n2024-08-08 10:00:00,A\tb,1.5,7\n2024-08-08 10:00:01,,,-8\n"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "kind", "data"), COPIES)
def test_copy_of_text_and_csv(db: Any, options: str, kind: str, data: bytes) -> None:
    with db.cursor() as cursor:
        with cursor.copy(f"COPY trades (ts, symbol, price, size) FROM STDIN {options}") as copy:
            for n in range(len(data)):  # pieces may end anywhere
                copy.write(data[n : n + 1])
        assert (cursor.statusmessage, cursor.rowcount) == ("COPY 2", 2)
    new = "SELECT * FROM trades WHERE ts >= '2024-08-08T10:00:00' ORDER BY ts"
    ten = AT.replace(hour=10, minute=0)
    assert db.execute(new).fetchall() == [(ten, "A\tb", 1.5, 7), (ten.replace(second=1), None, None, -8)]
    with db.cursor().copy(f"COPY ({new}) TO STDOUT {options}") as copy:
        out = b"".join(map(bytes, copy))
    wanted = data.replace(b"\r\n", b"\n").replace(b"\\.\n", b"").replace(b'"A\tb"', b"A\tb").replace(b"'A\tb'", b"A\tb")
    assert out == wanted


def test_copy_keeps_every_value(server: Any) -> None:
    """Every type, by rows of Python, in text and in binary; the two differ in how they are written only."""
    with connect(server) as db:
        db.execute(EVERYTHING)
        db.execute(EVERYTHING.replace("everything", "copied"))
        columns = db.execute("SELECT * FROM everything").description or []
        types = [column.type_code for column in columns]
        for form in ("text", "binary"):
            for table in ("everything", "copied"):
                db.execute(f"TRUNCATE TABLE {table}")
            with db.cursor().copy(f"COPY everything FROM STDIN (FORMAT {form})") as copy:
                if form == "binary":
                    copy.set_types(types)
                for row in VALUES:
                    copy.write_row(row)
            with db.cursor().copy(f"COPY everything TO STDOUT (FORMAT {form})") as copy:
                copy.set_types(types)
                rows = sorted(copy.rows(), key=lambda row: row[0])
            for found, wanted in zip(rows, VALUES, strict=True):
                for value, given, (name, kind, _, _) in zip(found, wanted, TYPES, strict=True):
                    assert same(value, given, kind), f"{form} {name}: {value!r}, not {given!r}"
            with db.cursor().copy(f"COPY everything TO STDOUT (FORMAT {form})") as source:
                data = b"".join(map(bytes, source))
            with db.cursor().copy(f"COPY copied FROM STDIN (FORMAT {form})") as sink:
                sink.write(data)
            difference = "SELECT count(*) FROM (SELECT * FROM everything EXCEPT SELECT * FROM copied) AS d"
            assert db.execute(difference).fetchone() == (0,)
            assert db.execute("SELECT count(*) FROM copied").fetchone() == (5,)


BAD_COPIES: list[tuple[str, bytes, type[psycopg.Error]]] = [
    ("(FORMAT csv)", b"2024-08-08,BTC,dear,1\n", errors.InvalidTextRepresentation),
    ("(FORMAT csv)", b"2024-08-08,BTC,1\n", errors.BadCopyFileFormat),
    ("(FORMAT csv)", b"2024-08-08,BTC,1,1,1\n", errors.BadCopyFileFormat),
    ("(FORMAT csv)", b"2024-08-08,'BTC\",1,1\n", errors.BadCopyFileFormat),
    ("(FORMAT csv)", b",BTC,1,1\n", errors.NotNullViolation),
    ("(FORMAT text)", b"2024-08-08\tBTC\t1\t1.5\n", errors.InvalidTextRepresentation),
    ("(FORMAT binary)", b"not the signature of COPY", errors.BadCopyFileFormat),
    ("(FORMAT csv, NOSUCH true)", b"", errors.SyntaxError),
    ("(FORMAT nosuch)", b"", errors.InvalidParameterValue),
    ("(FORMAT csv, FORMAT csv)", b"", errors.SyntaxError),
    ("(FORMAT csv, DELIMITER ',', DELIMITER ';')", b"", errors.SyntaxError),
    ("CSV HEADER HEADER", b"", errors.SyntaxError),
    ("(FORMAT csv, DELIMITER '\"')", b"", errors.InvalidParameterValue),
    ("(FORMAT csv, NULL 'a,b')", b"", errors.InvalidParameterValue),
    ("(FORMAT text, QUOTE 'q')", b"", errors.FeatureNotSupported),
    ("(FORMAT binary, DELIMITER ',')", b"", errors.FeatureNotSupported),
]


def test_a_copy_whose_header_must_match(db: Any) -> None:
    def copy(header: str, kind: str = "csv") -> int:
        end = "," if kind == "csv" else "\t"
        with db.cursor() as cursor:
            with cursor.copy(f"COPY trades FROM STDIN (FORMAT {kind}, HEADER match)") as sink:
                sink.write(header.replace(",", end) + "\n" + end.join(("2024-08-08", "H", "1", "1")) + "\n")
            return int(cursor.rowcount)

    for kind in ("csv", "text"):
        assert copy("ts,symbol,price,size", kind) == 1
        assert copy("TS,Symbol,price,size", kind) == 1
        for header, said in (
            ("ts,symbol,size,price", "field 3 of the header is 'size', not column 'price'"),
            ("ts,symbol,price", "3 fields"),
            ("ts,symbol,price,size,more", "5 fields"),
            ("2024-08-08,A,1,1", "'2024-08-08', not column 'ts'"),
        ):
            with pytest.raises(errors.BadCopyFileFormat, match=said):
                copy(header, kind)
    with pytest.raises(errors.BadCopyFileFormat, match="NULL, not column 'size'"):
        copy("ts,symbol,price,")
    assert db.execute("SELECT count(*) FROM trades WHERE symbol = 'H'").fetchone() == (4,)
    with pytest.raises(errors.FeatureNotSupported), db.cursor().copy("COPY trades TO STDOUT (FORMAT csv, HEADER match)"):
        pass


@pytest.mark.parametrize("kind", ["csv", "text"])
def test_a_copy_ends_at_a_backslash_and_a_point(db: Any, kind: str) -> None:
    row = b"2024-08-08,E,1,1\n" if kind == "csv" else b"2024-08-08\tE\t1\t1\n"
    with db.cursor() as cursor:
        with cursor.copy(f"COPY trades FROM STDIN (FORMAT {kind})") as copy:
            copy.write(row * 2 + b"\\.\n" + row + b"what is behind it is no row\n")
        assert cursor.rowcount == 2


@pytest.mark.parametrize(("options", "line", "error"), BAD_COPIES)
def test_a_copy_with_an_error_leaves_nothing(db: Any, options: str, line: bytes, error: type[psycopg.Error]) -> None:
    good = b"2024-08-08,BTC,1,1\n" if "csv" in options else b"2024-08-08\tBTC\t1\t1\n" if "text" in options else b""
    with pytest.raises(error) as raised, db.cursor().copy(f"COPY trades FROM STDIN {options}") as copy:
        copy.write(good * 20_000 + line + good * 20_000)
    if line and good and b'"' not in line:
        assert "20001" in (raised.value.diag.context or "") + str(raised.value)
    assert db.info.transaction_status == TransactionStatus.IDLE
    assert db.execute("SELECT count(*) FROM trades").fetchone() == (5,)


def test_copies_that_are_given_up_or_rolled_back(server: Any, db: Any) -> None:
    row = (AT, "C", 1.0, 1)
    with pytest.raises(ZeroDivisionError), db.cursor().copy("COPY trades FROM STDIN") as copy:
        copy.write_row(row)
        raise ZeroDivisionError
    assert db.execute("SELECT count(*) FROM trades").fetchone() == (5,)
    with connect(server, autocommit=False) as writer:
        for end, count in ((writer.rollback, 5), (writer.commit, 1005)):
            with writer.cursor().copy("COPY trades FROM STDIN") as copy:
                for _ in range(1000):
                    copy.write_row(row)
            assert db.execute("SELECT count(*) FROM trades").fetchone() == (5,)
            end()
            assert db.execute("SELECT count(*) FROM trades").fetchone() == (count,)
    long = "COPY (SELECT x FROM generate_series(1, 10000000) AS s(x)) TO STDOUT"
    with pytest.raises(ZeroDivisionError), db.cursor().copy(long) as copy:
        assert bytes(next(iter(copy))) == b"1\n"
        raise ZeroDivisionError  # psycopg cancels the rest
    assert db.execute("SELECT 1").fetchone() == (1,)
    for name in ("FROM '/etc/passwd'", "TO '/tmp/trades.csv'", "TO PROGRAM 'cat'"):
        with pytest.raises(psycopg.Error):
            db.execute(f"COPY trades {name}")


QUESTIONS: list[tuple[str, Callable[[list[Any]], bool]]] = [
    ("SELECT ts, symbol, last(price) FROM trades SAMPLE BY 1m ORDER BY ts, symbol",
     lambda rows: rows == [(AT, "BTC", 0.75), (AT, "ETH", 1.0)]),
    ("SELECT symbol, size FROM trades LATEST ON ts PARTITION BY symbol ORDER BY symbol",
     lambda rows: rows == [("BTC", 3), ("ETH", 4)]),
    ("SELECT t.size, u.size FROM trades t ASOF JOIN trades u ON (symbol) ORDER BY t.ts", lambda rows: len(rows) == 5),
    ("SELECT size FROM trades WHERE ts IN '2024-08-08T09:30:03'", lambda rows: rows == [(3,)]),
    ("SHOW TABLES", lambda rows: rows[0][:2] == ("trades", "ts")),
    ("SHOW COLUMNS FROM trades", lambda rows: [row[0] for row in rows] == ["ts", "symbol", "price", "size"]),
    ("EXPLAIN SELECT * FROM trades", lambda rows: len(rows) > 0),
]  # fmt: skip


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize(("sql", "right"), QUESTIONS, ids=[sql[:24] for sql, _ in QUESTIONS])
def test_what_only_this_database_has(db: Any, sql: str, right: Callable[[list[Any]], bool], prepare: bool) -> None:
    rows = db.execute(sql, prepare=prepare).fetchall()
    assert right(rows), rows


@pytest.mark.parametrize("binary", [False, True])
def test_intervals_come_with_microseconds(db: Any, binary: bool) -> None:
    length = "TIMESTAMP '2024-01-01 00:00:01.254103432' - TIMESTAMP '2024-01-01'"
    row = db.cursor(binary=binary).execute(f"SELECT {length} AS a, INTERVAL '0 days' - ({length}) AS b").fetchone()
    cut = dt.timedelta(seconds=1, microseconds=254103)
    assert row == (cut, -cut)

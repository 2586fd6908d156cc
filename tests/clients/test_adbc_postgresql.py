"""ADBC's PostgreSQL driver: Arrow in and out, which it does by COPY in binary."""

import datetime as dt
from decimal import Decimal
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pandas as pd
import pyarrow as pa
import pytest


def test_tables_rows_and_questions(server: Any) -> None:
    uri = f"postgresql://admin:quest@127.0.0.1:{server.ports['pg_port']}/qdb"
    made = pa.table(
        {
            "ts": pa.array([5_000_000, 40_000_000, 70_000_000], pa.timestamp("us")),
            "symbol": ["BTC", "BTC", "ETH"],
            "price": [61500.5, 61503.5, 2650.25],
            "size": [2, 1, 3],
        }
    )
    with adbc.connect(uri, autocommit=True) as db, db.cursor() as cursor:
        cursor.execute("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)")
        assert cursor.adbc_ingest("trades", made, mode="append") == 3
        cursor.execute(
            "SELECT time_bucket('1 minute', ts) AS minute, vwap(price, size) AS vwap FROM trades"
            " WHERE symbol = 'BTC' GROUP BY minute ORDER BY minute"
        )
        bars = cursor.fetch_arrow_table()
    assert bars.schema.field("minute").type == pa.timestamp("us")
    assert bars.to_pydict() == {"minute": [dt.datetime(1970, 1, 1)], "vwap": [61501.5]}


def connect(server: Any, autocommit: bool = True) -> Any:
    return adbc.connect(f"postgresql://admin:quest@127.0.0.1:{server.ports['pg_port']}/qdb", autocommit=autocommit)


TRADES = "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)"
AT = dt.datetime(2024, 8, 8, 9, 30)
ARROW = pa.schema(
    [
        ("ts", pa.timestamp("us")), ("b", pa.bool_()), ("i1", pa.int16()), ("i2", pa.int16()), ("i4", pa.int32()),
        ("i8", pa.int64()), ("f4", pa.float32()), ("f8", pa.float64()), ("v", pa.string()), ("s", pa.string()),
        ("d", pa.date32()), ("y", pa.binary()), ("a", pa.list_(pa.float64())), ("ai", pa.list_(pa.int32())),
        ("av", pa.list_(pa.string())),
    ]
)  # fmt: skip
EVERYTHING = """CREATE TABLE everything (ts TIMESTAMP, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT,
    f8 DOUBLE, v VARCHAR, s SYMBOL, d DATE, y BINARY, a DOUBLE[], ai INT[], av VARCHAR[]) TIMESTAMP(ts)"""
ROWS: list[tuple[Any, ...]] = [
    (dt.datetime(1677, 9, 22), True, -128, -32768, -(2**31), -(2**63), -0.5, -1e300, "", "", dt.date(1, 1, 1), b"",
     [], [], []),
    (dt.datetime(1969, 12, 31, 23, 59, 59, 999999), False, 127, 32767, 2**31 - 1, 2**63 - 1, 0.25, 5e-324, "Ω 🚀\n\t'",
     "BTC", dt.date(9999, 12, 31), b"\x00\xff\\", [1.5, None], [None, 1], ["", None, 'a"b,{}']),
    (AT, *[None] * 14),
    (dt.datetime(2262, 4, 11, 23, 47, 16, 854775), True, 0, 0, 0, 0, 0.0, 0.0, "x", "y", AT.date(), b"z", [0.0], [0], ["z"]),
]  # fmt: skip
TABLE = pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in ROWS], ARROW)


def read(cursor: Any, sql: str, *parameters: Any) -> pa.Table:
    cursor.execute(sql, parameters or None)
    return cursor.fetch_arrow_table()


def test_every_type_there_and_back(server: Any) -> None:
    with connect(server) as db, db.cursor() as cursor:
        cursor.execute(EVERYTHING)
        cursor.adbc_ingest("everything", TABLE, mode="append")
        found = read(cursor, "SELECT * FROM everything ORDER BY ts")
        assert found.schema.equals(ARROW), found.schema
        assert found.equals(TABLE)
        # By parameters, which are bound one row after the other.
        cursor.execute("TRUNCATE TABLE everything")
        marks = ", ".join(f"${n + 1}" for n in range(len(ARROW)))
        cursor.executemany(f"INSERT INTO everything VALUES ({marks})", TABLE)
        assert read(cursor, "SELECT * FROM everything ORDER BY ts").equals(TABLE)
        assert db.adbc_get_table_schema("everything").equals(ARROW)
        cursor.execute("SELECT 1 AS x WHERE false")
        assert cursor.fetch_arrow_table().num_rows == 0


def test_decimals_are_exact(server: Any) -> None:
    with connect(server) as db, db.cursor() as cursor:
        cursor.execute("CREATE TABLE d (ts TIMESTAMP, n DECIMAL(38,10), u BIGINT UNSIGNED) TIMESTAMP(ts)")
        cursor.execute(f"INSERT INTO d VALUES ('2024-08-08', -{'9' * 28}.{'9' * 10}, 18446744073709551615)")
        numbers = read(cursor, "SELECT n, u FROM d").to_pylist()[0]
        # ADBC gives numerics as text, since Arrow's decimals have one scale each.
        assert [Decimal(str(value)) for value in numbers.values()] == [
            Decimal(f"-{'9' * 28}.{'9' * 10}"),
            Decimal(2**64 - 1),
        ]


def test_parameters_and_transactions(server: Any) -> None:
    with (
        connect(server) as db,
        db.cursor() as cursor,
        connect(server, autocommit=False) as writer,
        writer.cursor() as insert,
    ):
        cursor.execute(TRADES)

        def count() -> int:
            return int(read(cursor, "SELECT count(*) FROM trades").column(0)[0].as_py())

        rows = [(AT + dt.timedelta(seconds=n), f"S{n % 3}", n / 4, n) for n in range(30)]
        insert.executemany("INSERT INTO trades VALUES ($1, $2, $3, $4)", rows)
        assert count() == 0
        writer.rollback()
        assert count() == 0
        insert.executemany("INSERT INTO trades VALUES ($1, $2, $3, $4)", rows)
        writer.commit()
        assert count() == 30
        insert.adbc_ingest("trades", pa.table({"ts": pa.array([0], pa.timestamp("us")), "size": [99]}), mode="append")
        assert count() == 30
        writer.commit()
        assert count() == 31
        found = read(cursor, "SELECT size FROM trades WHERE symbol = $1 AND ts >= $2 AND price > $3 ORDER BY size LIMIT $4",
                     "S1", AT, 1.0, 2)  # fmt: skip
        assert found.column("size").to_pylist() == [7, 10]
        with pytest.raises(adbc.ProgrammingError):
            insert.execute("SELECT * FROM nosuch")
        writer.rollback()
        assert count() == 31


def test_ingest_makes_tables(server: Any) -> None:
    part = TABLE.select(["ts", "f8", "v", "i8"])
    for autocommit in (True, False):
        with connect(server, autocommit) as db, db.cursor() as cursor:
            for mode, rows in (("create", 4), ("append", 8), ("create_append", 12), ("replace", 4)):
                assert cursor.adbc_ingest("made", part, mode=mode) == 4
                if not autocommit:
                    db.commit()
                assert read(cursor, "SELECT count(*) FROM made").column(0).to_pylist() == [rows]
                if not autocommit:
                    db.commit()
            with pytest.raises(adbc.Error):
                cursor.adbc_ingest("made", part, mode="create")
            if not autocommit:
                db.rollback()
            assert read(cursor, "SELECT * FROM made ORDER BY ts").equals(part)
            cursor.execute("DROP TABLE made")
            if not autocommit:
                db.commit()


def test_metadata(server: Any) -> None:
    with connect(server) as db, db.cursor() as cursor:
        cursor.execute(TRADES)
        cursor.execute("CREATE VIEW seen AS SELECT ts, price FROM trades")
        catalogs = db.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
        catalog = next(catalog for catalog in catalogs if catalog["catalog_name"] == "qdb")
        schema = next(s for s in catalog["catalog_db_schemas"] if s["db_schema_name"] == "public")
        tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
        assert {name: table["table_type"] for name, table in tables.items()} == {"trades": "table", "seen": "view"}
        columns = tables["trades"]["table_columns"]
        assert [column["column_name"] for column in columns] == ["ts", "symbol", "price", "size"]
        assert [column["ordinal_position"] for column in columns] == [1, 2, 3, 4]
        filtered = db.adbc_get_objects(depth="tables", table_name_filter="tra%").read_all().to_pylist()
        assert "trades" in str(filtered) and "seen" not in str(filtered)
        assert "table" in db.adbc_get_table_types()
        assert db.adbc_get_info()["vendor_name"] == "PostgreSQL"
        assert (db.adbc_current_catalog, db.adbc_current_db_schema) == ("qdb", "public")


def test_many_rows_by_batches(server: Any) -> None:
    with connect(server) as db, db.cursor() as cursor:
        cursor.execute("SELECT x, x / 2.0 AS half FROM generate_series(1, 300000) AS s(x)")
        reader = cursor.fetch_record_batch()
        assert sum(sum(batch.column("x").to_pylist()) for batch in reader) == 300_000 * 300_001 // 2
        cursor.execute(TRADES)
        frame = pd.DataFrame({"ts": pd.date_range("2024-08-08", periods=100_000, freq="s"), "size": range(100_000)})
        cursor.adbc_ingest("trades", pa.Table.from_pandas(frame.astype({"ts": "datetime64[us]"})), mode="append")
        whole = pd.read_sql("SELECT ts, size FROM trades ORDER BY ts", db)
    assert int(whole["size"].sum()) == 100_000 * 99_999 // 2
    assert whole["ts"].iloc[-1] == pd.Timestamp("2024-08-09T03:46:39")

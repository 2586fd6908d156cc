"""QuestDB's own client over QWP, its native protocol: rows and data frames in, results out."""

import datetime
import decimal
import ipaddress
import re
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import questdb
from questdb import (
    Char,
    DateMillis,
    Geohash,
    Long256,
    QuestDBError,
    QuestDBErrorCode,
    ServerTimestamp,
    TimestampMicros,
    TimestampNanos,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server" / "qwp.md"
AT = 1_723_109_400_000_000_001
UTC = datetime.timezone.utc


def connect(server: Any, **keys: Any) -> Any:
    words = "".join(f"{name}={value};" for name, value in keys.items())
    return questdb.connect(f"ws::addr=127.0.0.1:{server.ports['http_port']};{words}")


@pytest.fixture
def db(server: Any) -> Iterator[Any]:
    with connect(server) as client:
        yield client


def test_rows_of_every_type_and_what_is_missing(server: Any, db: Any) -> None:
    values = {
        "yes": True,
        "id": -7,
        "px": 1.5,
        "note": "héllo, 'wörld'",
        "seen": TimestampMicros(1_700_000_000_000_000),
        "seen_ns": TimestampNanos(1_700_000_000_000_000_007),
        "said": datetime.datetime(2024, 1, 1, tzinfo=UTC),
        "levels": np.array([1.5, float("nan"), 3.0]),
        "amount": decimal.Decimal("-123.456"),
        "key": uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
        "raw": b"\0\1\xff",
        "letter": Char("Z"),
        "address": ipaddress.IPv4Address("10.0.0.7"),
        "big": Long256(0xDEADBEEF),
        "place": Geohash.from_string("u33d8"),
        "day": DateMillis(1_723_075_200_000),
    }
    with db.sender() as rows:
        rows.row("all types", symbols={"s": "BTC USD", "t": None}, columns=values, at=TimestampNanos(AT))
        rows.row("all types", symbols={"s": "ETH"}, columns={"px": 2.5}, at=TimestampNanos(AT + 1))
        rows.row("all types", columns={"px": float("nan")}, at=ServerTimestamp)
        rows.flush(wait=True)
    columns = 's, yes, id, px, note, seen, seen_ns, said, levels, amount, "key", raw, letter, address, big, place, day'
    first, second, third = server.rows(f'SELECT {columns} FROM "all types" ORDER BY "timestamp"')
    assert first[:5] == ["BTC USD", True, -7, 1.5, "héllo, 'wörld'"]
    assert first[5:8] == [
        "2023-11-14T22:13:20.000000000Z",
        "2023-11-14T22:13:20.000000007Z",
        "2024-01-01T00:00:00.000000000Z",
    ]
    assert first[8] == [1.5, None, 3.0] and float(first[9]) == -123.456
    assert first[10] == "123e4567-e89b-12d3-a456-426614174000"
    assert first[12:16] == ["Z", "10.0.0.7", "0xdeadbeef", "u33d8"] and first[16].startswith("2024-08-08T00:00:00")
    # A BOOLEAN has no NULL on the wire.
    assert second[:4] == ["ETH", False, None, 2.5] and set(second[4:]) == {None}
    assert third[0] is None and third[3] is None
    assert server.rows("SELECT count(*) FROM \"all types\" WHERE \"timestamp\" > now() - INTERVAL '1 minute'") == [[1]]
    types = {column: of for column, of, *_ in server.rows('SHOW COLUMNS FROM "all types"')}
    assert types["s"] == "SYMBOL" and types["key"] == "UUID", types


def test_a_frame_of_pandas(server: Any, db: Any) -> None:
    rows = 50_000
    frame = pd.DataFrame(
        {
            "symbol": pd.Categorical([f"S{n % 300}" for n in range(rows)]),
            "price": np.where(np.arange(rows) % 10 == 0, np.nan, np.arange(rows) / 8),
            "size": np.arange(rows),
            "small": np.arange(rows).astype("int32"),
            "up": np.arange(rows) % 2 == 0,
            "note": [None if n % 7 == 0 else f"n{n}" for n in range(rows)],
            "at": pd.date_range("2024-01-01", periods=rows, freq="s"),
        }
    )
    db.dataframe(frame, table_name="ticks", at="at")
    total = rows * (rows - 1) // 2
    asked = "SELECT count(*), sum(size), count(price), count(note), count(DISTINCT symbol) FROM ticks"
    missing = len([n for n in range(rows) if n % 7 == 0])
    assert server.rows(asked) == [[rows, total, rows - rows // 10, rows - missing, 300]]
    back = db.query("SELECT * FROM ticks ORDER BY timestamp").to_pandas()
    assert len(back) == rows
    assert list(back["symbol"].astype(str)) == list(frame["symbol"].astype(str))
    np.testing.assert_array_equal(back["price"].to_numpy(float), frame["price"].to_numpy())
    np.testing.assert_array_equal(back["size"].to_numpy(int), frame["size"].to_numpy())
    np.testing.assert_array_equal(back["small"].to_numpy(int), frame["small"].to_numpy())
    np.testing.assert_array_equal(back["up"].to_numpy(bool), frame["up"].to_numpy())
    assert back["note"].fillna("-").tolist() == frame["note"].fillna("-").tolist()
    nanos = frame["at"].astype("datetime64[ns]").astype("int64")
    assert pd.to_datetime(back["timestamp"]).astype("int64").tolist() == nanos.tolist()


def test_a_frame_of_polars(server: Any, db: Any) -> None:
    frame = pl.DataFrame(
        {
            "symbol": pl.Series(["A", "B", None, "A"], dtype=pl.Categorical),
            "note": ["x", None, "", "wörd"],
            "size": pl.Series([1, None, -3, 4], dtype=pl.Int64),
            "price": [1.5, None, 2.5, 0.0],
            "levels": [[1.0, 2.0], [3.0], None, []],
            "amount": pl.Series([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50"), decimal.Decimal("0.01")]),
            "at": [datetime.datetime(2024, 8, 8) + datetime.timedelta(seconds=n) for n in range(4)],
        }
    )
    db.dataframe(frame, table_name="p", at="at")
    back = db.query("SELECT * FROM p ORDER BY timestamp").to_polars()
    for name in ["note", "size", "price", "levels"]:
        assert back[name].to_list() == frame[name].to_list(), name
    assert back["symbol"].cast(pl.String).to_list() == ["A", "B", None, "A"]
    assert [None if v is None else decimal.Decimal(v) for v in back["amount"].to_list()] == frame["amount"].to_list()
    assert back["timestamp"].dt.epoch("us").to_list() == frame["at"].dt.epoch("us").to_list()


def test_a_table_of_arrow(server: Any, db: Any) -> None:
    table = pa.table(
        {
            "sym": pa.array(["A", None, "B"]).dictionary_encode(),
            "text": pa.array(["x", None, "zz"]),
            "view": pa.array(["abc", None, "a text longer than twelve bytes"], pa.string_view()),
            "i32": pa.array([1, None, -3], pa.int32()),
            "i64": pa.array([1, None, -(2**62)]),
            "f32": pa.array([1.5, None, 2.5], pa.float32()),
            "f64": pa.array([1.5, None, float("inf")]),
            "raw": pa.array([b"a", None, b"\0\xff"]),
            "day": pa.array([1, None, 19_000], pa.date32()),
            "amount": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3")], pa.decimal128(20, 2)),
            "seen": pa.array([1, None, AT], pa.timestamp("ns")),
            "levels": pa.array([[1.0, 2.0], None, []], pa.list_(pa.float64())),
            "at": pa.array([AT + n for n in range(3)], pa.timestamp("ns")),
        }
    )
    db.dataframe(table, table_name="ar", at="at")
    back = db.query("SELECT * FROM ar ORDER BY timestamp").to_arrow()
    for name in table.column_names[:-1]:
        sent, got = table[name], back[name]
        if name == "day":
            got = got.cast(pa.timestamp("ms")).cast(pa.date32())
        if name == "seen":
            got = got.cast(pa.timestamp("ns"))
        if pa.types.is_dictionary(got.type):
            sent, got = sent.cast(pa.string()), got.cast(pa.string())
        assert got.to_pylist() == sent.to_pylist(), name
    assert [value.value for value in back["timestamp"]] == [AT, AT + 1, AT + 2]


OUT = [
    ("BOOLEAN", "TRUE", True),
    ("TINYINT", "-7", -7),
    ("SMALLINT", "-700", -700),
    ("INT", "-70000", -70_000),
    ("BIGINT", "-7000000000", -7_000_000_000),
    ("TINYINT UNSIGNED", "200", 200),
    ("SMALLINT UNSIGNED", "60000", 60_000),
    ("INT UNSIGNED", "4000000000", 4_000_000_000),
    ("BIGINT UNSIGNED", "9000000000000000000", 9_000_000_000_000_000_000),
    ("FLOAT", "1.5", 1.5),
    ("DOUBLE", "-2.25", -2.25),
    ("DECIMAL(9, 2)", "-1234567.89", decimal.Decimal("-1234567.89")),
    ("DECIMAL(18, 3)", "123456789.125", decimal.Decimal("123456789.125")),
    ("DECIMAL(38, 10)", "1234567890123456789.0000000001", decimal.Decimal("1234567890123456789.0000000001")),
    ("SYMBOL", "'BTC'", "BTC"),
    ("VARCHAR", "'héllo'", "héllo"),
    ("UUID", "'123e4567-e89b-12d3-a456-426614174000'", uuid.UUID("123e4567-e89b-12d3-a456-426614174000")),
    ("BINARY", "X'00FF'", b"\0\xff"),
    ("DATE", "'2024-08-08'", datetime.datetime(2024, 8, 8)),
    ("TIMESTAMP", "'2024-08-08T09:30:00.000000001'", 1_723_109_400_000_000_001),
    ("DOUBLE[]", "[1.5, 2.5]", [1.5, 2.5]),
    ("BIGINT[]", "[1, -2]", [1, -2]),
]


def test_results_of_every_type(server: Any, db: Any) -> None:
    names = ", ".join(f"c{place} {of}" for place, (of, _, _) in enumerate(OUT))
    db.execute(f"CREATE TABLE out (ts TIMESTAMP, {names}) TIMESTAMP(ts)")
    values = ", ".join(value for _, value, _ in OUT)
    nulls = ", ".join("NULL" for _ in OUT)
    rows = f"('2024-01-01', {values}), ('2024-01-02', {nulls}), ('2024-01-03', {values})"
    done = db.execute(f"INSERT INTO out VALUES {rows}")
    assert done.rows_affected == 3
    back = db.query("SELECT * FROM out ORDER BY ts").to_arrow()
    for place, (of, _, wanted) in enumerate(OUT):
        column = back[f"c{place}"]
        if of == "TIMESTAMP":
            got: list[Any] = [value.value for value in column]
        elif of == "DATE":
            got = column.cast(pa.timestamp("ms")).to_pylist()
        else:
            got = column.to_pylist()
        if isinstance(wanted, uuid.UUID):
            got = [uuid.UUID(bytes=value) if isinstance(value, bytes) else value for value in got]
        missing = False if of == "BOOLEAN" else None
        assert got == [wanted, missing, wanted], (of, column.type, got)
    # What has no type of its own on the wire is a text, and what does not fit its type is told.
    others = "INTERVAL '90 minutes' AS a, ['x', NULL] AS b, TIME '12:30:00' AS c"
    assert [type(value) for value in db.query(f"SELECT {others}").to_arrow().to_pylist()[0].values()] == [str] * 3
    with pytest.raises(QuestDBError, match="column 'v': a value is past what a LONG holds: cast it to DECIMAL"):
        db.query("SELECT 18446744073709551615::BIGINT UNSIGNED AS v").to_arrow()
    assert db.query("SELECT c0, c3 FROM out WHERE ts > '2025-01-01'").to_arrow().num_rows == 0


def test_a_value_that_does_not_fit_is_told_and_nothing_is_stored(server: Any, db: Any) -> None:
    server.ask("/exec", query="CREATE TABLE t (n INT, timestamp TIMESTAMP) TIMESTAMP(timestamp)")
    rows = 200_000
    numbers = np.arange(rows, dtype="int64")
    numbers[-1] = 2**40
    frame = pa.table({"n": numbers, "at": pa.array(np.arange(rows) + AT, pa.timestamp("ns"))})
    # The first batch of a connection is stored by itself; what follows, together.
    db.dataframe(frame.slice(0, 10), table_name="t", at="at")
    with pytest.raises(QuestDBError, match="status=0x03.*table 't', column 'n', row .*1099511627776"):
        db.dataframe(frame, table_name="t", at="at")
    assert server.rows("SELECT count(*) FROM t") == [[10]]
    for column, wanted in [
        ({"n": pa.array([[[1.0], [2.0]]], pa.list_(pa.list_(pa.float64())))}, "dimension"),
        ({"n": pa.array([decimal.Decimal(10**40)], pa.decimal256(50, 0))}, "38 of a DECIMAL"),
    ]:
        with pytest.raises(QuestDBError, match=wanted):
            db.dataframe(pa.table({**column, "at": frame["at"].slice(0, 1)}), table_name="other", at="at")
    # The pool goes on.
    db.dataframe(frame.slice(0, 10), table_name="t", at="at")
    assert server.rows("SELECT count(*) FROM t") == [[20]]


def test_errors_of_rows_reach_the_one_who_listens(server: Any) -> None:
    told: list[Any] = []
    conf = f"ws::addr=127.0.0.1:{server.ports['http_port']};auto_flush=off;"
    with questdb.connect(conf, error_handler=told.append) as db:
        with db.sender() as rows:
            rows.row("t", columns={"n": 1}, at=TimestampNanos(1))
            rows.flush(wait=True)
        with pytest.raises(QuestDBError), db.sender() as rows:
            rows.row("t", columns={"n": "text"}, at=TimestampNanos(2))
            rows.flush(wait=True)
        end = time.monotonic() + 20
        while not told and time.monotonic() < end:
            time.sleep(0.01)
    assert "column 'n'" in told[0].message and "'text'" in told[0].message, told
    assert server.rows("SELECT count(*) FROM t") == [[1]]


def test_two_clients_at_once(server: Any) -> None:
    rows = 30_000
    at = np.arange(rows) + AT

    def load(writer: int) -> None:
        frame = pa.table(
            {
                "w": pa.array([f"w{writer}"] * rows).dictionary_encode(),
                "n": np.arange(rows) + writer * rows,
                f"c{writer}": np.ones(rows),
                "at": pa.array(at, pa.timestamp("ns")),
            }
        )
        with connect(server) as db:
            for first in range(0, rows, 3_000):
                db.dataframe(frame.slice(first, 3_000), table_name="m", at="at")
                assert db.query(f"SELECT count(c{writer}) FROM m").to_arrow().to_pylist()

    writers = [threading.Thread(target=load, args=(writer,)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    total = 3 * rows
    asked = "SELECT count(*), sum(n), count(c0), count(c1), count(c2), count(DISTINCT w) FROM m"
    assert server.rows(asked) == [[total, total * (total - 1) // 2, rows, rows, rows, 3]]


def test_parameters(server: Any, db: Any) -> None:
    key = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
    for value, of, wanted in [
        (True, "BOOLEAN", [[True]]),
        (-5, "BIGINT", [[-5]]),
        (1.5, "DOUBLE", [[1.5]]),
        ("it's $2", "VARCHAR", [["it's $2"]]),
        (decimal.Decimal("1.25"), "DECIMAL(5, 2)", [["1.25"]]),
        (key, "UUID", [[str(key)]]),
    ]:
        got = [list(row) for row in db.query(f"SELECT CAST($1 AS {of}) AS v", [value]).iter_rows()]
        assert [[str(v) if isinstance(v, (decimal.Decimal, uuid.UUID)) else v for v in row] for row in got] == wanted
    server.ask("/exec", query="CREATE TABLE t (n INT, ts TIMESTAMP) TIMESTAMP(ts)")
    values = [1, TimestampNanos(AT), 2, TimestampMicros(7)]
    assert db.execute("INSERT INTO t VALUES ($1, $2), ($3, $4)", values).rows_affected == 2
    asked = db.query("SELECT n FROM t WHERE ts = $1", [TimestampNanos(AT)])
    assert [tuple(row) for row in asked.iter_rows()] == [(1,)]
    asked = db.query("SELECT n FROM t WHERE ts < $1", [datetime.datetime(2000, 1, 1, tzinfo=UTC)])
    assert [tuple(row) for row in asked.iter_rows()] == [(2,)]
    with pytest.raises(QuestDBError, match="has no value"):
        db.query("SELECT $1, $2", [1]).to_arrow()


def test_a_parameter_that_is_null(db: Any) -> None:
    assert [tuple(row) for row in db.query("SELECT CAST($1 AS INT) AS v", [None]).iter_rows()] == [(None,)]


def test_errors_cancel_and_time(server: Any, db: Any) -> None:
    long = "SELECT count(*) FROM range(0, 100000000) a JOIN range(0, 100000000) b ON a.value + 1 < b.value"
    with db.reader() as reader:
        with pytest.raises(QuestDBError, match="nowhere") as raised:
            reader.query("SELECT * FROM nowhere").to_arrow()
        assert raised.value.code == QuestDBErrorCode.ServerParseError
        with pytest.raises(QuestDBError, match="longer than its client gave it, 200ms") as raised:
            reader.query(long, timeout=200).to_arrow()
        assert raised.value.code == QuestDBErrorCode.QueryTimeout
        result = reader.query("SELECT value FROM range(0, 1000000000)")
        rows = iter(result.iter_arrow())
        assert next(rows).num_rows > 0
        result.cancel()
        result.close()
        # The same connection goes on.
        assert [tuple(row) for row in reader.query("SELECT 1 AS one").iter_rows()] == [(1,)]
        reader.execute("CREATE TABLE t (s SYMBOL, ts TIMESTAMP) TIMESTAMP(ts)")
        for number in range(3):
            reader.execute("INSERT INTO t VALUES ($1, $2)", [f"s{number}", TimestampNanos(number)])
            kept = reader.query("SELECT s FROM t ORDER BY ts", reset_symbol_dict=False).to_arrow()["s"]
            assert kept.to_pylist() == [f"s{before}" for before in range(number + 1)]
    end = time.monotonic() + 20
    while any("range(" in str(row) for row in server.rows("SHOW QUERIES") if "SHOW" not in str(row)):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_reader_that_takes_its_time(server: Any) -> None:
    rows = 2_000_000
    with connect(server, max_batch_rows=20_000) as db:
        result = db.query(f"SELECT value, value * 2 AS twice FROM range(0, {rows})")
        total = count = 0
        for number, batch in enumerate(result.iter_arrow()):
            if number % 20 == 0:
                time.sleep(0.05)
            assert batch.num_rows <= 20_000
            count += batch.num_rows
            total += sum(batch.column(0).to_pylist()[:1])
        assert count == rows and total > 0


def test_what_was_acknowledged_survives_a_kill(serve: Any) -> None:
    served = serve()
    batch = 2_000
    acknowledged: list[int] = []
    stop = threading.Event()

    def write(writer: int) -> None:
        numbers = np.full(batch, 0)
        with connect(served, reconnect_max_duration_millis=1, sender_pool_max=1) as db:
            number = writer * 1_000_000
            while not stop.is_set():
                at = pa.array(np.arange(batch) + number * batch + 1, pa.timestamp("ns"))
                try:
                    db.dataframe(pa.table({"n": numbers + number, "at": at}), table_name="t", at="at")
                except QuestDBError:
                    return
                acknowledged.append(number)
                number += 1

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for writer in writers:
        writer.start()
    time.sleep(2)
    served.kill()
    stop.set()
    for writer in writers:
        writer.join()
    assert len(acknowledged) > 10
    found = dict(serve().rows("SELECT n, count(*) FROM t GROUP BY n"))
    assert all(found.get(number) == batch for number in acknowledged)
    assert all(count == batch for count in found.values()), "a message is there in part"
    # Those whose answer was under way when it was killed.
    assert len(found) - len(acknowledged) <= 3


def test_a_client_that_sends_again_after_a_kill_has_each_row_once(serve: Any) -> None:
    served = serve()
    port = served.ports["http_port"]
    served.ask(
        "/exec",
        query="CREATE TABLE t (n LONG, timestamp TIMESTAMP) TIMESTAMP(timestamp) DEDUP UPSERT KEYS(timestamp, n)",
    )
    rows, batch = 80_000, 200

    def write() -> None:
        keys = "auto_flush=off;reconnect_initial_backoff_millis=10;reconnect_max_backoff_millis=50;"
        with questdb.connect(f"ws::addr=127.0.0.1:{port};query_pool_min=0;{keys}") as db, db.sender() as sender:
            for first in range(0, rows, batch):
                for number in range(first, first + batch):
                    sender.row("t", columns={"n": number}, at=TimestampNanos(number + 1))
                sender.flush()
                time.sleep(0.005)
            sender.flush(wait=True)

    writer = threading.Thread(target=write)
    writer.start()
    kills = 0
    while writer.is_alive() and kills < 4:
        time.sleep(0.2)
        served.kill()
        kills += writer.is_alive()
        served = serve("--http-port", str(port))
    writer.join(120)
    assert not writer.is_alive() and kills > 1
    asked = "SELECT count(*), count(DISTINCT n), sum(n) FROM t"
    assert served.rows(asked) == [[rows, rows, rows * (rows - 1) // 2]]


def test_a_pool_whose_idle_connections_were_cut_off_goes_on(serve: Any) -> None:
    served = serve("--idle-timeout=100ms", "--send-timeout=300ms")
    frame = pa.table({"n": [1, 2], "at": pa.array([1, 2], pa.timestamp("ns"))})
    with connect(served) as db:
        for number in range(3):
            db.dataframe(frame, table_name="t", at="at")
            with db.sender() as rows:
                rows.row("t", columns={"n": 1}, at=ServerTimestamp)
                rows.flush(wait=True)
            asked = db.query("SELECT count(*) FROM t").iter_rows()
            assert [tuple(row) for row in asked] == [(3 * (number + 1),)]
            time.sleep(1)


def test_the_program_of_the_page(server: Any) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(program.replace("localhost:9000", f"localhost:{server.ports['http_port']}"), {})


def test_what_a_pool_asks_first(server: Any, db: Any) -> None:
    told = db.server_info()
    assert told.cluster_id == "tickstone" and told.role.name == "Standalone"
    assert abs(told.server_wall_ns - time.time_ns()) < 60 * 10**9

"""Arrow Flight SQL: the ADBC driver, and pyarrow's own Flight client, which knows nothing of SQL."""

import contextlib
import datetime
import io
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight
import pytest

TABLE = "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size DECIMAL(18, 3)) TIMESTAMP(ts)"
AT = 1_723_109_400_000_000_001


def address(server: Any) -> str:
    return f"grpc://127.0.0.1:{server.ports['flight_port']}"


@pytest.fixture
def connection(server: Any) -> Iterator[Any]:
    with flightsql.connect(address(server), autocommit=True) as connection:
        yield connection


@pytest.fixture
def cursor(connection: Any) -> Iterator[Any]:
    with connection.cursor() as cursor:
        yield cursor


def trades(rows: int, start: int = AT) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(range(start, start + rows), pa.timestamp("ns")),
            "symbol": pa.array([["BTC-USD", "ETH-USD", None][at % 3] for at in range(rows)]).dictionary_encode(),
            "price": pa.array([None if at % 5 == 0 else at / 2 for at in range(rows)], pa.float64()),
        }
    )


def count(cursor: Any, table: str = "trades") -> int:
    cursor.execute(f"SELECT count(*) FROM {table}")
    return cursor.fetchone()[0]


def test_statements(cursor: Any) -> None:
    cursor.execute(TABLE)
    cursor.execute("INSERT INTO trades VALUES ('2024-08-08T09:30:00.000000001Z', 'BTC-USD', 61500.5, 0.25)")
    cursor.execute("SELECT * FROM trades")
    table = cursor.fetch_arrow_table()
    assert table.schema.names == ["ts", "symbol", "price", "size"]
    assert table.schema.types == [
        pa.timestamp("ns"),
        pa.dictionary(pa.uint32(), pa.string()),
        pa.float64(),
        pa.decimal128(18, 3),
    ]
    assert table["ts"].cast(pa.int64()).to_pylist() == [AT]
    assert table.drop_columns("ts").to_pylist() == [{"symbol": "BTC-USD", "price": 61500.5, "size": Decimal("0.250")}]
    cursor.execute("SELECT symbol, count(*) FROM trades WHERE price > 1e9 GROUP BY symbol")
    assert cursor.fetchall() == []
    assert [column[0] for column in cursor.description] == ["symbol", "count(*)"]


def test_parameters(cursor: Any) -> None:
    cursor.execute(TABLE)
    cursor.executemany(
        "INSERT INTO trades (ts, symbol, price) VALUES ($1, $2, $3)",
        [(datetime.datetime(2024, 1, 1, 0, 0, second), symbol, price) for second, symbol, price in
         [(0, "a", 1.5), (1, "b", None), (2, "a'; DROP TABLE trades", 2.5)]],
    )
    assert count(cursor) == 3
    cursor.execute("SELECT symbol FROM trades WHERE price > $1 AND symbol <> $2", (1, "a"))
    assert cursor.fetchall() == [("a'; DROP TABLE trades",)]
    # Types are those of what stands beside.
    assert cursor.adbc_prepare("SELECT 1 FROM trades WHERE price < $1 AND ts = $2").types == [
        pa.float64(),
        pa.timestamp("ns"),
    ]
    cursor.execute("SELECT CAST($1 AS BIGINT) + 1 AS n, $2 AS flag, $3 AS text", (41, True, "é"))
    assert cursor.fetchall() == [(42, True, "é")]


def test_a_prepared_insert_of_many_rows(cursor: Any) -> None:
    cursor.execute(TABLE)
    begun = time.monotonic()
    cursor.executemany("INSERT INTO trades (ts, symbol, price) VALUES ($1, $2, $3)", trades(100_000))
    assert count(cursor) == 100_000
    assert time.monotonic() - begun < 20


def test_ingest(cursor: Any) -> None:
    rows = trades(300_000)
    assert cursor.adbc_ingest("trades", rows, mode="create") == 300_000
    cursor.execute("SELECT * FROM trades ORDER BY ts")
    back = cursor.fetch_arrow_table()
    assert back["symbol"].cast(pa.string()).to_pylist() == rows["symbol"].cast(pa.string()).to_pylist()
    assert back["price"].equals(rows["price"]) and back["ts"].equals(rows["ts"])
    with pytest.raises(adbc_driver_manager.Error, match="exists"):
        cursor.adbc_ingest("trades", rows, mode="create")
    assert cursor.adbc_ingest("trades", trades(10, AT + 1_000_000), mode="append") == 10
    assert count(cursor) == 300_010
    assert cursor.adbc_ingest("trades", trades(7).to_reader(), mode="replace") == 7
    assert count(cursor) == 7
    with pytest.raises(adbc_driver_manager.Error, match="does not exist"):
        cursor.adbc_ingest("nowhere", rows, mode="append")
    assert cursor.adbc_ingest("others", trades(3), mode="create_append") == 3
    # What does not fit leaves nothing.
    bad = pa.table({"ts": pa.array([AT], pa.timestamp("ns")), "nothing": [1]})
    with pytest.raises(adbc_driver_manager.Error, match="nothing"):
        cursor.adbc_ingest("trades", bad, mode="append")
    assert count(cursor) == 7


def test_transactions(server: Any, cursor: Any) -> None:
    cursor.execute(TABLE)
    with flightsql.connect(address(server)) as other, other.cursor() as inside:
        inside.execute("INSERT INTO trades (ts) VALUES ('2024-01-01')")
        assert count(cursor) == 0
        other.rollback()
        assert count(cursor) == 0
        inside.executemany("INSERT INTO trades (ts) VALUES ($1)", trades(5).select(["ts"]))
        inside.execute("INSERT INTO trades (ts) VALUES ('2024-01-01')")
        assert count(cursor) == 0
        other.commit()
        assert count(cursor) == 6
        # The driver does not say that what it ingests is of its transaction: it is committed at once.
        inside.adbc_ingest("trades", trades(5, AT + 10), mode="append")
        assert count(cursor) == 11
        other.rollback()
        # Tables are made at once, as the page says.
        inside.execute("CREATE TABLE late (ts TIMESTAMP) TIMESTAMP(ts)")
        assert count(cursor, "late") == 0


def test_a_cursor_is_used_again_after_a_commit(server: Any, cursor: Any) -> None:
    cursor.execute(TABLE)
    insert = "INSERT INTO trades (ts, price) VALUES ($1, $2)"
    with flightsql.connect(address(server)) as other, other.cursor() as inside:
        for row in range(3):
            inside.execute(insert, (datetime.datetime(2024, 1, 1), row))
            assert count(cursor) == row
            other.commit()
            assert count(cursor) == row + 1
        inside.execute(insert, (datetime.datetime(2024, 1, 1), 9))
        other.rollback()
        assert count(cursor) == 3
        inside.executemany(insert, [(datetime.datetime(2024, 1, 1), 10), (datetime.datetime(2024, 1, 1), 11)])
        assert count(cursor) == 3
        other.commit()
        assert count(cursor) == 5
        for _ in range(3):
            inside.execute("SELECT max(price) FROM trades WHERE price < $1", (100,))
            assert inside.fetchall() == [(11.0,)]
            other.commit()
        # Without transactions it goes on by itself.
        inside.execute(insert, (datetime.datetime(2024, 1, 1), 12))
        other.adbc_connection.set_autocommit(True)
        inside.execute(insert, (datetime.datetime(2024, 1, 1), 13))
        assert count(cursor) == 7


def test_a_transaction_that_failed(server: Any, cursor: Any) -> None:
    cursor.execute(TABLE)
    insert = "INSERT INTO trades (ts, price) VALUES ('2024-01-01', $1)"
    failures = ["INSERT INTO trades (ts) VALUES ('no time')", "INSERT INTO nowhere VALUES (1)", "no SQL"]
    with flightsql.connect(address(server)) as other, other.cursor() as inside, other.cursor() as wrong:
        for failure in failures:
            inside.execute(insert, (1,))
            with pytest.raises(adbc_driver_manager.Error):
                wrong.execute(failure)
            with pytest.raises(adbc_driver_manager.Error, match="nothing is done until it is rolled back"):
                inside.execute(insert, (2,))
            other.rollback()
            assert count(cursor) == 0
        inside.execute(insert, (3,))
        other.commit()
        assert count(cursor) == 1
        # The driver cannot go on after a commit that was refused.
        inside.execute(insert, (4,))
        with pytest.raises(adbc_driver_manager.Error):
            wrong.execute("no SQL")
        with pytest.raises(adbc_driver_manager.Error, match="nothing of it was stored"):
            other.commit()
        for _ in range(2):
            with pytest.raises(adbc_driver_manager.Error):
                inside.execute(insert, (5,))
    assert count(cursor) == 1


def test_what_there_is(connection: Any, cursor: Any) -> None:
    cursor.execute(TABLE + " DEDUP UPSERT KEYS (ts, symbol)")
    cursor.execute("CREATE VIEW latest AS SELECT * FROM trades LATEST BY symbol")
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Tickstone" and re.match(r"\d+\.\d+", info["vendor_version"])
    assert connection.adbc_get_table_schema("trades").names == ["ts", "symbol", "price", "size"]
    (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    assert catalog["catalog_name"] == "tickstone"
    (schema,) = catalog["catalog_db_schemas"]
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert schema["db_schema_name"] == "public" and set(tables) == {"trades", "latest"}
    assert [column["column_name"] for column in tables["trades"]["table_columns"]] == ["ts", "symbol", "price", "size"]
    filtered = connection.adbc_get_objects(depth="tables", table_name_filter="trad%").read_all().to_pylist()
    assert len(filtered[0]["catalog_db_schemas"][0]["db_schema_tables"]) == 1
    assert cursor.adbc_execute_schema("SELECT price FROM trades").types == [pa.float64()]


def test_errors(cursor: Any) -> None:
    with pytest.raises(flightsql.ProgrammingError, match="column 'nothing' does not exist at line 1, column 8"):
        cursor.execute("SELECT nothing FROM generate_series(1, 2)")
    with pytest.raises(flightsql.Error, match="table 'nowhere' does not exist"):
        cursor.execute("SELECT * FROM nowhere")
    with pytest.raises(flightsql.NotSupportedError):
        cursor.execute("COPY trades FROM STDIN")
    with pytest.raises(flightsql.Error, match="session"):
        cursor.execute("BEGIN")
    cursor.execute("SELECT 10 / (5000 - value) FROM generate_series(1, 100000)")
    with pytest.raises(flightsql.Error, match="(?i)zero"):
        cursor.fetch_arrow_table()
    cursor.execute("SELECT 1")
    assert cursor.fetchone() == (1,)


def test_names_and_passwords(server: Any) -> None:
    options = {adbc_driver_manager.DatabaseOptions.USERNAME.value: "admin"}
    options[adbc_driver_manager.DatabaseOptions.PASSWORD.value] = "quest"
    with flightsql.connect(address(server), db_kwargs=options, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)


def running(server: Any) -> int:
    ((count,),) = server.rows("SELECT count(*) FROM queries() WHERE statement LIKE '%100000000000%' AND statement NOT LIKE '%queries()%'")
    return count


def test_cancel(server: Any, cursor: Any) -> None:
    cursor.execute("SELECT value FROM generate_series(1, 100000000000)")
    cursor.fetchone()
    assert running(server) == 1
    timer = threading.Timer(0.3, cursor.adbc_cancel)
    timer.start()
    with pytest.raises(flightsql.Error):
        while cursor.fetchmany(10_000):
            pass
    timer.join()
    end = time.monotonic() + 20
    while running(server):
        assert time.monotonic() < end, "the statement goes on"
        time.sleep(0.02)


def test_plain_texts_for_who_takes_no_dictionaries(server: Any) -> None:
    header = adbc_driver_flightsql.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "tickstone-dictionaries"
    with flightsql.connect(address(server), db_kwargs={header: "false"}, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("trades", trades(10), mode="create")
            cursor.execute("SELECT symbol FROM trades")
            assert cursor.fetch_arrow_table().schema.types == [pa.string()]


def test_rows_of_every_type(cursor: Any) -> None:
    rows = pa.table(
        {
            "ts": pa.array([1, 2], pa.timestamp("ns")),
            "b": [True, None],
            "i": pa.array([-(2**63), None], pa.int64()),
            "u": pa.array([2**64 - 1, None], pa.uint64()),
            "f": pa.array([1.5, None], pa.float32()),
            "d": pa.array([Decimal("-1.25"), None], pa.decimal128(10, 2)),
            "s": pa.array(["é\u0000", None]),
            "x": pa.array([b"\x00\xff", None]),
            "uuid": pa.array([bytes(range(16)), None], pa.binary(16)),
            "day": pa.array([datetime.date(1969, 12, 31), None]),
            "l": pa.array([[1.5, None], None], pa.list_(pa.float64())),
        }
    )
    cursor.adbc_ingest("every", rows, mode="create")
    cursor.execute("SELECT * FROM every ORDER BY ts")
    back = cursor.fetch_arrow_table()
    for name in rows.column_names:
        assert back[name].to_pylist() == rows[name].to_pylist(), name


def test_a_large_answer_comes_in_pieces(cursor: Any) -> None:
    cursor.execute("SELECT value, CAST(value AS VARCHAR) AS text FROM generate_series(1, 1000000)")
    reader = cursor.fetch_record_batch()
    rows, largest = 0, 0
    for batch in reader:
        rows, largest = rows + batch.num_rows, max(largest, batch.nbytes)
    assert rows == 1_000_000 and largest < 4 << 20


@pytest.fixture
def plain(server: Any) -> Iterator[Any]:
    with flight.connect(address(server)) as client:
        yield client


def test_pyarrow_needs_no_sql_of_flight(plain: Any) -> None:
    rows = trades(1_000)
    writer, _ = plain.do_put(flight.FlightDescriptor.for_path("simple"), rows.schema)
    with writer:
        writer.write_table(rows)
    # The text of a statement is a ticket, and a command.
    back = plain.do_get(flight.Ticket(b"SELECT * FROM simple ORDER BY ts")).read_all()
    assert back["price"].equals(rows["price"])
    info = plain.get_flight_info(flight.FlightDescriptor.for_command(b"SELECT count(*) AS n FROM simple"))
    assert info.schema.names == ["n"]
    assert plain.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"n": 1_000}]
    assert [info.descriptor.path for info in plain.list_flights()] == [[b"simple"]]
    assert plain.get_schema(flight.FlightDescriptor.for_path("simple")).schema.names == ["ts", "symbol", "price"]
    assert pc.sum(plain.do_get(flight.Ticket(b"SELECT 2 AS n")).read_all()["n"]).as_py() == 2


def test_pyarrow_s_errors(plain: Any) -> None:
    with pytest.raises(pa.ArrowInvalid, match="SELEC"):
        plain.do_get(flight.Ticket(b"SELEC 1"))
    with pytest.raises(KeyError, match="table 'nowhere' does not exist"):
        plain.do_get(flight.Ticket(b"SELECT * FROM nowhere"))
    # What was written when the schema does not fit is nothing.
    writer, _ = plain.do_put(flight.FlightDescriptor.for_path("t"), pa.schema([("a", pa.struct([("x", pa.int64())]))]))
    with pytest.raises((pa.ArrowInvalid, flight.FlightError)):
        with writer:
            writer.write_table(pa.table({"a": pa.array([{"x": 1}])}))


def test_pyarrow_logs_in(plain: Any) -> None:
    token = plain.authenticate_basic_token("admin", "quest")
    options = flight.FlightCallOptions(headers=[token])
    assert plain.do_get(flight.Ticket(b"SELECT 1 AS one"), options).read_all().num_rows == 1


def test_a_kill_keeps_what_was_acknowledged(serve: Any) -> None:
    server = serve()
    acknowledged = 0
    killer = threading.Timer(1.5, server.kill)
    with flightsql.connect(address(server), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(TABLE)
        killer.start()
        with pytest.raises(adbc_driver_manager.Error):
            while True:
                rows = trades(1_000, AT + acknowledged)
                acknowledged += cursor.adbc_ingest("trades", rows, mode="append")
    killer.join()
    assert acknowledged > 0
    again = serve()
    ((stored, distinct),) = again.rows("SELECT count(*), count(DISTINCT ts) FROM trades")
    # The rows of the one that was under way may be there, all of them.
    assert stored == distinct and stored in (acknowledged, acknowledged + 1_000)
    assert again.stop() == 0


def test_a_stop_answers_what_is_under_way(serve: Any) -> None:
    server = serve()
    with flight.connect(address(server)) as client:
        reader = client.do_get(flight.Ticket(b"SELECT value FROM generate_series(1, 3000000)"))
        rows = reader.read_chunk().data.num_rows
        codes: list[int] = []
        stopping = threading.Thread(target=lambda: codes.append(server.stop()))
        stopping.start()
        rows += reader.read_all().num_rows
        stopping.join()
    assert rows == 3_000_000 and codes == [0]


PAGES = pathlib.Path(__file__).resolve().parent.parent.parent / "docs"


def test_the_examples_of_the_page(server: Any, program: pathlib.Path) -> None:
    text = (PAGES / "server" / "flight.md").read_text()
    here = f"localhost:{server.ports['flight_port']}"
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ran = 0
    for (language, body), (_, printed) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        body = body.replace("localhost:8815", here)
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, "flight.md", "exec"), {})
            assert out.getvalue() == printed
            ran += 1
        elif body.startswith("$ tickstone "):
            command, printed = body[2:].split("\n", 1)
            arguments = [str(program), *shlex.split(command)[1:]]
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
            assert (done.stdout, done.stderr) == (printed, "")
            ran += 1
    assert ran == 4


def test_a_notebook_moves_to_a_server(server: Any) -> None:
    tickstone = pytest.importorskip("tickstone", reason="the package is not installed: make python")
    text = (PAGES / "python" / "index.md").read_text()
    (body,) = re.findall(r"^```python skip\n(.*?)^```", text[text.index("## From a directory") :], re.MULTILINE | re.DOTALL)
    body = body.replace("tickstone://localhost", f"tickstone://localhost:{server.ports['flight_port']}")
    names = {"tickstone": tickstone, "trades": trades(30)}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(body, "index.md", "exec"), names)
    assert sorted(eval(out.getvalue()), key=str) == [("BTC-USD", 10), ("ETH-USD", 10), (None, 10)]
    names["db"].close()


def sql(program: pathlib.Path, server: Any, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    url = f"tickstone://127.0.0.1:{server.ports['flight_port']}"
    command = [str(program), "sql", "--connect", url, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def test_the_command_line(server: Any, program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = sql(program, server, text=f"{TABLE}; INSERT INTO trades (ts, symbol) VALUES ('2024-01-01', 'a'), ('2024-01-02', 'b');")
    assert done.returncode == 0 and "CREATE TABLE" in done.stdout and "INSERT: 2 rows" in done.stdout, done
    # A session of all statements of a text.
    text = "BEGIN; INSERT INTO trades (ts) VALUES ('2024-01-03'); SELECT count(*) AS n FROM trades; COMMIT; SELECT count(*) AS n FROM trades"
    assert sql(program, server, "--format", "csv", "--quiet", "-c", text).stdout == "n\n2\nn\n3\n"
    shown = sql(program, server, "-c", "SELECT symbol FROM trades ORDER BY ts").stdout
    assert "│ a      │" in shown and "3 rows in" in shown, shown
    path = tmp_path / "out.parquet"
    assert sql(program, server, "-c", "SELECT * FROM trades", "--output", str(path)).returncode == 0
    assert path.read_bytes().startswith(b"PAR1")
    # An error is the one of a database in a directory.
    wrong = "SELECT 1;\nSELECT symbol,\n  prise FROM trades"
    there = sql(program, server, "--quiet", "-c", wrong)
    data = tmp_path / "local"
    local = [str(program), "sql", "--data", str(data), "--quiet", "-c"]
    subprocess.run([*local, TABLE], check=True)
    here = subprocess.run([*local, wrong], capture_output=True, text=True)
    assert there.stderr == here.stderr and "3 |   prise FROM trades" in there.stderr
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout)
    done = subprocess.run(
        [str(program), "sql", "--connect", "tickstone://127.0.0.1:1", "-c", "SELECT 1"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "no server answers at 127.0.0.1:1" in done.stderr
    for port in ["http_port", "pg_port", "ilp_port", "influx_port", "stream_port"]:
        url = f"tickstone://127.0.0.1:{server.ports[port]}"
        done = subprocess.run([str(program), "sql", "--connect", url, "-c", "SELECT 1"], capture_output=True, text=True)
        assert done.returncode == 1 and "does not answer as Arrow Flight SQL does" in done.stderr, done.stderr
        assert "flight_port" in done.stderr and "8815" in done.stderr
    assert sql(program, server, "--read-only", "-c", "SELECT 1").returncode == 2


def test_an_interrupt_cancels_in_the_server(server: Any, program: pathlib.Path) -> None:
    url = f"tickstone://127.0.0.1:{server.ports['flight_port']}"
    query = "SELECT sum(a.value * b.value) FROM generate_series(1, 100000000000) a, generate_series(1, 3) b"
    child = subprocess.Popen([str(program), "sql", "--connect", url, "-c", query], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 20
    while not running(server):
        assert time.monotonic() < end
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 130
    assert child.stderr is not None and "panicked" not in child.stderr.read()
    child.stderr.close()
    while running(server):
        assert time.monotonic() < end, "the statement goes on"
        time.sleep(0.02)

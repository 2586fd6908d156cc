"""A server as a database: the same answers, errors and nanoseconds as of a directory."""

from __future__ import annotations

import datetime
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pandas
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy
import sqlalchemy.dialects

import tickstone
from tickstone import dbapi

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("TICKSTONE", REPOSITORY / "target" / "debug" / "tickstone"))
AT = 1_723_109_400_000_000_001


class Server:
    """`tickstone serve` with nothing but the port of Flight."""

    def __init__(self, data: pathlib.Path) -> None:
        off = [f"--{port}-port=off" for port in ("http", "influx", "pg", "ilp", "stream")]
        command = [str(PROGRAM), "serve", "--data", str(data), "--flight-port=0", *off]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.match(r"  flight_port +(\S+)", line):
                self.url = f"tickstone://{found[1]}"
                return
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing: make build")
    server = Server(tmp_path_factory.mktemp("served") / "data")
    yield server.url
    server.stop()


@pytest.fixture
def remote(url: str) -> Iterator[tickstone.Database]:
    with tickstone.connect(url) as db:
        for name in db.tables():
            db.sql(f'DROP TABLE "{name}"')
        yield db


@pytest.fixture
def both(remote: tickstone.Database) -> Iterator[list[tickstone.Database]]:
    """A database of this process and one of a server, with the same rows."""
    with tickstone.open(":memory:") as here:
        for db in (here, remote):
            db.append("trades", trades(500), timestamp="ts", series="symbol", create=True)
        yield [here, remote]


def trades(rows: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "ts": pl.Series(range(AT, AT + rows * 1_000_000_007, 1_000_000_007), dtype=pl.Datetime("ns")),
            "symbol": [["BTC-USD", "ETH-USD", None][at % 3] for at in range(rows)],
            "price": [None if at % 7 == 0 else at / 3 for at in range(rows)],
            "size": list(range(rows)),
        }
    )


QUESTIONS = [
    "SELECT * FROM trades ORDER BY ts",
    "SELECT symbol, count(*) AS n, sum(size), vwap(price, size) FROM trades GROUP BY symbol ORDER BY symbol",
    "SELECT ts, symbol, ohlc(price) AS bar FROM trades SAMPLE BY 1m ORDER BY ts, symbol",
    "SELECT * FROM trades LATEST BY symbol ORDER BY symbol",
    "SELECT a.ts, b.price FROM trades a ASOF JOIN trades b ON (symbol) ORDER BY a.ts LIMIT 20",
    "SELECT 1 AS one, 'x' AS x, CAST(NULL AS DOUBLE) AS n, DATE '2024-01-02' AS d, 1.50 AS dec, INTERVAL '1 month' AS i",
    "SELECT array_agg(size ORDER BY ts) AS all_sizes FROM trades WHERE size < 5",
    "SELECT * FROM trades WHERE size < 0",
    "SHOW COLUMNS FROM trades",
    "SHOW TABLES",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_same_answers(both: list[tickstone.Database], question: str) -> None:
    here, there = (db.sql(question) for db in both)
    assert there.columns == here.columns and there.types == here.types
    assert there.schema.equals(here.schema, check_metadata=True)
    assert there.fetchall() == here.fetchall()
    assert there.arrow().to_pylist() == here.arrow().to_pylist()
    assert repr(there) == repr(here)


def test_the_same_tables(both: list[tickstone.Database]) -> None:
    here, there = (db.table("TRADES") for db in both)
    for name in ("name", "columns", "types", "timestamp", "series", "partition_by", "sync"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.schema.equals(here.schema, check_metadata=True)
    assert there.count() == 500 and both[1].tables() == ["trades"]
    assert there.bars("1m", price="price", size="size").fetchall() == here.bars("1m", price="price", size="size").fetchall()
    assert there.latest().fetchall() == here.latest().fetchall()
    with pytest.raises(tickstone.Error, match="table 'nowhere' does not exist") as raised:
        both[1].table("nowhere")
    assert raised.value.hint == "the tables are trades"


@pytest.mark.parametrize(
    "wrong",
    [
        "SELECT 1,\n  prize FROM trades",
        "SELEC 1",
        "SELECT * FROM nowhere",
        "SELECT 1; SELECT 2,\n nothing FROM trades",
        "INSERT INTO trades (ts) VALUES ('yesterday')",
        "SELECT size / 0 FROM trades",
        "SELECT $1",
        "DROP TABLE nowhere",
    ],
)
def test_the_same_errors(both: list[tickstone.Database], wrong: str) -> None:
    raised = []
    for db in both:
        with pytest.raises(tickstone.SqlError) as caught:
            db.sql(wrong).fetchall()
        error = caught.value
        raised.append((str(error), error.kind, error.message, error.detail, error.hint, error.line, error.column))
    assert raised[0] == raised[1]


def test_parameters_of_every_type(both: list[tickstone.Database]) -> None:
    values: list[Any] = [
        None, True, -5, 2**63, 1.5, float("inf"), Decimal("-1.250"), "é'", b"\x00\xff", datetime.date(2024, 1, 2),
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6), datetime.time(1, 2, 3, 4), datetime.timedelta(days=-1, microseconds=5),
        pandas.Timestamp(AT), uuid.UUID(int=5),
    ]  # fmt: skip
    question = "SELECT " + ", ".join(f"${place + 1} AS c{place}" for place in range(len(values)))
    here, there = (db.sql(question, values) for db in both)
    assert there.types[1:] == here.types[1:] and there.fetchall() == here.fetchall()
    lists: list[list[list[Any]]] = [[[1, 2, 499]], [[1, None, 2.5]], [[]], [[Decimal("1.5"), 2]]]
    for params in lists:
        here, there = (db.sql("SELECT size FROM trades WHERE size IN ($1) ORDER BY ts", params) for db in both)
        assert there.fetchall() == here.fetchall(), params
    here, there = (db.sql("SELECT :a + :b AS n, :a AS a", a=1, b=2) for db in both)
    assert there.fetchall() == here.fetchall() == [(3, 1)]
    # A text of several statements: each takes its own.
    assert both[1].sql("SELECT $1; SELECT $2 AS n", [1, "two"]).fetchall() == [("two",)]
    with pytest.raises(tickstone.SqlError, match="stands nowhere"):
        both[1].sql("SELECT 1", [1])


def test_nanoseconds_are_whole(remote: tickstone.Database) -> None:
    times = pa.array([AT, AT + 1, -1], pa.timestamp("ns"))
    assert remote.append("t", pa.table({"ts": times}), create=True) == 3
    assert remote.sql("SELECT ts FROM t ORDER BY ts").arrow()["ts"].cast(pa.int64()).to_pylist() == [-1, AT, AT + 1]
    assert remote.sql("SELECT count(*) FROM t WHERE ts = $1", [pandas.Timestamp(AT)]).fetchall() == [(1,)]


def test_rows_in(remote: tickstone.Database) -> None:
    with pytest.raises(tickstone.Error, match="does not exist"):
        remote.append("t", trades(1))
    assert remote.append("t", trades(300_000), create=True, series=["symbol"], partition_by="hour", sync="interval") == 300_000
    table = remote.table("t")
    assert (table.partition_by, table.series, table.sync) == ("hour", ["symbol"], "interval")
    assert remote.append("t", [{"ts": pandas.Timestamp(AT), "size": 1}]) == 1
    assert remote.append("t", [(pandas.Timestamp(AT), "X", 1.0, 2)]) == 1
    assert remote.append("t", []) == 0
    with pytest.raises(tickstone.Error, match="row 1"):
        remote.append("t", {"ts": ["yesterday"]})
    with pytest.raises(tickstone.Error, match="series key is symbol"):
        remote.append("t", trades(1), series=[])
    assert table.count() == 300_002

    def failing() -> Iterator[pa.RecordBatch]:
        yield from pa.table({"ts": pa.array([1], pa.timestamp("ns"))}).to_batches()
        raise RuntimeError("my own")

    schema = pa.schema([("ts", pa.timestamp("ns"))])
    with pytest.raises(tickstone.Error, match="my own"):
        remote.append("t", pa.RecordBatchReader.from_batches(schema, failing()))
    assert table.count() == 300_002
    remote.seal()
    remote.seal("t")
    assert table.count() == 300_002


def test_frames_go_along(remote: tickstone.Database) -> None:
    remote.append("trades", trades(30), create=True)
    mine = pl.DataFrame({"symbol": ["BTC-USD"], "factor": [2]})
    question = "SELECT factor, count(*) FROM trades JOIN mine USING (symbol) GROUP BY factor"
    relation = remote.sql(question)
    assert relation.fetchall() == relation.fetchall() == [(2, 10)]
    mine = pl.DataFrame({"symbol": ["BTC-USD", "ETH-USD"], "factor": [3, 3]})
    assert remote.sql(question).fetchall() == [(3, 20)]
    # The relation has the frame it was made with.
    assert relation.fetchall() == [(2, 10)]
    del mine
    with pytest.raises(tickstone.SqlError, match="'mine' does not exist"):
        remote.sql(question)
    remote.register("other", pa.table({"ts": pa.array([AT], pa.timestamp("ns")), "x": [1]}))
    assert remote.sql("SELECT x FROM other").fetchall() == [(1,)]
    remote.unregister("other")
    # A table comes before a variable of its name.
    trades_here = trades(1)
    assert remote.sql("SELECT count(*) FROM trades").fetchall() == [(30,)]
    assert remote.table("trades").asof(trades_here, on=[]).fetchall()


def test_returning(remote: tickstone.Database) -> None:
    remote.sql("CREATE TABLE t (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)")
    returned = remote.sql("INSERT INTO t VALUES ('2024-01-01', 1), ('2024-01-02', 2) RETURNING n * 2 AS twice")
    for _ in range(2):
        # It has run once, however often it is read.
        assert returned.fetchall() == [(2,), (4,)]
        remote.sql("INSERT INTO t VALUES ('2024-01-03', 3)")
    assert remote.sql("INSERT INTO t VALUES ('2024-01-04', $1) RETURNING n", [7]).fetchall() == [(7,)]
    assert remote.table("t").count() == 5
    with pytest.raises(tickstone.SqlError):
        remote.sql("INSERT INTO t VALUES ('2024-01-05', 0) RETURNING 1 / n")
    assert remote.table("t").count() == 5


def test_transactions(remote: tickstone.Database) -> None:
    remote.append("t", trades(1), create=True)
    with remote.transaction() as transaction:
        transaction.append("t", trades(5))
        transaction.sql("INSERT INTO t (ts) VALUES ('2024-01-01')")
        assert remote.table("t").count() == 1
    assert remote.table("t").count() == 7
    with pytest.raises(RuntimeError), remote.transaction() as transaction:
        transaction.append("t", trades(5))
        raise RuntimeError
    assert remote.table("t").count() == 7
    remote.sql("BEGIN; INSERT INTO t (ts) VALUES ('2024-01-02')")
    assert remote.table("t").count() == 7
    remote.sql("COMMIT")
    assert remote.table("t").count() == 8
    remote.sql("PREPARE p AS SELECT count(*) FROM t WHERE size < $1")
    assert remote.sql("EXECUTE p(3)").fetchall() == [(4,)]
    assert remote.sql("PREPARE i AS INSERT INTO t (ts) VALUES ($1)").rowcount == -1
    assert remote.sql("EXECUTE i('2024-01-03')").rowcount == 1


def test_sessions_of_threads(remote: tickstone.Database) -> None:
    remote.append("t", trades(10), create=True)
    counts: list[Any] = []

    def ask() -> None:
        for _ in range(20):
            counts.append(remote.sql("SELECT count(*) FROM t").fetchone())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [(10,)] * 80


def test_files(remote: tickstone.Database, tmp_path: pathlib.Path) -> None:
    remote.append("t", trades(10), create=True)
    assert remote.export("t", tmp_path / "t.parquet") == 10
    assert pl.read_parquet(tmp_path / "t.parquet").height == 10
    assert remote.export("SELECT size FROM t ORDER BY ts LIMIT 2", tmp_path / "t.csv") == 2
    assert (tmp_path / "t.csv").read_text() == "size\n0\n1\n"
    with pytest.raises(tickstone.Error, match="files are read by the process of the database"):
        remote.import_file(tmp_path / "t.csv", "u")
    with pytest.raises(tickstone.Error, match="in a server"):
        remote.create_function("f", lambda x: x, ["DOUBLE"], "DOUBLE")
    with pytest.raises(tickstone.Error, match="in a server"):
        remote.remove_function("f")


def running(db: tickstone.Database) -> int:
    question = "SELECT count(*) FROM queries() WHERE statement LIKE '%77777777777%' AND statement NOT LIKE '%queries()%'"
    count: int = db.sql(question).fetchall()[0][0]
    return count


def ends(db: tickstone.Database) -> None:
    end = time.monotonic() + 20
    while running(db):
        assert time.monotonic() < end, "the statement goes on"
        time.sleep(0.02)


def test_a_dropped_relation_cancels(remote: tickstone.Database) -> None:
    batches = remote.sql("SELECT value FROM generate_series(1, 77777777777)").batches()
    assert next(batches).num_rows > 0
    assert running(remote) == 1
    del batches
    ends(remote)


def test_an_interrupt_cancels(remote: tickstone.Database) -> None:
    timer = threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        remote.sql("SELECT sum(a.value * b.value) FROM generate_series(1, 77777777777) a, generate_series(1, 3) b").fetchall()
    timer.join()
    ends(remote)
    assert remote.sql("SELECT 1").fetchall() == [(1,)]


def test_an_interrupt_of_an_append_leaves_nothing(remote: tickstone.Database) -> None:
    remote.append("t", trades(1), create=True)
    schema = pa.schema([("ts", pa.timestamp("ns"))])

    def endless() -> Iterator[pa.RecordBatch]:
        at = 0
        while True:
            yield pa.record_batch([pa.array(range(at, at + 100_000), pa.timestamp("ns"))], schema=schema)
            at += 100_000

    timer = threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises((KeyboardInterrupt, tickstone.Error)):
        remote.append("t", pa.RecordBatchReader.from_batches(schema, endless()))
    timer.join()
    time.sleep(0.3)
    assert remote.table("t").count() == 1


def test_handles_that_were_closed(url: str) -> None:
    db = tickstone.connect(url)
    relation = db.sql("SELECT 1 AS one")
    assert not db.closed and db.path == url and not db.read_only and repr(db) == f"<Database '{url}', open>"
    db.close()
    db.close()
    assert db.closed
    for call in (relation.fetchall, db.tables, lambda: db.sql("SELECT 1"), db.transaction):
        with pytest.raises(tickstone.ClosedError):
            call()


@pytest.mark.parametrize("address", ["localhost", "tickstone+tls://localhost", "tickstone://", "tickstone://me@x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(tickstone.Error) as raised:
        tickstone.connect(address)
    assert raised.value.hint is not None


def test_no_server() -> None:
    with pytest.raises(tickstone.Error, match="no server answers at 127.0.0.1:1") as raised:
        tickstone.connect("tickstone://127.0.0.1:1")
    assert raised.value.kind == "retry"
    with pytest.raises(ValueError, match="tickstone.connect"):
        tickstone.open("tickstone://localhost")


def test_a_server_that_goes(tmp_path: pathlib.Path) -> None:
    if not PROGRAM.exists():
        pytest.skip("no program")
    server = Server(tmp_path / "data")
    db = tickstone.connect(server.url)
    db.append("t", trades(10), create=True)
    server.process.kill()
    server.process.wait()
    assert server.process.stdout is not None
    server.process.stdout.close()
    with pytest.raises(tickstone.Error) as raised:
        db.sql("SELECT 1").fetchall()
    assert raised.value.kind == "retry"
    db.close()


def test_dbapi(url: str, remote: tickstone.Database) -> None:
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE d (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)")
        cursor.executemany("INSERT INTO d VALUES (:ts, :x)", [{"ts": pandas.Timestamp(AT + at), "x": at} for at in range(5)])
        connection.commit()
        cursor.execute("SELECT sum(x) FROM d")
        assert cursor.fetchall() == [(10,)]


CHAINS: list[Callable[[tickstone.Table], tickstone.Relation]] = [
    lambda t: t.filter("price > 20").aggregate("symbol, sum(size) AS v").order("v DESC").limit(1),
    lambda t: t.sample("1m", "sum(size) AS size").order("ts", "symbol"),
    lambda t: t._database.sql("SELECT ts, symbol, size FROM trades").sample("1m", "sum(size) AS s", "symbol").order("ts", "symbol"),
    lambda t: t.asof_join(t.filter("size > 100"), "symbol").order("ts"),
    lambda t: t._database.sql("SELECT * FROM trades WHERE size > $1", [490]).join(t, "size").order("size"),
    lambda t: t.join(trades(20), "size", "semi").order("size"),
    lambda t: t.describe(),
]


@pytest.mark.parametrize("at", range(len(CHAINS)))
def test_chains_give_the_same(both: list[tickstone.Database], at: int) -> None:
    here, there = (CHAINS[at](db.table("trades")) for db in both)
    assert there.sql == here.sql and there.fetchall() == here.fetchall() and len(there) == len(here)
    assert there.df().equals(here.df()) and there.shape == here.shape and there.description == here.description


def test_sqlalchemy(url: str, remote: tickstone.Database) -> None:
    sqlalchemy.dialects.registry.register("tickstone", "tickstone.sqlalchemy_dialect", "TickstoneDialect")
    engine = sqlalchemy.create_engine(url)
    remote.append("trades", trades(50), timestamp="ts", series="symbol", create=True)
    assert sqlalchemy.inspect(engine).get_table_names() == ["trades"]
    table = sqlalchemy.Table("trades", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"ts": "2030-01-01", "size": 1000 + at} for at in range(3)])
    query = sqlalchemy.select(table.c.size).where(table.c.size > 48).order_by(table.c.size)
    assert pandas.read_sql(query, engine)["size"].tolist() == [49, 1000, 1001, 1002]
    engine.dispose()
    assert remote.sql("SELECT count(*) FROM trades").fetchone() == (53,)


def test_hints(remote: tickstone.Database) -> None:
    with pytest.raises(AttributeError, match="'RemoteDatabase' object has no attribute 'cursor': here it is"):
        remote.cursor()  # type: ignore[attr-defined]

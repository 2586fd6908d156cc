"""A disk that is full, and a clock that steps back."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import questdb
import requests
from serving import WITHSTAND_S, until
from test_withstand_kills import BATCH, COLUMNS, PROTOCOLS, Protocol, connect, ilp_http, lines, pg_transaction


class SmallDisk:
    """A file system of its own, whose size can be changed."""

    SIZE = 64 << 20

    def __init__(self, at: Path) -> None:
        self.at = at
        at.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "tmpfs", str(at)]
        done = subprocess.run(mount, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"NOT TESTED: a full disk wants a file system of its own, as root: {done.stderr.strip()}")

    def _size(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.at)], check=True)

    def fill(self) -> None:
        """Leaves no more than a page."""
        found = os.statvfs(self.at)
        self._size((found.f_blocks - found.f_bfree + 1) * found.f_bsize)

    def make_room(self) -> None:
        self._size(self.SIZE)


@pytest.fixture
def disk(tmp_path: Path, serve: Any) -> Iterator[SmallDisk]:
    """The disk of the directory that `serve` serves."""
    small = SmallDisk(tmp_path / "data")
    yield small
    # What a test left running would keep it busy.
    subprocess.run(["umount", "--lazy", str(small.at)], check=True)


def check_told(error: Exception) -> None:
    """Whether a client is told that the disk is full, with the code that its protocol has for that, and what to do."""
    text = str(error)
    right_code = isinstance(error, (questdb.QuestDBError, pa.ArrowException))
    if isinstance(error, requests.HTTPError) and error.response is not None:
        text, right_code = error.response.text, error.response.status_code == 507
    elif isinstance(error, psycopg.Error):
        text, right_code = f"{error} {error.diag.message_hint}", error.sqlstate == "53100"
    assert right_code and "disk is full" in text and "free" in text, f"{error!r}: {text}"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_a_full_disk(serve: Any, disk: SmallDisk, protocol: Protocol) -> None:
    tables = ["t", "u"] if protocol in (ilp_http, pg_transaction) else ["t"]
    served = serve()
    served.run(*(f"CREATE TABLE {table} {COLUMNS}" for table in tables))

    def check(batches: int) -> None:
        for table in tables:
            found = served.rows(f"SELECT n, count(*) FROM {table} GROUP BY n ORDER BY n")
            assert found == [[number, BATCH] for number in range(batches)], f"{table}: {batches} batches were acknowledged"

    at, errors = 0, []
    with protocol(served) as write:
        for _ in range(3):
            for _ in range(5):
                write(at)
                at += 1
            disk.fill()
            with pytest.raises(Exception) as raised:
                for _ in range(1_000):
                    write(at)
                    at += 1
            errors.append(raised.value)
            check(at)
            with pytest.raises(Exception) as raised:
                write(at)
            errors.append(raised.value)
            disk.make_room()
    # A client whose connection was ended makes a new one.
    with protocol(served) as write:
        write(at)
    check(at + 1)
    assert served.stop() == 0
    served = serve()
    check(at + 1)
    assert served.stop() == 0
    for error in errors:
        check_told(error)


def test_a_full_disk_behind_lines_over_tcp(serve: Any, disk: SmallDisk) -> None:
    served = serve()
    served.run(f"CREATE TABLE t {COLUMNS}")
    disk.fill()
    with socket.create_connection(("127.0.0.1", served.ports["ilp_port"])) as stream:
        with pytest.raises(OSError):
            for number in range(10_000):
                stream.sendall(lines(number, "t").encode())
    kept = served.rows("SELECT count(*) FROM t")[0][0]
    disk.make_room()
    with socket.create_connection(("127.0.0.1", served.ports["ilp_port"])) as stream:
        stream.sendall(lines(10_000, "t").encode())
    until(lambda: served.rows("SELECT count(*) FROM t") == [[kept + BATCH]], "rows are stored again")
    served.log.seek(0)
    logged = [line for line in served.log if "rows are lost" in line]
    assert logged and "the disk is full" in logged[0], logged
    assert served.stop() == 0
    assert serve().rows("SELECT count(*) FROM t") == [[kept + BATCH]]


STATEMENTS = {
    "CREATE TABLE AS": "CREATE TABLE more AS SELECT * FROM t",
    "INSERT": "INSERT INTO t SELECT to_timestamp(value), 'x', value FROM range(0, 500000)",
    "UPDATE": "UPDATE t SET n = n + 1",
    "DELETE": "DELETE FROM t WHERE n % 2 = 0",
    "COPY": "COPY t FROM STDIN",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_on_a_full_disk(serve: Any, disk: SmallDisk, statement: str) -> None:
    """Statements over so many rows that parts are written at once."""
    served, rows = serve(), 500_000
    served.run(
        "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, n BIGINT) TIMESTAMP(ts)",
        f"INSERT INTO t SELECT to_timestamp(value), 'x', value FROM range(0, {rows})",
    )
    before = served.rows("SELECT count(*), sum(n) FROM t")
    disk.fill()
    with connect(served) as db:

        def carry_out() -> None:
            with db.cursor() as cursor:
                if statement == "COPY":
                    with cursor.copy("COPY t FROM STDIN") as copy:
                        copy.write(b"".join(b"2024-01-01\ty\t%d\n" % number for number in range(rows)))
                else:
                    cursor.execute(STATEMENTS[statement].encode())

        with pytest.raises(psycopg.Error) as raised:
            carry_out()
        assert served.rows("SELECT count(*), sum(n) FROM t") == before
        disk.make_room()
        carry_out()
    assert served.stop() == 0
    check_told(raised.value)


class Clock:
    """The time that a server sees: the system's, and so many seconds more or less."""

    LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)

    def __init__(self, file: Path, set_variable: Callable[[str, str], None]) -> None:
        if self.LIBRARY is None:
            pytest.skip("NOT TESTED: a clock that steps back wants libfaketime (apt-get install faketime)")
        self.file, self.ahead = file, 0
        self.step(0)
        set_variable("LD_PRELOAD", str(self.LIBRARY))
        set_variable("FAKETIME_TIMESTAMP_FILE", str(file))
        set_variable("FAKETIME_NO_CACHE", "1")
        set_variable("FAKETIME_DONT_FAKE_MONOTONIC", "1")

    def step(self, seconds: int) -> None:
        self.ahead += seconds
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{self.ahead:+d}")
        fresh.replace(self.file)

    def now(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(tmp_path / "clock", monkeypatch.setenv)


HOUR = 3_600
STEPS = [-HOUR, -3 * 24 * HOUR, 24 * HOUR, -1]


def test_a_clock_that_steps_back(serve: Any, clock: Clock) -> None:
    served = serve("--idle-timeout=5s")
    served.run(
        "CREATE TABLE t (n BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp) PARTITION BY HOUR",
        "CREATE TABLE lazy (n BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp) WITH (sync = 'interval')",
        "CREATE TABLE old (n BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp) PARTITION BY DAY TTL 10 DAYS",
    )
    done, written = threading.Event(), [0, 0]

    def write(table: int) -> None:
        while not done.is_set():
            name = ["t", "lazy"][table]
            assert served.ask("/write", f"{name} n={written[table]}i\n".encode()) is None
            written[table] += 1

    def metric(name: str) -> float:
        return float(served.rows(f"SELECT value FROM metrics() WHERE metric = '{name}'")[0][0])

    with ThreadPoolExecutor(2) as pool, connect(served) as db:
        writers = [pool.submit(write, table) for table in range(2)]
        try:
            for step in [0, *STEPS]:
                clock.step(step)
                time.sleep(0.3 + WITHSTAND_S / len(STEPS))
                for (now,) in db.execute("SELECT now()").fetchall():
                    assert abs(now.timestamp() - clock.now()) < 2, (now, clock.ahead)
                before, syncs = list(written), metric("tape_syncs")
                until(lambda: all(new > old for new, old in zip(written, before, strict=True)), "writers go on")
                until(lambda: metric("tape_syncs") > syncs, "what is written is synced")
                count = served.rows("SELECT count(*) FROM t")[0][0]
                assert before[0] <= count <= written[0] + 1
                # Time to live is counted from this clock.
                for days in (20, 0):
                    db.execute("INSERT INTO old SELECT 1, now() - CAST(%s AS INTERVAL)", (f"{days} days",))
                assert served.rows("SELECT count(*) FROM old WHERE timestamp < now() - INTERVAL '15 days'") == [[0]]
                db.execute("CHECKPOINT")
        finally:
            done.set()
        for writer in writers:
            writer.result()
    wanted = [[count, count * (count - 1) // 2] for count in written]
    asked = "SELECT count(*), sum(n) FROM"
    assert [served.rows(f"{asked} {name}")[0] for name in ("t", "lazy")] == wanted
    newest = served.rows("SELECT max(timestamp) FROM t")
    # And once more while nobody is there to see it.
    served.kill()
    clock.step(-HOUR)
    served = serve()
    assert served.rows(f"{asked} t") == [wanted[0]]
    assert served.rows("SELECT max(timestamp) FROM t") == newest
    assert served.ask("/write", b"t n=-1i\n") is None
    assert served.rows("SELECT count(*) FROM t WHERE n = -1 AND timestamp <= now()") == [[1]]
    assert served.stop() == 0

"""A statement that is late, cancelled or left says what it did: it changed nothing, or it was done."""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from serving import until

# Each begins from the table `t` with the rows 1 to 2,000, and shows afterwards whether it was done.
COUNT = "SELECT count(*) FROM t"
CHANGES = {
    "INSERT INTO t VALUES ('2024-02-01', 'new', 0, 1)": (COUNT, 2_001),
    "INSERT INTO t SELECT ts, sym, n, px FROM t": (COUNT, 4_000),
    "INSERT INTO t SELECT ts, sym, n, px FROM t WHERE n % 2 = 0 RETURNING n": (COUNT, 3_000),
    "UPDATE t SET px = 5": ("SELECT count(*) FROM t WHERE px = 5", 2_000),
    "DELETE FROM t WHERE n % 2 = 0": (COUNT, 1_000),
    "TRUNCATE TABLE t": (COUNT, 0),
    "CREATE TABLE u (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)": ("SELECT count(*) FROM u", 0),
    "CREATE TABLE u AS SELECT * FROM t": ("SELECT count(*) FROM u", 2_000),
    "CREATE OR REPLACE TABLE t AS SELECT * FROM t LIMIT 7": (COUNT, 7),
    "CREATE VIEW u AS SELECT n FROM t LIMIT 3": ("SELECT count(*) FROM u", 3),
    "ALTER TABLE t ADD COLUMN more BIGINT": ("SELECT count(more) FROM t", 0),
    "ALTER TABLE t RENAME COLUMN n TO number": ("SELECT count(number) FROM t", 2_000),
    "DROP TABLE t": ("SELECT count(*) FROM information_schema.tables WHERE table_name = 't'", 0),
    "CREATE STREAM late": ("SHOW STREAMS", "late"),
}


def prepare(owner: psycopg.Connection) -> None:
    if seen(owner, "SELECT 1 FROM information_schema.views WHERE table_name = 'u'"):
        owner.execute("DROP VIEW u")
    owner.execute("DROP TABLE IF EXISTS u")
    owner.execute("DROP STREAM IF EXISTS late")
    owner.execute("CREATE OR REPLACE TABLE t (ts TIMESTAMP, sym SYMBOL, n BIGINT, px DOUBLE) TIMESTAMP(ts)")
    owner.execute("INSERT INTO t SELECT timestamp_s(1704067200 + value), 'A', value, 1.0 FROM range(1, 2001)")


def seen(owner: psycopg.Connection, sql: str) -> list[Any]:
    try:
        return owner.execute(sql).fetchall()
    except psycopg.Error:
        return []


def connected(served: Any) -> psycopg.Connection:
    return psycopg.connect(host="localhost", port=served.ports["pg_port"], autocommit=True)


def waiting(served: Any) -> int:
    """How many statements run beside the one that asks."""
    with connected(served) as owner:
        rows = owner.execute("SHOW QUERIES").fetchall()
    return len(rows)


@pytest.mark.parametrize("end", ["timeout", "cancel", "leave"])
def test_a_late_statement_says_what_it_did(serve: Callable[..., Any], end: str) -> None:
    served = serve()
    made = random.Random()
    done, ended = 0, 0
    with connected(served) as owner:
        for sql, (shows, expected) in list(CHANGES.items()) * 3:
            prepare(owner)
            delay = made.choice([0.001, 0.003, 0.006, 0.012, 0.025])
            said = outcome(served, sql, end, delay)
            if said is None:
                until(lambda: waiting(served) == 0, "the end of what nobody waits for")
                continue
            was_done = any(row[0] == expected for row in seen(owner, shows))
            assert said == was_done, f"{sql} after {delay}: said {said}, was {was_done}"
            done, ended = done + said, ended + (not said)
    if end != "leave":
        assert done and ended, (done, ended)


def outcome(served: Any, sql: str, end: str, delay: float) -> bool | None:
    """Whether a statement says that it was done; None where nobody asks."""
    if end == "leave":
        client = connected(served)
        client.pgconn.send_query(sql.encode())
        time.sleep(delay)
        with socket.socket(fileno=client.pgconn.socket) as gone, contextlib.suppress(OSError):
            gone.shutdown(socket.SHUT_RDWR)
        return None
    with connected(served) as client:
        if end == "timeout":
            client.execute(f"SET statement_timeout = '{int(delay * 1000)}ms'")
            canceller = None
        else:
            canceller = threading.Timer(delay, client.cancel)
            canceller.start()
        try:
            client.execute(sql)
            return True
        except psycopg.errors.QueryCanceled:
            return False
        finally:
            if canceller is not None:
                canceller.join()


def test_a_refresh_ends_when_it_is_cancelled(serve: Callable[..., Any]) -> None:
    served = serve()
    with connected(served) as owner, connected(served) as client:
        owner.execute("CREATE TABLE big (ts TIMESTAMP, sym SYMBOL, n BIGINT) TIMESTAMP(ts)")
        owner.execute(
            "INSERT INTO big SELECT timestamp_s(1704067200 + value), 'S' || value % 7, value FROM range(0, 400000)"
        )
        owner.execute("CREATE MATERIALIZED VIEW bars AS SELECT ts, sym, sum(n) AS n FROM big SAMPLE BY 1s")
        client.execute("SET statement_timeout = '5ms'")
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            client.execute("REFRESH MATERIALIZED VIEW bars")
        owner.execute("REFRESH MATERIALIZED VIEW bars")
        assert owner.execute("SELECT sum(n) FROM bars").fetchone() == (399999 * 200000,)

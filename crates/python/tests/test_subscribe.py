"""Subscriptions, of a database in this process and of one in a server: what is heard, how waits end, and its errors."""

from __future__ import annotations

import asyncio
import gc
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from test_remote import AT, PROGRAM, Server

import tickstone
from tickstone import Change, Subscription

#: How long anything may take that is to come, in seconds.
PATIENCE_S = 30.0
#: How long a wait may go on after it was ended.
PROMPT_S = 3.0
CREATE = "CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT, note VARCHAR) TIMESTAMP(ts) SERIES BY (sym)"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing: make build")
    server = Server(tmp_path_factory.mktemp("served") / "data")
    yield server.url
    server.stop()


@pytest.fixture(params=["here", "there"])
def db(request: pytest.FixtureRequest) -> Iterator[tickstone.Database]:
    """A database with an empty table, in this process and in a server."""
    there = request.param == "there"
    with tickstone.connect(request.getfixturevalue("url")) if there else tickstone.open(":memory:") as database:
        for name in database.tables():
            database.sql(f'DROP TABLE "{name}"')
        database.sql(CREATE)
        yield database


def insert(db: tickstone.Database, *ids: int, sym: str = "A", day: int = 8) -> None:
    rows = [f"('2024-08-{day:02}T09:{id // 60 % 60:02}:{id % 60:02}Z', '{sym}', {id}.5, {id}, NULL)" for id in ids]
    db.sql(f"INSERT INTO t VALUES {', '.join(rows)}")


@contextmanager
def watched(sub: Subscription) -> Iterator[None]:
    """A block that waits for a subscription, which is closed after a while."""
    watchdog = threading.Timer(PATIENCE_S, sub.close)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def hear(sub: Subscription) -> Change:
    """The next change; what becomes of rows in memory depends on more than the statements."""
    change: Change | None = None
    with watched(sub):
        while change is None or change.event == "sealed":
            change = next(sub, None)
            assert change is not None, "nothing came, or it was closed"
    return change


def told(sub: Subscription) -> tuple[str, list[tuple[Any, ...]]]:
    """Event and rows of the next change."""
    change = hear(sub)
    rows = change.rows.fetchall()
    assert change.rows.rowcount == len(rows)
    return change.event, rows


def ids(sub: Subscription, count: int) -> list[Any]:
    """So many ids, of inserts of nothing else."""
    found: list[Any] = []
    while len(found) < count:
        event, rows = told(sub)
        assert event == "insert"
        found += [row[0] for row in rows]
    return found


def subscriptions(db: tickstone.Database) -> int:
    count: int = db.sql("SELECT count(*) FROM queries() WHERE statement LIKE 'SUBSCRIBE%'").fetchall()[0][0]
    return count


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Waiting(threading.Thread):
    """A thread that waits for the next change."""

    def __init__(self, sub: Subscription) -> None:
        super().__init__(daemon=True)
        self.sub, self.heard = sub, list[Change]()
        self.raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.heard += self.sub
        except BaseException as error:
            self.raised = error

    def ended(self) -> None:
        self.join(PROMPT_S)
        assert not self.is_alive(), "it goes on waiting"


def test_rows_and_what_becomes_of_them(db: tickstone.Database) -> None:
    insert(db, 1)
    table = db.table("t")
    with table.subscribe() as all_of_it, table.subscribe(["id", "px * 2 AS twice"], "px > 10") as some:
        assert all_of_it.columns == table.columns and all_of_it.types == table.types
        assert some.columns == ["id", "twice"] and some.types == ["BIGINT", "DOUBLE"]
        assert some.sql == 'SUBSCRIBE TO (SELECT "id", px * 2 AS twice FROM "t" WHERE px > 10)'
        insert(db, 3, 20)
        change = hear(all_of_it)
        assert change.event == "insert" and change.detail is None and change.rows.columns == table.columns
        assert [row[1:] for row in change.rows.fetchall()] == [("A", 3.5, 3, None), ("A", 20.5, 20, None)]
        assert told(some) == ("insert", [(20, 41.0)])
        # The session does something else meanwhile.
        assert table.count() == 3
        db.sql("UPDATE t SET px = 30 WHERE id = 3")
        assert told(some) == ("insert", [(3, 60.0)])
        db.sql("UPDATE t SET px = 40 WHERE id = 3")
        assert told(some) == ("update", [(3, 80.0)])
        db.sql("UPDATE t SET px = 0 WHERE id = 3")
        assert told(some) == ("delete", [(3, 80.0)])
        db.sql("DELETE FROM t WHERE id = 20")
        assert told(some) == ("delete", [(20, 41.0)])
        insert(db, 50, day=9)
        change = hear(some)
        assert (change.event, change.detail, change.rows.fetchall()) == ("end_of_day", {"began": "2024-08-09T00:00:00Z"}, [])
        assert told(some) == ("insert", [(50, 101.0)])
        db.sql("ALTER TABLE t DROP PARTITION LIST '2024-08-09'")
        change = hear(some)
        assert change.event == "drop_partitions" and change.detail is not None and set(change.detail) == {"from", "to"}
        db.sql("TRUNCATE TABLE t")
        assert told(some) == ("truncate", [])
        events = [hear(all_of_it).event for _ in range(8)]
        assert events == ["update"] * 3 + ["delete", "end_of_day", "insert", "drop_partitions", "truncate"]
    assert all_of_it.closed and next(all_of_it, None) is None


def test_one_row_of_nothing_is_a_row(db: tickstone.Database) -> None:
    with db.table("t").subscribe("note") as sub:
        insert(db, 1)
        assert told(sub) == ("insert", [(None,)])
        db.sql("DELETE FROM t WHERE id = 1")
        assert told(sub) == ("delete", [(None,)])


def test_inserts_alone(db: tickstone.Database) -> None:
    with db.table("t").subscribe("id", events="inserts") as sub:
        assert sub.sql == "SUBSCRIBE TO (SELECT \"id\" FROM \"t\") WITH (events = 'inserts')"
        insert(db, 1)
        db.sql("DELETE FROM t")
        db.sql("TRUNCATE TABLE t")
        insert(db, 2)
        assert ids(sub, 2) == [1, 2]


def test_a_relation_with_its_parameters(db: tickstone.Database) -> None:
    relation = db.sql("SELECT id, sym FROM t WHERE sym IN ($1) AND id > $2 -- none else", [["A", "B"], 1])
    with relation.subscribe() as sub, db.sql("SELECT id FROM t WHERE px < :px;", px=10).subscribe() as other:
        insert(db, 1, 2)
        insert(db, 3, sym="C")
        insert(db, 14, sym="B")
        assert ids(sub, 2) == [2, 14]
        assert ids(other, 3) == [1, 2, 3]
    with pytest.raises(tickstone.Error, match="gives no rows"):
        db.sql("TRUNCATE TABLE t").subscribe()


def test_its_rows_are_a_relation(db: tickstone.Database, tmp_path: pathlib.Path) -> None:
    with db.table("t").subscribe() as sub:
        expected = pa.table({"ts": pa.array([AT], pa.timestamp("ns")), "sym": ["A"], "px": [1.5], "id": [7], "note": ["x"]})
        db.append("t", expected)
        change = hear(sub)
        rows = change.rows
        assert sub.schema.names == db.table("t").columns
        assert rows.schema.equals(sub.schema) and rows.schema.field("sym").type == pa.dictionary(pa.uint32(), pa.string())
        for read in (rows.arrow(), pa.table(rows), pa.Table.from_batches(rows.batches())):
            assert read.to_pylist() == expected.to_pylist()
        assert rows.polars()["sym"].to_list() == pl.DataFrame(rows)["sym"].to_list() == ["A"]
        assert rows.pandas()["id"].tolist() == rows.numpy()["id"].tolist() == [7]
        assert rows.fetchall()[0][1:] == rows.fetchone()[1:] == ("A", 1.5, 7, "x")  # type: ignore[index]
        assert rows.rowcount == 1
        assert "(1 row)" in repr(rows) and repr(change).startswith("<Change 'insert' at ")
        assert db.export(rows, tmp_path / "rows.parquet") == 1
        assert pl.read_parquet(tmp_path / "rows.parquet")["id"].to_list() == [7]
        db.append("u", rows, create=True)
        assert db.table("u").timestamp == "ts" and db.table("u").count() == 1
        db.sql("DROP TABLE u")
    db.close()
    # They are in memory.
    assert rows.arrow().num_rows == 1


def test_it_begins_with_the_rows_there_are(db: tickstone.Database) -> None:
    insert(db, 3, 1)
    db.seal()
    insert(db, 2)
    with db.table("t").subscribe("id", since="beginning") as sub:
        assert sub.position == "beginning"
        found = list[int]()
        while (change := hear(sub)).event == "insert":
            assert change.position is None and sub.position == "beginning"
            found += [row[0] for row in change.rows.fetchall()]
        assert found == [1, 2, 3]
        assert change.event == "caught_up" and sub.position == change.position
        insert(db, 4)
        assert ids(sub, 1) == [4]
        assert sub.position != change.position


def test_it_goes_on_where_it_ended(db: tickstone.Database) -> None:
    table = db.table("t")
    with table.subscribe("id") as sub:
        begun = sub.position
        insert(db, 1)
        insert(db, 2)
        (first, *rest) = ids(sub, 1)
        after_first = sub.position
    insert(db, 3)
    with table.subscribe("id", since=begun) as sub:
        assert ids(sub, 3) == [1, 2, 3]
    with table.subscribe("id", since=after_first) as sub:
        assert sub.position == after_first
        assert [first, *rest, *ids(sub, 2 - len(rest))] == [1, 2, 3]


def test_a_position_moves_while_nothing_comes(db: tickstone.Database) -> None:
    with db.table("t").subscribe("id", "sym = 'A'", heartbeat="100ms") as sub:
        assert sub.sql.endswith(" WITH (heartbeat = '100ms')")
        begun, waiting = sub.position, Waiting(sub)
        insert(db, 1, sym="B")
        until(lambda: sub.position != begun, "the position moves")
        moved = sub.position
        sub.close()
        waiting.ended()
        assert waiting.raised is None and waiting.heard == []
    insert(db, 2)
    with db.table("t").subscribe("id", since=moved) as again:
        assert ids(again, 1) == [2]


def test_bars(db: tickstone.Database) -> None:
    bars = db.sql("SELECT ts, sym, count(*) AS n, max(note) AS note FROM t SAMPLE BY 1m")
    with bars.subscribe() as sub, db.sql("SELECT max(note) AS note FROM t SAMPLE BY 1m").subscribe() as bare:
        insert(db, 1, 2)
        insert(db, 61)
        change = hear(sub)
        assert change.event == "insert" and [row[1:] for row in change.rows.fetchall()] == [("A", 2, None)]
        assert change.detail == {"from": "2024-08-08T09:00:00Z", "to": "2024-08-08T09:01:00Z"}
        # A bar of nothing is one.
        assert told(bare) == ("insert", [(None,)])
        insert(db, 3)
        assert [row[1:] for row in hear(sub).rows.fetchall()] == [("A", 3, None)]
        db.sql("DELETE FROM t WHERE id < 60")
        change = hear(sub)
        assert change.event == "delete" and change.rows.fetchall() == []
        assert change.detail == {"from": "2024-08-08T09:00:00Z", "to": "2024-08-08T09:01:00Z"}


def test_who_is_slow_is_cut(db: tickstone.Database) -> None:
    if isinstance(db, tickstone.RemoteDatabase):
        pytest.skip("a server's connection holds some, too")
    with db.table("t").subscribe("id", queue=3) as sub:
        waited, raised = crowd(db, sub, 5)
        assert len(waited) > 3
        counted = re.search(r"(\d+) rows waited for its reader, of at most 3", str(raised))
        assert counted is not None and 3 < int(counted[1]) <= len(waited)
        assert raised.kind == "retry" and raised.hint is not None
        assert next(sub, None) is None
    named = re.search(r"AFTER '([^']+)'", raised.hint)
    assert named is not None and named[1] == sub.position
    with db.table("t").subscribe("id", since=sub.position) as sub:
        assert ids(sub, len(waited)) == list(waited)


def test_who_is_slow_gets_the_newest(db: tickstone.Database) -> None:
    if isinstance(db, tickstone.RemoteDatabase):
        pytest.skip("a server's connection holds some, too")
    with db.table("t").subscribe(["sym", "id"], slow="conflate", queue=3) as sub:
        waited, change = crowd(db, sub, 6)
        assert len(waited) > 3
        assert isinstance(change, Change)
        assert change.event == "conflated" and change.detail is not None
        # The last ones may come on their own, after it.
        newest: dict[str, int] = {}
        heard = change.detail["rows"]
        while heard < len(waited):
            event, rows = told(sub)
            assert event == "insert" and 0 < len(rows) <= 2
            newest.update(rows)
            heard += len(rows)
        assert heard == len(waited) and newest == {"A": waited[-2], "B": waited[-1]}


def crowd(db: tickstone.Database, sub: Subscription, count: int) -> tuple[range, Any]:
    """Inserts so many rows at a time until more wait for the reader than may: those that do, and what it heard.

    How many wait when it asks is for the threads of the database to say."""
    end = time.monotonic() + PATIENCE_S
    for first in range(0, 1_000_000, count):
        for id in range(first, first + count):
            insert(db, id, sym="AB"[(id - first) % 2])
        told_to = first
        while told_to < first + count:
            try:
                change = hear(sub)
            except tickstone.SqlError as error:
                return range(told_to, first + count), error
            if change.event != "insert":
                return range(told_to, first + count), change
            told_to += len(change.rows.fetchall())
        assert time.monotonic() < end, "they never wait together"
    raise AssertionError("not reached")


def test_another_thread_closes_it(db: tickstone.Database) -> None:
    sub = db.table("t").subscribe(heartbeat="1h")
    waiting = Waiting(sub)
    insert(db, 1)
    until(lambda: len(waiting.heard) == 1, "it is heard")
    begun = time.monotonic()
    sub.close()
    sub.close()
    waiting.ended()
    assert time.monotonic() - begun < PROMPT_S
    assert waiting.raised is None and sub.closed and "closed" in repr(sub) and list(sub) == []
    until(lambda: subscriptions(db) == 0, "it has ended in the database, too")


def test_its_database_is_closed(db: tickstone.Database) -> None:
    sub, idle = db.table("t").subscribe(heartbeat="1h"), db.table("t").subscribe(heartbeat="1h")
    waiting = Waiting(sub)
    insert(db, 1)
    until(lambda: len(waiting.heard) == 1, "it is heard")
    begun = time.monotonic()
    db.close()
    assert time.monotonic() - begun < PROMPT_S
    waiting.ended()
    assert isinstance(waiting.raised, tickstone.ClosedError), waiting.raised
    for each in (sub, idle):
        with pytest.raises(tickstone.ClosedError):
            next(each)
        each.close()


def test_the_directory_is_free_again(directory: pathlib.Path) -> None:
    for _ in range(3):
        with tickstone.open(directory) as db:
            db.sql(CREATE.replace("TABLE t", "TABLE IF NOT EXISTS t"))
            sub = db.table("t").subscribe("id", since="beginning", heartbeat="1h")
            while hear(sub).event != "caught_up":
                continue
            waiting = Waiting(sub)
            insert(db, 1)
            until(lambda: bool(waiting.heard), "it is heard")
        waiting.ended()


def test_one_that_is_dropped_ends(db: tickstone.Database) -> None:
    sub = db.table("t").subscribe()
    until(lambda: subscriptions(db) == 1, "it runs")
    del sub
    gc.collect()
    until(lambda: subscriptions(db) == 0, "it has ended")


def test_two_readers_are_refused(db: tickstone.Database) -> None:
    with db.table("t").subscribe("id", heartbeat="1h") as sub:
        waiting, refused = Waiting(sub), threading.Event()

        def feed() -> None:
            for id in range(100_000):
                if refused.wait(0.002):
                    return
                insert(db, id)

        # Rows go on coming: neither waits for ever for the other one.
        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        mine: tickstone.Error | None = None
        end = time.monotonic() + PATIENCE_S
        # The one that comes second is refused, whichever that is.
        while mine is None and waiting.raised is None:
            assert time.monotonic() < end, "nobody is refused"
            try:
                next(sub)
            except tickstone.Error as error:
                mine = error
        refused.set()
        feeder.join(PATIENCE_S)
        refusal = mine or waiting.raised
        assert isinstance(refusal, tickstone.Error) and "being read already" in refusal.message
    waiting.ended()


def interrupt_when_waiting(number: int = signal.SIGINT) -> threading.Timer:
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), number))
    timer.start()
    return timer


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_the_wait_alone(db: tickstone.Database) -> None:
    with db.table("t").subscribe("id", heartbeat="1h") as sub:
        timer = interrupt_when_waiting()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            hear(sub)
        assert time.monotonic() - begun < 0.3 + PROMPT_S
        timer.join()
        insert(db, 1)
        assert ids(sub, 1) == [1]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_handler_of_a_signal_closes_it(db: tickstone.Database) -> None:
    with db.table("t").subscribe(heartbeat="1h") as sub:
        before = signal.signal(signal.SIGALRM, lambda *_: sub.close())
        try:
            timer = interrupt_when_waiting(signal.SIGALRM)
            begun = time.monotonic()
            with watched(sub):
                assert list(sub) == []
            assert time.monotonic() - begun < 0.3 + PROMPT_S
            timer.join()
        finally:
            signal.signal(signal.SIGALRM, before)


def run(work: Any) -> Any:
    """Runs a task, for a while at most."""

    async def bounded() -> Any:
        return await asyncio.wait_for(work, PATIENCE_S)

    return asyncio.run(bounded())


def test_a_task_hears_it(db: tickstone.Database) -> None:
    async def heard() -> list[Any]:
        found = list[Any]()

        async def write() -> None:
            for id in range(5):
                # The loop goes on while the other task waits.
                while len(found) < id:
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(insert, db, id)

        async with db.table("t").subscribe("id", heartbeat="1h") as sub:
            writing = asyncio.create_task(write())
            async for change in sub:
                found += [row[0] for row in change.rows.fetchall()]
                if len(found) == 5:
                    break
            await writing
        assert sub.closed
        async for change in sub:
            raise AssertionError("it was closed")
        return found

    assert run(heard()) == [0, 1, 2, 3, 4]


def test_a_task_that_is_cancelled_loses_nothing(db: tickstone.Database) -> None:
    async def heard() -> None:
        with db.table("t").subscribe("id", heartbeat="1h") as sub:
            begun = sub.position
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(sub), 0.02)
            waiting = asyncio.ensure_future(anext(sub))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="waits for this subscription already"):
                await anext(sub)
            with pytest.raises(RuntimeError, match="waits for this subscription already"):
                next(sub)
            waiting.cancel()
            await asyncio.wait([waiting])
            await asyncio.to_thread(insert, db, 1)
            assert sub.position == begun
            assert (await anext(sub)).rows.fetchall() == [(1,)] and sub.position != begun
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(sub), 0.02)
            await asyncio.to_thread(insert, db, 2)
            # Whoever asks next has it, of another loop or none.
            assert await asyncio.to_thread(ids, sub, 1) == [2]

    run(heard())


def test_closing_it_ends_a_task(db: tickstone.Database) -> None:
    async def ended(close: Callable[[], object]) -> int:
        waiting = asyncio.ensure_future(anext(sub))
        await asyncio.sleep(0)
        await asyncio.to_thread(close)
        with pytest.raises((StopAsyncIteration, tickstone.ClosedError)) as raised:
            await waiting
        return 0 if raised.type is StopAsyncIteration else 1

    sub = db.table("t").subscribe(heartbeat="1h")
    assert run(ended(sub.close)) == 0
    sub = db.table("t").subscribe(heartbeat="1h")
    assert run(ended(db.close)) == 1


def test_closing_it_as_a_read_begins_ends_the_read(db: tickstone.Database) -> None:
    def read(sub: Subscription, begun: threading.Barrier, raised: list[BaseException]) -> None:
        begun.wait(PATIENCE_S)
        try:
            assert list(sub) == []
        except BaseException as error:
            raised.append(error)

    raised: list[BaseException] = []
    for _ in range(300):
        sub = db.table("t").subscribe(heartbeat="1h")
        begun = threading.Barrier(2)
        reader = threading.Thread(target=read, args=(sub, begun, raised), daemon=True)
        reader.start()
        begun.wait(PATIENCE_S)
        sub.close()
        reader.join(PATIENCE_S)
        assert not reader.is_alive()
    assert raised == []


def test_errors_come_to_a_task(db: tickstone.Database) -> None:
    async def failed() -> None:
        async with db.table("t").subscribe() as sub:
            await asyncio.to_thread(db.sql, "DROP TABLE t")
            with pytest.raises(tickstone.SqlError, match="table 't' was dropped"):
                async for _ in sub:
                    continue
            async for _ in sub:
                raise AssertionError("it has ended")

    run(failed())


ENDS = """
import asyncio, sys, tickstone
db = tickstone.open(":memory:")
db.sql("CREATE TABLE t (ts TIMESTAMP) TIMESTAMP(ts)")
sub = db.table("t").subscribe(heartbeat="1h")
async def listen():
    try:
        await asyncio.wait_for(anext(sub), 0.1)
    except TimeoutError:
        print("nothing", flush=True)
asyncio.run(listen())
"""


def test_a_process_that_ends_while_it_is_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing\n", "")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT sym, count(*) FROM t GROUP BY sym", "a subscription cannot have aggregates without SAMPLE BY"),
        ("SELECT * FROM t ORDER BY ts", "a subscription cannot have ORDER BY"),
        ("SELECT * FROM t LIMIT 1", "a subscription cannot have LIMIT"),
        ("SELECT 1", "a subscription cannot have"),
        ("SHOW TABLES", "expected"),
    ],
)
def test_a_query_that_cannot_be_heard(db: tickstone.Database, query: str, said: str) -> None:
    with pytest.raises(tickstone.SqlError, match=said):
        db.sql(query).subscribe()


def test_a_frame_is_no_table(db: tickstone.Database) -> None:
    mine = pl.DataFrame({"a": [1]})
    with pytest.raises(tickstone.SqlError, match="rows of anything but a table"):
        db.sql("SELECT * FROM mine").subscribe()
    del mine


def test_wrong_arguments(db: tickstone.Database) -> None:
    subscribe: Any = db.table("t").subscribe
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ValueError, "events is 'changes' or 'inserts', not 'all'", {"events": "all"}),
        (ValueError, "slow is 'cut' or 'conflate', not None", {"slow": None}),
        (ValueError, "queue is 1 or more", {"queue": 0}),
        (TypeError, "integer", {"queue": "5"}),
        (TypeError, "since is a text, not int", {"since": 5}),
        (TypeError, "heartbeat is a text, not float", {"heartbeat": 0.1}),
        (TypeError, "positional", {}),
        (tickstone.SqlError, "a duration of 100ms or more", {"heartbeat": "1ms"}),
        (tickstone.SqlError, "is no position", {"since": "now'"}),
        (tickstone.SqlError, "past the newest", {"since": "99999999999999999"}),
        (tickstone.SqlError, "'nope' does not exist", {"columns": ["id", "nope"]}),
        (tickstone.SqlError, "'nope' does not exist", {"where": "nope = 1 -- so"}),
    ]
    for raised, said, arguments in wrong:
        places = (None, None, None) if said == "positional" else ()
        with pytest.raises(raised, match=said):
            subscribe(*places, **arguments)
    assert subscriptions(db) == 0


def test_what_ends_it(db: tickstone.Database) -> None:
    with db.table("t").subscribe("px") as sub:
        db.sql("ALTER TABLE t DROP COLUMN px")
        with pytest.raises(tickstone.SqlError, match="column 'px' of 't' was dropped"):
            hear(sub)
        assert next(sub, None) is None
    with db.table("t").subscribe() as sub:
        number = db.sql("SELECT id FROM queries() WHERE statement LIKE 'SUBSCRIBE%'").fetchall()[0][0]
        db.sql(f"CANCEL QUERY {number}")
        with pytest.raises(tickstone.SqlError):
            hear(sub)


def test_a_position_that_is_not_held(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.sql(CREATE)
        insert(db, *range(50))
        db.seal()
        with db.table("t").subscribe() as sub:
            position = sub.position
        db.sql("UPDATE t SET px = 1 WHERE id < 10")
        db.sql("UPDATE t SET px = 2 WHERE id < 20")
    with tickstone.open(directory) as db:
        with pytest.raises(tickstone.SqlError, match="not held any more") as raised:
            db.table("t").subscribe(since=position)
        assert raised.value.hint is not None
        named = re.search(r"AFTER '(\d+)'", raised.value.hint)
        assert named is not None
        db.table("t").subscribe(since=named[1]).close()


def test_a_database_for_reading_has_none(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.sql(CREATE)
    with tickstone.open(directory, read_only=True) as db, pytest.raises(tickstone.SqlError, match="reading only"):
        db.table("t").subscribe()


def test_a_server_that_goes(tmp_path: pathlib.Path) -> None:
    if not PROGRAM.exists():
        pytest.skip("no program")
    server = Server(tmp_path / "data")
    with tickstone.connect(server.url) as db:
        db.sql(CREATE)
        sub = db.table("t").subscribe("id")
        waiting = Waiting(sub)
        insert(db, 1)
        until(lambda: bool(waiting.heard), "it is heard")
        server.process.kill()
        server.process.wait()
        waiting.join(PATIENCE_S)
        assert isinstance(waiting.raised, tickstone.Error) and waiting.raised.kind == "retry", waiting.raised
    assert server.process.stdout is not None
    server.process.stdout.close()
    # It goes on at the next server, where it was.
    server = Server(tmp_path / "data")
    with tickstone.connect(server.url) as db, db.table("t").subscribe("id", since=sub.position) as sub:
        insert(db, 2)
        assert ids(sub, 1) == [2]
    server.stop()


class Mirror:
    """Keeps the rows of a query by what is heard."""

    def __init__(self, db: tickstone.Database, columns: list[str], where: str | None) -> None:
        self.table, self.columns, self.where = db.table("t"), columns, where
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.position = "beginning"

    def hear(self, mark: int) -> None:
        """All that came, up to a row that was deleted for it, or all rows there are; then leaves."""
        with self.table.subscribe(self.columns, self.where, since=self.position) as sub:
            while True:
                change = hear(sub)
                rows = {row[0]: row for row in change.rows.fetchall()}
                if change.event == "insert":
                    assert not rows.keys() & self.rows.keys()
                    self.rows |= rows
                elif change.event == "update":
                    assert rows.keys() <= self.rows.keys()
                    self.rows |= rows
                elif change.event == "delete":
                    assert rows == {id: self.rows.pop(id) for id in rows}
                elif change.event == "truncate":
                    self.rows.clear()
                self.position = sub.position
                if change.event == "caught_up" or (mark in rows and change.event == "delete"):
                    return


@pytest.mark.parametrize("_round", range(2))
def test_what_is_heard_makes_the_rows(db: tickstone.Database, _round: int) -> None:
    seed = random.SystemRandom().getrandbits(64)
    print(f"seed {seed}")
    chance = random.Random(seed)
    conditions = [None, "px > 30 OR id < 0", "sym IN ('A', 'C') OR id < 0"]
    mirrors = [Mirror(db, ["id", "px", "sym", "note"], condition) for condition in conditions]
    newest = 0
    for mark in range(-1, -7, -1):
        for _ in range(chance.randrange(6)):
            match chance.randrange(8):
                case 0 | 1 | 2:
                    count = chance.randrange(1, 40)
                    frame = {
                        "ts": [AT + chance.randrange(3 * 86_400) * 1_000_000_000 for _ in range(count)],
                        "sym": [chance.choice("ABC") for _ in range(count)],
                        "px": [float(chance.randrange(100)) for _ in range(count)],
                        "id": list(range(newest, newest + count)),
                        "note": [chance.choice([None, "x"]) for _ in range(count)],
                    }
                    newest += count
                    db.append("t", pa.table(frame | {"ts": pa.array(frame["ts"], pa.timestamp("ns"))}))
                case 3:
                    with db.transaction() as transaction:
                        for id in range(newest, newest + 3):
                            transaction.sql(f"INSERT INTO t VALUES ('2024-08-0{id % 9 + 1}', 'A', {id % 90}, {id}, NULL)")
                    newest += 3
                case 4:
                    db.sql(f"DELETE FROM t WHERE id % {chance.randrange(2, 9)} = 0")
                case 5:
                    db.sql(f"UPDATE t SET px = px + 20, note = 'u' WHERE id % {chance.randrange(2, 5)} = 1")
                case 6:
                    db.seal()
                case 7:
                    db.sql(chance.choice(["OPTIMIZE TABLE t", "OPTIMIZE TABLE t", "TRUNCATE TABLE t"]))
        insert_mark = f"INSERT INTO t VALUES ('2024-08-08', 'A', 50, {mark}, NULL)"
        db.sql(insert_mark)
        db.sql(f"DELETE FROM t WHERE id = {mark}")
        for mirror in mirrors:
            if chance.randrange(3) or mark == -6:
                mirror.hear(mark)
                where = f" WHERE {mirror.where}" if mirror.where else ""
                expected = db.sql(f"SELECT id, px, sym, note FROM t{where}").fetchall()
                assert mirror.rows == {row[0]: row for row in expected}, (seed, mirror.where)


@pytest.mark.parametrize("again", ["DROP TABLE t; CREATE TABLE t", "CREATE OR REPLACE TABLE t", "ALTER TABLE t RENAME TO u; CREATE TABLE t"])
def test_another_table_of_the_name_is_not_gone_on_with(again: str) -> None:
    with tickstone.open(":memory:") as db:
        columns = " (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)"
        db.sql(f"CREATE TABLE t{columns}")
        subscription = db.table("t").subscribe()
        db.sql("INSERT INTO t VALUES ('2024-01-01', 1)")
        next(iter(subscription))
        position = subscription.position
        subscription.close()
        *before, last = again.split("; ")
        for statement in [*before, last + columns]:
            db.sql(statement)
        db.sql("INSERT INTO t VALUES ('2024-01-03', 3)")
        with pytest.raises(tickstone.Error, match="'t' was dropped, or replaced by another"):
            next(iter(db.table("t").subscribe(since=position)))

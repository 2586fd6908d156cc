"""Subscriptions over WebSocket, PostgreSQL and Flight: every change once, across breaks, kills and slow readers."""

import datetime as dt
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import psycopg
import pyarrow as pa
import pytest
from psycopg import errors
from serving import PATIENCE_S, Server, new_random, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server" / "subscribe.md"
TRADES = (
    "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, id BIGINT) TIMESTAMP(ts) SERIES BY (symbol)"
    " PARTITION BY DAY"
)


def address(server: Server, **words: str) -> str:
    return f"ws://127.0.0.1:{server.ports['http_port']}/subscribe?{urllib.parse.urlencode(words)}"


class Listener:
    """A connection of subscriptions."""

    def __init__(self, server: Server, **words: str) -> None:
        self.socket: ClientConnection = connect(
            address(server, **words), max_size=None, compression=None, legacy=True
        )
        # The last position of each subscription.
        self.after: dict[str, str] = {}

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, **members: Any) -> None:
        self.socket.send(json.dumps(members))

    def next(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The next message of JSON."""
        message: dict[str, Any] = json.loads(self.socket.recv(timeout))
        if "position" in message:
            self.after[message["id"]] = message["position"]
        return message

    def told(self, event: str = "", id: str | None = None) -> dict[str, Any]:
        """The next message that is no heartbeat, or the next of an event, of any subscription or of one."""
        while True:
            message = self.next()
            wanted = message["event"] == event if event else message["event"] not in ("heartbeat", "sealed")
            if wanted and id in (None, message["id"]):
                return message

    def subscribe(self, query: str, **members: Any) -> dict[str, Any]:
        """Subscribes, and waits until that has begun."""
        self.ask(query=query, **members)
        return self.told("subscribed")

    def ids(self, count: int) -> list[int]:
        """The ids of so many rows that are inserted, and of those that come with the last of them."""
        found: list[int] = []
        while len(found) < count:
            found += [row["id"] for row in self.told("insert")["rows"]]
        return found

    def drop(self) -> None:
        """Ends the connection without a word."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def listen(server: Server, query: str = "trades", **members: Any) -> Listener:
    """One who has subscribed."""
    listener = Listener(server)
    listener.subscribe(query, **members)
    return listener


def row(number: int, symbol: str = "BTC", price: str = "1.5") -> str:
    at = dt.datetime(2024, 8, 8, 9, 30) + dt.timedelta(seconds=number)
    return f"('{at.isoformat()}', '{symbol}', {price}, {number})"


def insert(server: Server, *rows: str) -> None:
    body = urllib.parse.urlencode({"query": f"INSERT INTO trades VALUES {', '.join(rows)}"})
    answer = server.ask("/exec", body.encode())
    assert "error" not in answer, answer


def plain(message: dict[str, Any]) -> tuple[str, list[list[Any]]]:
    """The event, and the rows' values."""
    return message["event"], [list(row.values()) for row in message.get("rows", [])]


@pytest.fixture
def trades(server: Any) -> Server:
    """A server with an empty table."""
    served: Server = server
    served.run(TRADES)
    return served


class Writer:
    """Inserts rows numbered from 1 on in a thread, one to three at a time, until it is stopped or the server is gone."""

    def __init__(self, server: Server, first: int = 1) -> None:
        self.server, self.first, self.sent, self.known = server, first, first - 1, first - 1
        self.stopping = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.stopping:
            count = 1 + self.sent % 3
            rows = [row(self.sent + n, ["BTC", "ETH"][(self.sent + n) % 2]) for n in range(1, count + 1)]
            self.sent += count
            try:
                insert(self.server, *rows)
            except (OSError, ValueError):
                return
            self.known += count

    def stop(self) -> int:
        """The number of the last row that was acknowledged."""
        self.stopping = True
        self.thread.join()
        return self.known


def test_messages_in_json(trades: Server) -> None:
    with Listener(trades) as listener:
        begun = listener.subscribe("trades", id="all")
        assert begun["id"] == "all" and begun["position"].isdigit() and begun["detail"]["oldest"].isdigit()
        assert begun["columns"] == [
            {"name": "ts", "type": "TIMESTAMP"},
            {"name": "symbol", "type": "SYMBOL"},
            {"name": "price", "type": "DOUBLE"},
            {"name": "id", "type": "BIGINT"},
        ]
        insert(trades, row(2), row(1, "ETH", "NULL"))
        told = listener.told()
        assert told["event"] == "insert" and int(told["position"]) > int(begun["position"])
        first = {"ts": "2024-08-08T09:30:01.000000000Z", "symbol": "ETH", "price": None, "id": 1}
        assert told["rows"] == [first, {"ts": "2024-08-08T09:30:02.000000000Z", "symbol": "BTC", "price": 1.5, "id": 2}]
        trades.run("UPDATE trades SET price = 7 WHERE id = 1")
        told = listener.told()
        assert (told["event"], told["rows"]) == ("update", [first | {"price": 7.0}])
        trades.run("DELETE FROM trades WHERE id = 1")
        told = listener.told()
        assert (told["event"], told["rows"]) == ("delete", [first | {"price": 7.0}])
        insert(trades, row(24 * 3600))
        day = listener.told()
        assert (day["event"], day["detail"]) == ("end_of_day", {"began": "2024-08-09T00:00:00Z"})
        assert plain(listener.told())[0] == "insert"
        trades.run("ALTER TABLE trades DROP PARTITION LIST '2024-08-09'")
        told = listener.told()
        assert told["event"] == "drop_partitions" and "rows" not in told
        assert told["detail"] == {"from": "2024-08-09T00:00:00Z", "to": "2024-08-10T00:00:00Z"}
        trades.run("TRUNCATE TABLE trades")
        assert plain(listener.told()) == ("truncate", [])
        trades.run("ALTER TABLE trades ADD COLUMN side SYMBOL")
        trades.run("INSERT INTO trades VALUES ('2024-08-08T09:30:00', 'BTC', 2, 3, 'buy')")
        assert list(listener.told()["rows"][0]) == ["ts", "symbol", "price", "id"]
        trades.run("DROP TABLE trades")
        told = listener.told()
        assert told["event"] == "error" and told["id"] == "all" and "table 'trades' was dropped" in told["message"]
        assert told["hint"]
        # The connection goes on.
        trades.run(TRADES)
        listener.subscribe("trades", id="all")


def test_a_row_of_nothing_but_null_is_a_row(trades: Server) -> None:
    with listen(trades, "SELECT price FROM trades") as listener:
        insert(trades, row(1, price="NULL"))
        assert plain(listener.told()) == ("insert", [[None]])


def test_what_is_heard_of_upserts_and_of_sealing(server: Server) -> None:
    server.run(TRADES + " DEDUP UPSERT KEYS (ts, symbol)")
    with listen(server) as listener:
        insert(server, row(1))
        insert(server, row(1, price="2.5"))
        assert [plain(listener.told())[1][0][2] for _ in range(2)] == [1.5, 2.5]
        server.run("CHECKPOINT")
        sealed = listener.told("sealed")
        assert sealed["detail"] == {"from": "2024-08-08T00:00:00Z", "to": "2024-08-09T00:00:00Z", "rows": 1}


def batch(message: str | bytes) -> pa.RecordBatch:
    """A message of Arrow, which is a whole stream."""
    assert isinstance(message, bytes)
    with pa.ipc.open_stream(message) as reader:
        found = reader.read_next_batch()
        with pytest.raises(StopIteration):
            reader.read_next_batch()
    return found


def test_messages_in_arrow(trades: Server) -> None:
    insert(trades, row(1), row(2, "ETH", "NULL"))
    query = "SELECT id, symbol, price, ts FROM trades"
    with Listener(trades, query=query, id="binary", format="arrow", **{"from": "beginning"}) as listener:
        batches = [batch(listener.socket.recv(PATIENCE_S)) for _ in range(3)]
        insert(trades, row(3))
        while (found := batch(listener.socket.recv(PATIENCE_S)))["_event"][0].as_py() == "heartbeat":
            continue
        batches.append(found)
    for found in batches:
        assert found.schema.names == ["_position", "_event", "_detail", "id", "symbol", "price", "ts"]
        assert found.schema.metadata[b"subscription"] == b"binary"
        assert found.schema.field("ts").type == pa.timestamp("ns")
    assert [found["_event"][0].as_py() for found in batches] == ["subscribed", "insert", "caught_up", "insert"]
    begun, there, caught_up, live = batches
    assert begun.num_rows == caught_up.num_rows == 1 and begun["id"].null_count == 1
    assert "oldest" in json.loads(begun["_detail"][0].as_py())
    assert there["id"].to_pylist() == [1, 2] and there["_position"].null_count == 2
    assert there["symbol"].to_pylist() == ["BTC", "ETH"] and there["price"].to_pylist() == [1.5, None]
    assert live["id"].to_pylist() == [3] and live["_position"][0].as_py() > caught_up["_position"][0].as_py()


def test_arrow_has_no_more_symbols_than_it_needs(trades: Server) -> None:
    insert(trades, *(row(number, f"S{number}") for number in range(2_000)))
    with Listener(trades, query="trades", format="arrow") as listener:
        batch(listener.socket.recv(PATIENCE_S))
        insert(trades, row(1, "S7"))
        found = batch(listener.socket.recv(PATIENCE_S))
        assert found["symbol"].to_pylist() == ["S7"] and len(found["symbol"].dictionary) < 100


def test_several_subscriptions_of_one_connection(trades: Server) -> None:
    with Listener(trades, query="trades", id="all") as listener, listen(trades, id="all") as other:
        assert listener.told("subscribed")["id"] == "all"
        listener.subscribe("SELECT id FROM trades WHERE symbol = 'ETH'", id="eth")
        listener.subscribe("SELECT id FROM trades WHERE price > 2 AND symbol = 'BTC'", id=7)
        insert(trades, row(1), row(2, "ETH"), row(3, price="3"))
        told = {message["id"]: message["rows"] for message in (listener.told() for _ in range(3))}
        assert [row["id"] for row in told["all"]] == [1, 2, 3]
        assert told["eth"] == [{"id": 2}] and told["7"] == [{"id": 3}]
        listener.ask(op="subscribe", query="trades", id="eth")
        refused = listener.told()
        assert refused["event"] == "error" and "'eth' already" in refused["message"]
        listener.ask(op="unsubscribe", id="eth")
        assert listener.told() == {"id": "eth", "event": "unsubscribed"}
        insert(trades, row(4, "ETH"))
        told_now = listener.told()
        assert (told_now["id"], told_now["rows"][0]["id"]) == ("all", 4)
        # The id is free again.
        listener.subscribe("SELECT id FROM trades", id="eth", **{"from": "beginning"})
        assert len(listener.told("insert", "eth")["rows"]) == 4
        listener.ask(op="unsubscribe", id="nobody")
        assert "no subscription 'nobody'" in listener.told("error")["message"]
        assert other.ids(4) == [1, 2, 3, 4]


def test_heartbeats(trades: Server) -> None:
    with listen(trades, "SELECT id FROM trades WHERE symbol = 'ETH'", heartbeat="100ms") as listener:
        first = listener.next()
        assert first["event"] == "heartbeat" and "rows" not in first
        insert(trades, row(1))
        # Its position goes on though nothing of it is for this one.
        until(lambda: int(listener.told("heartbeat")["position"]) > int(first["position"]), "a later position")


WRONG: list[tuple[str, str]] = [
    ("{", "no JSON"),
    ("[]", "no object of JSON"),
    ('{"op": "go", "id": "x"}', "there is no op 'go'"),
    ('{"id": "x"}', "the request has no query"),
    ('{"query": "trades", "id": "x", "form": "json"}', "there is no 'form' here"),
    ('{"query": "trades", "id": "x", "from": "then"}', "it is now or beginning"),
    ('{"query": "trades", "id": "x", "from": "now", "after": "1"}', "exclude each other"),
    ('{"query": "trades", "id": "x", "format": "csv"}', "it is json or arrow"),
    ('{"query": ["trades"], "id": "x"}', "'query' is no text and no number"),
    ('{"query": "trades", "id": "x", "queue": 0}', "a number of rows"),
    ('{"query": "trades", "id": "x", "slow": "no"}', "'cut' or 'conflate'"),
    ('{"query": "trades", "id": "x", "events": "some"}', "'changes' or 'inserts'"),
    ('{"query": "trades", "id": "x", "heartbeat": "1ms"}', "100ms or more"),
    ('{"query": "trades", "id": "x", "after": "soon"}', "'soon' is no position"),
    ('{"query": "trades", "id": "x", "after": "99999999999999999"}', "past the newest"),
    ('{"query": "nothing", "id": "x"}', "'nothing' does not exist"),
    ('{"query": "SELECT symbol, count(*) FROM trades GROUP BY symbol", "id": "x"}', "aggregates"),
    ('{"query": "SELECT * FROM trades ORDER BY ts", "id": "x"}', "ORDER BY"),
    ('{"query": "SELECT 1); DROP TABLE trades; SELECT (1", "id": "x"}', ""),
    ('{"query": "DELETE FROM trades", "id": "x"}', ""),
]


def test_wrong_requests(trades: Server) -> None:
    with Listener(trades) as listener:
        for text, said in WRONG:
            listener.socket.send(text)
            told = listener.told()
            assert told["event"] == "error" and said in told["message"] + told.get("detail", ""), f"{text}: {told}"
            assert told["id"] == ("x" if '"id": "x"' in text else "")
        listener.ask(query="SELECT nope FROM trades", id="x")
        told = listener.told()
        assert "nope" in told["message"] and told["line"] >= 1 and told["column"] >= 1
        # It goes on all the same.
        listener.subscribe("trades", id="x")
        insert(trades, row(1))
        assert listener.ids(1) == [1]


def test_wrong_paths_and_messages(trades: Server) -> None:
    for words in ({"query": "trades", "form": "json"}, {"id": "x"}, {"query": "trades", "from": "then"}):
        with pytest.raises(InvalidStatus) as refused:
            connect(address(trades, **words), legacy=True)
        assert refused.value.response.status_code == 400
    assert "WebSocket" in trades.ask("/subscribe", query="trades")["error"]
    # A query that is wrong is told over the connection.
    with Listener(trades, query="nothing", id="x") as listener:
        assert listener.told()["event"] == "error"
        listener.socket.send(b"trades")
        with pytest.raises(ConnectionClosed) as closed:
            listener.next()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1003
    with Listener(trades) as listener:
        # It may be closed before all of this is sent, and the Close can be lost behind what was still being sent.
        with pytest.raises(ConnectionClosed) as closed:
            listener.ask(query="trades", id="x" * (1 << 20))
            listener.next()
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    assert trades.ask("/exec", query="SUBSCRIBE TO trades")["error"].startswith("the rows of SUBSCRIBE do not end")


def test_how_many_subscriptions_a_connection_has(trades: Server) -> None:
    with Listener(trades) as listener:
        for number in range(1_000):
            listener.ask(query="SELECT id FROM trades WHERE symbol = 'BTC'", id=number)
            assert listener.told()["event"] == "subscribed"
        listener.ask(query="trades", id="more")
        assert "1000 subscriptions at most" in listener.told("error")["message"]
        insert(trades, row(1))
        assert {listener.told("insert")["id"] for _ in range(1_000)} == {str(number) for number in range(1_000)}
    until(lambda: not trades.running("SUBSCRIBE"), "no subscription is left")


def test_pages_of_other_hosts_are_refused(trades: Server) -> None:
    own = f"http://127.0.0.1:{trades.ports['http_port']}"
    with connect(address(trades, query="trades"), origin=own) as welcome:  # type: ignore[arg-type]
        assert json.loads(welcome.recv(PATIENCE_S))["event"] == "subscribed"
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        with pytest.raises(InvalidStatus) as refused:
            connect(address(trades, query="trades"), origin=origin, legacy=True)  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403
    with pytest.raises(InvalidStatus):
        connect(address(trades, query="trades"), additional_headers={"Sec-Fetch-Site": "cross-site"}, legacy=True)


def test_nothing_is_missed_across_dropped_connections(trades: Server) -> None:
    random = new_random()
    listener = listen(trades, "SELECT id FROM trades")
    writer, heard = Writer(trades), list[int]()
    try:
        for _ in range(12):
            for _ in range(random.randrange(5)):
                heard += listener.ids(1)
            listener.drop()
            time.sleep(random.random() / 5)
            listener = listen(trades, "SELECT id FROM trades", after=listener.after[""])
    finally:
        last = writer.stop()
    with listener:
        heard += listener.ids(last - len(heard))
    assert heard == list(range(1, last + 1))


def test_nothing_is_missed_across_kills(serve: Callable[..., Server]) -> None:
    random = new_random()
    served = serve()
    served.run(TRADES)
    after, heard = "", list[int]()
    for kills in range(4):
        with listen(served, "SELECT id FROM trades", **({"after": after} if after else {})) as listener:
            writer = Writer(served, (heard[-1] if heard else 0) + 1_000)
            seconds = 0.3 + random.random()
            killed = threading.Timer(seconds, served.kill)
            killed.start()
            try:
                while True:
                    heard += listener.ids(1)
            except (ConnectionClosed, OSError):
                pass
            killed.join()
            writer.stop()
            after = listener.after[""]
        served = serve()
        with listen(served, "SELECT id FROM trades", after=after) as listener:
            count = served.rows("SELECT count(*) FROM trades")[0][0]
            heard += listener.ids(count - len(heard)) if count > len(heard) else []
            after = listener.after[""]
        stored = [id for (id,) in served.rows("SELECT id FROM trades ORDER BY id")]
        # What was heard is stored, all that is stored was heard, each once, in the order in which it was sent.
        assert heard == stored
        assert set(range(writer.first, writer.known + 1)) <= set(stored)
        if kills % 2:
            served.run("CHECKPOINT")


def test_the_rows_there_are_beside_a_writer(trades: Server) -> None:
    insert(trades, *(row(number) for number in range(1, 5_001)))
    trades.run("CHECKPOINT")
    writer = Writer(trades, 5_001)
    heard: list[list[int]] = []
    for query in ("SELECT id FROM trades", "trades"):
        with listen(trades, query, **{"from": "beginning"}) as listener:
            ids = list[int]()
            while (told := listener.told())["event"] != "caught_up":
                assert told["event"] == "insert" and "position" not in told
                ids += [row["id"] for row in told["rows"]]
            assert len(ids) >= 5_000 and ids == sorted(ids)
            heard.append(ids + listener.ids(50))
            last = heard[-1][-1]
    writer.stop()
    for ids in heard:
        assert ids == list(range(1, ids[-1] + 1))
    assert last > 5_050


def test_what_is_not_held_any_more_is_refused(serve: Callable[..., Server]) -> None:
    served = serve("--tape-keep-bytes=1")
    served.run(TRADES)
    with listen(served) as listener:
        insert(served, row(1))
        assert listener.ids(1) == [1]
        after = listener.after[""]
    insert(served, row(2))
    assert served.stop() == 0
    served = serve("--tape-keep-bytes=1")
    insert(served, row(3))
    with Listener(served) as listener:
        listener.ask(query="trades", after=after)
        told = listener.told()
        if told["event"] == "error":
            oldest = re.search(r"AFTER '(\d+)'", told["hint"])
            assert "not held any more" in told["message"] and oldest is not None
            listener.subscribe("trades", after=oldest[1])
        else:
            assert listener.ids(2) == [2, 3]


def test_a_load_is_heard_and_its_parts_are_gone_after_a_restart(serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    lines = "".join(f"2024-08-08T10:00:00,L{number % 3},1,{number}\n" for number in range(1, 10_001))
    (tmp_path / "files" / "load.csv").write_text(f"ts,symbol,price,id\n{lines}")
    settings = ("--files", str(tmp_path / "files"))
    served = serve(*settings)
    served.run(TRADES)
    with listen(served, "SELECT id FROM trades WHERE symbol IN ('L1', 'L2')") as listener:
        after = listener.after[""]
        served.run("COPY trades FROM 'load.csv' WITH (format csv, header true)")
        heard = listener.ids(6_667)
        assert len(heard) == len(set(heard)) == 6_667
    with listen(served, "SELECT id FROM trades", after=after) as listener:
        assert sorted(listener.ids(10_000)) == list(range(1, 10_001))
    served.run("UPDATE trades SET price = 2 WHERE id < 100", "OPTIMIZE TABLE trades")
    with listen(served, "SELECT id, price FROM trades", after=after) as listener:
        assert sorted(listener.ids(10_000)) == list(range(1, 10_001))
        assert len(listener.told("update")["rows"]) == 99
    assert served.stop() == 0
    served = serve(*settings)
    with Listener(served) as listener:
        listener.ask(query="trades", after=after)
        told = listener.told()
        while told["event"] == "subscribed":
            told = listener.told()
        assert told["event"] == "error" and "not held any more" in told["message"], told
        oldest = re.search(r"AFTER '(\d+)'", told["hint"])
        assert oldest is not None
        listener.subscribe("trades", after=oldest[1])


BARS = "SELECT ts, symbol, first(price) AS open, count(*) AS n FROM trades SAMPLE BY 1m"


def test_bars(trades: Server) -> None:
    insert(trades, row(10))
    with listen(trades, BARS) as listener:
        insert(trades, row(20))
        insert(trades, row(70, "ETH"))
        told = listener.told()
        bar = {"ts": "2024-08-08T09:30:00.000000000Z", "symbol": "BTC", "open": 1.5, "n": 2}
        assert (told["event"], told["rows"]) == ("insert", [bar])
        assert told["detail"] == {"from": "2024-08-08T09:30:00Z", "to": "2024-08-08T09:31:00Z"}
        insert(trades, row(5, price="9"))
        late = listener.told()
        assert (late["event"], late["rows"], late["detail"]) == ("update", [bar | {"open": 9.0, "n": 3}], told["detail"])
        trades.run("DELETE FROM trades WHERE symbol = 'BTC'")
        gone = listener.told()
        assert (gone["event"], gone["rows"], gone["detail"]) == ("delete", [], told["detail"])
    insert(trades, row(130), row(190))
    with listen(trades, BARS, after=listener.after[""]) as listener:
        told = listener.told()
        assert [row["n"] for row in told["rows"]] == [1, 1]
        assert told["detail"] == {"from": "2024-08-08T09:31:00Z", "to": "2024-08-08T09:33:00Z"}
    with listen(trades, BARS, **{"from": "beginning"}) as listener:
        assert [row["symbol"] for row in listener.told("insert")["rows"]] == ["ETH", "BTC"]
        assert listener.told("caught_up")["position"]


@pytest.mark.parametrize("begin", [{}, {"from": "beginning"}], ids=["now", "beginning"])
def test_every_bar_is_told_beside_a_writer(trades: Server, begin: dict[str, str]) -> None:
    """Whatever is committed while a subscription begins, no bar is passed over."""
    bars = "SELECT ts, count(*) AS n FROM trades SAMPLE BY 2s"
    trades.run("DROP TABLE trades", TRADES + " WITH (sync = 'interval')")
    insert(trades, row(0))
    writer = Writer(trades)
    try:
        for _ in range(25):
            with listen(trades, bars, **begin) as listener:
                times, live = list[dt.datetime](), not begin
                # Bars of before, then three messages of those that close.
                left = 3
                while left > 0:
                    told = listener.told()
                    assert told["event"] in ("insert", "caught_up"), told
                    left -= live
                    live = live or told["event"] == "caught_up"
                    times += [dt.datetime.fromisoformat(row["ts"][:19]) for row in told.get("rows", [])]
                steps = {later - time for time, later in zip(times, times[1:], strict=False)}
                assert steps == {dt.timedelta(seconds=2)}, times
    finally:
        writer.stop()


def lazy(server: Server, **words: str) -> Listener:
    """One whose connection holds little that was not read."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    own.connect(("127.0.0.1", server.ports["http_port"]))
    listener = Listener.__new__(Listener)
    listener.after = {}
    # No pings: they would be answered late.
    listener.socket = connect(
        address(server, **words),
        sock=own,
        max_size=None,
        compression=None,
        max_queue=1,
        ping_interval=None,
        legacy=True,
    )
    return listener


FAT = "CREATE TABLE fat (ts TIMESTAMP, symbol SYMBOL, id BIGINT, text VARCHAR) TIMESTAMP(ts) SERIES BY (symbol)"


def feed_fat(server: Server, first: int, count: int) -> None:
    server.run(
        f"INSERT INTO fat SELECT to_timestamp_nanos(1723075200000000000 + value * 1000000), 'S' || (value % 5), value,"
        f" repeat('x', 1000) FROM generate_series({first}, {first + count - 1}) AS n(value)"
    )


def test_a_slow_reader_is_cut_and_goes_on(server: Server) -> None:
    server.run(FAT)
    listener = lazy(server, query="SELECT id, text FROM fat", queue="5000", heartbeat="100ms")
    assert listener.told()["event"] == "subscribed"
    last, quick = 0, listen(server, "SELECT id FROM fat")
    for _ in range(40):
        feed_fat(server, last + 1, 1_000)
        last += 1_000
    # Nobody waits for him.
    assert quick.ids(last) == list(range(1, last + 1))
    quick.socket.close()
    heard = list[int]()
    with listener:
        while (told := listener.told())["event"] == "insert":
            heard += [row["id"] for row in told["rows"]]
    assert told["event"] == "error" and "rows waited for its reader, of at most 5000 (queue)" in told["message"], told
    assert 0 < len(heard) < last
    # His own last position, and the one that the error names, are as good.
    named = re.search(r"AFTER '([^']+)'", told["hint"])
    assert named is not None
    for after in (listener.after[""], named[1]):
        with listen(server, "SELECT id FROM fat", after=after) as again:
            assert heard + again.ids(last - len(heard)) == list(range(1, last + 1))


def test_a_slow_reader_gets_the_newest(server: Server) -> None:
    server.run(FAT)
    query = "SELECT symbol, id, text FROM fat"
    listener, last = lazy(server, query=query, queue="5000", slow="conflate"), 0
    assert listener.told()["event"] == "subscribed"
    for _ in range(40):
        feed_fat(server, last + 1, 1_000)
        last += 1_000
    newest, left_out, heard = dict[str, int](), 0, 0
    with listener:
        while newest.get(f"S{last % 5}") != last:
            told = listener.told()
            assert told["event"] in ("insert", "conflated"), told
            left_out += told.get("detail", {}).get("rows", 0)
            for row in told.get("rows", []):
                assert row["id"] > newest.get(row["symbol"], 0)
                newest[row["symbol"]] = row["id"]
                heard += 1
    assert left_out > 0 and heard + left_out == last
    assert newest == {f"S{id % 5}": id for id in range(last - 4, last + 1)}


def test_it_is_a_statement_that_runs(serve: Callable[..., Server]) -> None:
    served = serve("--statement-timeout=1s")
    served.run(TRADES)
    with listen(served, id="x", heartbeat="100ms") as listener:
        until(lambda: served.running("SUBSCRIBE") == ["SUBSCRIBE TO trades WITH (heartbeat = '100ms')"], "it is listed")
        # No time limit ends it.
        begun = time.monotonic()
        while time.monotonic() < begun + 1.5:
            assert listener.next()["event"] == "heartbeat"


def test_what_was_taken_back_does_not_run(trades: Server) -> None:
    with listen(trades, id="x", heartbeat="1h") as listener:
        assert trades.running("SUBSCRIBE")
        listener.ask(op="unsubscribe", id="x")
        assert listener.told()["event"] == "unsubscribed"
        until(lambda: not trades.running("SUBSCRIBE"), "it has ended", 10)


def test_it_can_be_cancelled(trades: Server) -> None:
    with listen(trades, id="x") as listener:
        ((number,),) = trades.rows("SELECT id FROM queries() WHERE statement LIKE 'SUBSCRIBE%'")
        trades.run(f"CANCEL QUERY {number}")
        told = listener.told()
        assert (told["id"], told["event"]) == ("x", "error") and "CANCEL QUERY" in told["message"], told
        listener.subscribe("trades", id="x")


def test_the_server_stops_beside_subscriptions(serve: Callable[..., Server]) -> None:
    served = serve()
    served.run(TRADES)
    with listen(served) as listener, psycopg.connect(**login(served)) as db, db.cursor() as cursor:
        rows = cursor.stream("SUBSCRIBE TO trades WITH (heartbeat = '100ms')")
        next(rows)
        begun = time.monotonic()
        served.process.terminate()
        with pytest.raises(ConnectionClosed) as closed:
            listener.told()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        with pytest.raises(psycopg.Error):
            for _ in rows:
                pass
        assert served.process.wait(PATIENCE_S) == 0 and time.monotonic() < begun + 20


def browser(tmp_path: Path, host: str) -> Path:
    """The script of the page, with the little of a browser that it needs: what is put into the table is printed."""
    found = re.search(r"^```html\n.*?<script>\n(.*?)</script>\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    program = f"""
    globalThis.location = {{host: {json.dumps(host)}, protocol: "http:"}};
    globalThis.document = {{querySelector: () => ({{insertRow: () => {{
      const row = [];
      const put = text => {{ row.push(text); if (row.length === 3) console.log(JSON.stringify(row)); }};
      return {{insertCell: () => ({{set textContent(text) {{ put(text); }}}})}};
    }}}})}};
    """
    (tmp_path / "page.mjs").write_text(program + found[1])
    return tmp_path / "page.mjs"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_in_a_browser(serve: Callable[..., Server], tmp_path: Path) -> None:
    served = serve()
    served.run(TRADES)
    port = served.ports["http_port"]
    command = ["node", "--experimental-websocket", "--no-warnings", str(browser(tmp_path, f"127.0.0.1:{port}"))]
    page = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert page.stdout is not None
    try:
        until(lambda: served.running("SUBSCRIBE"), "it has subscribed")
        insert(served, row(1, "BTC-USD"), row(2, "ETH-USD"))
        first = ["2024-08-08T09:30:01.000000000Z", "BTC-USD", 1.5]
        assert json.loads(page.stdout.readline()) == first
        served.kill()
        served = serve("--http-port", str(port))
        insert(served, row(4, "BTC-USD", "3.5"), row(5, "ETH-USD"), row(6, "BTC-USD", "4.5"))
        assert [json.loads(page.stdout.readline())[2] for _ in range(2)] == [3.5, 4.5]
    finally:
        page.kill()
        rest = page.communicate()[0]
    assert rest == ""


def login(server: Server) -> dict[str, Any]:
    port = server.ports["pg_port"]
    return {"host": "127.0.0.1", "port": port, "user": "admin", "dbname": "qdb", "autocommit": True}


def inserted(rows: Iterator[Any], count: int) -> list[Any]:
    """So many rows that came as they were inserted."""
    found: list[Any] = []
    while len(found) < count:
        row = next(rows)
        if row[1] == "insert":
            found.append(row)
    return found


def test_rows_over_postgresql_and_their_end(trades: Server) -> None:
    with psycopg.connect(**login(trades)) as db, psycopg.connect(**login(trades)) as other:
        with db.cursor() as cursor, other.cursor() as second:
            rows = cursor.stream("SUBSCRIBE TO (SELECT symbol, id FROM trades WHERE symbol = %s)", ["BTC"])
            first = next(rows)
            assert first[1] == "subscribed" and "oldest" in json.loads(first[2]) and first[3:] == (None, None)
            assert [column.name for column in cursor.description or []] == [
                "_position", "_event", "_detail", "symbol", "id"
            ]  # fmt: skip
            others = second.stream("SUBSCRIBE TO trades WITH (heartbeat = '200ms')")
            assert next(others)[1] == "subscribed"
            insert(trades, row(1), row(2, "ETH"), row(3))
            (one, three), all_of_them = inserted(rows, 2), inserted(others, 3)
            assert (one[3:], three[3:]) == (("BTC", 1), ("BTC", 3)) and one[0] == three[0]
            assert [row[6] for row in all_of_them] == [1, 2, 3]
            assert next(others)[1] == "heartbeat"
            until(lambda: len(trades.running("SUBSCRIBE")) == 2, "two run")
            db.cancel_safe()
            with pytest.raises(errors.QueryCanceled):
                list(rows)
            other.cancel_safe()
            with pytest.raises(errors.QueryCanceled):
                list(others)
        # The connection goes on, from where it was too.
        with db.cursor() as cursor:
            rows = cursor.stream(f"SUBSCRIBE TO (SELECT id FROM trades) AFTER '{first[0]}'")
            assert [row[3] for row in inserted(rows, 3)] == [1, 2, 3]
            db.cancel_safe()
            with pytest.raises(errors.QueryCanceled):
                list(rows)
        assert db.execute("SELECT count(*) FROM trades").fetchone() == (3,)
        with pytest.raises(errors.Error, match="ORDER BY"):
            db.execute("SUBSCRIBE TO (SELECT * FROM trades ORDER BY ts)")
    until(lambda: not trades.running("SUBSCRIBE"), "none runs")


def test_who_goes_away_ends_it(trades: Server) -> None:
    db = psycopg.connect(**login(trades))
    rows = db.cursor().stream("SUBSCRIBE TO trades")
    assert next(rows)[1] == "subscribed"
    rows.close()
    db.close()
    listener = listen(trades)
    listener.drop()
    until(lambda: not trades.running("SUBSCRIBE"), "both have ended")


def test_the_program_of_the_page(trades: Server) -> None:
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    program = found[1].replace("8812", str(trades.ports["pg_port"]))
    printed: list[Any] = []
    done = threading.Event()

    def note(*values: Any) -> None:
        printed.append(values)
        done.set()

    def run() -> None:
        try:
            exec(compile(program, "subscribe.md", "exec"), {"print": note})
        except psycopg.Error:
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until(lambda: trades.running("SUBSCRIBE"), "it runs")

    def is_told() -> bool:
        # A statement that runs has not begun to listen yet.
        insert(trades, row(1, "BTC-USD"))
        return done.wait(0.1)

    until(is_told, "a row is printed")
    trades.run("DROP TABLE trades")
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_rows_over_flight(trades: Server) -> None:
    target = f"grpc://127.0.0.1:{trades.ports['flight_port']}"
    with flightsql.connect(target, autocommit=True) as db, db.cursor() as cursor:
        cursor.execute("SUBSCRIBE TO (SELECT id FROM trades) WITH (heartbeat = '100ms')")
        reader = cursor.fetch_record_batch()
        assert reader.schema.names == ["_position", "_event", "_detail", "id"]
        assert reader.read_next_batch()["_event"].to_pylist() == ["subscribed"]
        insert(trades, row(1), row(2))
        while (found := reader.read_next_batch())["_event"][0].as_py() == "heartbeat":
            continue
        assert found["id"].to_pylist() == [1, 2]
        cursor.adbc_cancel()
        with pytest.raises(Exception):
            while True:
                reader.read_next_batch()
    until(lambda: not trades.running("SUBSCRIBE"), "it has ended")

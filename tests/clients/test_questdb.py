"""QuestDB's own client for Python: line protocol over TCP and HTTP, of all three versions, and data frames."""

import datetime
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from questdb import QuestDBError, Sender, TimestampNanos

VERSIONS = ["1", "2", "3"]


def wait_for(server: Any, sql: str, rows: list[list[Any]]) -> None:
    """Line protocol over TCP has no answers: the rows come soon."""
    end = time.monotonic() + 20
    while (answer := server.ask("/exec", query=sql)).get("dataset") != rows:
        assert time.monotonic() < end, f"{sql}: {answer}, not {rows}"
        time.sleep(0.01)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", ["tcp", "http"])
def test_rows_of_every_type(server: Any, transport: str, version: str) -> None:
    port = server.ports["ilp_port" if transport == "tcp" else "http_port"]
    at = TimestampNanos(1_723_109_400_000_000_001)
    with Sender.from_conf(f"{transport}::addr=127.0.0.1:{port};protocol_version={version};") as sender:
        sender.row(
            "all trades",
            symbols={"symbol": "BTC USD", "side": "buy=1"},
            columns={
                "price": 61500.5,
                "size": -3,
                "up": True,
                "note": 'a "quoted" \\ text,\nof two lines',
                "seen": datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
            },
            at=at,
        )
        if version != "1":
            sender.row("all trades", symbols={"symbol": "ETH"}, columns={"l": np.array([1.5, float("nan")])}, at=at)
    columns = "symbol, side, price, size, up, note, seen"
    wait_for(
        server,
        f'SELECT {columns}, "timestamp" FROM "all trades" WHERE side IS NOT NULL',
        [
            [
                "BTC USD",
                "buy=1",
                61500.5,
                -3,
                True,
                'a "quoted" \\ text,\nof two lines',
                "2024-01-01T00:00:00.000000000Z",
                "2024-08-08T09:30:00.000000001Z",
            ]
        ],
    )
    if version != "1":
        wait_for(server, "SELECT l[1], array_length(l) FROM \"all trades\" WHERE symbol = 'ETH'", [[1.5, 2]])


@pytest.mark.parametrize("transport", ["tcp", "http"])
def test_a_frame(server: Any, transport: str) -> None:
    rows = 20_000
    frame = pd.DataFrame(
        {
            "symbol": pd.Categorical([f"S{n % 7}" for n in range(rows)]),
            "price": np.arange(rows) / 8,
            "size": np.arange(rows),
            "at": pd.date_range("2024-01-01", periods=rows, freq="s"),
        }
    )
    port = server.ports["ilp_port" if transport == "tcp" else "http_port"]
    with Sender.from_conf(f"{transport}::addr=127.0.0.1:{port};") as sender:
        sender.dataframe(frame, table_name="ticks", symbols=["symbol"], at="at")
    total = rows * (rows - 1) // 2
    wait_for(server, "SELECT count(*), sum(size), sum(price) FROM ticks", [[rows, total, total / 8]])
    assert server.rows("SELECT count(DISTINCT symbol) FROM ticks") == [[7]]
    answer = server.ask("/exec", query="SELECT * FROM ticks LIMIT 1")
    assert [column["type"] for column in answer["columns"]] == ["SYMBOL", "DOUBLE", "LONG", "TIMESTAMP_NS"]
    assert answer["timestamp"] == 3


def test_a_request_that_is_refused_leaves_nothing(server: Any) -> None:
    with Sender.from_conf(f"http::addr=127.0.0.1:{server.ports['http_port']};auto_flush=off;") as sender:
        sender.row("t", columns={"x": 1}, at=TimestampNanos(1))
        sender.flush()
        sender.row("t", columns={"x": 2}, at=TimestampNanos(2))
        sender.row("t", columns={"x": "text"}, at=TimestampNanos(3))
        with pytest.raises(QuestDBError, match="line 2.*column 'x'.*is a text, and the column is BIGINT"):
            sender.flush()
    assert server.rows("SELECT x FROM t") == [[1]]


def test_a_transaction(server: Any) -> None:
    conf = f"http::addr=127.0.0.1:{server.ports['http_port']};"
    with Sender.from_conf(conf) as sender:
        with sender.transaction("t") as rows:
            rows.row(symbols={"s": "a"}, columns={"x": 1.0}, at=TimestampNanos(1))
            rows.row(symbols={"s": "b"}, columns={"x": 2.0}, at=TimestampNanos(2))
    assert server.rows("SELECT s, x FROM t ORDER BY x") == [["a", 1.0], ["b", 2.0]]

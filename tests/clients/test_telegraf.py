"""Telegraf's outputs: what they sent, byte for byte (captures/README.md), and what of it is there then."""

import http.client
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

CAPTURES = Path(__file__).with_name("captures") / "telegraf"
TIME = "2024-08-08T09:30:00.000000000Z"
CPU = ["cpu-total", "ams-1", 1.5, 98.25, 1.75, TIME]
DISK = ["nvme0n1p1", "ext4", "ams-1", "rw", "/var/lib/data 1", 1000, 9000, 'a "b" \\ c', False, TIME]
TRADE = ["ams-1", "BTC-USD", 61500.5, 0.25, "2024-08-08T09:30:00.000000001Z"]
I64_MAX, U64_MAX = 2**63 - 1, 2**64 - 1


def send(port: int, name: str) -> tuple[int, bytes]:
    """Sends a recorded request as it was; the answer's status and body."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
        stream.sendall((CAPTURES / name).read_bytes())
        answer = http.client.HTTPResponse(stream, method="POST")
        answer.begin()
        return answer.status, answer.read()


def check_rows(server: Any, huge: int) -> None:
    assert server.rows("SELECT * FROM cpu") == [CPU]
    assert server.rows("SELECT host, total, used_percent, huge FROM mem") == [["ams-1", 16777216000, 41.5, huge]]
    assert server.rows("SELECT * FROM disk") == [DISK]
    assert server.rows("SELECT * FROM trades") == [TRADE]


def test_what_was_recorded() -> None:
    """Packed, in chunks, with credentials, to the port and paths of InfluxDB."""
    head = (CAPTURES / "influxdb.2.http").read_bytes().split(b"\r\n\r\n")[0].split(b"\r\n")
    assert head[0] == b"POST /write?db=telegraf&rp=autogen HTTP/1.1"
    for line in (
        b"Host: 127.0.0.1:8086",
        b"Content-Encoding: gzip",
        b"Transfer-Encoding: chunked",
        b"Authorization: Basic YW55OmFueQ==",
    ):
        assert line in head


@pytest.mark.parametrize("port", ["influx_port", "http_port"])
def test_influxdb(server: Any, port: str) -> None:
    """It begins with CREATE DATABASE and goes on whatever the answer, as long as it is JSON."""
    status, body = send(server.ports[port], "influxdb.1.http")
    assert status < 500 and isinstance(json.loads(body), dict)
    assert send(server.ports[port], "influxdb.2.http") == (204, b"")
    check_rows(server, I64_MAX)


@pytest.mark.parametrize("port", ["influx_port", "http_port"])
def test_influxdb_v2(server: Any, port: str) -> None:
    assert send(server.ports[port], "influxdb_v2.http") == (204, b"")
    check_rows(server, U64_MAX)


def test_socket_writer(server: Any) -> None:
    with socket.create_connection(("127.0.0.1", server.ports["ilp_port"])) as stream:
        stream.sendall((CAPTURES / "socket_writer.lines").read_bytes())
    end = time.monotonic() + 20
    # All lines are of one commit, or the last is of the last one; their tables are there before.
    while not server.ask("/exec", query="SELECT * FROM trades").get("dataset"):
        assert time.monotonic() < end, "the rows do not come"
        time.sleep(0.01)
    check_rows(server, U64_MAX)


def test_a_metric_of_another_type_is_told_and_the_rest_kept_back(server: Any) -> None:
    """Telegraf drops what a 400 refuses and logs the answer's message; it sends again after a 5xx."""
    columns = "host SYMBOL, huge BOOLEAN, timestamp TIMESTAMP"
    made = server.ask("/exec", query=f"CREATE TABLE mem ({columns}) TIMESTAMP(timestamp)")
    assert made == {"ddl": "OK"}
    status, body = send(server.ports["influx_port"], "influxdb_v2.http")
    assert status == 400
    assert "line 2: table 'mem', column 'huge'" in json.loads(body)["message"]
    # Tables that were made for the request's other lines stay, empty.
    assert all(row == 0 for (_, row) in server.rows('SELECT "table", rows FROM tables()'))

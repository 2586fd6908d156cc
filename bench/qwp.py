#!/usr/bin/env python3
"""QWP: rows a second until they are acknowledged after their sync, and values a second out.

usage: qwp.py [--rows N] [--questdb JAR] [--program FILE]

In, five columns, two of them symbols, as in lines.py. "frames" are messages of 10,000 rows made beforehand and sent
over one WebSocket, and over eight, as fast as they go; the time ends with the acknowledgement of the last, so that
every row is stored and synced. "client" is QuestDB's own for Python from an Arrow table, encoding included. Out, a
table of as many rows, all five columns: "frames" reads the messages and throws them away, "client" makes an Arrow
table of them. Client and server share the machine. QuestDB 9.3.4, the newest in Maven Central, has no QWP: its figure
is line protocol over TCP with the same rows until a query counts them, which acknowledges and syncs nothing. Each
figure is the median of five runs, each into a new table.
"""

import argparse
import os
import shutil
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import questdb as client
from lines import Server, payload, questdb, tickstone

RUNS = 5
MESSAGE_ROWS = 10_000
BASE = 1_723_109_400_000_000_000
SYMBOLS = [f"SYM-{n}" for n in range(50)]
SIDES = ["sell", "buy"]
COLUMNS = 5


class Rows:
    """The rows of lines.py, as columns."""

    def __init__(self, rows: int) -> None:
        numbers = np.arange(rows)
        self.symbol = (numbers * 7919 % 50).astype("uint8")
        self.side = (numbers % 3 > 0).astype("uint8")
        self.price = 60_000 + numbers % 1_000 + numbers % 100 / 100
        self.amount = (numbers % 1_000 + 1) / 10_000
        self.at = BASE + numbers * 1_000

    def arrow(self) -> pa.Table:
        return pa.table(
            {
                "symbol": pa.DictionaryArray.from_arrays(self.symbol.astype("int32"), SYMBOLS),
                "side": pa.DictionaryArray.from_arrays(self.side.astype("int32"), SIDES),
                "price": self.price,
                "amount": self.amount,
                "at": pa.array(self.at, pa.timestamp("ns")),
            }
        )

    def frames(self, table: str) -> list[bytes]:
        """WebSocket frames; each brings all symbols, so that each is the first of a connection."""
        made = []
        names = b"".join(bytes([len(name)]) + name.encode() for name in [*SYMBOLS, *SIDES])
        symbols = bytes([0, len(SYMBOLS) + len(SIDES)]) + names
        for first in range(0, len(self.at), MESSAGE_ROWS):
            part = slice(first, first + MESSAGE_ROWS)
            columns = [
                ("symbol", 0x09, self.symbol[part].tobytes()),
                ("side", 0x09, (self.side[part] + len(SYMBOLS)).astype("uint8").tobytes()),
                ("price", 0x07, self.price[part].tobytes()),
                ("amount", 0x07, self.amount[part].tobytes()),
                ("", 0x10, self.at[part].tobytes()),
            ]
            head = bytes([len(table)]) + table.encode() + varint(len(self.at[part])) + bytes([len(columns)])
            head += b"".join(bytes([len(name)]) + name.encode() + bytes([of]) for name, of, _ in columns)
            body = symbols + head + b"".join(b"\0" + values for _, _, values in columns)
            message = b"QWP1\x01\x08" + struct.pack("<HI", 1, len(body)) + body
            # A mask of zeros changes nothing, and is taken off all the same.
            made.append(b"\x82\xff" + struct.pack(">Q", len(message)) + bytes(4) + message)
        return made


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


class WebSocket:
    """As much of one as it takes."""

    def __init__(self, port: int, path: str) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.stream.recv(1)
        if b" 101 " not in head:
            sys.exit(f"{path}: {head!r}")
        self.buffer = memoryview(bytearray(32 << 20))

    def exactly(self, count: int) -> memoryview:
        have = 0
        while have < count:
            got = self.stream.recv_into(self.buffer[have:count])
            if got == 0:
                sys.exit("the server closed the connection")
            have += got
        return self.buffer[:count]

    def message(self) -> memoryview:
        length = self.exactly(2)[1]
        if length == 126:
            (length,) = struct.unpack(">H", self.exactly(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.exactly(8))
        return self.exactly(length)


def send_frames(server: Server, frames: list[bytes], connections: int) -> None:
    def send(mine: list[bytes]) -> None:
        ws = WebSocket(server.http_port, "/write/v4")

        def acknowledged() -> None:
            while True:
                answer = ws.message()
                if answer[0] != 0:
                    sys.exit(f"refused: {bytes(answer)!r}")
                if struct.unpack_from("<Q", answer, 1)[0] == len(mine) - 1:
                    return

        waiting = threading.Thread(target=acknowledged)
        waiting.start()
        for frame in mine:
            ws.stream.sendall(frame)
        waiting.join()
        ws.stream.close()

    threads = [threading.Thread(target=send, args=(frames[at::connections],)) for at in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_frames(server: Server, table: str) -> None:
    ws = WebSocket(server.http_port, "/read/v1")
    ws.message()
    sql = f"SELECT symbol, side, price, amount, timestamp FROM {table}".encode()
    request = b"\x10" + struct.pack("<q", 1) + varint(len(sql)) + sql + b"\0\0"
    ws.stream.sendall(b"\x82" + bytes([0x80 | len(request)]) + bytes(4) + request)
    while (kind := ws.message()[12]) == 0x11:
        pass
    if kind != 0x12:
        sys.exit(f"the query ended with {kind:#x}")
    ws.stream.close()


def measure(name: str, unit: int, run: Callable[[int], None], prepare: Callable[[int], object] | None = None) -> None:
    figures = []
    for number in range(RUNS):
        if prepare:
            prepare(number)
        begun = time.perf_counter()
        run(number)
        figures.append(unit / (time.perf_counter() - begun))
    print(f"{name:<44} {statistics.median(figures):>14,.0f}  ({min(figures):,.0f} to {max(figures):,.0f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--questdb", type=Path, help="QuestDB's jar; without, Tickstone alone is measured")
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="qwp-", dir=os.environ.get("TMPDIR")))
    rows, made = Rows(given.rows), {}
    server = tickstone(given.program, folder / "tickstone")
    try:
        print(f"{given.rows:,} rows in; rows/s, median of {RUNS} runs (least to greatest)")
        for connections in [1, 8]:

            def prepare(number: int) -> None:
                made["frames"] = rows.frames(f"f{connections}_{number}")

            def frames(_: int) -> None:
                send_frames(server, made["frames"], connections)

            measure(f"QWP, frames, {connections} connection(s)", given.rows, frames, prepare)
        table = rows.arrow()
        with client.connect(f"ws::addr=127.0.0.1:{server.http_port};") as db:

            def load(number: int) -> None:
                db.dataframe(table, table_name=f"c_{number}", at="at")

            def fetch(_: int) -> None:
                db.query("SELECT * FROM c_0").to_arrow()

            measure("QWP, client, Arrow", given.rows, load)
            print(f"{given.rows:,} rows of {COLUMNS} columns out; values/s")
            measure("QWP, frames", given.rows * COLUMNS, lambda _: read_frames(server, "c_0"))
            measure("QWP, client, Arrow", given.rows * COLUMNS, fetch)
    finally:
        server.end()
    if given.questdb:
        peer = questdb(given.questdb, folder / "questdb")
        print(f"{given.rows:,} rows in; rows/s")

        def lines(number: int) -> None:
            made["lines"] = payload(f"l{number}", given.rows)

        try:
            measure(
                "QuestDB, line protocol over TCP",
                given.rows,
                lambda number: peer.tcp(f"l{number}", made["lines"], 1),
                lines,
            )
        finally:
            peer.end()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Catching up over one connection: rows a second of SUBSCRIBE ... FROM BEGINNING over a WebSocket with Arrow messages.

usage: subscribe.py [--rows N] [--program FILE]

A table of N rows (default 10,000,000) of 100 symbols over a day is made by INSERT ... SELECT in the server, and sealed.
Then the median of three readings of all of it; each message is opened with pyarrow, its rows counted. Client and server
share the machine. What subscribers cost the writer, and how soon they hear, is measured within one process: `cargo run --release -p tickstone-query --example subscribe_speed`.
"""

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pyarrow as pa
import websockets

RUNS = 3


def serve(program: Path, folder: Path) -> tuple[subprocess.Popen[str], int]:
    command = [str(program), "serve", "--data", str(folder), "--http-port=0"]
    command += [f"--{name}-port=off" for name in ("ilp", "influx", "pg", "flight", "stream")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"  http_port +127\.0\.0\.1:(\d+)", line):
            return process, int(found[1])
    sys.exit("tickstone does not serve")


def run(port: int, sql: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/exec?{urllib.parse.urlencode({'query': sql})}") as answer:
        answer.read()


async def catch_up(port: int) -> int:
    query = urllib.parse.urlencode({"query": "day", "from": "beginning", "format": "arrow"})
    rows = 0
    async with websockets.connect(f"ws://127.0.0.1:{port}/subscribe?{query}", max_size=None, compression=None) as socket:
        while True:
            message = await socket.recv()
            if isinstance(message, str):
                sys.exit(f"the server says {message}")
            for batch in pa.ipc.open_stream(message):
                event = batch.column(1)[0].as_py()
                if event == "caught_up":
                    return rows
                rows += batch.num_rows if event == "insert" else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, port = serve(given.program, Path(folder))
        try:
            run(port, "CREATE TABLE day (ts TIMESTAMP, sym SYMBOL, px DOUBLE, sz BIGINT) TIMESTAMP(ts) PARTITION BY DAY SERIES BY (sym)")
            step = 86_400_000_000_000 // given.rows
            rows = f"SELECT CAST(1723075200000000 + v * {step} / 1000 AS TIMESTAMP(6)), 'S' || (v % 100), v / 7.0, v FROM generate_series(0, {given.rows - 1}) AS g(v)"
            run(port, f"INSERT INTO day {rows}")
            run(port, "CHECKPOINT")
            rates = []
            for _ in range(RUNS):
                began = time.perf_counter()
                read = asyncio.run(catch_up(port))
                assert read == given.rows, (read, given.rows)
                rates.append(read / (time.perf_counter() - began))
            print(json.dumps({"rows": given.rows, "websocket_arrow_rows_per_s": round(statistics.median(rates))}))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()

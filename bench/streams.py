#!/usr/bin/env python3
"""Raw streams: documents a second until they are on stable storage, beside what the disk writes in the same run.

usage: streams.py [--seconds N] [--program FILE]

One client sends appends over one connection, made beforehand, and then asks for the last entry: the answer comes when all
are on stable storage. Documents of 1,158 bytes, as in CakeDB's paper (64,981 a second there), and of 3 KB. The disk's
rate is that of one file of the same bytes, written in pieces of 1 MiB and synced once (`dd conv=fdatasync`), before and after
each; the median of three. Client, server and disk share the machine. `held` is how long a send of one document took at
100,000 documents a second, in batches of a millisecond: the median, the 99.9th percentile and the longest.
"""

import argparse
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 3


def serve(program: Path, folder: Path) -> tuple[subprocess.Popen[str], int]:
    command = [str(program), "serve", "--data", str(folder), "--stream-port=0"]
    command += [f"--{name}-port=off" for name in ("http", "ilp", "influx", "pg", "flight")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"  stream_port +127\.0\.0\.1:(\d+)", line):
            return process, int(found[1])
    sys.exit("tickstone does not serve")


class Client:
    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(struct.pack(">IHH", 2 + len(name), 1, len(name)) + name.encode())
        (self.id,) = struct.unpack(">H", self.take(2))

    def take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            piece = self.socket.recv(count - len(taken))
            if not piece:
                sys.exit("the server closed the connection")
            taken += piece
        return taken

    def appends(self, size: int, count: int) -> bytes:
        one = struct.pack(">IHH", 2 + size, 2, self.id) + os.urandom(size)
        return one * count

    def settle(self) -> int:
        """Waits until all is on stable storage; the time of the last document."""
        self.socket.sendall(struct.pack(">IHHQ", 10, 6, self.id, 2**64 - 1))
        (length,) = struct.unpack(">I", self.take(4))
        return int(struct.unpack(">Q", self.take(length)[:8])[0])


def disk_rate(folder: Path, size: int) -> float:
    """Bytes a second of one file that is written and synced."""
    piece, path = os.urandom(1 << 20), folder / "plain"
    began = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for _ in range(size >> 20):
            file.write(piece)
        os.fdatasync(file.fileno())
    took = time.perf_counter() - began
    path.unlink()
    return size / took


def persisted(folder: Path, program: Path, size: int, seconds: float) -> tuple[float, float]:
    """Documents a second until all are on stable storage, and the disk's bytes a second around it."""
    total = int(600e6 * seconds)
    rates = [disk_rate(folder, total)]
    data = Path(tempfile.mkdtemp(dir=folder))
    process, port = serve(program, data)
    client = Client(port, "raw")
    per_batch = max(1, (4 << 20) // size)
    batch = client.appends(size, per_batch)
    batches = max(1, total // len(batch))
    client.socket.sendall(client.appends(size, 1))
    client.settle()
    began = time.perf_counter()
    for _ in range(batches):
        client.socket.sendall(batch)
    client.settle()
    took = time.perf_counter() - began
    process.terminate()
    process.wait()
    subprocess.run(["rm", "-rf", str(data)], check=True)
    rates.append(disk_rate(folder, total))
    return batches * per_batch / took, statistics.median(rates)


def held(folder: Path, program: Path, seconds: float) -> list[float]:
    """How long each send took at 100,000 documents a second, in seconds."""
    data = Path(tempfile.mkdtemp(dir=folder))
    process, port = serve(program, data)
    client = Client(port, "raw")
    batch, took = client.appends(1_158, 100), []
    began = time.perf_counter()
    for tick in range(int(seconds * 1_000)):
        while (now := time.perf_counter()) < began + tick / 1_000:
            time.sleep(min(0.0005, began + tick / 1_000 - now))
        client.socket.sendall(batch)
        took.append(time.perf_counter() - now)
    client.settle()
    process.terminate()
    process.wait()
    subprocess.run(["rm", "-rf", str(data)], check=True)
    return sorted(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="streams-", dir=os.environ.get("TMPDIR")))
    print("| documents | a second until persisted | bytes a second | disk, bytes a second | of the disk's rate |")
    print("|---|---|---|---|---|")
    for size in (1_158, 3_072):
        runs = [persisted(folder, given.program, size, given.seconds) for _ in range(RUNS)]
        rate = statistics.median(documents for documents, _ in runs)
        disk = statistics.median(disk for _, disk in runs)
        share = statistics.median(documents * size / disk for documents, disk in runs)
        print(f"| {size} bytes | {rate:,.0f} | {rate * size / 1e6:,.0f} MB | {disk / 1e6:,.0f} MB | {share:.0%} |")
    took = held(folder, given.program, given.seconds)
    at = [took[len(took) // 2], took[int(len(took) * 0.999)], took[-1]]
    print("held at 100,000 a second: " + ", ".join(f"{value * 1e3:.2f} ms" for value in at) + " (median, p99.9, longest)")
    folder.rmdir()


if __name__ == "__main__":
    main()

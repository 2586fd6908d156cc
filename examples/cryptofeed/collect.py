"""Replays recorded feeds through cryptofeed's own back ends into Tickstone, then asks it about the market.

usage: collect.py FOLDER [--backend questdb|influxdb|postgres] [--host 127.0.0.1] [--http-port 9000] …

FOLDER has captures in cryptofeed's raw format, as `FeedHandler(raw_data_collection=…)` writes them.
"""

import argparse
import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import backends
import questions
from backends import CHANNELS, Server
from cryptofeed.exchanges import EXCHANGE_MAP
from cryptofeed.raw_data_collection import playback
from cryptofeed.symbols import Symbols

VISIBLE_S = 20


@dataclass
class Replayed:
    """What became of one channel of one exchange."""

    exchange: str
    channel: str
    callbacks: int
    rows: int


def captures(folder: Path) -> dict[str, list[str]]:
    """The names of each exchange's files: `KRAKEN.0` has its symbols, `KRAKEN.ws.1.0` what came."""
    files: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        exchange = path.name.split(".")[0]
        if path.is_file() and exchange in EXCHANGE_MAP:
            files.setdefault(exchange, []).append(path.name)
    return files


def as_live(exchange: Any) -> Any:
    """An exchange that gets times as numbers, as from a live feed; `playback` hands them over as text."""

    class Live(exchange):
        async def message_handler(self, message: Any, connection: Any, timestamp: str) -> None:
            await super().message_handler(message, connection, float(timestamp))

    return Live


class Sink:
    """A back end that starts with its first update, and is emptied and closed when `playback` stops it."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    async def __call__(self, update: Any, received: float) -> None:
        self.backend.start(asyncio.get_running_loop())
        await self.backend(update, received)
        # Back ends write in tasks of their own.
        await asyncio.sleep(0)

    async def stop(self) -> None:
        if not getattr(self.backend, "started", False):
            return
        emptied = asyncio.ensure_future(self.backend.queue.join())
        await asyncio.wait({emptied, self.backend.worker}, return_when=asyncio.FIRST_COMPLETED)
        emptied.cancel()
        await self.backend.stop()
        await self.backend.worker
        await backends.close(self.backend)


def replay(folder: Path, exchange: str, files: list[str], backend: str, server: Server) -> list[Replayed]:
    """Plays an exchange's captures into one back end; callbacks and rows of each channel."""
    rows_before = {channel: backends.rows(server, backend, exchange, channel) for channel in CHANNELS}
    callbacks = {channel: Sink(sink) for channel, sink in backends.of(backend, server).items()}
    original = EXCHANGE_MAP[exchange]
    EXCHANGE_MAP[exchange] = as_live(original)
    Symbols.clear()
    try:
        # It tells files apart by words of their paths, so folders are left out of these.
        with contextlib.chdir(folder):
            called = playback(exchange, [f"./{name}" for name in files], callbacks=callbacks)["callbacks"]
    finally:
        EXCHANGE_MAP[exchange] = original

    def stored(channel: str) -> int:
        # Line protocol over TCP has no answers: rows are there a little later.
        end = time.monotonic() + VISIBLE_S
        while True:
            rows = backends.rows(server, backend, exchange, channel) - rows_before[channel]
            if rows >= called[channel] or time.monotonic() > end:
                return rows
            time.sleep(0.01)

    return [Replayed(exchange, channel, called[channel], stored(channel)) for channel in CHANNELS if channel in called]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--backend", choices=backends.NAMES, default="questdb")
    options.add_argument("--host", default="127.0.0.1")
    for port, number in (("http", 9000), ("influx", 8086), ("ilp", 9009), ("pg", 8812)):
        options.add_argument(f"--{port}-port", type=int, default=number)
    given = options.parse_args()
    server = Server(given.host, given.http_port, given.influx_port, given.ilp_port, given.pg_port)
    files = captures(given.folder)
    if not files:
        options.error(f"{given.folder} has no captures of an exchange that cryptofeed knows")
    lost = False
    for exchange in files:
        for channel in replay(given.folder, exchange, files[exchange], given.backend, server):
            print(f"{exchange:<12} {channel.channel:<8} {channel.callbacks:>6} callbacks {channel.rows:>6} rows")
            lost |= channel.callbacks != channel.rows
    if given.backend == "questdb":
        questions.ask(server)
    return int(lost)


if __name__ == "__main__":
    raise SystemExit(main())

"""cryptofeed's own back ends, and what each wants of a Tickstone server.

| back end | port | tables |
|---|---|---|
| questdb | line protocol over TCP | `book-KRAKEN`, `trades-KRAKEN`, …: they appear by themselves |
| influxdb | line protocol over HTTP | `influx_book-KRAKEN`, `influx_trades-KRAKEN`, … |
| postgres | PostgreSQL | `trades`, `ticker`, `book`, `candles` of tables.sql |

A table that appears by itself has its time in `timestamp`; those of influxdb, and the candles of questdb, whose rows have
a field of that name with a number in it, have it in `time`.
"""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptofeed.backends.influxdb import BookInflux, CandlesInflux, TickerInflux, TradeInflux
from cryptofeed.backends.quest import BookQuest, CandlesQuest, TickerQuest, TradeQuest
from cryptofeed.defines import ASK, BID, CANDLES, L2_BOOK, TICKER, TRADES
from yapic.json import dumps

CHANNELS = (TRADES, TICKER, L2_BOOK, CANDLES)
NAMES = ("questdb", "influxdb", "postgres")
TABLES = {TRADES: "trades", TICKER: "ticker", L2_BOOK: "book", CANDLES: "candles"}
# The columns that cryptofeed's fields go to: tables.sql.
COLUMNS = {
    TRADES: ("side", "amount", "price", "id", "type"),
    TICKER: ("bid", "ask"),
    L2_BOOK: ("data",),
    CANDLES: ("start", "stop", "interval", "trades", "open", "close", "high", "low", "volume", "closed"),
}
# Books after every update; none of the whole snapshots that back ends put in between.
NO_SNAPSHOTS = sys.maxsize


@dataclass(frozen=True)
class Server:
    """Where a Tickstone server is."""

    host: str = "127.0.0.1"
    http_port: int = 9000
    influx_port: int = 8086
    ilp_port: int = 9009
    pg_port: int = 8812


def ask(server: Server, sql: str, path: str = "/exec") -> str:
    """The answer to a statement."""
    url = f"http://{server.host}:{server.http_port}{path}?{urllib.parse.urlencode({'query': sql})}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return str(answer.read(), "utf-8")
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.loads(error.read())["error"]) from None


def tables(server: Server) -> set[str]:
    """The names of all tables."""
    return {row[0] for row in json.loads(ask(server, "SHOW TABLES"))["dataset"]}


def rows(server: Server, backend: str, exchange: str, channel: str) -> int:
    """How many rows of a channel are there."""
    table, condition = table_name(backend, exchange, channel), ""
    if backend == "postgres":
        condition = f" WHERE exchange = '{exchange}'"
    if table not in tables(server):
        return 0
    return int(json.loads(ask(server, f'SELECT count(*) FROM "{table}"{condition}'))["dataset"][0][0])


def table_name(backend: str, exchange: str, channel: str) -> str:
    """The table that a back end writes."""
    prefix = {"questdb": "", "influxdb": "influx_", "postgres": ""}[backend]
    return prefix + TABLES[channel] + ("" if backend == "postgres" else f"-{exchange}")


class QuotedBookInflux(BookInflux):
    """cryptofeed's own, with the quotes of a snapshot's JSON escaped, as line protocol wants them."""

    def format(self, data: dict[str, Any]) -> str:
        book = data["delta"] if "delta" in data else data["book"]
        bids, asks = (dumps(book[side]).replace('"', '\\"') for side in (BID, ASK))
        return f'delta={"delta" in data},{BID}="{bids}",{ASK}="{asks}"'


def of(name: str, server: Server) -> dict[str, Any]:
    """A back end for each channel; PostgreSQL's tables, which do not appear by themselves, are made."""
    if name == "questdb":
        return questdb(server)
    if name == "influxdb":
        return influxdb(server)
    return postgres(server)


def questdb(server: Server) -> dict[str, Any]:
    quest = {TRADES: TradeQuest, TICKER: TickerQuest, L2_BOOK: BookQuest, CANDLES: CandlesQuest}
    return {channel: make(host=server.host, port=server.ilp_port) for channel, make in quest.items()}


def influxdb(server: Server) -> dict[str, Any]:
    made = {}
    influx = {TRADES: TradeInflux, TICKER: TickerInflux, L2_BOOK: QuotedBookInflux, CANDLES: CandlesInflux}
    for channel, make in influx.items():
        made[channel] = make(
            f"http://{server.host}:{server.influx_port}",
            org="any",
            bucket="any",
            token="any",
            key="influx_" + TABLES[channel],
            **({"snapshot_interval": NO_SNAPSHOTS} if channel == L2_BOOK else {}),
        )
    return made


def postgres(server: Server) -> dict[str, Any]:
    # It wants asyncpg, which the others do without.
    from cryptofeed.backends.postgres import BookPostgres, CandlesPostgres, TickerPostgres, TradePostgres

    for statement in Path(__file__).with_name("tables.sql").read_text().split(";"):
        if statement.strip():
            ask(server, statement)
    made = {}
    backends = {TRADES: TradePostgres, TICKER: TickerPostgres, L2_BOOK: BookPostgres, CANDLES: CandlesPostgres}
    for channel, make in backends.items():
        columns = ("timestamp", "receipt", "exchange", "symbol", *COLUMNS[channel])
        made[channel] = make(
            host=server.host,
            port=server.pg_port,
            user="admin",
            pw="quest",
            db="qdb",
            table=TABLES[channel],
            custom_columns={column: column for column in columns},
            **({"snapshot_interval": NO_SNAPSHOTS} if channel == L2_BOOK else {}),
        )
    return made


async def close(backend: Any) -> None:
    """Ends a back end's connection, where it has one; those over HTTP end theirs themselves."""
    connection = getattr(backend, "conn", None)
    if connection is None:
        return
    if hasattr(connection, "wait_closed"):
        connection.close()
        await connection.wait_closed()
    else:
        await connection.close()

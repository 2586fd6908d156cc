"""cryptofeed's own back ends, fed by recorded sessions: as many rows as it made callbacks, and what is in them."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
EXAMPLE = REPOSITORY / "examples" / "cryptofeed"
MADE = Path(__file__).with_name("captures") / "cryptofeed"
RECORDED = REPOSITORY.parent / "shared" / "data" / "cryptofeed"
NAMES = ["questdb", "influxdb", "postgres"]
PATIENCE_S = 300

# What is in the captures of the repository, counted by hand.
MESSAGES = {
    ("GEMINI", "trades"): 3,
    ("GEMINI", "l2_book"): 8,
    ("KRAKEN", "trades"): 4,
    ("KRAKEN", "ticker"): 3,
    ("KRAKEN", "l2_book"): 9,
}
T0 = "2024-08-08T09:30:0"


Counts = dict[tuple[str, str], int]


def collected(server: Any, folder: Path, backend: str) -> subprocess.CompletedProcess[str]:
    """Runs the example over a folder of captures."""
    ports = {
        name: server.ports[f"{name}_port"] for name in ("http", "influx", "ilp", "pg") if f"{name}_port" in server.ports
    }
    if backend == "postgres" and "pg" not in ports:
        pytest.skip("the server has no PostgreSQL port")
    flags = [f"--backend={backend}", *(f"--{name}-port={port}" for name, port in ports.items())]
    command = [sys.executable, str(EXAMPLE / "collect.py"), str(folder), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.fixture
def replayed(server: Any) -> Callable[[Path, str], Counts]:
    """Replays a folder into a back end; the rows of each exchange and channel, as many as callbacks."""

    def replay(folder: Path, backend: str) -> Counts:
        done = collected(server, folder, backend)
        lines = re.findall(r"^(\w+) +(\w+) +(\d+) callbacks +(\d+) rows$", done.stdout, re.MULTILINE)
        assert done.returncode == 0 and lines, f"{done.stdout}{done.stderr}"
        assert all(callbacks == rows for _, _, callbacks, rows in lines), lines
        return {(exchange, channel): int(rows) for exchange, channel, _, rows in lines}

    return replay


@pytest.mark.parametrize("backend", NAMES)
def test_every_callback_is_a_row(replayed: Any, backend: str) -> None:
    assert replayed(MADE, backend) == MESSAGES


@pytest.mark.parametrize("backend", NAMES)
def test_every_callback_of_the_recorded_sessions_is_a_row(replayed: Any, backend: str) -> None:
    if not RECORDED.is_dir():
        pytest.skip(f"NO RECORDED SESSIONS at {RECORDED}: only the small captures of the repository are replayed")
    counts = replayed(RECORDED, backend)
    assert {exchange for exchange, _ in counts} == {"BINANCE_US", "BITFINEX", "GEMINI", "KRAKEN"}
    assert {channel for _, channel in counts} == {"trades", "ticker", "l2_book", "candles"}
    assert sum(counts.values()) > 7_000


def test_rows_of_questdb(server: Any, replayed: Any) -> None:
    replayed(MADE, "questdb")
    columns = "symbol, side, type, price, amount, id, receipt_timestamp"
    assert server.rows(f'SELECT {columns} FROM "trades-GEMINI" ORDER BY id') == [
        ["BTC-USD", "buy", "None", 61500.75, 0.1, 90000001, T0 + "1.400000000Z"],
        ["ETH-USD", "buy", "None", 2650.31, 0.5, 90000002, T0 + "2.900000000Z"],
        ["BTC-USD", "buy", "None", 61500.9, 0.35, 90000003, T0 + "3.800000000Z"],
    ]
    best = "bid_0_price, bid_0_size, ask_0_price, ask_0_size, bid_9_price, ask_9_size"
    assert server.rows(f"SELECT {best} FROM \"book-KRAKEN\" WHERE symbol = 'BTC-USD' ORDER BY timestamp") == [
        [61500.0, 0.5, 61501.0, 2.0, 61495.5, 0.75],
        [61500.5, 0.3, 61501.0, 2.0, 61496.0, 0.75],
        [61500.5, 0.3, 61501.0, 1.0, 61496.0, 0.75],
        [61500.5, 0.3, 61501.5, 0.75, 61496.0, 0.5],
        [61501.0, 0.4, 61501.5, 0.75, 61496.5, 0.5],
        [61500.0, 0.5, 61501.5, 0.75, 61495.5, 0.5],
    ]


def test_rows_of_influxdb(server: Any, replayed: Any) -> None:
    replayed(MADE, "influxdb")
    assert server.rows('SELECT symbol, side, price, amount, id FROM "influx_trades-GEMINI" ORDER BY id') == [
        ["BTC-USD", "buy", 61500.75, 0.1, "90000001"],
        ["ETH-USD", "buy", 2650.31, 0.5, "90000002"],
        ["BTC-USD", "buy", 61500.9, 0.35, "90000003"],
    ]
    books = server.rows("SELECT delta, bid FROM \"influx_book-KRAKEN\" WHERE symbol = 'BTC-USD' ORDER BY time")
    assert books[0][0] is False and '"61500":0.5' in re.sub(r"\.0+\b|\s", "", books[0][1])
    assert books[1] == [True, "[[61500.5,0.3]]"]


def test_rows_of_postgres(server: Any, replayed: Any) -> None:
    replayed(MADE, "postgres")
    assert server.rows("SELECT symbol, side, price, amount, id FROM trades WHERE exchange = 'GEMINI' ORDER BY id") == [
        ["BTC-USD", "buy", 61500.75, 0.1, "90000001"],
        ["ETH-USD", "buy", 2650.31, 0.5, "90000002"],
        ["BTC-USD", "buy", 61500.9, 0.35, "90000003"],
    ]
    books = server.rows("SELECT data FROM book WHERE exchange = 'KRAKEN' AND symbol = 'BTC-USD' ORDER BY timestamp")
    assert '"snapshot"' in books[0][0]
    assert books[1][0] == '{"delta":{"bid":[[61500.5,0.3]],"ask":[]}}'


def test_questions_of_the_recorded_sessions(server: Any, replayed: Any) -> None:
    if not RECORDED.is_dir():
        pytest.skip(f"NO RECORDED SESSIONS at {RECORDED}: only the small captures of the repository are asked about")
    counts = replayed(RECORDED, "questdb")
    books = sum(rows for (_, channel), rows in counts.items() if channel == "l2_book")
    nbbo = "nbbo(TABLE books, series => symbol, venue => exchange, bid => bid, ask => ask)"
    assert server.rows(f"SELECT count(*) FROM {nbbo}") == [[books]]
    # No symbol is at two of these exchanges: the best of all is that of the one.
    spreads = "SELECT symbol, count(*), round(avg(ask - bid), 9) FROM {} GROUP BY symbol ORDER BY symbol"
    assert server.rows("SELECT max(n) FROM (SELECT count(DISTINCT exchange) AS n FROM books GROUP BY symbol)") == [[1]]
    assert server.rows(spreads.format(nbbo)) == server.rows(spreads.format("books"))


def test_the_page_says_what_is_printed(server: Any) -> None:
    done = collected(server, MADE, "questdb")
    assert done.returncode == 0, done.stderr
    expected = re.search(r"```text\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert expected and done.stdout == expected[1]


def test_rows_that_are_refused_are_told(server: Any) -> None:
    """A back end whose rows are refused, here for a column's type, does not pass for one that stored them."""
    columns = "symbol SYMBOL, price UUID, time TIMESTAMP"
    made = server.ask("/exec", query=f'CREATE TABLE "influx_trades-KRAKEN" ({columns}) TIMESTAMP(time)')
    assert made == {"ddl": "OK"}
    done = collected(server, MADE, "influxdb")
    assert done.returncode == 1 and "column 'price'" in done.stderr

"""The benchmarks of the Python package, for docs/performance.md.

usage: .venv/bin/python bench/python.py [NAME…] [--scale 1] [--write]

Names: python-query (a repeated query of one symbol, from Python to Arrow), python-scan (10 million rows of 5
columns into Polars, beside a copy of the same buffers by numpy), python-append (a million rows at once, and 100
at a time), python-package (import time, size of the wheel). Without a name all run. They measure the package
that this interpreter imports: `make python` builds it in release. With --write the tables go into
docs/performance.md, which keeps the tables of what did not run.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl
import pyarrow as pa
from run import REPOSITORY, machine, median_ms, say, table, write_page

import tickstone

ROWS = 10_000_000
APPENDED_ROWS = 1_000_000
SMALL_ROWS = 100
SYMBOLS = 100
START = np.datetime64("2024-08-08T00:00:00", "ns")
VWAP = """SELECT ts, vwap(price, size) FROM trades WHERE symbol = $1 AND ts >= '2024-08-08T10:00:00'
AND ts < '2024-08-08T11:00:00' SAMPLE BY 1m"""


def trades(rows: int) -> pl.DataFrame:
    """A day of trades in order of time: ts, symbol, side, price, size. The same for the same number of rows."""
    random = np.random.default_rng(rows)
    day = 86_400_000_000_000
    names = np.array([f"SYM{number:03}" for number in range(SYMBOLS)])
    return pl.DataFrame(
        {
            "ts": START + (np.arange(rows) * (day // rows)).astype("timedelta64[ns]"),
            "symbol": names[random.integers(0, SYMBOLS, rows)],
            "side": np.array(["buy", "sell"])[random.integers(0, 2, rows)],
            "price": np.round(100 + random.standard_normal(rows).cumsum() / 100, 2),
            "size": random.integers(1, 1_000, rows).astype(np.float64),
        }
    )


@contextmanager
def database(**options: float) -> Iterator[tickstone.Database]:
    """An empty database on the disk, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tickstone-bench-", dir=REPOSITORY / "build") as folder:
        with tickstone.open(folder, **options) as db:
            yield db


def seconds(action: Callable[[], object], runs: int, warm: int = 1) -> list[float]:
    """How long each of some runs took, after some to warm up."""
    taken = []
    for run in range(warm + runs):
        began = time.perf_counter()
        action()
        if run >= warm:
            taken.append(time.perf_counter() - began)
    return taken


def bench_query(scale: float) -> str:
    """A repeated query of one symbol, each time with another literal."""
    rows = []
    frame = trades(int(ROWS * scale))
    for state in ("in memory", "in parts"):
        with database(memory_budget=8 << 30) as db:
            for piece in frame.iter_slices(200_000):
                db.append("trades", piece, timestamp="ts", series="symbol", create=True)
            if state == "in parts":
                db.seal()
            symbols = iter(range(10_000))
            one = seconds(lambda: db.sql(VWAP, [f"SYM{next(symbols) % SYMBOLS:03}"]).arrow(), 201, 20)
            tuples = seconds(lambda: db.sql(VWAP, [f"SYM{next(symbols) % SYMBOLS:03}"]).fetchall(), 201, 20)
            rows.append([state, f"{median_ms(one):.3f}", f"{max(one) * 1e3:.3f}", f"{median_ms(tuples):.3f}"])
    header = ["rows", "sql(…).arrow(), median ms", "slowest ms", "sql(…).fetchall(), median ms"]
    return (
        f"60 bars of one symbol out of {len(frame):,} rows of {SYMBOLS}, the symbol a parameter that changes: 201 "
        f"runs from Python to a pyarrow Table.\n\n{table(header, rows)}\n\nGoal: at most 3 ms."
    )


def buffers_of(arrow: pa.Table) -> list[np.ndarray]:
    """The buffers of a result, each as bytes."""
    chunks = (chunk for column in arrow.columns for chunk in column.chunks)
    return [np.frombuffer(buffer, np.uint8) for chunk in chunks for buffer in chunk.buffers() if buffer is not None]


def bench_scan(scale: float) -> str:
    """All rows of five columns into Polars, beside a plain copy of what comes out."""
    rows = []
    frame = trades(int(ROWS * scale))
    for state in ("in memory", "in parts"):
        with database(memory_budget=8 << 30) as db:
            for piece in frame.iter_slices(200_000):
                db.append("trades", piece, timestamp="ts", series="symbol", create=True)
            if state == "in parts":
                db.seal()
            for columns in ("ts, symbol, side, price, size", "ts, price, size"):
                relation = db.sql(f"SELECT {columns} FROM trades")
                buffers = buffers_of(relation.arrow())
                read = seconds(relation.polars, 5)
                copied = seconds(lambda held=buffers: [buffer.copy() for buffer in held], 5)
                taken, plain = statistics.median(read), statistics.median(copied)
                values = len(frame) * (columns.count(",") + 1)
                size = sum(map(len, buffers)) / 1e6
                del buffers
                rows.append(
                    [state, columns, f"{size:.0f}", f"{taken:.3f}", f"{plain:.3f}", f"{taken / plain:.2f}", f"{values / taken / 1e6:.0f}"]
                )
    header = ["rows", "columns", "MB", "into Polars, s", "copy, s", "ratio", "million values/s"]
    return (
        f"All of {len(frame):,} rows as a Polars frame, medians of 5; the copy is numpy's of every buffer of the same "
        f"result.\n\n{table(header, rows)}\n\n"
        "Goal: at most 1.3 times the copy for columns stored raw, at least 200 million values/s for others."
    )


def bench_append(scale: float) -> str:
    """A large frame at once, and small ones with sync policy `interval`."""
    frame, rows = trades(int(APPENDED_ROWS * scale)), []
    categorical = frame.with_columns(pl.col("symbol", "side").cast(pl.Categorical))
    for name, source in (("text", frame), ("categorical", categorical)):
        with database() as db:
            db.append("trades", source.head(0), timestamp="ts", series="symbol", create=True)
            taken = statistics.median(seconds(lambda: db.append("trades", source), 7))
            rows.append([f"{len(source):,} rows, symbols as {name}", f"{taken * 1e3:.1f} ms", f"{len(source) / taken:,.0f} rows/s"])
    small, count = frame.head(SMALL_ROWS), max(int(20_000 * scale), 100)
    for name, source in (("Polars", small), ("pyarrow", small.to_arrow())):
        with database() as db:
            db.append("trades", small.head(0), timestamp="ts", series="symbol", create=True, sync="interval")
            taken = seconds(lambda: [db.append("trades", source) for _ in range(count)], 3)
            rate = count / statistics.median(taken)
            rows.append([f"{SMALL_ROWS} rows, sync interval, {name}", f"{1e6 / rate:.1f} µs", f"{rate:,.0f} appends/s"])
    return (
        "Appends of ts, symbol, side, price and size, durable by the policy when they return, one thread.\n\n"
        f"{table(['append', 'median', 'rate'], rows)}\n\n"
        "Goals: 5 million rows/s for a million rows, 20,000 appends/s of 100 rows."
    )


def bench_package(_scale: float) -> str:
    """What the package costs before it does anything."""
    script = "import time; began = time.perf_counter(); import tickstone; print(time.perf_counter() - began)"
    runs = [float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(11)]
    rows: list[list[object]] = [["import tickstone, median of 10", f"{median_ms(runs[1:]):.1f} ms"]]
    wheels = sorted((REPOSITORY / "build" / "wheels").glob("tickstone-*.whl"), key=lambda path: path.stat().st_mtime)
    if wheels:
        rows.append([f"wheel ({wheels[-1].name})", f"{wheels[-1].stat().st_size / 1e6:.1f} MB"])
    return (
        f"{table(['what', 'cost'], rows)}\n\nThe wheel is what `maturin build --release -m crates/python/Cargo.toml "
        "--out build/wheels` made. Goals: at most 100 ms and 60 MB."
    )


BENCHMARKS = {
    "python-query": bench_query,
    "python-scan": bench_scan,
    "python-append": bench_append,
    "python-package": bench_package,
}
TITLES = {
    "python-query": "Python: a repeated query",
    "python-scan": "Python: rows out",
    "python-append": "Python: rows in",
    "python-package": "Python: the package",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    pathlib.Path(REPOSITORY / "build").mkdir(exist_ok=True)
    results = {}
    for name in arguments.names or BENCHMARKS:
        say(f"== {name}")
        command = f"`.venv/bin/python bench/python.py {name} --scale {arguments.scale} --write`"
        made = f"{machine()}, Polars {pl.__version__}. {command}"
        results[name] = f"{made}\n\n{BENCHMARKS[name](arguments.scale)}"
        print(f"## {TITLES[name]}\n\n{results[name]}\n")
    if arguments.write:
        write_page(results, TITLES)


if __name__ == "__main__":
    main()

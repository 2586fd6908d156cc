"""The benchmarks of docs/performance.md.

usage: .venv/bin/python bench/run.py [NAME…] [--scale N] [--work DIR] [--write]

Names: query (T-VWAP and max over 30 and 300 days of trades), load (the two W files, beside DuckDB),
commit (16 threads that commit single rows), suite (the 14 queries of suite A, beside DuckDB, Polars and chdb),
equities (11 questions about a session of 2,000 stocks, beside the same). Without a name all run. The scale is 0.1,
that of equities 1, unless given. `make bench` builds everything in release first. Generated files stay in the work folder and are used again. With --write the tables go
into docs/performance.md, which keeps the tables of what did not run.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

import duckdb

import equities
import suite

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
TICKSTONE = pathlib.Path(os.environ.get("TICKSTONE", REPOSITORY / "target" / "release" / "tickstone"))
EXAMPLES = TICKSTONE.parent / "examples"
PAGE = REPOSITORY / "docs" / "performance.md"

TRADES = {
    "timestamp": "TIMESTAMP",
    "receipt_timestamp": "TIMESTAMP",
    "exchange": "VARCHAR",
    "sym": "VARCHAR",
    "side": "VARCHAR",
    "price": "DOUBLE",
    "amount": "DOUBLE",
    "id": "BIGINT",
}
BOOKS = {name: kind for name, kind in TRADES.items() if name in ("timestamp", "receipt_timestamp", "exchange", "sym")} | {
    f"{side}{level}{what}": "DOUBLE" for side in "ba" for level in range(1, 21) for what in ("price", "size")
}
T_VWAP = """SELECT timestamp, vwap(price, amount) FROM trades
WHERE sym = 'BTC-USD' AND timestamp >= '2022-06-18' AND timestamp < '2022-06-19' SAMPLE BY 1m"""
T_VWAP_DUCKDB = """SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, sum(price * amount) / sum(amount) FROM trades
WHERE sym = 'BTC-USD' AND timestamp >= '2022-06-18' AND timestamp < '2022-06-19' GROUP BY minute"""
MAX = "SELECT max(price) FROM trades"


def say(*words: object) -> None:
    """Tells what goes on, on standard error: standard output has the results."""
    print(*words, file=sys.stderr, flush=True)


def run(*command: object) -> str:
    """Runs a command; what it printed."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexited {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def generate(folder: pathlib.Path, *options: object, kind: str = "suite") -> pathlib.Path:
    """A folder of generated files (`tickstone gen` of that kind), made once."""
    if not (folder / "complete").exists():
        say("making", folder)
        run(TICKSTONE, "gen", kind, "--out", folder, *options)
        (folder / "complete").touch()
    return folder


def read_csv(path: pathlib.Path, columns: dict[str, str]) -> str:
    """DuckDB's reader with all types given, so that it guesses nothing."""
    types = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    return f"read_csv('{path}', header = true, columns = {{{types}}})"


def median_ms(durations: list[float]) -> float:
    """Median of seconds in milliseconds."""
    return statistics.median(durations) * 1e3


def table(header: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def bench_query(work: pathlib.Path, scale: float) -> str:
    """T-VWAP and max over 30 and 300 days of trades, DuckDB beside it."""
    rows = []
    medians = {}
    for days in (30, 300):
        files = generate(work / f"trades-{days}-{scale}", "--scale", scale, "--what", "trades", "--days", days)
        data = work / f"trades-{days}-{scale}-tickstone"
        imported = data.with_name(f"{data.name}.imported")
        if not imported.exists():
            say("importing", files / "trades.csv")
            shutil.rmtree(data, ignore_errors=True)
            run(TICKSTONE, "import", "--data", data, "--table", "trades", files / "trades.csv")
            imported.touch()
        peer = work / f"trades-{days}-{scale}.duckdb"
        if not peer.exists():
            say("loading DuckDB with", files / "trades.csv")
            partial = peer.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            with duckdb.connect(partial) as connection:
                source = read_csv(files / "trades.csv", TRADES)
                connection.sql(f"CREATE TABLE trades AS SELECT * FROM {source} ORDER BY sym, timestamp")
            partial.rename(peer)
        for name, ours, theirs in (("T-VWAP", T_VWAP, T_VWAP_DUCKDB), ("max(price)", MAX, MAX)):
            result = json.loads(run(EXAMPLES / "bench_query", data, ours, 101))
            medians[name, days] = result["total"]["median_ms"]
            with duckdb.connect(peer, read_only=True) as connection:
                times = []
                for _ in range(31):
                    began = time.perf_counter()
                    connection.sql(theirs).to_arrow_table()
                    times.append(time.perf_counter() - began)
            parts = (result[part]["median_ms"] for part in ("planning", "execution", "total"))
            rows.append([name, days, *(f"{part:.3f}" for part in parts), f"{median_ms(times[1:]):.3f}"])
    ratio = medians["T-VWAP", 300] / medians["T-VWAP", 30]
    header = ["query", "days of trades", "planning", "execution", "end to end", "DuckDB, end to end"]
    return (
        f"Milliseconds, medians of 101 runs in the process (DuckDB: 30), warm, scale {scale}.\n\n"
        f"{table(header, rows)}\n\n"
        f"T-VWAP over 300 days takes {ratio:.2f} times what it takes over 30. "
        "Goals: T-VWAP at most 3 ms end to end, at most 1.3 times that over 300 days; max below 1 ms execution."
    )


def load_tickstone(work: pathlib.Path, files: pathlib.Path) -> float:
    """Seconds from the start of the program until both files are on stable storage."""
    data = work / "load-tickstone"
    shutil.rmtree(data, ignore_errors=True)
    began = time.perf_counter()
    for name in ("trades", "books"):
        run(TICKSTONE, "import", "--data", data, "--table", name, files / f"write_{name}.csv")
    seconds = time.perf_counter() - began
    shutil.rmtree(data)
    return seconds


def load_duckdb(work: pathlib.Path, files: pathlib.Path) -> float:
    """Seconds from opening a database file until both files are in it and on stable storage."""
    path = work / "load.duckdb"
    path.unlink(missing_ok=True)
    began = time.perf_counter()
    with duckdb.connect(path) as connection:
        for name, columns in (("trades", TRADES), ("books", BOOKS)):
            connection.sql(f"CREATE TABLE {name} AS SELECT * FROM {read_csv(files / f'write_{name}.csv', columns)}")
        connection.sql("CHECKPOINT")
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds


def bench_load(work: pathlib.Path, scale: float) -> str:
    """The W files into a durable, queryable database, alternating with DuckDB."""
    files = generate(work / f"write-{scale}", "--scale", scale, "--what", "write")
    megabytes = sum((files / f"write_{name}.csv").stat().st_size for name in ("trades", "books")) / 1e6
    loads = {"Tickstone": load_tickstone, "DuckDB": load_duckdb}
    seconds = {name: [] for name in loads}
    for round_ in range(6):
        for name, load in loads.items():
            taken = load(work, files)
            say(f"load: {name} {taken:.3f} s")
            if round_ > 0:
                seconds[name].append(taken)
    rows = [
        [name, f"{statistics.median(times):.3f}", f"{min(times):.3f}", f"{max(times):.3f}", f"{megabytes / statistics.median(times):.0f}"]
        for name, times in seconds.items()
    ]
    ratio = statistics.median(seconds["DuckDB"]) / statistics.median(seconds["Tickstone"])
    return (
        f"The two W files at scale {scale} ({megabytes:.0f} MB of CSV) until durable, five runs each in turns, after one "
        "to warm up. Tickstone: two runs of `tickstone import`, the start of the program included. DuckDB: both tables "
        "and a CHECKPOINT into a database file, all column types given.\n\n"
        f"{table(['system', 'median s', 'min s', 'max s', 'MB/s'], rows)}\n\n"
        f"Tickstone loads {ratio:.2f} times as fast. Goal: at least as fast."
    )


def bench_commit(work: pathlib.Path, _scale: float) -> str:
    """Threads that commit single rows, each synced."""
    rows = []
    for threads in (1, 4, 16):
        data = work / "commit-tickstone"
        shutil.rmtree(data, ignore_errors=True)
        result = json.loads(run(EXAMPLES / "bench_commit", data, threads, 5))
        rows.append(
            [
                threads,
                result["rows"],
                result["syncs"],
                f"{result['rows_per_sync']:.2f}",
                f"{result['rows_per_second']:.0f}",
                f"{result['slowest_ms']:.1f}",
            ]
        )
    header = ["threads", "rows", "syncs", "rows a sync", "rows/s", "slowest commit, ms"]
    return (
        "Threads that commit single rows through the engine's append call with policy `always`, five seconds.\n\n"
        f"{table(header, rows)}\n\nGoal: at least 8 rows a sync with 16 threads."
    )


def bench_suite(work: pathlib.Path, scale: float) -> str:
    """Suite A, the high-frequency queries, DuckDB, Polars and chdb beside them."""
    return suite.run(sys.modules[__name__], work, scale)


def bench_equities(work: pathlib.Path, scale: float) -> str:
    """A session of 2,000 stocks, DuckDB, Polars and chdb beside Tickstone."""
    return equities.run(sys.modules[__name__], work, scale)


BENCHMARKS = {"query": bench_query, "load": bench_load, "commit": bench_commit, "suite": bench_suite, "equities": bench_equities}
TITLES = {"query": "Queries", "load": "Load", "commit": "Group commit", "suite": "Suite A", "equities": "Equities"}
SCALES = {"equities": 1.0}
SCALE = 0.1


def machine() -> str:
    """The day and the machine of a result."""
    return f"{datetime.date.today()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def write_page(results: dict[str, str], titles: dict[str, str]) -> None:
    """Replaces the sections of what ran."""
    page = PAGE.read_text()
    for name, result in results.items():
        section = f"<!-- begin {name} -->\n## {titles[name]}\n\n{result}\n<!-- end {name} -->"
        pattern = re.compile(f"<!-- begin {name} -->.*?<!-- end {name} -->", re.DOTALL)
        page = pattern.sub(lambda _: section, page) if pattern.search(page) else f"{page.rstrip()}\n\n{section}\n"
    PAGE.write_text(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--scale", type=float, help="size of the generated data; 0.1, for equities 1")
    parser.add_argument("--work", type=pathlib.Path, default=REPOSITORY / "build" / "bench")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in arguments.names or BENCHMARKS:
        say(f"== {name}")
        scale = arguments.scale if arguments.scale is not None else SCALES.get(name, SCALE)
        command = f"`.venv/bin/python bench/run.py {name} --scale {scale} --write`"
        results[name] = f"{machine()}, DuckDB {duckdb.__version__}. {command}\n\n{BENCHMARKS[name](arguments.work, scale)}"
        print(f"## {TITLES[name]}\n\n{results[name]}\n")
    if arguments.write:
        write_page(results, TITLES)


if __name__ == "__main__":
    main()

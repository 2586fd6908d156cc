"""Files where they lie, and import of them, beside DuckDB in the same run, for docs/performance.md.

usage: .venv/bin/python bench/files.py [NAME…] [--scale 1] [--write]

Names: files-parquet (questions of a Parquet file of 20 million trades), files-csv (the same of CSV, of 2 million),
files-import (a folder of 1,000 files of 1 MB, and a CSV of a gigabyte). Turns alternate; what is compared is medians.
They measure the package that this interpreter imports: `make python` builds it in release.
"""

import argparse
import pathlib
import shutil
import statistics
import tempfile
import time

import duckdb
from run import REPOSITORY, machine, say, table, write_page

import tickstone

RUNS = 9
TRADES = """
SELECT TIMESTAMP '2024-11-04' + to_microseconds(i * {step}) AS ts, 'SYM' || (hash(i) % 200) AS symbol,
  ['X', 'Y', 'Z'][(1 + hash(i * 3) % 3)::BIGINT] AS venue, 100 + (hash(i * 7) % 10000) / 100.0 AS price,
  (1 + hash(i * 11) % 1000)::BIGINT AS size, hash(i * 13)::VARCHAR AS id
FROM range({rows}) AS r(i)
"""
QUESTIONS = {
    "count of all rows": "SELECT count(*) FROM {}",
    "sums of two columns": "SELECT sum(price), sum(size), max(ts) FROM {}",
    "an hour of one symbol": "SELECT count(*), sum(price * size) FROM {} WHERE symbol = 'SYM7' AND ts >= '2024-11-04T10:00:00' AND ts < '2024-11-04T11:00:00'",
    "one symbol": "SELECT count(*), sum(price * size) FROM {} WHERE symbol = 'SYM7'",
    "filter of a price": "SELECT count(*), sum(size) FROM {} WHERE price > 199.5",
    "group of a symbol": "SELECT symbol, count(*), sum(size), avg(price) FROM {} GROUP BY symbol ORDER BY symbol",
    "group of two texts": "SELECT symbol, venue, max(price) FROM {} GROUP BY symbol, venue ORDER BY symbol, venue",
    "group of an hour": "SELECT date_trunc('hour', ts) AS h, sum(size) FROM {} GROUP BY h ORDER BY h",
    "bars of a minute": "SELECT symbol, date_trunc('minute', ts) AS m, sum(size) FROM {} WHERE ts < '2024-11-04T04:00:00' GROUP BY symbol, m ORDER BY symbol, m LIMIT 5",
    "ten largest": "SELECT id, price, size FROM {} ORDER BY size DESC, id LIMIT 10",
    "a text of many values": "SELECT count(*) FROM {} WHERE id LIKE '%777'",
}


def compare(place: str, db: tickstone.Database, beside: duckdb.DuckDBPyConnection, ids: str = "id") -> str:
    """`ids` is the column of ids as texts: in CSV digits are numbers."""
    rows: list[list[object]] = []
    for name, question in QUESTIONS.items():
        sql = question.replace("{}", place).replace("id LIKE", f"{ids} LIKE")
        taken: dict[str, list[float]] = {"ours": [], "theirs": []}
        for run in range(RUNS + 1):
            for who, ask in (("ours", db.sql), ("theirs", beside.sql)):
                began = time.perf_counter()
                answer = ask(sql).fetchall()
                if run:
                    taken[who].append((time.perf_counter() - began) * 1e3)
                elif who == "ours":
                    first = answer
                else:
                    assert len(first) == len(answer), sql
        ours, theirs = statistics.median(taken["ours"]), statistics.median(taken["theirs"])
        rows.append([name, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"])
        say(*rows[-1])
    return table(["question", "Tickstone ms", "DuckDB ms", "ratio"], rows)


def bench_parquet(work: pathlib.Path, scale: float) -> str:
    beside = duckdb.connect()
    rows = int(20_000_000 * scale)
    step = 86_400_000_000 // rows
    beside.sql(f"COPY ({TRADES.format(rows=rows, step=step)}) TO '{work}/trades.parquet'")
    with tickstone.open(work / "db") as db:
        return compare(f"'{work}/trades.parquet'", db, beside)


def bench_csv(work: pathlib.Path, scale: float) -> str:
    beside = duckdb.connect()
    rows = int(2_000_000 * scale)
    step = 86_400_000_000 // rows
    beside.sql(f"COPY ({TRADES.format(rows=rows, step=step)}) TO '{work}/trades.csv'")
    with tickstone.open(work / "db") as db:
        return compare(f"'{work}/trades.csv'", db, beside, "CAST(id AS VARCHAR)")


def bench_import(work: pathlib.Path, scale: float) -> str:
    """Megabytes of files a second, from nothing to committed."""
    beside = duckdb.connect()
    files, of_one = max(int(1_000 * scale), 1), 15_500
    folder, parquet = work / "csv", work / "parquet"
    folder.mkdir(), parquet.mkdir()
    beside.sql(f"CREATE TABLE t AS {TRADES.format(rows=of_one * files, step=86_400_000_000 // (of_one * files))}")
    for number in range(files):
        stretch = f"SELECT * FROM t LIMIT {of_one} OFFSET {number * of_one}"
        beside.sql(f"COPY ({stretch}) TO '{folder}/{number:04}.csv'")
        beside.sql(f"COPY ({stretch}) TO '{parquet}/{number:04}.parquet'")
    beside.sql(f"COPY t TO '{work}/one.csv'")
    rows: list[list[object]] = []
    for name, place, reads in (
        (f"{files} CSV files in a folder", folder, f"read_csv('{folder}/*.csv')"),
        (f"{files} Parquet files in a folder", parquet, f"read_parquet('{parquet}/*.parquet')"),
        ("one CSV file", work / "one.csv", f"read_csv('{work}/one.csv')"),
    ):
        size = sum(path.stat().st_size for path in ([place] if place.is_file() else place.iterdir())) / 1e6
        ours, theirs = [], []
        for turn in range(5):
            shutil.rmtree(work / "db", ignore_errors=True)
            with tickstone.open(work / "db") as db:
                began = time.perf_counter()
                db.import_file(place, "trades", timestamp="ts", series="symbol", progress=False)
                ours.append(size / (time.perf_counter() - began))
            (work / "duck.db").unlink(missing_ok=True)
            with duckdb.connect(str(work / "duck.db")) as other:
                began = time.perf_counter()
                other.sql(f"CREATE TABLE trades AS FROM {reads}")
                other.sql("CHECKPOINT")
                theirs.append(size / (time.perf_counter() - began))
        ours, theirs = statistics.median(ours), statistics.median(theirs)
        rows.append([name, f"{size:.0f}", f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}"])
        say(*rows[-1])
    return table(["what", "MB", "Tickstone MB/s", "DuckDB MB/s", "ratio"], rows)


BENCHES = {
    "files-parquet": ("Questions of a Parquet file of 20 million trades", bench_parquet),
    "files-csv": ("Questions of a CSV file of 2 million trades", bench_csv),
    "files-import": ("Import of files", bench_import),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    (REPOSITORY / "build").mkdir(exist_ok=True)
    results = {}
    for name in arguments.names or BENCHES:
        say(f"== {name}: {BENCHES[name][0]}")
        with tempfile.TemporaryDirectory(prefix="tickstone-bench-", dir=REPOSITORY / "build") as folder:
            command = f"`.venv/bin/python bench/files.py {name} --scale {arguments.scale} --write`"
            measured = BENCHES[name][1](pathlib.Path(folder), arguments.scale)
            results[name] = f"{machine()}, DuckDB {duckdb.__version__}. {command}\n\n{measured}"
        print(f"## {BENCHES[name][0]}\n\n{results[name]}\n")
    if arguments.write:
        write_page(results, {name: title for name, (title, _) in BENCHES.items()})


if __name__ == "__main__":
    main()

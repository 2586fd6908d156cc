#!/usr/bin/env python3
"""Breadth: usual questions about quotes and trades of many columns, on Tickstone, DuckDB and Polars, from Python to Arrow.

usage: breadth.py [--rows N] [--questions REGEX] [--runs N] [--write] [--list] [--profile NAME] [--program FILE] [--work DIR]

The data are those of `tickstone gen equities --wide`: quotes of 19 columns (--rows of them, 15 million unless given),
trades of 15, a tenth as many, 2,000 symbols of which few are busy; and a table of 19 venues. The questions are those of
bench/breadth_questions.py, each of one rare symbol, the busiest, 50, 1,000 or all. Each system has its best layout:
Tickstone its parts as imported, DuckDB a database file sorted by symbol and time, its symbols ENUMs, Polars frames in
memory sorted likewise, its symbols categorical.

The answers are compared first: integers, text and times exactly, doubles to 1e-6, as prices are FLOATs. A question whose
answers differ, or that a system refuses, has no time and ends the run with an error at its end. Then the systems answer in
turns, --runs times each; what takes a moment is asked for 20 ms in each turn. Of the medians of the turns the median is the
result. At the end 32 clients ask for bars of one symbol each, in the process.

`--list` lists the questions, `--profile` shows how Tickstone runs one (the first whose name has the text). It measures the
package `tickstone` that this interpreter imports; --program is asked for the data and the import. With --write the table
goes into docs/performance.md.
"""

import argparse
import itertools
import math
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import run as tools
from breadth_data import QUOTES, QUOTES_ROWS, TRADES, Systems, load
from breadth_questions import SHAPES
from breadth_shapes import GROUPS, Asked, Shape

import tickstone

RELATIVE = 1e-6
# How many times as fast as the faster peer, in the geometric mean of a group's questions.
GOALS = {"rare": 20, "busiest": 6, "fifty": 6, "thousand": 4, "all": 2}
# Medians of one run that are nearer than this are alike.
NOISE = 1.1
TURN_MS = 20
CALLS_MAX = 20
CLIENTS = 32
CLIENTS_S = 3
CLIENTS_GOAL = 8_000


@dataclass(frozen=True)
class Result:
    """What became of a question: milliseconds by system, or why there are none."""

    group: str
    title: str
    rows: int
    ms: dict[str, float]
    trouble: str = ""

    @property
    def ratio(self) -> float:
        """How many times as fast as the faster peer."""
        return min(self.ms["DuckDB"], self.ms["Polars"]) / self.ms["Tickstone"]

    @property
    def is_slower(self) -> bool:
        """Whether a peer is faster by more than noise."""
        return not self.trouble and self.ratio < 1 / NOISE


def normal(table: pa.Table, is_ordered: bool) -> pl.DataFrame:
    """Rows with the same names and types whoever gave them, in one order where the question asks for none."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame = frame.rename({name: f"c{at}" for at, name in enumerate(frame.columns)})
    casts = []
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Categorical | pl.Enum):
            casts.append(pl.col(name).cast(pl.String))
        elif isinstance(kind, pl.Datetime):
            casts.append(pl.col(name).dt.replace_time_zone(None).cast(pl.Datetime("us")))
        elif kind.is_integer() or (isinstance(kind, pl.Decimal) and kind.scale == 0):
            casts.append(pl.col(name).cast(pl.Int64))
        elif kind.is_float():
            casts.append(pl.col(name).cast(pl.Float64).fill_nan(None))
    frame = frame.with_columns(casts)
    if is_ordered:
        return frame
    exact = [name for name, kind in frame.schema.items() if not kind.is_float()]
    return frame.sort(exact + [name for name in frame.columns if name not in exact], maintain_order=True)


def difference(ours: pl.DataFrame, theirs: pl.DataFrame, absolute: float) -> str:
    """Where two normal results differ; NaN is as NULL. Empty where nowhere."""
    if ours.schema != theirs.schema:
        return f"types {list(ours.dtypes)} and {list(theirs.dtypes)}"
    if len(ours) != len(theirs):
        return f"{len(ours)} and {len(theirs)} rows"
    for name, kind in ours.schema.items():
        a, b = ours[name], theirs[name]
        bad = a.ne_missing(b)
        if kind.is_float():
            limit = pl.select(pl.max_horizontal(a.abs(), b.abs())).to_series() * RELATIVE + absolute
            bad &= ~((a - b).abs() <= limit).fill_null(False)
        if bad.any():
            at = bad.arg_max()
            return f"column {name} of {bad.sum()} of {len(bad)} rows, the first {ours.row(at)} and {theirs.row(at)}"
    return ""


def compared(calls: dict[str, Callable[[], pa.Table]], asked: Asked) -> tuple[int, str]:
    """Rows of the answer, and where the systems differ or what one says that refuses."""
    answers = {}
    for name, call in calls.items():
        try:
            answers[name] = normal(call(), asked.is_ordered)
        except (tickstone.Error, duckdb.Error, pl.exceptions.PolarsError) as error:
            return 0, f"{name} refuses: {str(error).splitlines()[0]}"
    pairs = itertools.combinations(answers, 2)
    found = [(a, b, difference(answers[a], answers[b], asked.absolute)) for a, b in pairs]
    return len(answers["Tickstone"]), "; ".join(f"{a} and {b} differ: {what}" for a, b, what in found if what)


def call_ms(call: Callable[[], pa.Table]) -> float:
    """Milliseconds of a call; what it gave is dropped after the clock has stopped."""
    began = time.perf_counter()
    given = call()
    taken = (time.perf_counter() - began) * 1e3
    del given
    return taken


def median_ms(calls: dict[str, Callable[[], pa.Table]], runs: int) -> dict[str, float]:
    """Median milliseconds of each system, which are asked in turns."""
    usual = {name: min(call_ms(call), call_ms(call)) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            count = max(1, min(CALLS_MAX, int(TURN_MS / usual[name])))
            times[name].append(statistics.median(call_ms(call) for _ in range(count)))
    return {name: statistics.median(taken) for name, taken in times.items()}


def measured(systems: Systems, group: str, shape: Shape, runs: int) -> Result:
    """One question of one group."""
    asked = shape.ask(systems.scopes[group])
    calls = systems.calls(asked)
    rows, trouble = compared(calls, asked)
    ms = {} if trouble else median_ms(calls, runs)
    result = Result(group, shape.title, rows, ms, trouble)
    tools.say(f"{group}: {shape.title}:", trouble or f"{ms}, x{result.ratio:.2f}{' SLOWER' if result.is_slower else ''}")
    return result


def clients(systems: Systems) -> dict[str, float]:
    """Queries a second of 32 threads that each ask for bars of one symbol after the other."""
    few = systems.names[19::40]
    columns = "max(price) AS h, min(price) AS l, sum(size) AS v"
    trades = systems.scopes["all"].t

    def ours(name: str) -> pa.Table:
        return systems.ours.sql(f"SELECT timestamp, {columns} FROM trades WHERE symbol = '{name}' SAMPLE BY 10m").arrow()

    def duck(name: str) -> pa.Table:
        bucket = "time_bucket(INTERVAL '10 minutes', timestamp)"
        return systems.duck.cursor().sql(f"SELECT {bucket}, {columns} FROM trades WHERE symbol = '{name}' GROUP BY 1").to_arrow_table()

    def polars(name: str) -> pa.Table:
        bars = trades.filter(pl.col("symbol") == name).group_by(pl.col("timestamp").dt.truncate("10m"))
        aggregates = (pl.col("price").max(), pl.col("price").min().alias("l"), pl.col("size").cast(pl.Int64).sum())
        return bars.agg(*aggregates).collect().to_arrow()

    return {name: per_second(ask, few) for name, ask in (("Tickstone", ours), ("DuckDB", duck), ("Polars", polars))}


def per_second(ask: Callable[[str], pa.Table], names: list[str]) -> float:
    """Answers a second, after half a second to warm up."""
    counts = [0] * CLIENTS
    ends = threading.Event()

    def client(number: int) -> None:
        for name in itertools.cycle(names[number:] + names[:number]):
            if ends.is_set():
                return
            ask(name)
            counts[number] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    before, began = sum(counts), time.perf_counter()
    time.sleep(CLIENTS_S)
    rate = (sum(counts) - before) / (time.perf_counter() - began)
    ends.set()
    for thread in threads:
        thread.join()
    return rate


def summary(results: list[Result]) -> str:
    """The groups: means against the goals, and what is slower."""
    rows: list[list[object]] = []
    for group, words in GROUPS.items():
        of = [result for result in results if result.group == group and not result.trouble]
        if of:
            mean = math.exp(statistics.fmean(math.log(result.ratio) for result in of))
            met = "yes" if mean >= GOALS[group] else "no"
            slower = sum(result.is_slower for result in of)
            rows.append([words, len(of), f"{mean:.2f}", GOALS[group], met, slower])
    header = ["questions about", "number", "times as fast as the faster peer, geometric mean", "goal", "met", "slower than the faster peer"]
    return tools.table(header, rows)


def details(results: list[Result]) -> str:
    """A row for each question."""
    rows: list[list[object]] = []
    for result in results:
        name: list[object] = [GROUPS[result.group], result.title]
        if result.trouble:
            rows.append([*name, result.trouble.replace("|", "/")[:200], "", "", "", ""])
            continue
        ratio = f"**{result.ratio:.2f}**" if result.is_slower else f"{result.ratio:.2f}"
        rows.append([*name, f"{result.rows:,}", *(f"{ms:.2f}" for ms in result.ms.values()), ratio])
    header = ["of", "question", "rows", "Tickstone", "DuckDB", "Polars", "times as fast as the faster"]
    return tools.table(header, rows)


def report(results: list[Result], rates: dict[str, float], rows: int, runs: int) -> str:
    """The section of docs/performance.md."""
    asked = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    return (
        f"{tools.machine()}, DuckDB {duckdb.__version__}, Polars {pl.__version__}. "
        f"`.venv/bin/python bench/breadth.py --rows {rows} --write`\n\n"
        f"{rows:,} quotes of {len(QUOTES)} columns, {rows // 10:,} trades of {len(TRADES)}, 2,000 symbols (`tickstone gen equities "
        f"--wide`), {len(results)} questions; milliseconds from Python to Arrow, medians of {runs} turns, warm, the systems in turns. "
        f"Answers are compared first. Goals: the means below, and no question slower than the faster peer by more than {NOISE} times "
        f"(in bold where it is).\n\n{summary(results)}\n\n{details(results)}\n\n"
        f"{CLIENTS} threads of the process that ask for bars of one symbol each, answers a second: {asked}. Goal: {CLIENTS_GOAL:,}."
    )


def chosen(pattern: str) -> Iterator[tuple[str, Shape]]:
    """The questions whose names match, group by group."""
    for group in GROUPS:
        for shape in SHAPES:
            if group in shape.groups and re.search(pattern, f"{group}: {shape.title}"):
                yield group, shape


def profile(systems: Systems, name: str) -> None:
    """How Tickstone runs the first question whose name has the text, warm."""
    group, shape = next(chosen(re.escape(name)), (None, None))
    if group is None or shape is None:
        sys.exit(f"no question has '{name}' in its name; --list lists them")
    text = shape.ask(systems.scopes[group]).tickstone
    for _ in range(3):
        plan = systems.ours.sql(f"EXPLAIN ANALYZE {text}").fetchall()
    print(f"{group}: {shape.title}\n{text[:2_000]}\n")
    print("\n".join(str(row[-1]) for row in plan))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=QUOTES_ROWS, help="quotes; trades are a tenth of it")
    parser.add_argument("--questions", metavar="REGEX", default="", help="only those whose 'group: title' matches")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--list", action="store_true", help="list the questions and end")
    parser.add_argument("--profile", metavar="NAME", help="show how Tickstone runs one question and end")
    parser.add_argument("--program", type=Path, default=tools.TICKSTONE)
    parser.add_argument("--work", type=Path, default=tools.REPOSITORY / "build" / "bench")
    given = parser.parse_args()
    questions = list(chosen(given.questions))
    if given.list:
        print("\n".join(f"{group}: {shape.title}" for group, shape in questions))
        return 0
    if given.write and given.questions:
        parser.error("--write writes the table of all questions; leave --questions out")
    systems = load(given.program, given.work, given.rows)
    if given.profile:
        profile(systems, given.profile)
        return 0
    results = [measured(systems, group, shape, given.runs) for group, shape in questions]
    written = report(results, clients(systems), given.rows, given.runs)
    print(written)
    if given.write:
        tools.write_page({"breadth": written}, {"breadth": "Breadth"})
    return 1 if any(result.trouble for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

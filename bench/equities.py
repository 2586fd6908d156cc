"""Questions about a session of 2,000 stocks, on Tickstone, DuckDB, Polars and chdb: a module of bench/run.py.

The data are those of `tickstone gen equities`: few of its symbols are busy. Each system has its best layout:
DuckDB a database file sorted by symbol and time, Polars frames in memory sorted likewise with categorical
symbols, chdb MergeTrees ordered by both, Tickstone its parts. Before any time is taken, the rows of each system
are compared with DuckDB's: integers and text exactly, doubles to 1e-9.
"""

import json
import math
import os
import pathlib
from dataclasses import dataclass
from datetime import datetime

import duckdb
import peers
import polars as pl

QUOTES = {
    "timestamp": "TIMESTAMP",
    "symbol": "VARCHAR",
    "exchange": "VARCHAR",
    "bid": "DOUBLE",
    "bid_size": "BIGINT",
    "ask": "DOUBLE",
    "ask_size": "BIGINT",
}
TRADES = {
    "timestamp": "TIMESTAMP",
    "symbol": "VARCHAR",
    "exchange": "VARCHAR",
    "condition": "VARCHAR",
    "price": "DOUBLE",
    "size": "BIGINT",
}
TABLES = {"quotes": QUOTES, "trades": TRADES}
MEASURED = ("bid", "ask", "bid_size", "ask_size")
PAIRS = [(a, b) for at, a in enumerate(MEASURED) for b in MEASURED[at + 1 :]]
FROM, TO = "2024-08-08 15:00:00", "2024-08-08 15:05:00"
WINDOW = f"timestamp >= '{FROM}' AND timestamp < '{TO}'"
ROLLING = "avg(bid) OVER (PARTITION BY symbol ORDER BY timestamp ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS m"
AGGREGATES = "count(*) AS n, sum(bid * size) AS b, sum(ask * size) AS a"


@dataclass(frozen=True)
class Goal:
    """What a question should take: at most `limit` ms, or at least `limit` of something else."""

    kind: str  # "ms", "duckdb" (times as fast), "faster" (than the faster of DuckDB and Polars), "values" (a second and core)
    limit: float

    def __str__(self) -> str:
        return {
            "ms": f"{self.limit:g} ms",
            "duckdb": f"{self.limit:g} times DuckDB",
            "faster": f"{self.limit:g} times the faster of DuckDB and Polars",
            "values": f"{self.limit / 1e9:g} billion values/s a core",
        }[self.kind]

    def is_met(self, ms: float, duckdb_ms: float, polars_ms: float, rows: int) -> bool:
        return {
            "ms": ms <= self.limit,
            "duckdb": duckdb_ms / ms >= self.limit,
            "faster": min(duckdb_ms, polars_ms) / ms >= self.limit,
            "values": values_per_core(rows, ms) >= self.limit,
        }[self.kind]


@dataclass(frozen=True)
class Question:
    """One question in each system's words; `absolute` is how far doubles near zero may be apart, `setting` what Tickstone
    is told before."""

    name: str
    goal: Goal
    tickstone: str
    duckdb: str
    clickhouse: str
    polars: pl.LazyFrame
    absolute: float = 1e-12
    setting: str = ""


@dataclass(frozen=True)
class Symbols:
    """Symbols by how busy they are; ranks count from 1, ties are broken by name."""

    busiest: str
    rare: str
    fifty: list[str]  # Ranks 20, 60, …, 1980.
    thousand: list[str]  # Ranks 2, 4, …, 2000.


def pick(connection: duckdb.DuckDBPyConnection) -> Symbols:
    """The symbols that the questions are about."""
    ranked = [name for (name,) in connection.sql("SELECT symbol FROM quotes GROUP BY 1 ORDER BY count(*) DESC, symbol").fetchall()]
    return Symbols(busiest=ranked[0], rare=ranked[-1], fifty=ranked[19::40], thousand=ranked[1::2])


def listed(symbols: list[str]) -> str:
    """A condition on the symbol."""
    names = ", ".join(f"'{name}'" for name in symbols)
    return f"symbol IN ({names})"


def values_per_core(rows: int, ms: float) -> float:
    """Values a second on each core."""
    return rows / (ms / 1e3) / (os.cpu_count() or 1)


def bars(columns: str, source: str, minutes: int, keys: str = "") -> tuple[str, str, str]:
    """A question about buckets of time for Tickstone, DuckDB and ClickHouse."""
    group = f"GROUP BY t{keys}"
    return (
        f"SELECT timestamp{keys}, {columns} FROM {source} SAMPLE BY {minutes}m",
        f"SELECT time_bucket(INTERVAL '{minutes} minutes', timestamp) AS t{keys}, {columns} FROM {source} {group}",
        f"SELECT toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS t{keys}, {columns} FROM {source} {group}",
    )


def asof(columns: str, condition: str) -> tuple[str, str, str]:
    """Trades with the quote that stands, for Tickstone, DuckDB and ClickHouse."""
    trades, quotes = (f"(SELECT * FROM {name} WHERE {condition})" if condition else name for name in ("trades", "quotes"))
    spelled = f"ASOF LEFT JOIN {quotes} q ON t.symbol = q.symbol AND t.timestamp >= q.timestamp"
    return (
        f"SELECT {columns} FROM {trades} t ASOF JOIN {quotes} q ON (symbol)",
        f"SELECT {columns} FROM {trades} t {spelled}",
        f"SELECT {columns} FROM {trades} t {spelled}",
    )


def ohlcv(symbols: list[str]) -> tuple[str, str, str]:
    """Five-minute bars; fills of one order share time and price, so that open and close have one answer."""
    source = f"trades WHERE {listed(symbols)}"
    middle = "max(price) AS h, min(price) AS l"
    tickstone, _, _ = bars(f"first(price) AS o, {middle}, last(price) AS c, sum(size) AS v", source, 5, ", symbol")
    _, duck, _ = bars(
        f"arg_min(price, timestamp) AS o, {middle}, arg_max(price, timestamp) AS c, sum(size)::BIGINT AS v", source, 5, ", symbol"
    )
    _, _, click = bars(
        f"argMin(price, timestamp) AS o, {middle}, argMax(price, timestamp) AS c, sum(size) AS v", source, 5, ", symbol"
    )
    return tickstone, duck, click


def moments(symbols: list[str]) -> tuple[str, str, str]:
    """Standard deviations and correlations of four columns by symbol."""

    def text(deviation: str, correlation: str) -> str:
        columns = [f"{deviation}({name}) AS s_{name}" for name in MEASURED]
        columns += [f"{correlation}({a}, {b}) AS c_{a}_{b}" for a, b in PAIRS]
        return f"SELECT symbol, {', '.join(columns)} FROM quotes WHERE {listed(symbols)} GROUP BY symbol"

    return text("stddev", "corr"), text("stddev_samp", "corr"), text("stddevSampStable", "corrStable")


def questions(symbols: Symbols, quotes: pl.DataFrame, trades: pl.DataFrame) -> list[Question]:
    """All questions; the frames are sorted by symbol and time."""
    q, t, ts, symbol = quotes.lazy(), trades.lazy(), pl.col("timestamp"), pl.col("symbol")
    spread = "avg(ask - bid) AS s"
    mean_spread = (pl.col("ask") - pl.col("bid")).mean()
    within = ts.is_between(datetime.fromisoformat(FROM), datetime.fromisoformat(TO), closed="left")
    fifty, thousand = symbol.is_in(symbols.fifty), symbol.is_in(symbols.thousand)
    price, size, bid, ask = (pl.col(name) for name in ("price", "size", "bid", "ask"))

    def one(name: str) -> pl.LazyFrame:
        return q.filter(symbol == name).group_by_dynamic("timestamp", every="10m").agg(mean_spread)

    def prevailing(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
        right = right.select("timestamp", "symbol", "bid", "ask")
        return left.join_asof(right, on="timestamp", by="symbol", check_sortedness=False)

    in_fifty = f"quotes WHERE {listed(symbols.fifty)} AND {WINDOW}"
    rolling = f"SELECT symbol, timestamp, {ROLLING} FROM quotes WHERE {listed(symbols.thousand)}"
    return [
        Question(
            "ten-minute average spread, a rare symbol",
            Goal("ms", 0.3),
            *bars(spread, f"quotes WHERE symbol = '{symbols.rare}'", 10),
            one(symbols.rare),
        ),
        Question(
            "ten-minute average spread, the busiest symbol",
            Goal("ms", 1.5),
            *bars(spread, f"quotes WHERE symbol = '{symbols.busiest}'", 10),
            one(symbols.busiest),
        ),
        Question(
            "5-minute OHLCV, 50 symbols",
            Goal("ms", 4),
            *ohlcv(symbols.fifty),
            t.filter(fifty)
            .group_by(ts.dt.truncate("5m"), "symbol")
            .agg(o=price.first(), h=price.max(), l=price.min(), c=price.last(), v=size.sum()),
        ),
        Question(
            "ten-minute average spread, 1,000 symbols",
            Goal("ms", 15),
            *bars(spread, f"quotes WHERE {listed(symbols.thousand)}", 10, ", symbol"),
            q.filter(thousand).group_by(ts.dt.truncate("10m"), "symbol").agg(mean_spread),
        ),
        Question(
            "as-of join, trades of 50 symbols",
            Goal("ms", 25),
            *asof("t.timestamp, t.symbol, t.price, t.size, q.bid, q.ask", listed(symbols.fifty)),
            prevailing(t.filter(fifty), q.filter(fifty)).select("timestamp", "symbol", "price", "size", "bid", "ask"),
        ),
        Question(
            "as-of join, all trades (aggregated)",
            Goal("duckdb", 15),
            *asof(AGGREGATES, ""),
            prevailing(t, q).select(n=pl.len(), b=(bid * size).sum(), a=(ask * size).sum()),
        ),
        Question("quotes of 5 minutes, 50 symbols", Goal("ms", 2), *(f"SELECT * FROM {in_fifty}",) * 3, q.filter(within, fifty)),
        Question("quotes of 5 minutes, all symbols", Goal("ms", 15), *(f"SELECT * FROM quotes WHERE {WINDOW}",) * 3, q.filter(within)),
        Question(
            "rolling average of five rows, 1,000 symbols",
            Goal("faster", 5),
            *(rolling,) * 3,
            q.filter(thousand).select(symbol, ts, m=bid.rolling_mean(5, min_samples=1).over("symbol")),
        ),
        Question(
            "correlation and deviation of 4 columns, 1,000 symbols",
            Goal("faster", 5),
            *moments(symbols.thousand),
            q.filter(thousand)
            .group_by("symbol")
            .agg([pl.col(name).std().alias(f"s_{name}") for name in MEASURED] + [pl.corr(a, b).alias(f"c_{a}_{b}") for a, b in PAIRS]),
            absolute=1e-9,
        ),
        Question(
            "sum of one DOUBLE column, all rows, values read",
            Goal("values", 1.2e9),
            *("SELECT sum(bid) AS v FROM quotes",) * 3,
            q.select(bid.sum()),
            setting="SET block_statistics = false",
        ),
    ]


def load_tickstone(tools, data: pathlib.Path, files: pathlib.Path) -> None:
    """Both tables, sealed into parts; once."""
    imported = data.with_name(f"{data.name}.imported")
    if imported.exists():
        return
    tools.shutil.rmtree(data, ignore_errors=True)
    for name in TABLES:
        tools.say("importing", name)
        options = ("--timestamp", "timestamp", "--series", "symbol")
        tools.run(tools.TICKSTONE, "import", "--data", data, "--table", name, *options, files / f"{name}.csv")
    imported.touch()


def load_duckdb(tools, path: pathlib.Path, files: pathlib.Path) -> duckdb.DuckDBPyConnection:
    """A database file with both tables sorted, made once; a connection that uses all cores."""
    if not path.exists():
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with duckdb.connect(partial) as connection:
            for name, columns in TABLES.items():
                tools.say("loading DuckDB with", name)
                source = tools.read_csv(files / f"{name}.csv", columns)
                connection.sql(f"CREATE TABLE {name} AS SELECT * FROM {source} ORDER BY symbol, timestamp")
        partial.rename(path)
    connection = duckdb.connect(path, read_only=True)
    connection.sql(f"SET threads = {os.cpu_count()}")
    return connection


def load_polars(connection: duckdb.DuckDBPyConnection, name: str) -> pl.DataFrame:
    """A frame in memory, sorted by symbol and time, its text categorical."""
    frame = connection.sql(f"SELECT * FROM {name} ORDER BY symbol, timestamp").pl()
    return frame.with_columns(pl.col(pl.String).cast(pl.Categorical))


def tickstone_ms(tools, data: pathlib.Path, question: Question) -> tuple[float, float]:
    """Median milliseconds of planning, and end to end, in one process that has the database open."""

    def measure(runs: int) -> dict:
        return json.loads(tools.run(tools.EXAMPLES / "bench_query", data, question.tickstone, runs, question.setting))

    is_slow = measure(1)["total"]["median_ms"] >= peers.SLOW_MS
    result = measure(peers.SLOW_RUNS if is_slow else peers.RUNS)
    return result["planning"]["median_ms"], result["total"]["median_ms"]


def run(tools, work: pathlib.Path, scale: float) -> str:
    """Loads the systems, compares the rows, times the questions; the report as Markdown.

    `tools` is bench/run.py, whose ways to run programs and make tables are used.
    """
    files = tools.generate(work / f"equities-{scale}", "--scale", scale, kind="equities")
    data = work / f"equities-{scale}-tickstone"
    load_tickstone(tools, data, files)
    connection = load_duckdb(tools, work / f"equities-{scale}.duckdb", files)
    clickhouse = peers.open_clickhouse(work / f"equities-{scale}-chdb", files, TABLES, "symbol, timestamp", tools.say)
    quotes, trades = (load_polars(connection, name) for name in TABLES)
    rows, sums = [], []
    for question in questions(pick(connection), quotes, trades):
        compare(tools, question, data, connection, clickhouse, work)
        planning, ours = tickstone_ms(tools, data, question)
        duck = peers.duckdb_ms(connection, question.duckdb)
        polars = peers.median_ms(question.polars.collect)
        click = peers.median_ms(lambda: clickhouse.arrow(question.clickhouse)) if clickhouse else math.nan
        is_met = question.goal.is_met(ours, duck, polars, len(quotes))
        if question.goal.kind == "values":
            systems = {"Tickstone": ours, "DuckDB": duck, "Polars": polars, "chdb": click}
            sums = [f"{name} {values_per_core(len(quotes), ms) / 1e9:.2f}" for name, ms in systems.items() if not math.isnan(ms)]
        peer_times = [f"{duck:.2f}", f"{polars:.2f}", f"{click:.2f}" if clickhouse else "missing"]
        ratios = [f"{duck / ours:.2f}", f"{min(duck, polars) / ours:.2f}"]
        # The goals are for the whole session.
        met = "–" if scale < 1 else "yes" if is_met else "no"
        rows.append([question.name, question.goal, met, f"{planning:.3f}", f"{ours:.3f}", *peer_times, *ratios])
        tools.say(*rows[-1])
    connection.close()
    if clickhouse:
        clickhouse.close()
    header = ["question", "goal", "met", "planning", "Tickstone, end to end", "DuckDB", "Polars", "chdb", "times as fast as DuckDB"]
    header.append("times as fast as the faster of DuckDB and Polars")
    return (
        f"{len(quotes):,} quotes and {len(trades):,} trades of 2,000 symbols (`tickstone gen equities --scale {scale}`), "
        f"Polars {pl.__version__}, {peers.clickhouse_version()}. Milliseconds, medians of {peers.RUNS} runs in the process, warm "
        f"({peers.SLOW_RUNS} where a run takes over a second), until all rows of the result are in memory as Arrow: Tickstone "
        "in a Rust program, the others through their Python packages, DuckDB by the faster of its `sql` and `execute`. The as-of join of "
        "all trades is reduced to a count and two sums, so that its output does not dominate; all others give their rows. 50 symbols "
        "are every 40th by activity, 1,000 every second, named in a list.\n\n"
        f"{tools.table(header, rows)}\n\n"
        f"The sum, in billions of values a second on each core: {', '.join(sums)}. The goals are for scale 1."
    )


def compare(tools, question: Question, data: pathlib.Path, connection, clickhouse: peers.ClickHouse | None, work: pathlib.Path) -> None:
    """Ends the run where a system's rows are not DuckDB's."""
    out = work / "result.arrow"
    tools.run(tools.TICKSTONE, "sql", "--data", data, "-q", "-c", question.tickstone, "-o", out)
    results = {"Tickstone": pl.read_ipc(out), "Polars": question.polars.collect()}
    if clickhouse:
        results["chdb"] = pl.from_arrow(clickhouse.arrow(question.clickhouse))
    expected = connection.sql(question.duckdb).pl()
    for name, result in results.items():
        if found := peers.difference(result, expected, question.absolute):
            raise SystemExit(f"{question.name}: {name} and DuckDB differ: {found}")

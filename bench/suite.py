"""Suite A, the high-frequency queries, on Tickstone, DuckDB, Polars and chdb: a module of bench/run.py.

The data are those of `tickstone gen suite` (Barez, Bilokon, Xiong: "Benchmarking Specialized Databases for
High-frequency Data"). Each system has its best layout: DuckDB a database file sorted by symbol and time,
Polars frames in memory sorted likewise with categorical symbols, chdb MergeTrees ordered by both, Tickstone its
parts. Before any time is taken, Tickstone's, chdb's and DuckDB's rows are compared: integers and text exactly,
doubles to 1e-9. Of rows that share a time Tickstone takes the one that arrived last; DuckDB is asked for the
same when rows are compared (its tables have the row's number in the file), and for any of them when it is timed.
"""

import datetime
import json
import math
import pathlib
import re
import statistics

import duckdb
import peers
import polars as pl

DAY = ("2022-06-18", "2022-06-19")
WEEK = ("2022-06-18", "2022-06-25")
MONTH = ("2022-06-18", "2022-07-18")
AT = "2022-07-03T13:37:11.123"
RUNS = 20


def span(range_: tuple[str, str]) -> str:
    """The condition that selects a range of time, in any of the dialects."""
    return f"timestamp >= '{range_[0]}' AND timestamp < '{range_[1]}'"


def tickstone_return(table: str, value: str, stride: str, range_: tuple[str, str]) -> str:
    """Log returns of the last value in each bucket."""
    return (
        f"SELECT timestamp, log_return(p) OVER (ORDER BY timestamp) AS r FROM (SELECT timestamp, last({value}) AS p "
        f"FROM {table} WHERE sym = 'BTC-USD' AND {span(range_)} SAMPLE BY {stride})"
    )


def duckdb_return(table: str, value: str, stride: str, range_: tuple[str, str]) -> str:
    """The same for DuckDB."""
    return (
        "SELECT timestamp, ln(p / lag(p) OVER (ORDER BY timestamp)) AS r FROM (SELECT time_bucket(INTERVAL "
        f"'{stride}', timestamp) AS timestamp, arg_max({value}, timestamp) AS p FROM {table} "
        f"WHERE sym = 'BTC-USD' AND {span(range_)} GROUP BY 1)"
    )


MID = "(b1price + a1price) / 2"
DEPTH = ", ".join(" + ".join(f"avg({side}{level}size)" for level in range(1, 6)) + f" AS {side}" for side in "ba")

# Name: Tickstone's SQL, DuckDB's SQL.
QUERIES: dict[str, tuple[str, str]] = {
    "T-V1": (
        f"SELECT timestamp, sym, side, sum(amount) AS v FROM trades WHERE {span(DAY)} SAMPLE BY 1m",
        f"SELECT time_bucket(INTERVAL '1 minute', timestamp) AS t, sym, side, sum(amount) AS v FROM trades WHERE {span(DAY)} GROUP BY ALL",
    ),
    "T-V2": (
        f"SELECT timestamp, sym, side, sum(amount) AS v FROM trades WHERE {span(MONTH)} SAMPLE BY 1d",
        f"SELECT time_bucket(INTERVAL '1 day', timestamp) AS t, sym, side, sum(amount) AS v FROM trades WHERE {span(MONTH)} GROUP BY ALL",
    ),
    "T-VWAP": (
        f"SELECT timestamp, vwap(price, amount) AS v FROM trades WHERE sym = 'BTC-USD' AND {span(DAY)} SAMPLE BY 1m",
        f"SELECT time_bucket(INTERVAL '1 minute', timestamp) AS t, sum(price * amount) / sum(amount) AS v FROM trades WHERE sym = 'BTC-USD' AND {span(DAY)} GROUP BY ALL",
    ),
    "O-T": (
        f"SELECT b1price, a1price FROM books WHERE sym = 'BTC-USD' AND timestamp <= '{AT}' LATEST ON timestamp PARTITION BY sym",
        f"SELECT b1price, a1price FROM books WHERE sym = 'BTC-USD' AND timestamp <= '{AT}' ORDER BY timestamp DESC LIMIT 1",
    ),
    "O-B1": (f"SELECT max(b1price) AS v FROM books WHERE sym = 'BTC-USD' AND {span(WEEK)}",) * 2,
    "O-B2": (f"SELECT max(b1price) AS v FROM books WHERE sym = 'BTC-USD' AND {span(MONTH)}",) * 2,
    "O-S": (f"SELECT a1price - b1price AS v FROM books WHERE {span(DAY)}",) * 2,
    "O-V1": (
        f"SELECT timestamp, sym, avg(b1size) AS b, avg(a1size) AS a FROM books WHERE {span(WEEK)} SAMPLE BY 1m",
        f"SELECT time_bucket(INTERVAL '1 minute', timestamp) AS t, sym, avg(b1size) AS b, avg(a1size) AS a FROM books WHERE {span(WEEK)} GROUP BY ALL",
    ),
    "O-V2": (
        f"SELECT timestamp, sym, {DEPTH} FROM books WHERE {span(MONTH)} SAMPLE BY 1h",
        f"SELECT time_bucket(INTERVAL '1 hour', timestamp) AS t, sym, {DEPTH} FROM books WHERE {span(MONTH)} GROUP BY 1, 2",
    ),
    "O-NBBO": ("SELECT sym, max(b1price) AS b, min(a1price) AS a FROM venues GROUP BY sym",) * 2,
    "C-R": (tickstone_return("books", MID, "5m", DAY), duckdb_return("books", MID, "5 minutes", DAY)),
    "C-VT": (
        f"SELECT timestamp, stddev(r) AS v FROM ({tickstone_return('trades', 'price', '5m', DAY)}) SAMPLE BY 1h",
        f"SELECT time_bucket(INTERVAL '1 hour', timestamp) AS t, stddev_samp(r) AS v FROM ({duckdb_return('trades', 'price', '5 minutes', DAY)}) GROUP BY 1",
    ),
    "C-VO1": (
        f"SELECT timestamp, stddev(r) AS v FROM ({tickstone_return('books', MID, '5m', DAY)}) SAMPLE BY 1h",
        f"SELECT time_bucket(INTERVAL '1 hour', timestamp) AS t, stddev_samp(r) AS v FROM ({duckdb_return('books', MID, '5 minutes', DAY)}) GROUP BY 1",
    ),
    "C-VO2": (
        f"SELECT timestamp, stddev(r) AS v FROM ({tickstone_return('books', MID, '1h', WEEK)}) SAMPLE BY 4h",
        f"SELECT time_bucket(INTERVAL '4 hours', timestamp) AS t, stddev_samp(r) AS v FROM ({duckdb_return('books', MID, '1 hour', WEEK)}) GROUP BY 1",
    ),
}


def polars_queries(trades: pl.DataFrame, books: pl.DataFrame, venues: pl.DataFrame) -> dict[str, pl.LazyFrame]:
    """The queries in Polars, over frames sorted by symbol and time."""
    ts, sym = pl.col("timestamp"), pl.col("sym")
    at = datetime.datetime.fromisoformat

    def within(frame: pl.DataFrame, range_: tuple[str, str]) -> pl.LazyFrame:
        return frame.lazy().filter(ts.is_between(at(range_[0]), at(range_[1]), closed="left"))

    def one(frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.filter(sym == "BTC-USD")

    def returns(frame: pl.LazyFrame, value: pl.Expr, every: str) -> pl.LazyFrame:
        last = frame.group_by_dynamic("timestamp", every=every).agg(p=value.last())
        return last.with_columns(r=(pl.col("p") / pl.col("p").shift()).log())

    def volatility(frame: pl.LazyFrame, value: pl.Expr, every: str, over: str) -> pl.LazyFrame:
        return returns(frame, value, every).group_by_dynamic("timestamp", every=over).agg(v=pl.col("r").std())

    mid = (pl.col("b1price") + pl.col("a1price")) / 2
    depth = [sum((pl.col(f"{s}{n}size").mean() for n in range(2, 6)), pl.col(f"{s}1size").mean()).alias(s) for s in "ba"]
    volume = pl.col("amount").sum()
    return {
        "T-V1": within(trades, DAY).group_by(ts.dt.truncate("1m"), "sym", "side").agg(volume),
        "T-V2": within(trades, MONTH).group_by(ts.dt.truncate("1d"), "sym", "side").agg(volume),
        "T-VWAP": one(within(trades, DAY))
        .group_by_dynamic("timestamp", every="1m")
        .agg((pl.col("price") * pl.col("amount")).sum() / volume),
        "O-T": one(books.lazy()).filter(ts <= at(AT)).select("b1price", "a1price").last(),
        "O-B1": one(within(books, WEEK)).select(pl.col("b1price").max()),
        "O-B2": one(within(books, MONTH)).select(pl.col("b1price").max()),
        "O-S": within(books, DAY).select(pl.col("a1price") - pl.col("b1price")),
        "O-V1": within(books, WEEK).group_by(ts.dt.truncate("1m"), "sym").agg(pl.col("b1size", "a1size").mean()),
        "O-V2": within(books, MONTH).group_by(ts.dt.truncate("1h"), "sym").agg(depth),
        "O-NBBO": venues.lazy().group_by("sym").agg(pl.col("b1price").max(), pl.col("a1price").min()),
        "C-R": returns(one(within(books, DAY)), mid, "5m"),
        "C-VT": volatility(one(within(trades, DAY)), pl.col("price"), "5m", "1h"),
        "C-VO1": volatility(one(within(books, DAY)), mid, "5m", "1h"),
        "C-VO2": volatility(one(within(books, WEEK)), mid, "1h", "4h"),
    }


def same(ours: pl.DataFrame, theirs: pl.DataFrame) -> bool:
    """Whether two results hold the same rows."""

    def rows(frame: pl.DataFrame) -> list[tuple]:
        columns = [pl.col(pl.Categorical).cast(pl.String), pl.col(pl.Datetime).cast(pl.Datetime("us"))]
        return sorted(frame.with_columns(columns).rows(), key=str)

    def alike(a: object, b: object) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
        return a == b

    pairs = list(zip(rows(ours), rows(theirs), strict=True))
    if any(isinstance(value, float) for row, _ in pairs[:1] for value in row[:1]):
        # A single column of doubles: text order may differ in the last digits.
        pairs = list(zip(sorted(r[0] for r, _ in pairs), sorted(r[0] for _, r in pairs), strict=True))
        return all(alike(a, b) for a, b in pairs)
    return all(len(a) == len(b) and all(map(alike, a, b)) for a, b in pairs)


def settled(sql: str, *columns: str) -> str:
    """DuckDB's query with one answer where rows share a time: the last by these columns."""
    sql = sql.replace(", timestamp) AS p", f", (timestamp, {', '.join(columns)})) AS p")
    return sql.replace("timestamp DESC LIMIT", f"timestamp DESC, {', '.join(f'{name} DESC' for name in columns)} LIMIT")


def clickhouse_sql(sql: str) -> str:
    """DuckDB's words as ClickHouse's."""
    sql = re.sub(r"time_bucket\(INTERVAL '(\d+) (\w+?)s?', (\w+)\)", r"toStartOfInterval(\3, INTERVAL \1 \2)", sql)
    every = "ORDER BY timestamp ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    sql = sql.replace("lag(p) OVER (ORDER BY timestamp)", f"lagInFrame(toNullable(p)) OVER ({every})")
    return sql.replace("stddev_samp(", "stddevSamp(").replace("arg_max(", "argMax(")


def run(tools, work: pathlib.Path, scale: float) -> str:
    """Loads the systems, compares the rows, times the queries; the report as Markdown.

    `tools` is bench/run.py, whose ways to run programs and make tables are used.
    """
    files = tools.generate(work / f"suite-{scale}", "--scale", scale, "--what", "trades,books,venues")
    data, peer = work / f"suite-{scale}-tickstone", work / f"suite-{scale}-arrival.duckdb"
    tables = {"trades": tools.TRADES, "books": tools.BOOKS, "venues": tools.BOOKS}
    if not data.with_name(f"{data.name}.imported").exists():
        for name in tables:
            tools.say("importing", name)
            tools.run(tools.TICKSTONE, "import", "--data", data, "--table", name, files / f"{name}.csv")
        data.with_name(f"{data.name}.imported").touch()
    if not peer.exists():
        partial = peer.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with duckdb.connect(partial) as connection:
            for name, columns in tables.items():
                tools.say("loading DuckDB with", name)
                source = tools.read_csv(files / f"{name}.csv", columns)
                connection.sql(f"CREATE TABLE {name} AS SELECT *, row_number() OVER () AS arrival FROM {source} ORDER BY sym, timestamp, arrival")
        partial.rename(peer)
    connection = duckdb.connect(peer, read_only=True)
    connection.sql(f"SET threads = {tools.os.cpu_count()}")
    clickhouse = peers.open_clickhouse(work / f"suite-{scale}-chdb", files, tables, "sym, timestamp", tools.say)
    symbols = [pl.col(name).cast(pl.Categorical) for name in ("exchange", "sym")]
    frames = [connection.sql(f"SELECT * EXCLUDE arrival FROM {name} ORDER BY sym, timestamp, arrival").pl().with_columns(symbols) for name in tables]
    polars = {name: query for name, query in polars_queries(*frames).items()}
    rows, ratios = [], []
    for name, (ours, theirs) in QUERIES.items():
        out = work / "result.arrow"
        tools.run(tools.TICKSTONE, "sql", "--data", data, "-q", "-c", ours, "-o", out)
        if not same(pl.read_ipc(out), connection.sql(settled(theirs, "arrival")).pl()):
            raise SystemExit(f"{name}: Tickstone and DuckDB differ")
        click = math.nan
        if clickhouse:
            question = clickhouse_sql(theirs)
            # ClickHouse does not know the order of arrival: for the comparison both take the highest prices.
            highest = settled(theirs, *(("price",) if "FROM trades" in theirs else ("b1price", "a1price")))
            expected = connection.sql(highest).pl()
            if found := peers.difference(pl.from_arrow(clickhouse.arrow(clickhouse_sql(highest))), expected):
                raise SystemExit(f"{name}: chdb and DuckDB differ: {found}")
            click = peers.median_ms(lambda: clickhouse.arrow(question))
        result = json.loads(tools.run(tools.EXAMPLES / "bench_query", data, ours, RUNS))
        tickstone = result["total"]["median_ms"]
        times = [peers.duckdb_ms(connection, theirs), peers.median_ms(polars[name].collect)]
        ratios.append(min(times) / tickstone)
        shown = [*(f"{ms:.2f}" for ms in times), f"{click:.2f}" if clickhouse else "missing"]
        planning = result["planning"]["median_ms"]
        rows.append([name, f"{planning:.3f}", f"{tickstone:.3f}", *shown, f"{ratios[-1]:.1f}"])
        tools.say(*rows[-1])
    connection.close()
    if clickhouse:
        clickhouse.close()
    header = ["query", "planning", "Tickstone, end to end", "DuckDB", "Polars", "chdb", "times as fast as the faster of DuckDB and Polars"]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return (
        f"Milliseconds, medians of {RUNS} runs in the process, warm, scale {scale}, {pl.__name__} {pl.__version__}, "
        f"{peers.clickhouse_version()}. DuckDB by the faster of its `sql` and `execute`.\n\n"
        f"{tools.table(header, rows)}\n\n"
        f"Least ratio {min(ratios):.1f}, geometric mean {mean:.1f}. Goals: at least 3 for each query, 8 in the mean."
    )

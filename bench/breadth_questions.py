"""The questions of bench/breadth.py: usual ones about quotes and trades with many columns, each of several groups of symbols.

Each question has one answer. Quotes of one symbol never share a time. Trades of one symbol and time are the fills of one
order: they share the price, and where more than that is asked their id decides.
"""

from datetime import datetime, timedelta

import polars as pl
from breadth_shapes import Asked, Scope, Shape, adder, bars, last_rows, same

SHAPES: list[Shape] = []
shape = adder(SHAPES)

# In the middle of the session.
FROM = datetime(2024, 8, 8, 15)

ts, symbol, venue, side = (pl.col(name) for name in ("timestamp", "symbol", "venue", "side"))
price, size, bid, ask = (pl.col(name) for name in ("price", "size", "bid", "ask"))
bid_size, ask_size = pl.col("bid_size"), pl.col("ask_size")
shares = size.cast(pl.Int64)
# Polars adds FLOATs up in FLOAT over windows, the others in DOUBLE.
spread = (ask - bid).cast(pl.Float64)
mid = (bid + ask).cast(pl.Float64) / 2


# Predicates.


@shape("all columns, three filters that hold everywhere", "rare fifty thousand all")
def whole_rows(s: Scope) -> Asked:
    holds = "price > 0 AND size > 0 AND source <> ''"
    return same(f"SELECT * FROM {s.of('trades', holds)}", s.t.filter(price > 0, size > 0, pl.col("source") != ""))


@shape("trades with a flag, running sum in order of time", "rare busiest fifty thousand all")
def flagged(s: Scope) -> Asked:
    rows = s.of("trades", "exempt = 'EXEMPT'")
    return same(
        f"SELECT timestamp, id, symbol, size, sum(size) OVER (ORDER BY timestamp, id) AS so_far FROM {rows} ORDER BY timestamp, id",
        s.t.filter(pl.col("exempt") == "EXEMPT").sort("timestamp", "id").select(ts, "id", symbol, size, so_far=shares.cum_sum()),
    )


@shape("quotes by conditions, flags and venues", "busiest thousand all")
def odd_quotes(s: Scope) -> Asked:
    rows = s.of(
        "quotes",
        "(condition IN ('SLOW_BID', 'SLOW_ASK') OR cancelled IS NOT NULL) AND venue NOT IN ('D', 'W') AND nbbo LIKE 'B%'",
    )
    is_odd = pl.col("condition").is_in(["SLOW_BID", "SLOW_ASK"]) | pl.col("cancelled").is_not_null()
    is_best = pl.col("nbbo").cat.starts_with("B")
    return same(
        f"SELECT timestamp, symbol, venue, bid, ask FROM {rows}",
        s.q.filter(is_odd, ~venue.is_in(["D", "W"]), is_best).select(ts, symbol, venue, bid, ask),
    )


@shape("totals of buys above a price", "rare busiest thousand all")
def totals(s: Scope) -> Asked:
    buys = s.of("trades", "price > 150 AND side = 'buy'")
    return same(
        f"SELECT count(*) AS n, sum(size) AS v, max(price) AS h FROM {buys}",
        s.t.filter(price > 150, side == "buy").select(n=pl.len(), v=pl.when(pl.len() > 0).then(shares.sum()), h=price.max()),
    )


# Aggregates of partitions beside their rows.


@shape("trades whose size is the largest of their venue", "rare busiest fifty thousand all")
def largest_of_venue(s: Scope) -> Asked:
    return same(
        f"SELECT * FROM {s.of('trades')} QUALIFY size = max(size) OVER (PARTITION BY venue)",
        s.t.filter(size == size.max().over("venue")),
    )


@shape("trades whose size is the largest of their venue and symbol", "fifty thousand all")
def largest_of_venue_and_symbol(s: Scope) -> Asked:
    return same(
        f"SELECT * FROM {s.of('trades')} QUALIFY size = max(size) OVER (PARTITION BY venue, symbol)",
        s.t.filter(size == size.max().over("venue", "symbol")),
    )


@shape("best bid and ask of each venue, whole rows", "rare busiest")
def best_of_venue(s: Scope) -> Asked:
    return same(
        f"SELECT * FROM {s.of('quotes')} QUALIFY bid = max(bid) OVER (PARTITION BY venue) OR ask = min(ask) OVER (PARTITION BY venue)",
        s.q.filter((bid == bid.max().over("venue")) | (ask == ask.min().over("venue"))),
    )


@shape("ten largest trades of each day and symbol", "rare thousand all")
def largest_ten(s: Scope) -> Asked:
    order = "PARTITION BY timestamp::DATE, symbol ORDER BY size DESC, timestamp, id"
    place = size.rank("ordinal", descending=True).over(ts.dt.date(), "symbol")
    return same(f"SELECT * FROM {s.of('trades')} QUALIFY row_number() OVER ({order}) <= 10", s.t.filter(place <= 10))


@shape("rank by size of each day and symbol", "busiest thousand all")
def rank(s: Scope) -> Asked:
    place = size.rank("min", descending=True).over(ts.dt.date(), "symbol").cast(pl.Int64)
    over = "(PARTITION BY timestamp::DATE, symbol ORDER BY size DESC)"
    return same(f"SELECT timestamp, symbol, id, rank() OVER {over} AS place FROM {s.of('trades')}", s.t.select(ts, symbol, "id", place=place))


# Windows.


@shape("moving averages of two expressions, in order of symbol and time", "rare busiest fifty")
def moving_averages(s: Scope) -> Asked:
    over = last_rows(5)
    weighted = "(bid::DOUBLE * ask_size + ask::DOUBLE * bid_size) / (bid_size + ask_size)"
    expression = (bid.cast(pl.Float64) * ask_size + ask.cast(pl.Float64) * bid_size) / (bid_size + ask_size)
    columns = f"avg(ask - bid) OVER {over} AS s, avg({weighted}) OVER {over} AS w"
    means = (column.rolling_mean(5, min_samples=1).over("symbol") for column in (spread, expression))
    return same(
        f"SELECT symbol, timestamp, {columns} FROM {s.of('quotes')} ORDER BY symbol, timestamp",
        s.q.select(symbol, ts, *(mean.alias(name) for name, mean in zip("sw", means, strict=True))),
        absolute=1e-7,
    )


@shape("runs of equal price", "rare busiest fifty thousand all")
def runs(s: Scope) -> Asked:
    over = "OVER (PARTITION BY symbol ORDER BY timestamp)"
    previous = f"SELECT symbol, timestamp, price, size, lag(price) {over} AS previous FROM {s.of('trades')}"
    numbered = f"SELECT *, sum(CASE WHEN price = previous THEN 0 ELSE 1 END) {over} AS run FROM ({previous})"
    columns = "symbol, min(timestamp) AS began, max(timestamp) AS ended, max(price) AS price, count(*) AS n, sum(size) AS v"
    of_run = s.t.with_columns(run=price.rle_id().over("symbol")).group_by("symbol", "run")
    return same(
        f"SELECT {columns} FROM ({numbered}) GROUP BY symbol, run",
        of_run.agg(began=ts.min(), ended=ts.max(), price=price.max(), n=pl.len(), v=shares.sum()).drop("run"),
    )


@shape("running sum by symbol and side", "rare busiest fifty thousand all")
def running_sum(s: Scope) -> Asked:
    over = "(PARTITION BY symbol, side ORDER BY timestamp, id)"
    return same(
        f"SELECT symbol, side, timestamp, id, sum(size) OVER {over} AS so_far FROM {s.of('trades')}",
        s.t.select(symbol, side, ts, "id", so_far=shares.cum_sum().over("symbol", "side")),
    )


@shape("share of the day's volume so far", "rare fifty thousand all")
def volume_share(s: Scope) -> Asked:
    keys = "PARTITION BY symbol, timestamp::DATE"
    share = f"sum(size) OVER ({keys} ORDER BY timestamp, id)::DOUBLE / sum(size) OVER ({keys})"
    day = ("symbol", ts.dt.date())
    return same(
        f"SELECT symbol, timestamp, id, {share} AS share FROM {s.of('trades')}",
        s.t.select(symbol, ts, "id", share=shares.cum_sum().over(*day) / shares.sum().over(*day)),
    )


@shape("rolling mean of 100 by time and id", "rare fifty thousand all")
def rolling_mean(s: Scope) -> Asked:
    over = "(PARTITION BY symbol ORDER BY timestamp, id ROWS BETWEEN 99 PRECEDING AND CURRENT ROW)"
    return same(
        f"SELECT symbol, timestamp, id, avg(price) OVER {over} AS mean FROM {s.of('trades')}",
        s.t.select(symbol, ts, "id", mean=price.cast(pl.Float64).rolling_mean(100, min_samples=1).over("symbol")),
    )


@shape("rolling median of 100", "rare busiest fifty thousand")
def rolling_median(s: Scope) -> Asked:
    return same(
        f"SELECT symbol, timestamp, median(price) OVER {last_rows(100)} AS m FROM {s.of('trades')}",
        s.t.select(symbol, ts, m=price.rolling_median(100, min_samples=1).over("symbol")),
    )


@shape("z-score of 500", "busiest fifty")
def z_score(s: Scope) -> Asked:
    over = "(PARTITION BY symbol ORDER BY timestamp, id ROWS BETWEEN 499 PRECEDING AND CURRENT ROW)"
    score = f"CASE WHEN count(*) OVER {over} = 500 THEN (size - avg(size) OVER {over}) / stddev(size) OVER {over} END"
    value = size.cast(pl.Float64)
    return same(
        f"SELECT symbol, timestamp, id, {score} AS z FROM {s.of('trades')}",
        s.t.select(symbol, ts, "id", z=((value - value.rolling_mean(500)) / value.rolling_std(500)).over("symbol")),
        absolute=1e-7,
    )


@shape("rolling correlation, covariance and variance of 100", "busiest fifty")
def rolling_moments(s: Scope) -> Asked:
    # Where all values of a frame are alike, what rounding leaves would decide.
    over = f"OVER {last_rows(100)}"
    columns = f"corr(bid_size, ask_size) {over} AS c, covar_samp(bid_size, ask_size) {over} AS v, var_samp(bid_size) {over} AS b"
    a, b = bid_size.cast(pl.Float64), ask_size.cast(pl.Float64)
    moments = {"c": pl.rolling_corr(a, b, window_size=100), "v": pl.rolling_cov(a, b, window_size=100), "b": a.rolling_var(100)}
    return same(
        f"SELECT symbol, timestamp, {columns} FROM {s.of('quotes')} QUALIFY count(*) {over} = 100",
        s.q.select(symbol, ts, **{name: column.over("symbol") for name, column in moments.items()}).filter(pl.col("b").is_not_null()),
        absolute=1e-6,
    )


# As-of joins.


@shape("as-of join by symbol and venue, few trades", "rare busiest fifty thousand all")
def asof_by_venue(s: Scope) -> Asked:
    few = s.of("trades", "" if s.group == "rare" else "condition IN ('CROSS', 'LATE')")
    joined = f"ASOF LEFT JOIN (SELECT * FROM {s.of('quotes')}) q ON t.symbol = q.symbol AND t.venue = q.venue AND t.timestamp >= q.timestamp"
    left = s.t if s.group == "rare" else s.t.filter(pl.col("condition").is_in(["CROSS", "LATE"]))
    right = s.q.select(ts, symbol, venue, bid, ask)
    return same(
        f"SELECT t.timestamp, t.id, t.symbol, t.venue, t.price, q.bid, q.ask FROM (SELECT * FROM {few}) t {joined}",
        left.select(ts, "id", symbol, venue, price).join_asof(right, on="timestamp", by=["symbol", "venue"], check_sortedness=False),
    )


@shape("as-of join of buys with the best quotes, in order of time", "rare busiest fifty thousand all")
def asof_filtered(s: Scope) -> Asked:
    buys, best = s.of("trades", "side = 'buy'"), s.of("quotes", "nbbo = 'BOTH'")
    right = s.q.filter(pl.col("nbbo") == "BOTH").select(ts, symbol, mid=mid)
    joined = s.t.filter(side == "buy").join_asof(right, on="timestamp", by="symbol", check_sortedness=False)
    quotes = f"(SELECT timestamp, symbol, (bid + ask)::DOUBLE / 2 AS mid FROM {best})"
    return same(
        f"SELECT t.timestamp, t.id, t.symbol, t.price::DOUBLE - q.mid AS edge FROM (SELECT * FROM {buys}) t "
        f"ASOF LEFT JOIN {quotes} q ON t.symbol = q.symbol AND t.timestamp >= q.timestamp ORDER BY t.timestamp, t.id",
        joined.sort("timestamp", "id").select(ts, "id", symbol, edge=price.cast(pl.Float64) - pl.col("mid")),
    )


@shape("quotes on a grid of 10 a second, 20 minutes", "rare busiest")
def grid(s: Scope) -> Asked:
    step, last = timedelta(milliseconds=100), FROM + timedelta(minutes=20, milliseconds=-100)
    series = f"generate_series(TIMESTAMP '{FROM}', TIMESTAMP '{last}', INTERVAL '100 milliseconds')"
    quoted = f"ASOF LEFT JOIN (SELECT timestamp, bid, ask FROM {s.of('quotes')}) q ON g.timestamp >= q.timestamp"
    times = pl.LazyFrame({"timestamp": pl.datetime_range(FROM, last, step, eager=True)})
    return Asked(
        f"SELECT g.timestamp, q.bid, q.ask FROM (SELECT value AS timestamp FROM {series}) g {quoted}",
        f"SELECT g.timestamp, q.bid, q.ask FROM (SELECT unnest({series}) AS timestamp) g {quoted}",
        times.join_asof(s.q.select(ts, bid, ask), on="timestamp", check_sortedness=False),
    )


# Grouping.


@shape("quotes and mean spread by the name of the venue", "rare busiest fifty thousand all")
def by_venue_name(s: Scope) -> Asked:
    joined = f"(SELECT * FROM {s.of('quotes')}) q JOIN venues v ON q.venue = v.code"
    return same(
        f"SELECT v.name, count(*) AS n, avg(q.ask - q.bid) AS s FROM {joined} GROUP BY v.name",
        s.q.join(s.venues, left_on="venue", right_on="code").group_by("name").agg(n=pl.len(), s=spread.mean()),
    )


@shape("ten-minute bars of the best quotes", "rare busiest fifty thousand all")
def flagged_bars(s: Scope) -> Asked:
    texts = bars("avg(ask - bid) AS s, max(bid) AS h", s.of("quotes", "nbbo = 'BOTH' AND halt IS NULL"), 10)
    best = s.q.filter(pl.col("nbbo") == "BOTH", pl.col("halt").is_null())
    return Asked(*texts, best.group_by(ts.dt.truncate("10m"), "symbol").agg(s=spread.mean(), h=bid.max()))


@shape("five-minute OHLCV and VWAP", "rare busiest fifty thousand all")
def ohlcv(s: Scope) -> Asked:
    columns = "{} AS o, max(price) AS h, min(price) AS l, {} AS c, sum(size) AS v, sum(price::DOUBLE * size) / sum(size) AS w"
    ours, theirs = columns.format("first(price)", "last(price)"), columns.format("arg_min(price, timestamp)", "arg_max(price, timestamp)")
    middle = {"h": price.max(), "l": price.min(), "c": price.last(), "v": shares.sum()}
    vwap = (price.cast(pl.Float64) * size).sum() / shares.sum()
    return Asked(
        *bars(ours, s.of("trades"), 5, theirs),
        s.t.group_by(ts.dt.truncate("5m"), "symbol").agg(o=price.first(), **middle, w=vwap),
    )


@shape("order flow by minute", "rare busiest fifty thousand")
def order_flow(s: Scope) -> Asked:
    columns = "sum(CASE WHEN side = 'buy' THEN size ELSE -size END) AS f, count(*) FILTER (WHERE side = 'buy') AS n"
    signed = pl.when(side == "buy").then(shares).otherwise(-shares)
    return Asked(
        *bars(columns, s.of("trades"), 1),
        s.t.group_by(ts.dt.truncate("1m"), "symbol").agg(f=signed.sum(), n=(side == "buy").sum()),
    )


@shape("VWAP and volume by venue and side", "rare busiest all")
def by_venue(s: Scope) -> Asked:
    return same(
        f"SELECT venue, side, sum(price::DOUBLE * size) / sum(size) AS w, sum(size) AS v FROM {s.of('trades')} GROUP BY venue, side",
        s.t.group_by("venue", "side").agg(w=(price.cast(pl.Float64) * size).sum() / shares.sum(), v=shares.sum()),
    )


@shape("counts by FILTER and CASE, by symbol", "rare fifty all")
def cases(s: Scope) -> Asked:
    columns = "count(*) FILTER (WHERE condition = 'SWEEP') AS n, sum(CASE WHEN retail IS NOT NULL THEN size ELSE 0 END) AS v"
    retail = pl.when(pl.col("retail").is_not_null()).then(shares).otherwise(0)
    return same(
        f"SELECT symbol, {columns} FROM {s.of('trades')} GROUP BY symbol",
        s.t.group_by("symbol").agg(n=(pl.col("condition") == "SWEEP").sum(), v=retail.sum()),
    )


@shape("different ids and prices by symbol", "fifty thousand all")
def distinct(s: Scope) -> Asked:
    return same(
        f"SELECT symbol, count(DISTINCT id) AS ids, count(DISTINCT price) AS prices FROM {s.of('trades')} GROUP BY symbol",
        s.t.group_by("symbol").agg(ids=pl.col("id").n_unique(), prices=price.n_unique()),
    )


@shape("by hour and side", "rare busiest thousand all")
def by_hour(s: Scope) -> Asked:
    return same(
        f"SELECT extract(hour FROM timestamp) AS h, side, count(*) AS n, avg(price) AS p, sum(size) AS v FROM {s.of('trades')} GROUP BY h, side",
        s.t.group_by(ts.dt.hour().alias("h"), "side").agg(n=pl.len(), p=price.mean(), v=shares.sum()),
    )


@shape("by date, weekday and symbol", "fifty thousand all")
def by_day(s: Scope) -> Asked:
    keys = "timestamp::DATE AS d, extract(isodow FROM timestamp) AS w, symbol"
    return same(
        f"SELECT {keys}, count(*) AS n, avg(price) AS p, sum(size) AS v FROM {s.of('trades')} GROUP BY d, w, symbol",
        s.t.group_by(ts.dt.date().alias("d"), ts.dt.weekday().alias("w"), "symbol").agg(n=pl.len(), p=price.mean(), v=shares.sum()),
    )


@shape("percentiles of the spread by symbol", "rare busiest fifty")
def percentiles(s: Scope) -> Asked:
    columns = ", ".join(f"quantile_cont(ask - bid, {share}) AS p{at}" for at, share in enumerate((0.5, 0.9, 0.99)))
    return same(
        f"SELECT symbol, {columns} FROM {s.of('quotes')} GROUP BY symbol",
        s.q.group_by("symbol").agg((ask - bid).quantile(share, "linear").alias(f"p{at}") for at, share in enumerate((0.5, 0.9, 0.99))),
        absolute=1e-5,
    )


@shape("correlation matrix of five-minute returns", "fifty")
def correlations(s: Scope) -> Asked:
    middle = "{}::DOUBLE + {}::DOUBLE AS mid"
    texts = bars(
        middle.format("last(bid)", "last(ask)"),
        s.of("quotes"),
        5,
        middle.format("arg_max(bid, timestamp)", "arg_max(ask, timestamp)"),
    )
    ours, theirs = (text.replace("SELECT timestamp,", "SELECT timestamp AS t,") for text in texts)
    returned = "SELECT symbol, t, ln(mid / lag(mid) OVER (PARTITION BY symbol ORDER BY t)) AS r FROM"
    pairs = "SELECT a.symbol, b.symbol AS other, corr(a.r, b.r) AS c FROM r a JOIN r b ON a.t = b.t GROUP BY a.symbol, b.symbol"
    middles = s.q.group_by("symbol", t=ts.dt.truncate("5m"), maintain_order=True).agg(mid=(bid.cast(pl.Float64) + ask).last())
    returns = middles.select("symbol", "t", r=(pl.col("mid") / pl.col("mid").shift()).log().over("symbol"))
    joined = returns.join(returns, on="t", suffix="_other")
    return Asked(
        f"WITH r AS ({returned} ({ours})) {pairs}",
        f"WITH r AS ({returned} ({theirs})) {pairs}",
        joined.group_by("symbol", "symbol_other").agg(c=pl.corr("r", "r_other")),
        absolute=1e-6,
    )


# Order and the newest.


@shape("mid prices in their order", "busiest fifty")
def ordered_mids(s: Scope) -> Asked:
    return same(
        f"SELECT (bid + ask) / 2 AS mid FROM {s.of('quotes')} ORDER BY mid",
        s.q.select(mid=(bid + ask) / 2).sort("mid"),
    )


@shape("twenty largest trades, whole rows", "busiest thousand all")
def largest_twenty(s: Scope) -> Asked:
    return same(
        f"SELECT * FROM {s.of('trades')} ORDER BY size DESC, timestamp, id LIMIT 20",
        s.t.sort("size", "timestamp", "id", descending=[True, False, False]).head(20),
    )


@shape("the newest quote of each symbol and venue", "rare fifty thousand all")
def newest(s: Scope) -> Asked:
    newest_of = "QUALIFY row_number() OVER (PARTITION BY symbol, venue ORDER BY timestamp DESC) = 1"
    return Asked(
        f"SELECT * FROM {s.of('quotes')} LATEST ON timestamp PARTITION BY symbol, venue",
        f"SELECT * FROM {s.of('quotes')} {newest_of}",
        s.q.unique(["symbol", "venue"], keep="last"),
    )


@shape("first and last quote of each symbol", "thousand all")
def first_and_last(s: Scope) -> Asked:
    columns = "SELECT symbol, {}(bid{by}) AS o, {}(ask{by}) AS c, count(*) AS n FROM {rows} GROUP BY symbol"
    return Asked(
        columns.format("first", "last", by="", rows=s.of("quotes")),
        columns.format("arg_min", "arg_max", by=", timestamp", rows=s.of("quotes")),
        s.q.group_by("symbol").agg(o=bid.first(), c=ask.last(), n=pl.len()),
    )


@shape("best bid and ask over all venues, ten minutes", "rare busiest")
def nbbo(s: Scope) -> Asked:
    until = FROM + timedelta(minutes=10)
    quotes = s.of("quotes", f"timestamp >= '{FROM}' AND timestamp < '{until}'")
    codes = "ABCDHIJKLMNPQUVWXYZ"
    over = "OVER (ORDER BY timestamp)"
    stands = "last_value(CASE WHEN venue = '{code}' THEN {column} END IGNORE NULLS) {over}"

    def best(function: str, column: str) -> str:
        return f"{function}({', '.join(stands.format(code=code, column=column, over=over) for code in codes)}) AS {column}"

    def standing(column: pl.Expr) -> list[pl.Expr]:
        return [pl.when(venue == code).then(column).forward_fill() for code in codes]

    return Asked(
        f"SELECT timestamp, bid, ask FROM nbbo((SELECT * FROM {quotes}), series => symbol, venue => venue, bid => bid, ask => ask)",
        f"SELECT timestamp, {best('greatest', 'bid')}, {best('least', 'ask')} FROM {quotes}",
        s.q.filter(ts.is_between(FROM, until, closed="left")).select(ts, bid=pl.max_horizontal(standing(bid)), ask=pl.min_horizontal(standing(ask))),
    )

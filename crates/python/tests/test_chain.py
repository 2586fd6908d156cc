"""Relations that chain: each against what DuckDB, Polars or pandas make of the same rows."""

import datetime
import pathlib
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tickstone
from tickstone.texts import by_place, last_statement, placeholders

AT = 1_723_109_400_000_000_000
MINUTE = 60 * 10**9
ODD = ['my col', 'select', 'quo"te', "ts", "Größe", "a.b", "order by"]


@pytest.fixture
def market(db: tickstone.Database) -> tickstone.Database:
    """Trades and quotes of two instruments over four minutes, with NULLs."""
    rows = range(12)
    trades = {
        "ts": pa.array([AT + at * MINUTE // 3 + 1 for at in rows], pa.timestamp("ns")),
        "sym": [["A", "B", "C"][at % 3] for at in rows],
        "px": [None if at == 7 else 10.0 + at for at in rows],
        "sz": [at % 5 for at in rows],
    }
    quotes = {
        "ts": pa.array([AT + at * MINUTE for at in range(4)], pa.timestamp("ns")),
        "sym": ["A", "B", "A", "B"],
        "bid": [9.0, 8.0, None, 7.0],
        "px": [1.0, 2.0, 3.0, 4.0],
    }
    db.append("trades", pa.table(trades), timestamp="ts", series="sym", create=True)
    db.append("quotes", pa.table(quotes), timestamp="ts", series="sym", create=True)
    return db


def theirs(market: tickstone.Database, sql: str) -> list[tuple[Any, ...]]:
    """What DuckDB makes of a query over the same tables."""
    with duckdb.connect() as connection:
        for name in market.tables():
            connection.register(name, market.table(name).arrow())
        rows = connection.execute(sql).fetchall()
    return rows


def bare(relation: tickstone.Relation) -> list[tuple[Any, ...]]:
    """The rows without zones and nanoseconds, as DuckDB has them."""
    return [
        tuple(datetime.datetime.combine(value, value.time()) if isinstance(value, datetime.datetime) else value for value in row)
        for row in relation.fetchall()
    ]


def test_the_one_of_the_issue(market: tickstone.Database) -> None:
    ours = market.table("trades").filter("px > 2").aggregate("sym, sum(sz) AS v").order("v DESC").df()
    frame = market.table("trades").df()
    sums = frame[frame["px"] > 2].groupby("sym", observed=True)["sz"].sum().sort_values(ascending=False)
    assert ours["v"].tolist() == sums.tolist() and ours["sym"].tolist() == sums.index.tolist()


CHAINS: list[tuple[Any, str]] = [
    (lambda t: t.filter("px > 12").filter("sz = 1 OR sz = 2"), "FROM trades WHERE px > 12 AND (sz = 1 OR sz = 2)"),
    (lambda t: t.filter("px > 12 -- high"), "FROM trades WHERE px > 12"),
    (lambda t: t.filter("px IS NULL"), "FROM trades WHERE px IS NULL"),
    (lambda t: t.filter("px > 1000"), "FROM trades WHERE px > 1000"),
    (lambda t: t.select("sym", "px * sz AS value"), "SELECT sym, px * sz AS value FROM trades"),
    (lambda t: t.project("sz").distinct(), "SELECT DISTINCT sz FROM trades"),
    (lambda t: t.distinct("sym", "sz"), "SELECT DISTINCT sym, sz FROM trades"),
    (lambda t: t.select("sz AS px").filter("px > 2"), "FROM (SELECT sz AS px FROM trades) WHERE px > 2"),
    (lambda t: t.aggregate("sum(sz), count(px), count(*)"), "SELECT sum(sz), count(px), count(*) FROM trades"),
    (lambda t: t.aggregate("sum(sz) AS v", "sym"), "SELECT sum(sz) AS v FROM trades GROUP BY sym"),
    (lambda t: t.aggregate(["sym", "max(px) AS px"], ["sym"]), "SELECT sym, max(px) AS px FROM trades GROUP BY sym"),
    (lambda t: t.filter("px > 99").aggregate("sum(sz) AS v"), "SELECT sum(sz) AS v FROM trades WHERE px > 99"),
    (
        lambda t: t.aggregate("sym, sum(sz) AS v").filter("v > 6"),
        "FROM (SELECT sym, sum(sz) AS v FROM trades GROUP BY ALL) WHERE v > 6",
    ),
    (lambda t: t.order("px DESC NULLS LAST").limit(3), "FROM trades ORDER BY px DESC NULLS LAST LIMIT 3"),
    (lambda t: t.sort("px").limit(3, 2), "FROM trades ORDER BY px LIMIT 3 OFFSET 2"),
    (lambda t: t.order("px").limit(5).limit(9), "FROM trades ORDER BY px LIMIT 5"),
    (lambda t: t.order("px").limit(5).order("px DESC").limit(1), "SELECT * FROM trades WHERE px = 14"),
    (lambda t: t.order("px").limit(5).filter("sym = 'A'"), "FROM trades WHERE px < 15 AND sym = 'A'"),
    (lambda t: t.limit(0), "FROM trades LIMIT 0"),
    (lambda t: t.union(t.filter("px > 20")), "SELECT * FROM trades UNION ALL SELECT * FROM trades WHERE px > 20"),
    (lambda t: t.select("sym").union(t.select("sym"), distinct=True), "SELECT DISTINCT sym FROM trades"),
    (lambda t: t.select("sym").intersect(t.filter("px > 20").select("sym")), "SELECT DISTINCT sym FROM trades WHERE px > 20"),
    (lambda t: t.select("sym").except_(t.filter("px > 20").select("sym")), "SELECT DISTINCT sym FROM trades WHERE sym <> 'C'"),
    (lambda t: t.alias("x").filter("x.px > 20"), "FROM trades x WHERE x.px > 20"),
]


@pytest.mark.parametrize("at", range(len(CHAINS)))
def test_against_duckdb(market: tickstone.Database, at: int) -> None:
    chain, sql = CHAINS[at]
    expected = theirs(market, sql if sql.startswith("SELECT") else f"SELECT * {sql}")
    is_ordered = "ORDER" in sql
    whole = market.sql("SELECT * FROM trades")
    for relation in (chain(market.table("trades")), chain(whole), chain(market.sql("FROM trades;"))):
        rows = bare(relation)
        assert rows == expected if is_ordered else sorted(rows, key=repr) == sorted(expected, key=repr), relation.sql
        again = bare(market.sql(relation.sql))
        # The two sides of a UNION come in either order.
        assert again == rows if is_ordered else sorted(again, key=repr) == sorted(rows, key=repr), "its text is the query"
        assert relation.count() == len(expected)


ON_SYM = "trades t {} JOIN quotes q ON t.sym = q.sym"
JOINS = [
    ("inner", f"SELECT t.*, q.ts, bid, q.px FROM {ON_SYM.format('')}"),
    ("left", f"SELECT t.*, q.ts, bid, q.px FROM {ON_SYM.format('LEFT')}"),
    ("right", f"SELECT t.ts, q.sym, t.px, t.sz, q.ts, bid, q.px FROM {ON_SYM.format('RIGHT')}"),
    ("full", f"SELECT t.ts, coalesce(t.sym, q.sym), t.px, t.sz, q.ts, bid, q.px FROM {ON_SYM.format('FULL')}"),
    ("semi", f"SELECT t.* FROM {ON_SYM.format('SEMI')}"),
    ("anti", f"SELECT t.* FROM {ON_SYM.format('ANTI')}"),
]


@pytest.mark.parametrize(("how", "sql"), JOINS)
def test_joins_against_duckdb(market: tickstone.Database, how: Any, sql: str) -> None:
    market.append("quotes", {"ts": pa.array([AT], pa.timestamp("ns")), "sym": ["Z"], "bid": [1.0], "px": [5.0]})
    expected = sorted(theirs(market, sql), key=repr)
    trades, quotes = market.table("trades"), market.table("quotes")
    names = ["ts", "sym", "px", "sz", "ts_right", "bid", "px_right"]
    for other in ("quotes", quotes, quotes.where("px > 0"), quotes.polars(), quotes.df(), market.sql("FROM quotes")):
        joined = trades.join(other, "sym", how)
        assert sorted(bare(joined), key=repr) == expected
        assert joined.columns == (names[:4] if how in ("semi", "anti") else names)
        assert trades.join(other, ["sym"], how).filter("sym IS NOT NULL").count() == len(expected)


def test_conditions_of_joins(market: tickstone.Database) -> None:
    trades, quotes = market.table("trades"), market.table("quotes")
    expected = theirs(market, "SELECT count(*) FROM trades t JOIN quotes q ON t.sym = q.sym AND t.ts > q.ts")[0][0]
    condition = "{0}.sym = {1}.sym AND {0}.ts > {1}.ts -- later"
    assert trades.join(quotes, condition.format("trades", "quotes")).count() == expected
    assert trades.filter("1 = 1").join(quotes.filter("1 = 1"), condition.format("l", "r")).count() == expected
    assert trades.alias("a").join(quotes.alias("b"), condition.format("a", "b")).count() == expected
    assert trades.alias("my t").join(quotes, condition.format('"my t"', "quotes")).count() == expected
    assert trades.join(trades, "l.sz = r.sz + 1").count() == trades.alias("a").join(trades.alias("b"), "a.sz = b.sz + 1").count()
    assert trades.join(quotes, how="cross").count() == 48
    assert trades.filter("px > 99").join(quotes, "sym").count() == 0
    with pytest.raises(ValueError, match="name the columns"):
        trades.join(quotes)
    with pytest.raises(ValueError, match="no condition"):
        trades.join(quotes, "sym", "cross")
    with pytest.raises(ValueError, match="how is one of inner"):
        trades.join(quotes, "sym", "outer")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="both sides are called x"):
        trades.alias("x").join(quotes.alias("x"), "sym")
    with pytest.raises(tickstone.SqlError, match="nope"):
        trades.join(quotes, "nope")
    with pytest.raises(tickstone.Error, match="'none' does not exist"):
        trades.join("none", "sym")


@pytest.mark.parametrize("tolerance", [None, "30s", "1m"])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_asof_joins_against_polars(market: tickstone.Database, direction: Any, tolerance: str | None) -> None:
    trades, quotes = market.table("trades"), market.table("quotes")
    left, right = trades.polars().with_columns(pl.col("sym").cast(pl.String)), quotes.polars().with_columns(pl.col("sym").cast(pl.String))
    expected = left.join_asof(right, on="ts", by="sym", strategy=direction, tolerance=tolerance)
    of = {"tolerance": tolerance, "direction": direction}
    for other in ("quotes", quotes, quotes.where("px > 0"), quotes.polars()):
        ours = trades.asof_join(other, **of).order("ts")
        assert ours.columns == ["ts", "sym", "px", "sz", "ts_right", "bid", "px_right"]
        assert ours.pl()["px_right"].to_list() == expected.sort("ts")["px_right"].to_list()
    inner = market.sql("SELECT * FROM trades WHERE px > $1", [0]).asof_join(quotes, by=["sym"], how="inner", **of)
    assert inner.count() == expected.filter(pl.col("px") > 0, pl.col("px_right").is_not_null()).height
    chained = trades.asof(quotes, on="sym").filter("bid > 8.5").aggregate("sym, count(*) AS n")
    assert chained.fetchall() == [("A", 2)]


def test_asof_join_wants_a_key(market: tickstone.Database) -> None:
    whole = market.sql("SELECT * FROM trades")
    with pytest.raises(tickstone.Error, match=r"series key of these rows is not known\n.*asof_join\(other, on=…\)"):
        whole.asof_join("quotes")
    assert whole.asof_join("quotes", on=[]).count() == 12
    kept = market.table("trades").filter("px > 0").order("px").limit(3).asof_join("quotes")
    assert '("sym")' in kept.sql, "a table's rows keep its series key"
    with pytest.raises(tickstone.Error, match="series key"):
        market.table("trades").select("ts", "px").asof_join("quotes")
    with pytest.raises(TypeError, match="are the same"):
        whole.asof_join("quotes", on="sym", by="sym")
    with pytest.raises(ValueError, match="direction is one of"):
        whole.asof_join("quotes", on="sym", direction="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="how is one of"):
        whole.asof_join("quotes", on="sym", how="right")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no length of time"):
        whole.asof_join("quotes", on="sym", tolerance="1m; DROP TABLE trades")


def test_samples_against_polars(market: tickstone.Database) -> None:
    trades = market.table("trades")
    frame = trades.polars().with_columns(pl.col("sym").cast(pl.String))
    bars = frame.group_by_dynamic("ts", every="2m", group_by="sym").agg(pl.col("px").sum(), pl.col("sz").max())
    expected = sorted(bars.select("sym", "px", "sz").rows())
    marked = market.sql("SELECT sz, px, sym, ts FROM trades")
    for rows in (trades.sample("2m", "sum(px) AS px, max(sz) AS sz"), marked.sample("2m", ["sum(px) AS px", "max(sz) AS sz"], "sym")):
        assert rows.columns == ["ts", "sym", "px", "sz"]
        assert sorted(rows.select("sym", "px", "sz").fetchall()) == expected
    assert trades.sample("1m", "count(*) AS n", []).fetchall() == [(row[0], 3) for row in trades.sample("1m", "count(*)", []).order("ts").fetchall()]
    filled = trades.filter("sym = 'A' AND sz <> 3").sample(
        "30s", ["last(px) AS px", "sum(sz) AS sz"], [], fill=["prev", 0], start="2024-08-08T09:30", end="2024-08-08T09:32"
    )
    assert filled.order("ts").select("px", "sz").fetchall() == [(10.0, 0), (10.0, 0), (10.0, 0), (10.0, 0)]
    assert trades.sample("1d", "count(*) AS n", [], tz="America/New_York").fetchall()[0][0].hour == 4
    with pytest.raises(tickstone.Error, match="series key"):
        marked.sample("1m", "count(*)")
    with pytest.raises(tickstone.Error, match="the query has no designated timestamp"):
        marked.select("px").sample("1m", "count(*)", [])
    with pytest.raises(ValueError, match="no length of time"):
        trades.sample("a minute", "count(*)")


def test_a_timestamp_of_another_name(db: tickstone.Database) -> None:
    times = pa.array([AT, AT + MINUTE], pa.timestamp("ns"))
    db.append("t", pa.table({"ts": times, "at time": times, "n": [1, 2]}), timestamp="at time", create=True)
    for rows in (db.table("t"), db.sql("SELECT * FROM t"), db.table("t").filter("n > 0").order("n")):
        bars = rows.sample("1m", "sum(n) AS n", [])
        assert bars.columns == ["at time", "n"] and sorted(row[1] for row in bars) == [1, 2]


@pytest.mark.parametrize("name", ODD)
def test_odd_names(db: tickstone.Database, name: str, tmp_path: pathlib.Path) -> None:
    names = [name, *(other for other in ("n", "k") if other != name)]
    frame = pl.DataFrame({names[0]: [3, 1, None, 2], names[1]: [1, 2, 3, 4], names[2]: ["x", "y", "x", None]})
    table = 'a "table" of ' + name
    db.append(table, frame, create=True)
    rows = db.table(table)
    values = rows.order(f"{name} DESC NULLS LAST").select(name).fetchall()
    assert values == [(3,), (2,), (1,), (None,)]
    assert rows.order(name).limit(1).pl()[name].to_list() == [1]
    assert sorted(rows.distinct(name).fetchall(), key=repr) == [(1,), (2,), (3,), (None,)]
    assert len(rows.aggregate("count(*) AS c", name).fetchall()) == 4
    assert rows.join(rows, name).columns == [name, "n", "k", "n_right", "k_right"]
    assert rows.join(frame, name).count() == 3, "NULL is equal to nothing"
    assert rows.asof_join is not None and rows.union(frame).count() == 8
    assert rows.alias(name).filter("n > 1").count() == 3
    assert rows.describe().select("column").fetchall() == [(each,) for each in frame.columns]
    made = rows.filter("n > 1").create(f"copy of {name}")
    assert made.columns == frame.columns and len(made) == 3
    assert db.table(made.name).insert_into(table) == 3 and len(db.table(table)) == 7
    assert rows.create_view(f"view of {name}").count() == 7
    assert rows.to_parquet(tmp_path / "t.parquet") == 7 and pl.read_parquet(tmp_path / "t.parquet").columns == frame.columns


def test_names_and_expressions(db: tickstone.Database) -> None:
    """A column's exact name is one; all else is SQL."""
    db.sql('CREATE TABLE t (a BIGINT, "a + 1" BIGINT, "adesc" BIGINT)')
    db.sql("INSERT INTO t VALUES (1, 7, 3), (2, 5, 4)")
    table = db.table("t")
    assert table.select("a + 1").fetchall() == [(7,), (5,)] and table.select("(a + 1)").fetchall() == [(2,), (3,)]
    assert table.order("adesc DESC").select("a").fetchall() == [(2,), (1,)]
    assert table.order("a desc, adesc").select("a").fetchall() == [(2,), (1,)]
    with pytest.raises(ValueError, match="name a column"):
        table.order()


def test_describe_against_polars(market: tickstone.Database) -> None:
    described = {row["column"]: row for row in market.table("trades").describe().pl().to_dicts()}
    frame = market.table("trades").pl()
    assert list(described) == frame.columns
    for name in ("px", "sz"):
        row, column = described[name], frame[name]
        assert (row["count"], row["nulls"]) == (column.count(), column.null_count())
        assert float(row["min"]) == column.min() and float(row["max"]) == column.max()
        assert row["mean"] == pytest.approx(column.mean()) and row["std"] == pytest.approx(column.std())
    assert described["sym"]["min"] == "A" and described["sym"]["mean"] is None
    assert described["ts"]["min"] == "2024-08-08T09:30:00.000000001"
    assert [row["type"] for row in described.values()] == market.table("trades").types
    empty = market.table("trades").filter("px > 99").describe().pl()
    assert empty["count"].to_list() == [0, 0, 0, 0] and empty["min"].to_list() == [None] * 4
    every = market.sql("SELECT [1, 2] AS a, true AS b, CAST('1.5' AS DECIMAL(4,2)) AS d, X'00' AS x, TIME '10:00' AS t, CAST(NULL AS UUID) AS u")
    assert every.describe().pl()["count"].to_list() == [1, 1, 1, 1, 1, 0]


def test_parameters_stay_values(market: tickstone.Database) -> None:
    first = market.sql("SELECT *, '$1 :low' AS text FROM trades WHERE px > $1 AND sym <> $2 -- $3", [12, "C"])
    assert first.filter("sz > 1").count() == first.order("px").pl().filter(pl.col("sz") > 1).height
    named = market.sql("SELECT sym, px::BIGINT AS px FROM trades WHERE px < :low", low=15)
    both = first.join(named, "sym").order("px", "px_right")
    expected = theirs(
        market,
        "SELECT t.px, n.px FROM (SELECT * FROM trades WHERE px > 12 AND sym <> 'C') t "
        "JOIN (SELECT sym, px::BIGINT AS px FROM trades WHERE px < 15) n ON t.sym = n.sym ORDER BY t.px, n.px",
    )
    assert both.select("px", "px_right").fetchall() == expected and expected
    assert set(both.select("text").fetchall()) == {("$1 :low",)}
    assert first.union(first).count() == 2 * first.count()
    assert named.join(named, "px").filter("px > 10").count() == 4
    assert both.create("made").count() == len(expected)
    assert both.explain()
    with pytest.raises(tickstone.Error, match="has parameters, which a view cannot keep"):
        first.create_view("v")


def test_frames_are_seen_along_the_chain(market: tickstone.Database) -> None:
    watch = pl.DataFrame({"sym": ["A", "B"], "weight": [1.0, 2.0]})
    inside = market.table("trades").filter("sym IN (SELECT sym FROM watch)")
    over = market.sql("SELECT * FROM watch").filter("weight > 1")

    def elsewhere() -> list[int]:
        return [inside.count(), over.count(), inside.join(over, "sym").count(), over.union(over).order("sym").count()]

    assert elsewhere() == [8, 1, 4, 2]
    watch = pl.DataFrame({"sym": ["C"], "weight": [3.0]})
    other = market.sql("SELECT * FROM watch")
    assert over.union(other).order("weight").fetchall() == [("B", 2.0), ("C", 3.0)], "each sees its own"
    with pytest.raises(tickstone.Error, match="has frames, which a view cannot keep"):
        inside.create_view("v")
    assert inside.create("made", timestamp="ts", series="sym").series == ["sym"] and watch.height == 1


def test_it_is_lazy(market: tickstone.Database) -> None:
    counted = market.table("trades").filter("px > 100").aggregate("count(*) AS n")
    joined = market.table("trades").join(market.sql("SELECT sym FROM quotes WHERE bid > 100"), "sym")
    assert counted.fetchall() == [(0,)] and joined.count() == 0
    market.sql("INSERT INTO trades VALUES ('2024-08-09', 'A', 200.0, 1); INSERT INTO quotes VALUES ('2024-08-09', 'A', 200.0, 1.0)")
    assert counted.fetchall() == [(1,)] and joined.count() == 5


def test_what_is_no_select(market: tickstone.Database) -> None:
    assert market.sql("SHOW TABLES").filter("rows > 5").select("table").fetchall() == [("trades",)]
    assert market.sql("DESCRIBE trades").filter("type = 'DOUBLE'").select("column").fetchall() == [("px",)]
    assert market.sql("CREATE TABLE other (a INT); SELECT px FROM trades WHERE px > 20;").filter("px > 20").count() == 1
    assert market.sql("VALUES (1), (2)").filter("column1 > 1").fetchall() == [(2,)]
    assert market.sql("WITH t AS (SELECT 1 AS x) SELECT * FROM t").filter("x = 1").fetchall() == [(1,)]
    assert market.sql("(SELECT 1 AS x) UNION ALL (SELECT 2)").order("x DESC").fetchall() == [(2,), (1,)]
    assert market.sql("/* ; */ FROM trades SELECT px WHERE px > 20 -- ;").limit(9).fetchall() == [(21.0,)]
    market.sql("PREPARE p AS SELECT px FROM trades WHERE px > $1")
    assert market.sql("EXECUTE p (20)").count() == 1


def test_errors_have_a_place(market: tickstone.Database) -> None:
    trades = market.table("trades")
    for wrong in (trades.filter, trades.select, trades.order, trades.distinct):
        with pytest.raises(tickstone.SqlError, match="column 'nope' does not exist") as raised:
            wrong("nope")
        assert raised.value.line == 1 and raised.value.sql is not None and "nope" in raised.value.sql
    with pytest.raises(tickstone.SqlError):
        trades.aggregate("sym, sum(sz)", "px")
    with pytest.raises(tickstone.SqlError):
        trades.union(trades.select("px"))
    with pytest.raises(ValueError, match="n is 0 or more"):
        trades.limit(-1)
    with pytest.raises(ValueError, match="offset is 0 or more"):
        trades.limit(1, -1)


def test_into_tables_views_and_files(market: tickstone.Database, tmp_path: pathlib.Path) -> None:
    high = market.table("trades").filter("px > 15").order("px")
    made = high.create("high", timestamp="ts", series=["sym"], partition_by="month")
    assert (made.timestamp, made.series, made.partition_by, len(made)) == ("ts", ["sym"], "month", 5)
    assert made.arrow().column("ts").to_pylist() == high.arrow().column("ts").to_pylist(), "to the nanosecond"
    assert high.select("px").to_table("prices").columns == ["px"]
    with pytest.raises(tickstone.Error, match="high"):
        high.create("high")
    assert high.insert_into("high") == 5 and len(made) == 10
    view = market.table("trades").filter("px > 15").select("sym", "px").create_view("high view")
    assert view.count() == 5 and market.view("high view").columns == ["sym", "px"]
    assert market.table("trades").join("high view", "sym").columns == ["ts", "sym", "px", "sz", "px_right"]
    for name, read in (("t.parquet", pl.read_parquet), ("t.csv", pl.read_csv), ("t.ndjson", pl.read_ndjson), ("t.arrow", pl.read_ipc)):
        path = tmp_path / name
        assert high.write(path) == 5 and read(path)["px"].to_list() == high.pl()["px"].to_list()
    assert high.to_csv(tmp_path / "c") == high.write_csv(tmp_path / "d") == 5
    assert high.write_parquet(tmp_path / "e") == high.write_ndjson(tmp_path / "f.gz", compression="gzip") == 5
    assert market.table("trades").to_parquet(tmp_path / "g") == 12
    assert pl.read_parquet(tmp_path / "g")["ts"].is_sorted()
    kept = high.cache()
    market.sql("INSERT INTO trades VALUES ('2024-08-09', 'A', 200.0, 1)")
    assert kept.to_parquet(tmp_path / "h") == market.export(kept, tmp_path / "i.csv") == 5, "the rows that are kept"


def test_a_chain_can_be_subscribed(market: tickstone.Database) -> None:
    with market.table("trades").filter("px > 100").select("sym", "px").subscribe() as subscription:
        market.sql("INSERT INTO trades VALUES ('2024-08-08T10:00', 'A', 200.0, 1), ('2024-08-08T10:00', 'B', 2.0, 1)")
        change = next(iter(subscription))
    assert change.rows.fetchall() == [("A", 200.0)] and change.rows.filter("px > 300").count() == 0


def test_pandas_frames_with_an_index(market: tickstone.Database) -> None:
    weights = pd.DataFrame({"sym": ["A", "B"], "weight": [1, 2]}).set_index("sym")
    assert market.table("trades").join(weights, "sym").aggregate("sum(weight) AS w").fetchall() == [(12,)]


@pytest.mark.parametrize(
    ("sql", "nested"),
    [
        ("SELECT 1; -- x", "SELECT 1"),
        (" ; SELECT ';' AS \";\" ; ; ", "SELECT ';' AS \";\""),
        ("SET a = 1; FROM t", "SELECT * FROM t"),
        ("FROM t SELECT x", "FROM t SELECT x"),
        ("FROM (SELECT 1) t", "SELECT * FROM (SELECT 1) t"),
        ("(SELECT 1) UNION (SELECT 2);", "(SELECT 1) UNION (SELECT 2)"),
        ("SELECT E'a\\';b' AS x", "SELECT E'a\\';b' AS x"),
        ("SHOW TABLES", None),
        ("EXPLAIN SELECT 1", None),
        ("-- nothing", None),
    ],
)
def test_last_statement(sql: str, nested: str | None) -> None:
    assert last_statement(sql) == nested


def test_placeholders() -> None:
    sql = "SELECT $1, '$2', \"$3\", :a, a::BIGINT, x[1:b], $name -- $4\n, /* :c */ $1 FROM t WHERE $$ :d $$ = :a"
    assert placeholders(sql) == ["$1", ":a", "$name"]
    assert by_place("SELECT $2, '$1', $1", [7, 8], 3) == ("SELECT $5, '$1', $4", [7, 8])
    assert by_place("SELECT :b, :a, :b", {"a": 1, "b": 2}, 1) == ("SELECT $3, $2, $3", [1, 2])
    assert by_place("SELECT 1", None, 1) == ("SELECT 1", [])


def test_a_view_is_read_like_a_table(market: tickstone.Database) -> None:
    market.sql('CREATE VIEW "the high" AS SELECT ts, sym, px FROM trades WHERE px > 15')
    view = market.table("the high")
    assert (view.columns, view.types, view.timestamp) == (["ts", "sym", "px"], ["TIMESTAMP", "SYMBOL", "DOUBLE"], "ts")
    assert view.count() == len(view) == view.filter("px > 0").count() == 5 and view.schema.names == view.columns
    assert view.bars("1h", price="px", by="sym").count() == 3 and view.latest("sym").count() == 3
    market.sql("INSERT INTO trades VALUES ('2024-08-09', 'A', 200.0, 1)")
    assert len(view) == 6

"""The backend of Ibis: connections, tables, results, and what it refuses. `test_ibis_oracle` compares answers."""

import datetime
import importlib
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import ibis
import ibis.common.exceptions as com
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from ibis import _

import tickstone
from tickstone.ibis_backend import Backend

START = datetime.datetime(2024, 8, 8, 9, 30)
PROJECT = pathlib.Path(__file__).parents[1] / "pyproject.toml"


@pytest.fixture
def con() -> Iterator[Backend]:
    made: Backend = Backend().connect()
    yield made
    made.disconnect()


@pytest.fixture
def trades(con: Backend) -> Any:
    """Four trades, one of them with nothing but its time."""
    con.con.sql("CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE, n BIGINT) TIMESTAMP(ts)")
    con.con.sql("""
        INSERT INTO trades VALUES ('2024-08-08T09:30:00.000000001', 'A', 1.5, 1), ('2024-08-08T09:30:10', 'B', 2.5, 2),
        ('2024-08-08T09:30:20', 'A', 3.5, 3), ('2024-08-08T09:31:00', NULL, NULL, NULL)
    """)
    return con.table("trades")


def rows(expr: Any) -> list[tuple[Any, ...]]:
    """The rows of a table, as tuples."""
    return [tuple(row.values()) for row in expr.to_pyarrow().to_pylist()]


# Connecting.


def test_the_entry_point(tmp_path: pathlib.Path, directory: pathlib.Path) -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    name = project["entry-points"]["ibis.backends"]["tickstone"]
    assert importlib.import_module(name).Backend is Backend and "ibis" in project["optional-dependencies"]
    installed = tmp_path / "installed" / "tickstone-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: tickstone\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[ibis.backends]\ntickstone = {name}\n")
    code = f"""
import ibis
con = ibis.tickstone.connect({str(directory)!r})
con.create_table("t", ibis.memtable({{"a": [1]}}))
con.disconnect()
again = ibis.connect("tickstone:///{directory}?read_only=true&threads=1")
assert again.con.read_only and again.list_tables() == ["t"]
shared = ibis.tickstone.from_connection(again.con)
assert shared.table("t").a.sum().execute() == 1
assert ibis.to_sql(shared.table("t").a.sum())
"""
    paths = os.pathsep.join([str(installed.parent), *sys.path])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": paths})


def test_connections(directory: pathlib.Path, db: tickstone.Database) -> None:
    con = Backend().connect(directory, threads=1)
    con.create_table("t", schema={"a": "int64"})
    con.disconnect()
    assert con.con.closed
    with tickstone.open(directory, read_only=True) as again:
        assert again.tables() == ["t"]
    shared = Backend.from_connection(db)
    assert shared.version == tickstone.__version__
    shared.disconnect()
    assert not db.closed
    with pytest.raises(tickstone.Error, match="no server|cannot|refused|connect"):
        Backend().connect("tickstone://127.0.0.1:1")


# Tables.


def test_tables(con: Backend) -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime([START, START]), "sym": ["A", "B"], "px": [1.0, None]})
    made = con.create_table("a", frame, series="sym", partition_by="month")
    assert con.con.sql("SHOW TABLES").fetchall()[0][:4] == ("a", "ts", "sym", "MONTH")
    assert dict(made.schema().items()) == {"ts": dt.Timestamp(scale=9), "sym": dt.string, "px": dt.float64}
    with pytest.raises(tickstone.SqlError, match="already exists"):
        con.create_table("a", frame)
    con.create_table("a", pl.DataFrame({"x": [1, 2, 3]}), overwrite=True)
    con.create_table("b", con.table("a").filter(_.x > 1), schema={"x": "float64"})
    con.create_table("c", schema={"time": "timestamp", "sym": "string", "px": "decimal(9, 2)", "l": "array<int64>"}, series="sym")
    described = con.con.sql("DESCRIBE c").fetchall()
    assert [row[1:4] for row in described] == [
        ("TIMESTAMP", True, False), ("SYMBOL", False, True), ("DECIMAL(9,2)", False, False), ("BIGINT[]", False, False),
    ]  # fmt: skip
    con.create_view("v", con.table("a").mutate(y=_.x * 2))
    assert con.list_tables() == ["a", "b", "c", "v"] and con.list_tables(like="^[ab]$") == ["a", "b"]
    assert rows(con.table("v").order_by("x"))[0] == (1, 2) and rows(con.table("b").order_by("x")) == [(2.0,), (3.0,)]
    con.insert("a", con.table("b").mutate(x=_.x.cast("int64") + 10))
    con.insert("a", {"x": [7]})
    con.insert("a", ibis.memtable({"x": [8]}))
    assert sorted(con.table("a").x.to_pyarrow().to_pylist()) == [1, 2, 3, 7, 8, 12, 13]
    con.insert("a", [{"x": 5}], overwrite=True)
    assert con.table("a").x.execute().tolist() == [5]
    con.rename_table("b", "d")
    con.drop_view("v")
    con.drop_table("d")
    con.drop_table("d", force=True)
    assert con.list_tables() == ["a", "c"]
    for raises in (con.drop_table, con.drop_view):
        with pytest.raises(tickstone.SqlError, match="does not exist"):
            raises("d")
    with pytest.raises(com.TableNotFound):
        con.table("d")
    with pytest.raises(com.IbisInputError, match="one database"):
        con.table("a", database="other")
    with pytest.raises(com.IbisInputError, match="rows, a schema"):
        con.create_table("d")
    with pytest.raises(com.UnsupportedOperationError, match="upsert"):
        con.upsert("a", frame, on="x")
    with pytest.raises(com.UnsupportedOperationError, match="view of rows in memory"):
        con.create_view("d", ibis.memtable({"a": [1]}))


def test_temporary_tables(con: Backend, trades: Any) -> None:
    temporary = con.create_table("mine", trades.filter(_.n > 1), temp=True)
    assert temporary.count().execute() == 2 and "mine" in con.list_tables() and con.con.tables() == ["trades"]
    with pytest.raises(com.IbisInputError, match="already exists"):
        con.create_table("mine", schema={"a": "int64"}, temp=True)
    con.create_table("mine", schema={"a": "int64"}, temp=True, overwrite=True)
    assert rows(con.table("mine")) == []
    con.drop_table("mine")
    with trades.filter(_.sym == "A").cache() as cached:
        assert cached.px.sum().execute() == 5.0 and len(con.list_tables()) == 2
    assert con.list_tables() == ["trades"]


def test_files(con: Backend, tmp_path: pathlib.Path, trades: Any) -> None:
    trades.to_parquet(tmp_path / "t.parquet")
    trades.to_csv(tmp_path / "t.csv")
    assert con.read_parquet(tmp_path / "t.parquet").px.max().execute() == 3.5
    assert con.read_csv([tmp_path / "t.csv"], table_name="named").n.sum().execute() == 6
    assert con.list_tables() == ["named", "trades"]


# Results.


def test_results(con: Backend, trades: Any) -> None:
    bars = trades.group_by("sym", ts=_.ts.truncate("m")).agg(n=_.n.sum()).order_by(_.sym.asc(nulls_first=True))
    assert bars.to_polars().rows() == [(None, START + datetime.timedelta(minutes=1), None), ("A", START, 4), ("B", START, 2)]
    assert bars.execute()["sym"].tolist()[1:] == ["A", "B"] and bars.to_pyarrow().schema.field("sym").type == pa.string()
    assert trades.ts.min().execute() == pd.Timestamp("2024-08-08T09:30:00.000000001")
    assert trades.px.to_polars().sum() == 7.5 and trades.px.sum().to_polars() == 7.5
    assert trades.px.sum().to_pyarrow().as_py() == 7.5 and trades.n.execute().sum() == 6
    reader = trades.to_pyarrow_batches(chunk_size=3)
    assert [batch.num_rows for batch in reader] == [3, 1] and reader.schema.field("ts").type == pa.timestamp("ns")
    assert trades.filter(_.n > 9).execute().empty and len(trades.execute(limit=2)) == 2
    either = (trades.n == 1) | (trades.sym.isnull())
    assert trades.n.collect(where=either).execute() == [1] and trades.n.last(where=either, order_by=trades.ts).execute() == 1
    wanted = ibis.param("int64")
    assert trades.filter(_.n == wanted).px.execute(params={wanted: 3}).tolist() == [3.5]
    with pytest.raises(tickstone.SqlError, match="division by zero"):
        (trades.n % (trades.n - trades.n)).execute()
    with pytest.raises(pa.ArrowInvalid, match="lose data"):
        (trades.ts.cast("timestamp(6)")).execute()


def test_types(con: Backend) -> None:
    given = uuid.UUID(int=5)
    con.con.sql("CREATE TABLE t (d DECIMAL(9,2), u UUID, l VARCHAR[], b BINARY, y DATE, s BIGINT UNSIGNED, f FLOAT)")
    con.con.sql("INSERT INTO t VALUES (1.25, $1, ['a'], X'00ff', '2024-08-08', 7, 0.5)", [str(given)])
    t = con.table("t")
    types = ["decimal(9, 2)", "uuid", "array<string>", "binary", "date", "uint64", "float32"]
    assert list(map(str, t.schema().types)) == types
    assert t.u.execute().tolist() == [given] and t.l.execute().tolist() == [["a"]] and t.b.execute()[0] == b"\x00\xff"
    products = t.select(p=_.d * _.d, m=_.d / 3, q=_.d.mean(), t=_.d.cast("decimal(20, 4)"))
    assert rows(products) == [(Decimal("1.5625"), 1.25 / 3, Decimal("1.250000"), Decimal("1.2500"))]
    assert str(products.execute().p[0]) == "1.5625"
    assert rows(t.select(s=ibis.struct({"a": _.s, "b": "x"}), i=_.s.as_interval("h"))) == [({"a": 7, "b": "x"}, datetime.timedelta(hours=7))]
    every = con.create_table("every", schema=t.schema() | ibis.schema({"a": "int8", "c": "uint8", "g": "boolean"}))
    assert every.schema() == t.schema() | ibis.schema({"a": "int8", "c": "uint8", "g": "boolean"})
    literals = [b"\x00\xff", START, given, Decimal("1.23"), datetime.date(2024, 8, 8), datetime.time(9, 30, 0, 5), [1, 2], "it's"]
    for value in literals:
        (got,) = t.select(v=ibis.literal(value)).to_pyarrow()["v"].to_pylist()
        assert got == (str(value) if isinstance(value, uuid.UUID) else value)


def test_frames(con: Backend, trades: Any) -> None:
    names = ibis.memtable(pd.DataFrame({"sym": ["A", "B"], "full": ["Alpha", "Beta"]}))
    joined = trades.join(names, "sym").group_by("full").agg(px=_.px.max()).order_by("full")
    assert rows(joined) == [("Alpha", 3.5), ("Beta", 2.5)]
    kept = con.create_table("kept", names.filter(_.sym == "A"))
    assert rows(kept) == [("A", "Alpha")]
    zoned = ibis.memtable(pa.table({"t": pa.array([START], pa.timestamp("us", "America/New_York"))}))
    with pytest.raises(com.UnsupportedOperationError, match="zone 'America/New_York'"):
        con.execute(zoned.t.hour())


# Tickstone's own words.


def test_sql(con: Backend, trades: Any) -> None:
    bars = con.sql("SELECT ts, vwap(px, n) AS vwap FROM trades SAMPLE BY 1m -- bars")
    assert bars.schema() == ibis.schema({"ts": dt.Timestamp(scale=9), "vwap": dt.float64})
    assert rows(bars.filter(_.vwap > 0).select("vwap")) == [(17 / 6,)]
    newest = trades.filter(_.n > 0).alias("some").sql("SELECT sym, ts FROM some LATEST ON ts PARTITION BY sym;")
    assert sorted(rows(newest.select("sym"))) == [("A",), ("B",)]
    view = con.create_view("bars", bars)
    assert view.count().execute() == 2
    assert con.raw_sql("SELECT 1").fetchall() == [(1,)]
    assert con.sql("SELECT 1::BIGINT AS x", dialect="postgres").x.execute().tolist() == [1]


def test_functions(con: Backend, trades: Any) -> None:
    @ibis.udf.agg.builtin
    def vwap(price: float, size: float) -> float:
        raise NotImplementedError

    @ibis.udf.scalar.builtin
    def mid(bid: float, ask: float) -> float:
        raise NotImplementedError

    @ibis.udf.scalar.pyarrow
    def doubled(x: int) -> int:
        return pc.multiply(x, 2)  # type: ignore[no-any-return]

    @ibis.udf.scalar.python
    def slow(x: int) -> int:
        return x

    assert vwap(trades.px, trades.n.cast("float64")).execute() == 17 / 6
    found = trades.filter(_.n > 0).order_by("n").select(m=mid(_.px, 4.5), d=doubled(_.n))
    assert rows(found) == [(3.0, 2), (3.5, 4), (4.0, 6)]
    with pytest.raises(com.UnsupportedOperationError, match="ScalarUDF"):
        slow(trades.n).execute()


def test_as_of(con: Backend, trades: Any) -> None:
    quotes = con.create_table("quotes", {"ts": [START, START + datetime.timedelta(seconds=15)], "sym": ["A", "A"], "bid": [1.0, 2.0]})
    joined = trades.asof_join(quotes, "ts", predicates="sym").order_by("ts")
    assert "ASOF LEFT JOIN" in con.compile(joined)
    assert joined.bid.to_pyarrow().to_pylist() == [1.0, None, 2.0, None]
    later = trades.asof_join(quotes, trades.ts <= quotes.ts, predicates="sym").order_by("ts")
    assert later.bid.to_pyarrow().to_pylist() == [2.0, None, None, None]
    for on in ("ts", trades.ts >= quotes.ts):
        within = trades.asof_join(quotes, on, predicates="sym", tolerance=ibis.interval(seconds=6))
        with pytest.raises(com.UnsupportedOperationError, match="asof_join with a tolerance"):
            con.to_pyarrow(within)
    bounded = con.sql("SELECT bid FROM trades t ASOF JOIN quotes q ON (sym) TOLERANCE 6s ORDER BY t.ts")
    assert bounded.bid.to_pyarrow().to_pylist() == [1.0, None, 2.0, None]


def test_nothing_is_lost(con: Backend, trades: Any) -> None:
    """What a detour over doubles or microseconds would change."""
    big = con.create_table("big", {"a": [2**60 + 1, -(2**60) - 1, 7, -7], "b": [1, 2, -2, 2]})
    assert con.compile(big.a // 2).count("DOUBLE") == 0
    assert rows(big.select(x=_.a // _.b, y=_.a / 4)) == [
        (a // b, a / 4) for a, b in ((2**60 + 1, 1), (-(2**60) - 1, 2), (7, -2), (-7, 2))
    ]
    first = trades.filter(_.n == 1)
    later = first.select(x=_.ts + ibis.interval(nanoseconds=5), y=_.ts - ibis.timestamp("2024-08-08T09:30:00"))
    assert later.to_pyarrow().column("x").cast(pa.int64())[0].as_py() % 1000 == 6
    assert later.to_pyarrow().column("y").cast(pa.int64())[0].as_py() == 1
    exact = ibis.timestamp("2024-08-08T09:30:00") + ibis.interval(nanoseconds=1)
    assert trades.filter(_.ts == exact).count().execute() == 1
    either = trades.ts.coalesce(ibis.timestamp("2024-01-01")).name("x")
    assert either.min().to_pyarrow().value % 1000 == 1


def refusals() -> dict[str, Callable[[Any], Any]]:
    """Expressions that are refused, by the operation that the error names."""
    return {
        "Hash": lambda t: t.n.hash(),
        "RowID": lambda t: t.rowid(),
        "ArrayZip": lambda t: t.l.zip(t.l),
        "ArrayAny": lambda t: t.l.map(lambda x: x > 1).anys(),
        "ArraySum of array<int64>": lambda t: t.l.sums(),
        "ArrayMap with an index": lambda t: t.l.map(lambda x, i: x + i),
        "ArrayFilter with an index": lambda t: t.l.filter(lambda x, i: i > 0),
        "cast of int64 to date": lambda t: t.n.cast("date"),
        "cast of int64 to time": lambda t: t.n.try_cast("time"),
        "cast of timestamp(9) to int64": lambda t: t.ts.cast("int64"),
        "TryCast of int64 to timestamp": lambda t: t.n.try_cast("timestamp"),
        "zone 'Asia/Tokyo'": lambda t: t.ts.cast("timestamp('Asia/Tokyo')"),
        "Limit by an expression": lambda t: t.limit(t.count()),
        "'any_left'": lambda t: t.join(t.view(), "n", how="any_left"),
        "'positional'": lambda t: t.select("n").join(t.select(m="n"), how="positional"),
        "Kurtosis": lambda t: t.n.kurtosis(how="pop"),
        "ApproxMedian": lambda t: t.ts.approx_median(),
        "ApproxMultiQuantile": lambda t: t.n.approx_quantile([0.1, 0.9]),
        "HexDigest by 'sha1'": lambda t: t.s.hexdigest("sha1"),
        "TimestampBucket of months": lambda t: t.ts.bucket(months=1, offset=ibis.interval(days=1)),
        "TimeDelta": lambda t: t.ts.time().delta(t.ts.time(), unit="s"),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_there_is_not(con: Backend, name: str) -> None:
    t = con.create_table("t", schema={"ts": "timestamp", "n": "int64", "l": "array<int64>", "s": "string"})
    expr = refusals()[name](t)
    with pytest.raises((com.UnsupportedOperationError, com.OperationNotDefinedError)) as raised:
        con.to_pyarrow(expr)
    assert name in str(raised.value)


def test_has_operation() -> None:
    assert Backend.has_operation(ops.TimestampBucket) and Backend.has_operation(ops.ArrayMap)
    assert not Backend.has_operation(ops.GeoArea) and not Backend.has_operation(ops.Hash)

"""Functions of the user's own: what they compute, against NumPy and pandas; what they are kept from; what they do wrong."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

import tickstone
from tickstone.testing import asking, strategies


def widths(bid: pa.Array, ask: pa.Array) -> pa.Array:
    """A scalar function that a NULL would break."""
    assert bid.null_count == ask.null_count == 0
    return pc.divide(pc.subtract(ask, bid), bid)


def spread(x: pa.Array) -> pa.Scalar:
    """An aggregate: the range of the values."""
    assert x.null_count == 0 and len(x) > 0
    return pc.subtract(pc.max(x), pc.min(x))


def path_length(x: pa.Array) -> float:
    """An aggregate by the order of the rows."""
    return float(np.abs(np.diff(x.to_numpy())).sum())


def from_first(x: pa.Array) -> np.ndarray[Any, Any]:
    """A window function: the difference from the first value of the partition."""
    values: np.ndarray[Any, Any] = x.to_numpy(zero_copy_only=False)
    moved: np.ndarray[Any, Any] = values - values[0] + len(values) / 1024
    return moved


def create_all(db: tickstone.Database) -> None:
    """The functions above, under their names."""
    db.create_function("widths", widths, ["DOUBLE", pa.float64()], "DOUBLE")
    db.create_function("spread_of", spread, ["DOUBLE"], "DOUBLE", kind="aggregate")
    db.create_function("path_length", path_length, ["DOUBLE"], pa.float64(), kind="aggregate")
    db.create_function("from_first", from_first, ["DOUBLE"], "DOUBLE", kind="window")


def ask(tick: str, pandas: Callable[..., Any], **frames: Any) -> None:
    """One question in every state of the rows, and of pandas."""
    with asking(**frames) as asked:
        for database in asked.states.values():
            create_all(database)
        asked.check(tick, pandas=pandas)


def by_symbol(trades: pd.DataFrame, of: Callable[[pd.Series], float]) -> pd.DataFrame:
    """The value of each symbol, NaN where no price is known."""
    known = trades.dropna(subset=["price"]).groupby("symbol")["price"].agg(of)
    return pd.DataFrame({"symbol": trades["symbol"].unique()}).merge(
        known.rename("value"), left_on="symbol", right_index=True, how="left"
    )


@given(strategies.quotes())
def test_a_scalar_function(quotes: pa.Table) -> None:
    def pandas(quotes: pd.DataFrame) -> pd.DataFrame:
        quotes = quotes.assign(w=(quotes.ask - quotes.bid) / quotes.bid)
        return quotes[quotes.w < 0.5][["id", "w"]]

    ask("SELECT id, widths(bid, ask) AS w FROM quotes WHERE widths(bid, ask) < 0.5", pandas, quotes=quotes)


@given(strategies.trades())
def test_an_aggregate(trades: pa.Table) -> None:
    ask(
        "SELECT symbol, spread_of(price) AS value FROM trades GROUP BY symbol",
        lambda trades: by_symbol(trades, lambda x: x.max() - x.min()),
        trades=trades,
    )


@given(strategies.trades())
def test_an_aggregate_in_order(trades: pa.Table) -> None:
    ask(
        "SELECT symbol, path_length(price ORDER BY id) AS value FROM trades GROUP BY symbol",
        lambda trades: by_symbol(trades, lambda x: x.diff().abs().sum()),
        trades=trades,
    )


@given(strategies.trades(nulls=False))
def test_an_aggregate_in_bars(trades: pa.Table) -> None:
    def pandas(trades: pd.DataFrame) -> pd.DataFrame:
        bars = trades.groupby([trades.ts.dt.floor("h"), "symbol"])["price"]
        value = bars.agg(lambda x: x.max() - x.min())
        return value.rename("value").reset_index()

    ask("SELECT ts, symbol, spread_of(price) AS value FROM trades SAMPLE BY 1h", pandas, trades=trades)


@given(strategies.trades())
def test_an_aggregate_over_a_moving_frame(trades: pa.Table) -> None:
    def pandas(trades: pd.DataFrame) -> pd.DataFrame:
        rolled = trades.groupby("symbol")["price"].rolling(3, min_periods=1)
        value = (rolled.max() - rolled.min()).droplevel(0)
        return trades.assign(value=value)[["id", "value"]]

    sql = """SELECT id, spread_of(price) OVER (PARTITION BY symbol ORDER BY id ROWS 2 PRECEDING) AS value
             FROM trades"""
    ask(sql, pandas, trades=trades)


@given(strategies.trades())
def test_a_window_function(trades: pa.Table) -> None:
    def pandas(trades: pd.DataFrame) -> pd.DataFrame:
        known = trades.dropna(subset=["price"]).groupby("symbol")["price"]
        value = known.transform(lambda x: x - x.iloc[0] + len(x) / 1024)
        return trades.assign(value=value)[["id", "value"]]

    for order in ("id", "ts, id"):
        sql = f"SELECT id, from_first(price) OVER (PARTITION BY symbol ORDER BY {order}) AS value FROM trades"
        ask(sql, pandas, trades=trades)


@pytest.fixture
def trades(db: tickstone.Database) -> tickstone.Database:
    """A table of a hundred thousand rows of ten symbols, and the functions."""
    count = 100_000
    frame = pa.table(
        {
            "ts": pa.array(np.arange(count) * 1_000_000_000, pa.timestamp("ns")),
            "symbol": [f"S{n % 10}" for n in range(count)],
            "price": np.random.default_rng(7).normal(100, 1, count),
            "id": np.arange(count),
        }
    )
    db.append("trades", frame, timestamp="ts", series="symbol", create=True)
    create_all(db)
    return db


def test_many_rows_in_many_batches(trades: tickstone.Database) -> None:
    frame = trades.sql("SELECT * FROM trades").pandas()
    expected = frame.groupby("symbol", observed=True)["price"].agg(lambda x: x.max() - x.min())
    found = trades.sql("SELECT symbol, spread_of(price) AS r FROM trades GROUP BY symbol").pandas()
    assert np.allclose(found.set_index("symbol").r.sort_index(), expected.sort_index())
    bars = trades.sql("SELECT ts, symbol, path_length(price ORDER BY ts) AS p FROM trades SAMPLE BY 1h").pandas()
    hours = frame.groupby([frame.ts.dt.floor("h"), "symbol"], observed=True)["price"]
    assert np.allclose(bars.set_index(["ts", "symbol"]).p.sort_index(), hours.agg(lambda x: x.diff().abs().sum()))
    odd = "SELECT id % 3 AS k, path_length(price ORDER BY id) AS p FROM trades GROUP BY id % 3 ORDER BY k"
    thirds = frame.sort_values("id").groupby(frame.id % 3)["price"].agg(lambda x: x.diff().abs().sum())
    assert np.allclose(trades.sql(odd).pandas().p, thirds)
    assert trades.sql("SELECT count(*) FROM trades WHERE widths(price, price + 1) > 0").fetchone() == (100_000,)


def test_they_stand_in_views_joins_and_prepared_statements(trades: tickstone.Database) -> None:
    trades.sql("CREATE VIEW bars AS SELECT ts, symbol, spread_of(price) AS r FROM trades SAMPLE BY 1h")
    assert trades.sql("SELECT max(r) > 0 FROM bars").fetchone() == (True,)
    assert [name for name, *_ in trades.sql("SHOW VIEWS").fetchall()] == ["bars"]
    trades.sql("PREPARE above AS SELECT count(*) FROM trades WHERE widths(price, 101) > $1")
    below = trades.sql("SELECT count(*) FROM trades WHERE price < 101 / 1.01").fetchone()
    assert trades.sql("EXECUTE above (0.01)").fetchone() == below
    joined = """SELECT t.id, spread_of(q.price) AS r FROM (SELECT * FROM trades WHERE id < 10) t
                WINDOW JOIN trades q ON (symbol) RANGE BETWEEN 1m PRECEDING AND 1m FOLLOWING"""
    assert len(trades.sql(joined).fetchall()) == 10
    trades.sql("CREATE TABLE kept AS (SELECT symbol, spread_of(price) AS r FROM trades GROUP BY symbol)")
    assert trades.sql("SELECT count(*) FROM kept").fetchone() == (10,)
    trades.sql("DELETE FROM trades WHERE widths(price, 101) > 0.01")
    assert trades.sql("SELECT count(*) FROM trades WHERE widths(price, 101) > 0.01").fetchone() == (0,)
    trades.remove_function("spread_of")
    with pytest.raises(tickstone.SqlError, match="spread_of"):
        trades.sql("SELECT * FROM bars")


def test_values_cross_without_a_copy(trades: tickstone.Database) -> None:
    frame = pa.table({"x": np.arange(1000.0)})
    seen: list[int] = []

    def where(x: pa.Array) -> pa.Array:
        seen.append(x.buffers()[1].address + x.offset * 8)
        return x

    trades.create_function("whereabouts", where, ["DOUBLE"], "DOUBLE")
    trades.sql("SELECT whereabouts(x) FROM frame").fetchall()
    assert frame.column("x").chunk(0).buffers()[1].address in seen


@pytest.mark.parametrize(
    ("sql_type", "arrow", "value"),
    [
        ("BOOLEAN", pa.bool_(), True),
        ("TINYINT", pa.int8(), -3),
        ("BIGINT UNSIGNED", pa.uint64(), 2**63),
        ("FLOAT", pa.float32(), 0.5),
        ("VARCHAR", pa.string(), "ünï"),
        ("SYMBOL", pa.string(), "BTC"),
        ("BINARY", pa.binary(), b"\x00\xff"),
        ("DATE", pa.date32(), 19_000),
        ("TIMESTAMP", pa.timestamp("ns"), 1_700_000_000_123_456_789),
        ("DECIMAL(10,2)", pa.decimal128(10, 2), None),
    ],
)
def test_types(db: tickstone.Database, sql_type: str, arrow: pa.DataType, value: Any) -> None:
    seen: list[pa.DataType] = []

    def same(x: pa.Array) -> pa.Array:
        seen.append(x.type)
        return x

    db.create_function("same", same, [sql_type], sql_type, null_handling="special")
    frame = pa.table({"x": pa.array([value, None], arrow)})
    found = db.sql("SELECT same(x) AS x FROM frame").arrow()
    assert seen == [arrow] and found.column("x").to_pylist() == frame.column("x").to_pylist()


def test_what_a_function_may_give(db: tickstone.Database) -> None:
    forms: dict[str, Callable[[pa.Array], Any]] = {
        "array": lambda x: x,
        "chunks": lambda x: pa.chunked_array([x.slice(0, 1), x.slice(1)]),
        "no_chunks": lambda x: pa.chunked_array([x]),
        "numpy": lambda x: x.to_numpy(),
        "series": lambda x: pd.Series(x.to_numpy()),
        "listed": lambda x: x.to_pylist(),
    }
    frame = pa.table({"x": [1.0, float("nan"), 3.0]})
    for name, function in forms.items():
        db.create_function(name, function, ["DOUBLE"], "DOUBLE")
        assert str(db.sql(f"SELECT {name}(x) FROM frame").fetchall()) == "[(1.0,), (nan,), (3.0,)]", name
    db.create_function("large", lambda x: x.cast(pa.large_string()), ["VARCHAR"], "VARCHAR")
    db.create_function("coded", lambda x: x.dictionary_encode(), ["VARCHAR"], "SYMBOL")
    db.create_function("nothing", lambda x: pa.nulls(len(x)), ["VARCHAR"], "DOUBLE")
    assert db.sql("SELECT large('a'), coded('b'), nothing('c')").fetchall() == [("a", "b", None)]
    for name, value in {"plain": 1, "scalar": pa.scalar(1), "number": np.float64(1), "none": None}.items():
        db.create_function(f"one_{name}", lambda x, value=value: value, ["DOUBLE"], "DOUBLE", kind="aggregate")
        assert db.sql(f"SELECT one_{name}(x) FROM frame").fetchone() == (None if value is None else 1.0,)


def test_nulls(db: tickstone.Database) -> None:
    frame = pa.table({"k": ["a", "a", "b"], "x": [1.0, None, None]})
    for handling in ("default", "special"):
        length: dict[str, Any] = {"null_handling": handling, "replace": True}
        db.create_function("rows_of", lambda x: [len(x)] * len(x), ["DOUBLE"], "BIGINT", **length)
        db.create_function("group_of", len, ["DOUBLE"], "BIGINT", kind="aggregate", **length)
        db.create_function("part_of", lambda x: [len(x)] * len(x), ["DOUBLE"], "BIGINT", kind="window", **length)
        scalar = db.sql("SELECT rows_of(x) FROM frame").fetchall()
        groups = db.sql("SELECT k, group_of(x) FROM frame GROUP BY k ORDER BY k").fetchall()
        parts = db.sql("SELECT part_of(x) OVER (PARTITION BY k) FROM frame ORDER BY k, x").fetchall()
        empty = db.sql("SELECT group_of(x) FROM frame WHERE k = 'z'").fetchall()
        if handling == "default":
            assert scalar == [(1,), (None,), (None,)] and groups == [("a", 1), ("b", None)]
            assert parts == [(1,), (None,), (None,)] and empty == [(None,)]
        else:
            assert scalar == [(3,)] * 3 and groups == [("a", 2), ("b", 1)]
            assert parts == [(2,), (2,), (1,)] and empty == [(0,)]


def raising(x: pa.Array) -> pa.Array:
    """Fails."""
    raise LookupError("no luck")


@pytest.mark.parametrize("kind", ["scalar", "aggregate", "window"])
@pytest.mark.parametrize("read", ["fetchall", "arrow", "polars"])
def test_an_exception_is_the_cause(trades: tickstone.Database, kind: Any, read: str) -> None:
    trades.create_function("raising", raising, ["DOUBLE"], "DOUBLE", kind=kind)
    over = " OVER (PARTITION BY symbol ORDER BY ts)" if kind == "window" else ""
    with pytest.raises(tickstone.SqlError, match="function 'raising' failed: LookupError: no luck") as caught:
        getattr(trades.sql(f"SELECT raising(price){over} FROM trades"), read)()
    cause = caught.value.__cause__
    assert isinstance(cause, LookupError) and cause.__traceback__ is not None
    assert trades.sql("SELECT count(*) FROM trades").fetchone() == (100_000,)


def test_an_exception_through_other_operators(trades: tickstone.Database) -> None:
    trades.create_function("raising", raising, ["DOUBLE"], "DOUBLE")
    for sql in (
        "SELECT id % 7, sum(raising(price)) FROM trades GROUP BY id % 7",
        "SELECT count(*) FROM trades a JOIN trades b ON a.id = b.id WHERE raising(a.price) < b.price",
        "SELECT * FROM trades ORDER BY raising(price) LIMIT 3",
        "SELECT raising(1)",
        "CREATE TABLE x AS (SELECT raising(price) AS p FROM trades)",
        "UPDATE trades SET price = raising(price)",
    ):
        with pytest.raises(tickstone.SqlError, match="no luck") as caught:
            trades.sql(sql).fetchall()
        assert isinstance(caught.value.__cause__, LookupError), sql


WRONG: list[tuple[Any, str]] = [
    (lambda x: x.slice(0, 1), "gave 1 values where 3 were asked for"),
    (lambda x: pa.array([1, 2, 3]), "gave BIGINT, not DOUBLE"),
    (lambda x: None, "TypeError"),
    (lambda x: 5, "TypeError"),
    (lambda x: ["a", "b", "c"], "failed: Arrow"),
    (lambda: None, "TypeError"),
]


@pytest.mark.parametrize(("function", "said"), WRONG)
def test_what_a_function_gives_is_checked(db: tickstone.Database, function: Any, said: str) -> None:
    frame = pa.table({"x": [1.0, 2.0, 3.0]})
    db.create_function("wrong", function, ["DOUBLE"], "DOUBLE")
    with pytest.raises(tickstone.SqlError, match="function 'wrong'") as caught:
        db.sql("SELECT wrong(x) FROM frame").fetchall()
    assert said in str(caught.value) and frame.num_rows == 3


def test_what_cannot_be_created(db: tickstone.Database) -> None:
    def create(name: str = "f", function: Any = len, parameters: Any = ("DOUBLE",), **more: Any) -> None:
        db.create_function(name, function, parameters, "DOUBLE", **more)

    with pytest.raises(tickstone.Error, match="is a function of the database"):
        create("sum", replace=True)
    with pytest.raises(tickstone.Error, match="is no name of a function"):
        create("my f")
    with pytest.raises(tickstone.Error, match="takes no argument"):
        create(parameters=[])
    with pytest.raises(tickstone.Error, match="MONEY"):
        create(parameters=["MONEY"])
    with pytest.raises(ValueError, match="kind is"):
        create(kind="table")
    with pytest.raises(ValueError, match="null_handling is"):
        create(null_handling="skip")
    for wrong in ("DOUBLE", [7]):
        with pytest.raises(TypeError):
            create(parameters=wrong)
    with pytest.raises(TypeError):
        create(function=3)
    with pytest.raises(tickstone.Error, match="no function 'f'"):
        db.remove_function("f")
    assert db.sql("SHOW FUNCTIONS").fetchone()[2] == "built-in"  # type: ignore[index]


def test_replacing(trades: tickstone.Database) -> None:
    trades.create_function("level", lambda x: pc.add(x, 1.0), ["DOUBLE"], "DOUBLE")
    relation = trades.sql("SELECT level(1)")
    again = trades.sql("SELECT level(price) - price AS d FROM trades WHERE id = 7")
    assert relation.fetchone() == (2.0,)
    for _ in range(2):
        assert [round(x) for (x,) in again.fetchall()] == [1]
    with pytest.raises(tickstone.Error, match="already"):
        trades.create_function("LEVEL", lambda x: x, ["DOUBLE"], "DOUBLE")
    trades.create_function("level", lambda x: pc.add(x, 5.0), ["DOUBLE"], "DOUBLE", replace=True)
    assert trades.sql("SELECT level(1)").fetchone() == (6.0,)
    assert [round(x) for (x,) in again.fetchall()] == [5]
    trades.create_function("level", lambda x: "high", ["DOUBLE"], "VARCHAR", kind="aggregate", replace=True)
    assert trades.sql("SELECT level(price) FROM trades").fetchone() == ("high",)
    trades.remove_function("Level")
    with pytest.raises(tickstone.SqlError, match="function 'level' does not exist"):
        trades.sql("SELECT level(1)")


def test_many_threads_at_once(trades: tickstone.Database) -> None:
    expected = trades.sql("SELECT symbol, spread_of(price) AS r FROM trades GROUP BY symbol ORDER BY symbol").fetchall()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                found = trades.sql("SELECT symbol, spread_of(price) AS r FROM trades GROUP BY symbol ORDER BY symbol")
                assert found.fetchall() == expected
                assert len(trades.sql("SELECT from_first(price) OVER (PARTITION BY symbol ORDER BY ts) FROM trades").polars()) == 100_000
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_statements_inside_a_function_are_refused(threads: int) -> None:
    with tickstone.open(":memory:", threads=threads) as db:
        db.append("t", {"x": [1.0, 2.0]}, create=True)
        prepared = db.sql("SELECT x FROM t")
        inside: dict[str, Callable[[pa.Array], Any]] = {
            "asks": lambda x: db.sql("SELECT 1").fetchall(),
            "reads": lambda x: prepared.fetchall(),
            "changes": lambda x: db.sql("INSERT INTO t VALUES (1)"),
        }
        for name, function in inside.items():
            db.create_function(name, function, ["DOUBLE"], "DOUBLE")
            for sql in (f"SELECT {name}(x) FROM t", f"SELECT {name}(1)", f"SELECT sum({name}(a.x)) FROM t a, t b GROUP BY b.x"):
                with pytest.raises(tickstone.SqlError, match="a user function cannot run statements"):
                    db.sql(sql).fetchall()
        assert db.sql("SELECT count(*) FROM t").fetchone() == (2,)


INTERRUPTED = """
import os, signal, sys, time, tickstone
signal.signal(signal.SIGINT, signal.default_int_handler)
db = tickstone.open(":memory:", threads=int(sys.argv[1]))
db.append("t", {"a": [float(n) for n in range(200_000)]}, create=True)

def slow(x):
    os.write(1, b"running\\n")  # at once: several threads may run it
    for _ in range(100):
        time.sleep(0.01)
    return x

db.create_function("slow", slow, ["DOUBLE"], "DOUBLE")
try:
    db.sql(sys.argv[2]).fetchall()
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(db.sql("SELECT count(*) FROM t").fetchone()[0], flush=True)
db.close()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "sql", ["SELECT slow(a) FROM t", "SELECT sum(slow(a)) FROM t", "SELECT slow(x.a) FROM t x JOIN t y USING (a)"]
)
def test_ctrl_c(threads: int, sql: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(threads), sql],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    watchdog = threading.Timer(30, process.kill)
    watchdog.start()
    try:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read().split()
        assert [line for line in rest if line != "running"] == ["interrupted", "200000"]
        assert process.wait(20) == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def test_they_go_with_the_database(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.append("t", {"x": [1.0]}, create=True)
        db.create_function("same", lambda x: x, ["DOUBLE"], "DOUBLE")
        db.sql("CREATE VIEW v AS SELECT same(x) AS y FROM t")
        assert db.sql("SELECT * FROM v").fetchall() == [(1.0,)]
    with tickstone.open(directory) as db:
        with pytest.raises(tickstone.SqlError, match="function 'same' does not exist"):
            db.sql("SELECT * FROM v")
        db.create_function("same", lambda x: x, ["DOUBLE"], "DOUBLE")
        assert db.sql("SELECT * FROM v").fetchall() == [(1.0,)]

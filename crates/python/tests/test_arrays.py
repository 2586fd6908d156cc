"""Columns of arrays: every form that frames have them in, and questions about them against DuckDB and Polars."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tickstone
from tickstone.testing import check, strategies

LEVELS = [[1.5, 2.0], [3.0, 4.0], None]

FORMS: dict[str, Callable[[], Any]] = {
    "list": lambda: pa.table({"levels": pa.array(LEVELS, pa.list_(pa.float64()))}),
    "large list": lambda: pa.table({"levels": pa.array(LEVELS, pa.large_list(pa.float64()))}),
    "list of two": lambda: pa.table({"levels": pa.array(LEVELS, pa.list_(pa.float64(), 2))}),
    "list of floats": lambda: pa.table({"levels": pa.array(LEVELS, pa.list_(pa.float32()))}),
    "polars": lambda: pl.DataFrame({"levels": LEVELS}),
    "polars array": lambda: pl.DataFrame({"levels": LEVELS}, schema={"levels": pl.Array(pl.Float64, 2)}),
    "pandas": lambda: pd.DataFrame({"levels": LEVELS}),
    "dict": lambda: {"levels": LEVELS},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_lists(db: tickstone.Database, form: str) -> None:
    db.sql("CREATE TABLE books (levels DOUBLE[])")
    assert db.append("books", FORMS[form]()) == 3
    stored = db.sql("SELECT levels FROM books").arrow()
    assert stored.column("levels").type == pa.list_(pa.float64())
    assert stored.column("levels").to_pylist() == LEVELS
    assert db.sql("SELECT levels FROM books").fetchall() == [(row,) for row in LEVELS]


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (pa.list_(pa.int32()), "INT[]"),
        (pa.large_list(pa.large_string()), "VARCHAR[]"),
        (pa.list_(pa.dictionary(pa.int32(), pa.string())), "VARCHAR[]"),
        (pa.list_(pa.timestamp("us")), "TIMESTAMP[]"),
        (pa.list_(pa.bool_(), 3), "BOOLEAN[]"),
    ],
    ids=str,
)
def test_tables_are_made_of_lists(db: tickstone.Database, kind: pa.DataType, sql: str) -> None:
    db.append("t", pa.table({"a": pa.array([None], kind)}), create=True)
    assert [row[:2] for row in db.sql("DESCRIBE t").fetchall()] == [("a", sql)]


def test_what_does_not_fit_is_named(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE books (sizes INT[])")
    for levels, words in [
        (pa.array([[1.0], [2.0, 2.5]]), "row 2: the value for column 'sizes' is no INT"),
        (pa.array([1.0, 2.0]), "column 'sizes' is INT"),
        (pa.array([[[1.0]]]), "column 'sizes' is INT"),
    ]:
        with pytest.raises(tickstone.Error, match=words):
            db.append("books", pa.table({"sizes": levels}))
    assert db.append("books", pa.table({"sizes": pa.array([[1.0, None], []])})) == 2
    assert db.sql("SELECT sizes FROM books").fetchall() == [([1, None],), ([],)]


@st.composite
def books(draw: st.DrawFn) -> pa.Table:
    """Quotes with levels: no array, no elements, elements that are not there, long ones."""
    quotes = draw(strategies.quotes(ties=False))
    level = st.none() | st.integers(-400, 400).map(lambda quarters: quarters / 4)
    levels = st.none() | st.lists(level, max_size=6) | st.just([0.25] * 1_500)
    rows = draw(st.lists(levels, min_size=quotes.num_rows, max_size=quotes.num_rows))
    return quotes.append_column("levels", pa.array(rows, pa.list_(pa.float64())))


@given(books())
def test_arrays_are_kept(books: pa.Table) -> None:
    check(
        "SELECT id, levels FROM books",
        duckdb="SELECT id, levels FROM books",
        polars=lambda books: books.select("id", "levels"),
        books=books,
    )


@given(books())
def test_elements_and_slices(books: pa.Table) -> None:
    sql = "SELECT id, levels[1], levels[-1], levels[2:3], {length}(levels) FROM books WHERE levels[1] > -50"
    check(sql.format(length="cardinality"), duckdb=sql.format(length="len"), books=books)


@given(books())
def test_rows_of_arrays(books: pa.Table) -> None:
    sql = "SELECT symbol, count(x), sum(x), max(x) FROM (SELECT symbol, UNNEST(levels) AS x FROM books) GROUP BY symbol"
    exploded = [pl.col("levels").count().alias("n"), pl.col("levels").sum().alias("s"), pl.col("levels").max()]
    check(sql, duckdb=sql, exact=True, books=books)
    check(
        "SELECT count(x), sum(x) FROM (SELECT UNNEST(levels) AS x FROM books) HAVING count(x) > 0",
        polars=lambda books: books.explode("levels").select(exploded[:2]).filter(pl.col("n") > 0),
        exact=True,
        books=books,
    )


@given(books())
def test_arrays_of_bars(books: pa.Table) -> None:
    minute = pl.col("ts").dt.truncate("1m")
    ends = [pl.col("levels").first().alias("first"), pl.col("levels").last().alias("last")]
    check(
        "SELECT ts, symbol, first(levels), last(levels) FROM books SAMPLE BY 1m",
        polars=lambda books: books.group_by(minute, "symbol", maintain_order=True).agg(ends),
        books=books,
    )
    check(
        "SELECT symbol, levels FROM books LATEST ON ts PARTITION BY symbol",
        polars=lambda books: books.group_by("symbol", maintain_order=True).agg(pl.col("levels").last()),
        books=books,
    )


@given(strategies.trades(), books())
def test_arrays_through_joins(trades: pa.Table, books: pa.Table) -> None:
    check(
        "SELECT t.id, b.levels FROM trades t ASOF JOIN books b ON (symbol)",
        polars=lambda trades, books: trades.join_asof(books, on="ts", by="symbol").select("id", "levels"),
        trades=trades,
        books=books,
    )
    check(
        "SELECT b.id, b.levels, t.id FROM books b ASOF JOIN trades t ON (symbol)",
        polars=lambda trades, books: books.join_asof(trades, on="ts", by="symbol").select("id", "levels", "id_right"),
        trades=trades,
        books=books,
    )


@pytest.mark.parametrize("file", ["books.parquet", "books.ndjson", "books.csv", "books.arrow"])
def test_arrays_come_back_from_files(db: tickstone.Database, tmp_path: Any, file: str) -> None:
    rows = [(0, [1.5, None], ["a", 'say "hi", it\'s']), (1, [], [""]), (2, None, None), (3, [-2e300], [None, "\\\n"])]
    frame = pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int64()),
            "levels": pa.array([row[1] for row in rows], pa.list_(pa.float64())),
            "notes": pa.array([row[2] for row in rows], pa.list_(pa.string())),
        }
    )
    db.append("books", frame, create=True)
    path = tmp_path / file
    db.sql(f"COPY books TO '{path}'")
    db.import_file(path, "made", timestamp="none")
    assert [row[1] for row in db.sql("DESCRIBE made").fetchall()] == ["BIGINT", "DOUBLE[]", "VARCHAR[]"]
    assert sorted(db.sql("SELECT * FROM made").fetchall()) == rows

"""Arrow out: the same buffers on both sides, and no more rows in memory than a batch."""

import gc
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import tickstone

ROWS = 100_000


@pytest.fixture
def relation(db: tickstone.Database) -> Any:
    """A query over many rows."""
    frame = pa.table({"ts": pa.array(range(ROWS), pa.timestamp("ns")), "x": np.arange(ROWS) * 0.5})
    db.append("t", frame, timestamp="ts", create=True)
    return db.sql("SELECT ts, x FROM t")


def addresses(batch: pa.RecordBatch) -> list[int]:
    """Where the values of the columns lie."""
    return [column.buffers()[1].address for column in batch.columns]


class Capturing:
    """Hands a stream on and remembers where its buffers lie."""

    def __init__(self, relation: Any) -> None:
        reader = pa.RecordBatchReader.from_stream(relation)
        self.batches = list(reader)
        self.schema = reader.schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches).__arrow_c_stream__(requested_schema)


def test_numpy_shares_the_buffers_of_arrow(relation: Any) -> None:
    table = relation.arrow().combine_chunks()
    column = table.column("x").chunk(0)
    assert column.to_numpy(zero_copy_only=True).ctypes.data == column.buffers()[1].address


def test_polars_reads_the_buffers_of_the_stream(relation: Any) -> None:
    captured = Capturing(relation)
    frame = pl.DataFrame(captured)
    theirs = [
        chunk.to_arrow().buffers()[1].address
        for chunk in frame.get_column("x").get_chunks()
    ]
    assert set(theirs) <= {addresses(batch)[1] for batch in captured.batches}
    assert len(theirs) == len([batch for batch in captured.batches if batch.num_rows])


def test_a_frame_by_name_is_read_where_it_lies(db: tickstone.Database) -> None:
    values = pa.array(np.arange(ROWS) * 0.5)
    frame = pa.table({"x": values})
    batches = [batch for batch in db.sql("SELECT x FROM frame").batches() if batch.num_rows]
    start, length = values.buffers()[1].address, values.nbytes
    for batch in batches:
        address = batch.column(0).buffers()[1].address
        assert start <= address < start + length, "the values were copied"
    assert sum(batch.num_rows for batch in batches) == frame.num_rows


def test_results_outlive_the_database(db: tickstone.Database, relation: Any) -> None:
    table = relation.arrow()
    frame = relation.polars()
    db.close()
    gc.collect()
    assert table.column("x")[ROWS - 1].as_py() == (ROWS - 1) * 0.5
    assert frame["x"].sum() == sum(range(ROWS)) * 0.5


def test_a_stream_is_not_collected(db: tickstone.Database) -> None:
    """The first batch of a result of 10^10 rows is there at once; the rest is never made."""
    db.append("n", {"x": list(range(2_000))}, create=True)
    relation = db.sql("SELECT a.x + b.x AS s FROM n a CROSS JOIN n b CROSS JOIN n c")
    reader = pa.RecordBatchReader.from_stream(relation)
    assert reader.read_next_batch().num_rows > 0
    del reader
    gc.collect()
    assert next(iter(relation.batches())).num_rows > 0
    assert len(relation.fetchmany(5)) == 5
    assert db.sql("SELECT count(*) FROM n").fetchone() == (2_000,), "the database is usable meanwhile"


def test_batches_of_a_size(relation: Any) -> None:
    sizes = [batch.num_rows for batch in relation.batches(rows=30_000)]
    assert sum(sizes) == ROWS and max(sizes) <= 30_000


def test_others_read_the_relation_itself(relation: Any) -> None:
    import duckdb
    import pandas as pd

    assert pa.table(relation).num_rows == ROWS
    assert pl.DataFrame(relation).height == ROWS
    assert pa.RecordBatchReader.from_stream(relation).read_all().num_rows == ROWS
    with duckdb.connect() as connection:
        found = connection.execute("SELECT count(*), max(x) FROM relation").fetchall()
    assert found == [(ROWS, (ROWS - 1) * 0.5)]
    assert len(pd.DataFrame.from_arrow(relation)) == ROWS  # type: ignore[attr-defined]


def test_a_requested_schema(relation: Any) -> None:
    wanted = pa.schema([("ts", pa.timestamp("ns")), ("x", pa.float32())])
    capsule = relation.__arrow_c_stream__(wanted.__arrow_c_schema__())
    assert capsule is not None

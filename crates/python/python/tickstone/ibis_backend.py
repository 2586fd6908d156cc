"""A backend of Ibis: tables and expressions of Python, run as SQL inside Tickstone.

    import ibis

    con = ibis.tickstone.connect("ticks")               # a directory, or "tickstone://host" for a server
    con = ibis.tickstone.from_connection(db)            # a database that is open already, and stays open
    con = ibis.connect("tickstone:///ticks?read_only=true")

    trades = con.table("trades")
    trades.group_by("symbol").agg(high=trades.price.max()).to_polars()

Where the package is on the path without being installed, `Backend().connect(…)` and `Backend.from_connection(db)` of
this module are the same.

A SYMBOL is a string, a TIMESTAMP `timestamp(9)` without a zone, in UTC; DECIMALs have the digits that Tickstone gives
them. An operation that Tickstone has not raises `ibis.common.exceptions.UnsupportedOperationError` or
`OperationNotDefinedError` with its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import ParseResult

import ibis
import ibis.common.exceptions as com
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow as pa
from ibis.backends import NoExampleLoader
from ibis.backends.sql import SQLBackend
from ibis.expr.operations.udf import InputType
from ibis.formats.pyarrow import PyArrowType

import tickstone
from tickstone import _tickstone
from tickstone.database import Database, names_of
from tickstone.dbapi import opened
from tickstone.errors import SqlError
from tickstone.frames import as_stream
from tickstone.ibis_compiler import TickstoneType, compiler, refused
from tickstone.relation import _Durations, raise_own
from tickstone.texts import StrPath, bracketed, file_call, quoted

if TYPE_CHECKING:
    import pandas
    import polars

    from tickstone.relation import Relation

__all__ = ["Backend"]

Paths: TypeAlias = StrPath | Sequence[StrPath]

# What the rows of a new table are called in the statement that makes it.
_ROWS = "__rows"
_TIMES = ("ts", "timestamp", "time")
_NUMBERS = ("memory_budget", "query_memory", "threads")


class _Types(PyArrowType):
    """Types of Ibis for those of results, each of which may be NULL."""

    @classmethod
    def to_ibis(cls, typ: pa.DataType, nullable: bool = True) -> dt.DataType:
        if typ == pa.binary(16):
            return dt.uuid
        if pa.types.is_interval(typ):
            return dt.Interval("ns")
        return super().to_ibis(typ, True)


class Backend(SQLBackend, NoExampleLoader):
    """A connection of Ibis to a database. What is not listed here is as Ibis describes it."""

    name = "tickstone"
    compiler = compiler

    # Connecting.

    def do_connect(self, database: StrPath | Database = ":memory:", **options: Any) -> None:
        """Opens the database in a directory, connects to the one of a server, or takes one that is open.

        Args:
            database: the directory, ":memory:", "tickstone://host:port", or a Database, which stays open.
            options: those of `tickstone.open`.
        """
        self._owned = not isinstance(database, Database)
        self.con = database if isinstance(database, Database) else opened(database, **options)
        self._temporary: dict[str, _tickstone.Frame] = {}

    @classmethod
    def from_connection(cls, con: Database, /) -> Backend:
        """A connection to a database that is open, and stays open."""
        made: Backend = cls().connect(con)
        return made

    def _from_url(self, url: ParseResult, **options: Any) -> Backend:
        """A connection to what an address of `ibis.connect` names."""
        for name, value in options.items():
            if isinstance(value, str):
                options[name] = int(value) if name in _NUMBERS else value.lower() in ("1", "true", "yes", "on")
        path = f"tickstone://{url.netloc}" if url.netloc else url.path[1:] or ":memory:"
        made: Backend = self.connect(path, **options)
        return made

    def disconnect(self) -> None:
        """Closes the database, unless it was handed over open."""
        if self._owned:
            self.con.close()

    @property
    def version(self) -> str:
        """The version of Tickstone."""
        return tickstone.__version__

    # Running.

    def raw_sql(self, query: Any, **_: Any) -> Relation:
        """Runs a statement of Tickstone's SQL; what it gives has `fetchall()`, `arrow()` and the others."""
        return self._run(query if isinstance(query, str) else query.sql(self.dialect))

    @contextmanager
    def _safe_raw_sql(self, query: Any, **_: Any) -> Iterator[Relation]:
        yield self.raw_sql(query)

    def _run(
        self, sql: str, expr: ir.Expr | None = None, frames: Mapping[str, _tickstone.Frame] | None = None
    ) -> Relation:
        """A statement that sees the frames of an expression."""
        self._log(sql)
        seen = {**self._temporary, **(frames or {})}
        if expr is not None:
            self._register_udfs(expr)
            for table in self._verify_in_memory_tables_are_unique(expr):
                seen[table.name] = _frame(table.name, _data_of(table))
        return self.con._run(self.con._session(), sql, None, None, seen)

    def _register_udfs(self, expr: ir.Expr) -> None:
        for node in expr.op().find(ops.ScalarUDF):
            if node.__input_type__ == InputType.PYARROW:
                types = [arg.dtype.to_pyarrow() for arg in node.args]
                self.con.create_function(
                    type(node).__name__,
                    node.__func__,
                    types,
                    node.dtype.to_pyarrow(),
                    null_handling="special",
                    replace=True,
                )
            elif node.__input_type__ != InputType.BUILTIN:
                raise refused("ScalarUDF over values of Python", "@ibis.udf.scalar.pyarrow is over arrays")

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        """Nothing: a statement takes the frames that it names along."""

    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **_: Any,
    ) -> pa.RecordBatchReader:
        """The rows as a reader of pyarrow, as the query makes them."""
        table = expr.as_table()
        relation = self._run(self.compile(table, params=params, limit=limit), table)
        stream = relation._stream()
        reader = pa.RecordBatchReader.from_stream(_Durations(stream))
        schema = pa.schema(
            [
                pa.field(name, _type_of(dtype, field.type))
                for (name, dtype), field in zip(table.schema().items(), reader.schema, strict=True)
            ]
        )

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for batch in reader:
                    columns = [_fitted(column, to) for column, to in zip(batch.columns, schema.types, strict=True)]
                    made = pa.RecordBatch.from_arrays(columns, schema=schema)
                    yield from (made.slice(at, chunk_size) for at in range(0, made.num_rows, chunk_size))
            except BaseException as told:
                raise_own(stream, told)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def to_pyarrow(self, expr: ir.Expr, /, **options: Any) -> Any:
        """The rows of a table as a pyarrow Table, a column as a ChunkedArray, one value as a Scalar."""
        table = self.to_pyarrow_batches(expr, **options).read_all()
        if isinstance(expr, ir.Table):
            return table
        return table[0][0] if isinstance(expr, ir.Scalar) else table[0]

    def execute(self, expr: ir.Expr, /, **options: Any) -> pandas.DataFrame | pandas.Series[Any] | Any:
        """The rows of a table as a pandas DataFrame, a column as a Series, one value as an object of Python."""
        table = self.to_pyarrow(expr.as_table(), **options)
        declared = expr.as_table().schema().items()
        schema = {
            name: PyArrowType.to_ibis(field.type) if dtype.is_decimal() else dtype
            for (name, dtype), field in zip(declared, table.schema, strict=True)
        }
        return expr.__pandas_result__(table.to_pandas(), schema=sch.Schema(schema))

    def to_polars(self, expr: ir.Expr, /, **options: Any) -> polars.DataFrame | polars.Series | Any:
        """The rows of a table as a Polars DataFrame, a column as a Series, one value as an object of Python."""
        import polars

        frame = polars.DataFrame(self.to_pyarrow(expr.as_table(), **options))
        if isinstance(expr, ir.Table):
            return frame
        return frame.item() if isinstance(expr, ir.Scalar) else frame.to_series()

    # What there is.

    def list_tables(self, *, like: str | None = None, database: str | None = None) -> list[str]:
        """Names of tables, views and temporary tables, those that a regular expression finds."""
        _need_no(database)
        views = [row[0] for row in self._run("SHOW VIEWS").fetchall()]
        names: list[str] = self._filter_with_like({*self.con.tables(), *views, *self._temporary}, like)
        return names

    def get_schema(self, name: str, *, catalog: str | None = None, database: str | None = None) -> sch.Schema:
        """Names and types of the columns of a table or a view."""
        _need_no(catalog or database)
        try:
            return self._get_schema_using_query(f"SELECT * FROM {quoted(name)}")
        except SqlError:
            if name in self.list_tables():
                raise
            raise com.TableNotFound(name) from None

    def _get_schema_using_query(self, query: str) -> sch.Schema:
        return _schema_of(self._run(query))

    def _get_sql_string_view_schema(self, *, name: str, table: ir.Table, query: str) -> sch.Schema:
        return _schema_of(self._run(self.compiler.add_query_to_expr(name=name, table=table, query=query), table))

    def read_parquet(self, paths: Paths, /, *, table_name: str | None = None, **options: Any) -> ir.Table:
        """Parquet files where they lie, as `Database.read_parquet` reads them; with a name a view of them."""
        return self._read("read_parquet", paths, table_name, options)

    def read_csv(self, paths: Paths, /, *, table_name: str | None = None, **options: Any) -> ir.Table:
        """CSV files where they lie, as `Database.read_csv` reads them; with a name a view of them."""
        return self._read("read_csv", paths, table_name, options)

    def read_json(self, paths: Paths, /, *, table_name: str | None = None, **options: Any) -> ir.Table:
        """JSON files where they lie, as `Database.read_json` reads them; with a name a view of them."""
        return self._read("read_json", paths, table_name, options)

    def _read(self, function: str, paths: Paths, name: str | None, options: Mapping[str, Any]) -> ir.Table:
        rows = self.sql(file_call(function, paths, options))
        return rows if name is None else self.create_view(name, rows, overwrite=True)

    # Changes.

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: Any = None,
        database: str | None = None,
        temp: bool = False,
        overwrite: bool = False,
        timestamp: str | None = None,
        series: str | Sequence[str] | None = None,
        partition_by: str | None = None,
    ) -> ir.Table:
        """Makes a table of the rows of an expression or a frame, or an empty one of a schema.

        Args:
            name: the table.
            obj: an expression, or a frame of pandas, Polars, pyarrow or anything that `Database.append` takes.
            schema: columns and types; the strings of `series` are SYMBOLs.
            temp: keep the rows in memory, for this connection only.
            overwrite: take the place of a table that is there.
            timestamp, series, partition_by: the designated timestamp, the columns of the series key, and the length
                of partitions. Without them they are those of what the rows come from, or else found by type and name.
        """
        _need_no(database)
        if obj is None and schema is None:
            raise com.IbisInputError("create_table takes rows, a schema, or both")
        if schema is not None and obj is not None:
            obj = (obj if isinstance(obj, ir.Table) else ibis.memtable(obj)).cast(ibis.schema(schema))
        if temp:
            return self._create_temporary(name, obj, schema, overwrite)
        keys = names_of(series) or []
        if obj is None:
            columns = ibis.schema(schema)
            timestamp = timestamp or next((at for at in _TIMES if at in columns and columns[at].is_timestamp()), None)
        head = f"CREATE {'OR REPLACE ' if overwrite else ''}TABLE {quoted(name)}"
        layout = f" TIMESTAMP({quoted(timestamp)})" if timestamp else ""
        layout += f" SERIES BY ({', '.join(map(quoted, keys))})" if keys else ""
        layout += f" PARTITION BY {partition_by}" if partition_by else ""
        if obj is None:
            types = {at: "SYMBOL" if at in keys else TickstoneType.to_string(of) for at, of in columns.items()}
            self._run(f"{head} ({', '.join(f'{quoted(at)} {of}' for at, of in types.items())}){layout}")
            return self.table(name)
        symbols = ", ".join(f"arrow_cast({quoted(at)}, 'Dictionary(UInt32, Utf8)') AS {quoted(at)}" for at in keys)
        head += f" AS (SELECT *{f' REPLACE ({symbols})' if symbols else ''} FROM"
        if isinstance(obj, ir.Table):
            self._run(f"{head} {bracketed(self.compile(obj))}){layout}", obj)
        else:
            self._run(f"{head} {_ROWS}){layout}", frames={_ROWS: _frame(_ROWS, obj)})
        return self.table(name)

    def _create_temporary(self, name: str, obj: Any, schema: Any, overwrite: bool) -> ir.Table:
        if name in self.con.tables() or (name in self._temporary and not overwrite):
            raise com.IbisInputError(f"table {name!r} already exists")
        if obj is None:
            obj = ibis.schema(schema).to_pyarrow().empty_table()
        self._temporary[name] = _frame(name, self.to_pyarrow(obj) if isinstance(obj, ir.Table) else obj)
        return self.table(name)

    def drop_table(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Removes a table; with `force` also none."""
        _need_no(database)
        if self._temporary.pop(name, None) is None:
            self._run(f"DROP TABLE {'IF EXISTS ' if force else ''}{quoted(name)}")

    def truncate_table(self, name: str, /, *, database: str | None = None) -> None:
        """Removes the rows of a table."""
        _need_no(database)
        self._run(f"TRUNCATE TABLE {quoted(name)}")

    def rename_table(self, old_name: str, new_name: str) -> None:
        """Gives a table another name."""
        self._run(f"ALTER TABLE {quoted(old_name)} RENAME TO {quoted(new_name)}")

    def create_view(
        self, name: str, /, obj: ir.Table, *, database: str | None = None, overwrite: bool = False
    ) -> ir.Table:
        """Gives an expression a name in the database, where others see it too."""
        _need_no(database)
        frames = [each.name for each in obj.op().find((ops.InMemoryTable, ops.DatabaseTable))]
        if obj.op().find(ops.InMemoryTable) or self._temporary.keys() & set(frames):
            raise refused("view of rows in memory", "create_table(…) keeps them")
        self._run(f"CREATE {'OR REPLACE ' if overwrite else ''}VIEW {quoted(name)} AS {self.compile(obj)}", obj)
        return self.table(name)

    def drop_view(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Removes a view; with `force` also none."""
        _need_no(database)
        self._run(f"DROP VIEW {'IF EXISTS ' if force else ''}{quoted(name)}")

    def insert(self, name: str, /, obj: Any, *, database: str | None = None, overwrite: bool = False) -> None:
        """Adds rows in one commit: those of an expression, or of what `Database.append` takes."""
        _need_no(database)
        if overwrite:
            self.truncate_table(name)
        if isinstance(obj, ir.Table):
            columns = ", ".join(map(quoted, self._get_columns_to_insert(target=name, source=obj)))
            self._run(f"INSERT INTO {quoted(name)} ({columns}) {self.compile(obj)}", obj)
        else:
            self.con.append(name, obj)

    def upsert(self, name: str, /, obj: Any, on: str, *, database: str | None = None) -> None:
        """Refused: `insert` into a table with DEDUP UPSERT KEYS replaces the rows of its keys."""
        raise refused("upsert by a column", "insert into a table with DEDUP UPSERT KEYS replaces rows")


def _need_no(database: str | None) -> None:
    """Refuses the name of a database within the database."""
    if database is not None:
        raise com.IbisInputError(f"a connection has one database, and none in it called {database!r}")


def _frame(name: str, rows: Any) -> _tickstone.Frame:
    return _tickstone.Frame(name, as_stream(rows))


def _data_of(table: ops.InMemoryTable) -> Any:
    """The rows of a table in memory, with the types that Ibis gives it."""
    return table.data.to_pyarrow(table.schema).cast(table.schema.to_pyarrow())


def _schema_of(relation: Relation) -> sch.Schema:
    return sch.Schema({field.name: _Types.to_ibis(field.type) for field in relation.schema})


def _type_of(declared: dt.DataType, given: pa.DataType) -> pa.DataType:
    """The type of a column of a result: that of Ibis, where it does not say less than the one that Tickstone gives."""
    if (declared.is_decimal() or declared.is_interval()) and not pa.types.is_null(given):
        return given
    if declared.is_timestamp() and declared.scale is None:
        return pa.timestamp("ns", declared.timezone)
    return declared.to_pyarrow()


def _fitted(column: pa.Array, to: pa.DataType) -> pa.Array:
    """A column in another type, if nothing of a value is lost."""
    if column.type == pa.binary(16):
        import uuid

        return pa.array([None if value is None else str(uuid.UUID(bytes=value)) for value in column.to_pylist()], to)
    return column.cast(to)

"""Relation: a query, and the ways to read its rows."""

from __future__ import annotations

import html
import inspect
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tickstone import _tickstone
from tickstone._tickstone import Stream
from tickstone.chain import Select
from tickstone.columns import array_of, frame_of
from tickstone.errors import Error
from tickstone.progress import query_teller
from tickstone.rows import Rows
from tickstone.texts import bracketed, last_statement, placeholders

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

    from tickstone.database import Database, Query
    from tickstone.plot import Kind
    from tickstone.subscription import Events, Slow, Subscription
    from tickstone.texts import Parameters

__all__ = ["Relation"]

T = TypeVar("T")

# Rows that `repr()` and notebooks show.
_SHOWN_ROWS = 10
# Rows that become Python objects at a time while a relation is iterated.
_BATCH_ROWS = 65_536
_ALL_ROWS = 2**63 - 1
# The timestamps that are designated ones where a query does not mark any.
_TIMES = ("ts", "timestamp", "time")


class Relation(Rows):
    """The rows of a query, not read yet. What is in `Rows` it can do as well.

    Each method that reads rows runs the query, over what the database holds at that moment; `cache()` keeps
    the rows of one run. A statement that gives no rows has run already: it has no columns, and `rowcount` says
    how many rows it changed. Counting its rows (`len()`, `count()`, `shape`) is a run, too.

    Symbols are `dictionary<uint32, string>` in Arrow, timestamps `timestamp[ns]` in UTC without a zone.
    """

    # What its query was made with.
    _params: Parameters = None
    _frames: Mapping[str, _tickstone.Frame] = {}
    # The query as one that can be added to, if it was made as such.
    _chain: Select | None = None

    def __init__(self, database: Database, sql: str, query: Query | None, rowcount: int = -1) -> None:
        self._database = database
        self._sql = sql
        self._query = query
        self._rowcount = rowcount
        self._cached: pyarrow.Table | None = None
        # Each thread reads on where it was itself.
        self._cursors = threading.local()

    # What it is.

    @property
    def sql(self) -> str:
        """The text of the statement."""
        return self._sql

    @property
    def columns(self) -> list[str]:
        """Names of the columns, as they were when the query was planned: a run over tables that changed since may
        give others."""
        return [name for name, _ in self._columns()]

    @property
    def types(self) -> list[str]:
        """SQL types of the columns: "TIMESTAMP", "SYMBOL", "DOUBLE", …."""
        return [type_ for _, type_ in self._columns()]

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema. Needs pyarrow."""
        import pyarrow

        return pyarrow.schema(self._query if self._query is not None else [])

    def __arrow_c_schema__(self) -> object:
        return self._need_query().__arrow_c_schema__()

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed, or that the last method to read all rows has read; -1 where that is
        not known."""
        return self._rowcount

    def _columns(self) -> list[tuple[str, str]]:
        return self._query.columns() if self._query is not None else []

    # Reading it.

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows by Arrow's C stream interface: batches come as the query makes them, without a copy.

        A consumer raises what it makes of an error's words; on Ctrl-C, too, where they are "KeyboardInterrupt".
        """
        return self._stream().__arrow_c_stream__(requested_schema)

    def arrow(self) -> pyarrow.Table:
        """All rows as a pyarrow Table.

        Raises:
            SqlError: where the query fails while it runs.
            KeyboardInterrupt: on Ctrl-C; the query is cancelled.
        """
        import pyarrow

        if self._cached is not None:
            return self._cached
        if self._query is None:
            return pyarrow.table({})
        return self._table(lambda stream: stream)

    def _with_durations(self) -> pyarrow.Table:
        """As `arrow()`, lengths of time in the place of intervals."""
        held = self.arrow() if self._cached is not None or self._query is None else None
        if held is not None and not any(str(type_) == "month_day_nano_interval" for type_ in held.schema.types):
            return held
        return self._table(_Durations)

    def _table(self, source: Callable[[Stream], Any]) -> pyarrow.Table:
        import pyarrow

        table = self._read(lambda stream: pyarrow.RecordBatchReader.from_stream(source(stream)).read_all())
        self._rowcount = table.num_rows
        return table

    def polars(self) -> polars.DataFrame:
        """All rows as a Polars DataFrame; a SYMBOL becomes a Categorical, an INTERVAL a Duration.

        Raises as `arrow()`, and an Error where an INTERVAL has months, which have no length.
        """
        import polars

        if self._query is None:
            return polars.DataFrame()
        frame = self._read(lambda stream: polars.DataFrame(_Durations(stream)))
        self._rowcount = frame.height
        return frame

    def pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame; a SYMBOL becomes a category, an INTERVAL a timedelta. Needs pyarrow.

        Whole numbers with NULLs are of pandas' nullable types, such as Int64. Raises as `polars()`.
        """
        return frame_of(self._with_durations())

    def numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """All rows as one array a column, each of shape (rows,). Needs pyarrow.

        Timestamps are `datetime64[ns]` in UTC, intervals `timedelta64[ns]`, text and symbols objects; whole numbers
        with NULLs are masked arrays. Raises as `polars()`.
        """
        table = self._with_durations()
        return {name: array_of(column) for name, column in zip(table.column_names, table.columns, strict=True)}

    def batches(self, rows: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """The rows as pyarrow RecordBatches: as the query makes them, or of `rows` rows each but the last.

        The query is cancelled when the iterator is dropped before its end. Raises as `arrow()`.
        """
        if rows is None:
            yield from self._batches()
            return
        if rows < 1:
            raise ValueError("a batch has at least one row")
        import pyarrow

        held: list[pyarrow.RecordBatch] = []
        count = 0
        for batch in self._batches():
            held.append(batch)
            count += batch.num_rows
            if count >= rows:
                whole = pyarrow.concat_batches(held)
                whole_batches = count // rows
                for at in range(whole_batches):
                    yield whole.slice(at * rows, rows)
                count -= whole_batches * rows
                held = [whole.slice(whole_batches * rows)] if count else []
        if held:
            yield pyarrow.concat_batches(held)

    def _batches(self) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        if self._query is None:
            return
        stream = self._stream()
        reader = pyarrow.RecordBatchReader.from_stream(stream)
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except BaseException as told:
                raise_own(stream, told)
            yield batch

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that `fetchone()` and `fetchmany()` have left, as tuples.

        NULL is None, a SYMBOL str, a TIMESTAMP a datetime in UTC (one without a zone where it is what clocks showed, as
        `ts AT TIME ZONE zone`), a TIME a time, an INTERVAL a timedelta (nanoseconds below a microsecond are cut off), a
        DECIMAL a Decimal, a list a list, a MAP a dict. A TIMESTAMP or TIME with nanoseconds below a microsecond is a
        `tickstone.Timestamp` or `tickstone.Time`: a datetime or time that has them. An INTERVAL with months, which have no length, is a `tickstone.Interval`; a MAP whose keys are lists or
        structs is a list of pairs; 16 bytes of a fixed length are a UUID. Raises as `arrow()`.
        """
        rows = self._fetch(_ALL_ROWS)
        # Whoever asks for all rows once more has the query run once more.
        self._cursors.stream = None
        self._rowcount = len(rows)
        return rows

    def fetchmany(self, count: int = 1) -> list[tuple[Any, ...]]:
        """The next `count` rows as tuples, fewer at the end. The first call runs the query.

        Raises:
            ValueError: where `count` is negative.
        """
        if count < 0:
            raise ValueError(f"count is 0 or more, not {count}")
        return self._fetch(count)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row as a tuple, None at the end. The first call runs the query."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def _fetch(self, count: int) -> list[tuple[Any, ...]]:
        if self._query is None:
            return []
        stream: Stream | None = getattr(self._cursors, "stream", None)
        if stream is None:
            stream = self._cursors.stream = self._stream()
        return stream.rows(count)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples; runs the query."""
        ahead: list[list[tuple[Any, ...]]] = []
        rows = self._tuples(ahead)
        self._cursors.begun = (weakref.ref(rows), ahead)
        return rows

    def _tuples(self, ahead: list[list[tuple[Any, ...]]]) -> Generator[tuple[Any, ...]]:
        if ahead:
            yield from ahead.pop()
        elif self._query is not None:
            stream = self._stream()
            while rows := stream.rows(_BATCH_ROWS):
                yield from rows

    def count(self) -> int:
        """How many rows there are now, by a query that counts them; of a statement without rows 0."""
        if self._cached is not None:
            return len(self._cached)
        return super().count() if self._query is not None else 0

    def __len__(self) -> int:
        """The same as `count()`."""
        # `list(relation)` asks for the length of what it is about to go through: that is one run, not two.
        begun: tuple[Any, list[list[tuple[Any, ...]]]] = getattr(self._cursors, "begun", (lambda: None, []))
        rows, ahead = begun[0](), begun[1]
        if rows is None or inspect.getgeneratorstate(rows) != inspect.GEN_CREATED or self._query is None:
            return self.count()
        if not ahead:
            ahead.append(self._stream().rows(_ALL_ROWS))
        return len(ahead[0])

    def cache(self) -> Relation:
        """Runs the query once and keeps its rows: reading them does not run it again. Needs pyarrow."""
        if self._query is not None:
            self._cached = self.arrow()
        return self

    # Hearing what comes.

    def subscribe(
        self,
        *,
        since: str | None = None,
        events: Events = "changes",
        slow: Slow = "cut",
        queue: int | None = None,
        heartbeat: str | None = None,
    ) -> Subscription:
        """The changes of the query's rows from now on, as they are committed. It has begun when this returns.

        The query is of one table: columns or expressions of it, with or without a condition, or the bars of
        `SAMPLE BY`, which are told as they close.

        Args:
            since: begin with the rows there are ("beginning"), or after the `position` of an earlier subscription;
                with what is committed from now on if None.
            events: "changes", or "inserts": nothing about rows that were there before.
            slow: what becomes of a reader for whom more than `queue` rows wait: "cut" ends it with an error that says
                where to go on; "conflate" leaves out all but the newest row of each series, and says how many.
            queue: so many rows may wait; 10,000,000 if None.
            heartbeat: how often `position` moves on while nothing comes: "100ms" or more; "5s" if None.

        Raises:
            SqlError: where the query can be none of a subscription, or the position is held no more.
        """
        from tickstone.subscription import statement

        self._need_query()
        return self._listen(statement(bracketed(self._sql), since, events, slow, queue, heartbeat), since)

    # Showing it.

    def show(self, rows: int = 20) -> None:
        """Prints the first rows as a table. Timestamps have as many digits as they need.

        Raises:
            ValueError: where `rows` is negative.
        """
        if rows < 0:
            raise ValueError(f"rows is 0 or more, not {rows}")
        print(self._text(rows))

    def explain(self, analyze: bool = False) -> str:
        """The plan of the query as text, with `analyze` also what running it took."""
        verb = "EXPLAIN ANALYZE" if analyze else "EXPLAIN"
        explained = self._again(f"{verb} {self._sql}")
        return "\n".join(f"{row[0]}: {row[1]}" for row in explained)

    def plot(
        self,
        kind: Kind | None = None,
        *,
        x: str | None = None,
        y: Any = None,
        by: str | None = None,
        title: str | None = None,
        height: int | None = None,
    ) -> Any:
        """A plotly figure of the rows. See `tickstone.plot.figure`."""
        from tickstone.plot import figure

        return figure(self, kind, x=x, y=y, by=by, title=title, height=height)

    def __repr__(self) -> str:
        if self._query is None:
            return f"<Relation: {self._rowcount} rows changed>" if self._rowcount >= 0 else "<Relation: done>"
        try:
            return self._text(_SHOWN_ROWS)
        except Error as error:
            return f"<Relation: {error}>"

    def _repr_html_(self) -> str:
        """The first rows for a notebook."""
        if self._query is None:
            return html.escape(repr(self))
        columns, cells, more = self._head(_SHOWN_ROWS)
        names = "".join(f'<th title="{html.escape(type_)}">{html.escape(name)}</th>' for name, type_ in columns)
        null = '<td style="opacity:0.5">NULL</td>'
        body = "".join(
            "<tr>" + "".join(null if cell is None else f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in cells
        )
        note = "<p>… more rows</p>" if more else ""
        return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{note}"

    def _head(self, rows: int) -> tuple[list[tuple[str, str]], list[list[str | None]], bool]:
        """The columns of a run and its first rows as text, and whether there are more."""
        stream = self._stream()
        try:
            cells = stream.cells(rows + 1)
        finally:
            stream.close()
        return stream.columns(), cells[:rows], len(cells) > rows

    def _text(self, rows: int) -> str:
        if self._query is None:
            return repr(self)
        columns, cells, more = self._head(rows)
        texts = [["NULL" if cell is None else cell for cell in row] for row in cells]
        widths = [max([len(name), *(len(row[at]) for row in texts)]) for at, (name, _) in enumerate(columns)]
        right = [type_ not in ("SYMBOL", "VARCHAR", "TIMESTAMP", "DATE") for _, type_ in columns]

        def line(values: list[str]) -> str:
            padded = (
                value.rjust(width) if flush else value.ljust(width)
                for value, width, flush in zip(values, widths, right, strict=True)
            )
            return " | ".join(padded).rstrip()

        lines = [line([name for name, _ in columns]), "-+-".join("-" * width for width in widths)]
        lines += [line(row) for row in texts]
        lines.append("… more rows" if more else f"({len(texts)} row{'' if len(texts) == 1 else 's'})")
        return "\n".join(lines)

    # Adding to it.

    def _select(self) -> Select:
        """Its query, as text where that can stand within another, else its rows as they are now."""
        query = self._need_query()
        if self._cached is None and not isinstance(query, _tickstone.Batch):
            if self._chain is not None:
                return self._chain.with_(params=self._params, frames=self._frames)
            text = last_statement(self._sql)
            if text is not None and placeholders(text) == placeholders(self._sql):
                return Select(bracketed(text), self._params, self._frames)
        frame = self._framed(self, "kept")
        return Select(frame.name, frames={frame.name: frame})

    def _timestamp(self) -> str | None:
        times = [name for name, type_ in self._columns() if type_ == "TIMESTAMP"]
        try:
            marked = [field.name for field in self.schema if b"tickstone.timestamp" in (field.metadata or {})]
        except ImportError:
            marked = []
        named = [name for wanted in _TIMES for name in times if name.lower() == wanted]
        return next(iter(marked or named or times), None)

    def _export(self, path: str, format_: str | None, compression: str | None) -> int:
        query = self._need_query()
        if self._cached is not None:
            query = self._make(self._select())._need_query()
        return query.export(path, format_, compression)

    # Running it.

    def _again(self, sql: str) -> Relation:
        """Another statement with this one's parameters, over the frames it sees."""
        return self._database.sql(sql)

    def _listen(self, sql: str, since: str | None) -> Subscription:
        """A subscription with this one's parameters."""
        return self._database._subscribe(sql, since)

    def _need_query(self) -> Query:
        if self._query is None:
            raise Error("the statement gives no rows")
        return self._query

    def _read(self, consume: Callable[[Any], T]) -> T:
        """Runs the query into a consumer of Arrow; what it raises is the database's own exception."""
        stream = self._stream()
        try:
            return consume(stream)
        except BaseException as told:
            raise_own(stream, told)

    def _stream(self) -> Stream:
        """The rows that are kept, else of a run of the query."""
        if self._cached is not None:
            return Stream.over(self._cached)
        return self._need_query().stream(query_teller(self._database.progress))


class _Durations:
    """A stream with lengths of time in the place of intervals, which few libraries know."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._stream.duration_stream()


def raise_own(stream: Stream, told: BaseException) -> NoReturn:
    """Raises what ended a stream, with its own cause, where foreign code was told of it only in words."""
    raised = stream.raised()
    if raised is None:
        raise told from None
    raise raised from raised.__cause__

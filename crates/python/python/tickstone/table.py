"""Table: the common questions about one table, without SQL."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tickstone import _tickstone
from tickstone.errors import Error
from tickstone.frames import as_stream
from tickstone.relation import Relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy
    import pandas
    import polars
    import pyarrow

    from tickstone.database import Database
    from tickstone.plot import Kind
    from tickstone.subscription import Events, Slow, Subscription

__all__ = ["Table"]

Time: TypeAlias = str | datetime.datetime | datetime.date | int


class Table:
    """A table of a database, as it is when a question is asked.

    Of rows with equal times, those of one series stay in the order they came. Those of different series may
    change theirs once they are sealed into a part, and with it what is first or last among them, for
    example in `bars(by=[])`.

    Each question is a `Relation`, read when its rows are asked for; its `sql` is the text of the query. A Table
    can be read like a relation itself: all its rows, in order of time.
    """

    def __init__(self, database: Database, described: _tickstone.Described) -> None:
        self._database = database
        self._described = described

    # What it is.

    @property
    def name(self) -> str:
        """Its name."""
        return self._described["name"]

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _ in self._described["columns"]]

    @property
    def types(self) -> list[str]:
        """SQL types of the columns: "TIMESTAMP", "SYMBOL", "DOUBLE", …."""
        return [type_ for _, type_ in self._described["columns"]]

    @property
    def timestamp(self) -> str | None:
        """The designated timestamp, None where it has none."""
        return self._described["timestamp"]

    @property
    def series(self) -> list[str]:
        """The columns of the series key, outermost first."""
        return list(self._described["series"])

    @property
    def partition_by(self) -> str:
        """The length of its partitions: "hour", "day", "week", "month", "year" or "none"."""
        return self._described["partition_by"]

    @property
    def sync(self) -> str:
        """When its rows are on stable storage: "always", "interval" or "never"."""
        policy = self._described["sync"]
        return "never" if policy == "none" else policy

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema; the designated timestamp and the series key are marked in the metadata of their
        fields. Needs pyarrow."""
        import pyarrow

        return pyarrow.schema(_SchemaOf(self._database._handle.table_schema(self.name)))

    def count(self) -> int:
        """How many rows it has now."""
        described = self._database._handle.describe(self.name)
        if described is None:
            raise Error(f"table '{self.name}' does not exist")
        return described["rows"]

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {type_}" for name, type_ in self._described["columns"])
        return f"<Table {self.name}: {columns}>"

    def _repr_html_(self) -> str:
        """The first rows for a notebook."""
        return self._in_time()._repr_html_()

    # Questions.

    def bars(
        self,
        every: str,
        *,
        price: str = "price",
        size: str | None = None,
        by: str | Sequence[str] | None = None,
        fill: str | None = None,
        start: Time | None = None,
        end: Time | None = None,
        tz: str | None = None,
    ) -> Relation:
        """Bars of a fixed length: open, high, low, close, volume, vwap and the count of rows.

        Args:
            every: the length of a bar: "100ms", "1s", "5m", "1h", "1d", ….
            price: the column of prices.
            size: the column of sizes; the column size, amount, quantity or qty if None, and where there is
                none of them, bars have neither volume nor vwap.
            by: bars for each value of these columns; the series key if None, an empty list for all rows as one.
            fill: what bars without rows hold: "prev", "null", "linear" or a number; no such bars if None.
            start, end: from this time (inclusive) to that (exclusive): text, datetime, or nanoseconds since the
                Unix epoch.
            tz: align bars of a day and more to the calendar of a time zone, "America/New_York".

        Raises:
            Error: where the table has no designated timestamp.
            SqlError: where a column or a length is none.
        """
        ts, keys = self._need_time(), self._keys(by)
        size = size if size is not None else self._size_column()
        rows = [f"first({_quoted(price)}) AS open", f"max({_quoted(price)}) AS high"]
        rows += [f"min({_quoted(price)}) AS low", f"last({_quoted(price)}) AS close"]
        if size is not None:
            rows.append(f"sum({_quoted(size)}) AS volume")
            rows.append(f"vwap({_quoted(price)}, {_quoted(size)}) AS vwap")
        rows.append("count(*) AS count")
        columns = ", ".join([_quoted(ts), *map(_quoted, keys), *rows])
        sample = f"SAMPLE BY {_stride(every)}"
        if start is not None and end is not None and fill is not None:
            sample += f" FROM {_time(start)} TO {_time(end)}"
        if fill is not None:
            sample += f" FILL({_fill(fill)})"
        if tz is not None:
            sample += f" ALIGN TO CALENDAR TIME ZONE {_text(tz)}"
        return self._ask(f"SELECT {columns} FROM {self._sql_name()}{self._within(start, end)} {sample}")

    def asof(
        self,
        other: Table | Relation | str | object,
        *,
        on: str | Sequence[str] | None = None,
        tolerance: str | None = None,
    ) -> Relation:
        """Each row with the last row of `other` at its time or before, of the same key; where there is none, with
        NULLs. A column of `other` whose name this table has too gets `_right` at its end.

        Args:
            other: a Table, the name of one, a Relation, or any frame.
            on: the columns that must be equal; the series key of this table if None, an empty list for none.
            tolerance: how much older the other row may be at most: "5s", "100ms".

        Raises:
            SqlError: where one side has no time or no such column.
        """
        keys = self._keys(on)
        frames: dict[str, _tickstone.Frame] = {}
        if isinstance(other, str):
            other = self._database.table(other)
        if isinstance(other, Table):
            right, columns = other._sql_name(), other.columns
        else:
            name = "other"
            while self._database._handle.describe(name) is not None:
                name += "_"
            frames[name] = _tickstone.Frame(name, as_stream(other))
            right, columns = _quoted(name), frames[name].columns()
        taken = {column.lower() for column in self.columns}
        folded = {key.lower() for key in keys}
        picked = [f"r.{_quoted(column)}{_renamed(column, taken)}" for column in columns if column.lower() not in folded]
        join = f" ON ({', '.join(map(_quoted, keys))})" if keys else ""
        within = f" TOLERANCE {_stride(tolerance)}" if tolerance is not None else ""
        what = ", ".join(["l.*", *picked])
        return self._ask(f"SELECT {what} FROM {self._sql_name()} l ASOF JOIN {right} r{join}{within}", frames)

    def latest(self, by: str | Sequence[str] | None = None) -> Relation:
        """The last row of each key: of the series key, or of the columns `by`.

        Raises:
            Error: where the table has no designated timestamp, or neither `by` nor a series key.
        """
        keys = self._keys(by)
        if not keys:
            raise Error(f"table '{self.name}' has no series key", hint="name the columns of a key: latest(by=…)")
        ts = _quoted(self._need_time())
        return self._ask(
            f"SELECT * FROM {self._sql_name()} LATEST ON {ts} PARTITION BY {', '.join(map(_quoted, keys))}"
        )

    def between(self, start: Time | None, end: Time | None) -> Relation:
        """The rows from `start` (inclusive) to `end` (exclusive), in order of time; None leaves a side open.

        Times are text, datetimes (without a zone: UTC) or nanoseconds since the Unix epoch.
        """
        ts = _quoted(self._need_time())
        return self._ask(f"SELECT * FROM {self._sql_name()}{self._within(start, end)} ORDER BY {ts}")

    def where(self, condition: str) -> Relation:
        """The rows for which a condition in SQL holds: `table.where("price > 100 AND side = 'buy'")`."""
        return self._ask(f"SELECT * FROM {self._sql_name()} WHERE {condition}")

    def select(self, *expressions: str) -> Relation:
        """Columns or expressions in SQL of all rows: `table.select("ts", "price * size AS value")`."""
        what = ", ".join(expressions) if expressions else "*"
        return self._ask(f"SELECT {what} FROM {self._sql_name()}")

    def head(self, n: int = 10) -> Relation:
        """The first `n` rows, in order of time."""
        return self._ask(f"{self._in_time_sql()} LIMIT {int(n)}")

    # Hearing what comes.

    def subscribe(
        self,
        columns: str | Sequence[str] | None = None,
        where: str | None = None,
        *,
        since: str | None = None,
        events: Events = "changes",
        slow: Slow = "cut",
        queue: int | None = None,
        heartbeat: str | None = None,
    ) -> Subscription:
        """The changes of its rows from now on, as they are committed. It has begun when this returns.

        Args:
            columns: columns, or expressions in SQL of them, as for `select`; all columns if None.
            where: a condition in SQL, as for `where`: rows that come within it are inserts, rows that leave it
                deletes.
            since, events, slow, queue, heartbeat: as for `Relation.subscribe`.

        Raises:
            SqlError: where a column or the condition is wrong, or the position is held no more.
        """
        from tickstone.subscription import bracketed, statement

        what = self._sql_name()
        if columns is not None or where is not None:
            named = [columns] if isinstance(columns, str) else list(columns or ["*"])
            picked = ", ".join(_quoted(name) if name in self.columns else name for name in named)
            what = bracketed(f"SELECT {picked} FROM {what}{f' WHERE {where}' if where is not None else ''}")
        return self._database._subscribe(statement(what, since, events, slow, queue, heartbeat), since)

    # Read like a relation.

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows in order of time by Arrow's C stream interface."""
        return self._in_time().__arrow_c_stream__(requested_schema)

    def arrow(self) -> pyarrow.Table:
        """All rows in order of time as a pyarrow Table."""
        return self._in_time().arrow()

    def polars(self) -> polars.DataFrame:
        """All rows in order of time as a Polars DataFrame."""
        return self._in_time().polars()

    def pandas(self) -> pandas.DataFrame:
        """All rows in order of time as a pandas DataFrame."""
        return self._in_time().pandas()

    def numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """All rows in order of time as one array a column, each of shape (rows,)."""
        return self._in_time().numpy()

    def batches(self, rows: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """All rows in order of time as pyarrow RecordBatches."""
        return self._in_time().batches(rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows in order of time as tuples."""
        return self._in_time().fetchall()

    def show(self, rows: int = 20) -> None:
        """Prints the first rows."""
        self._in_time().show(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """All rows in order of time as tuples."""
        return iter(self._in_time())

    def plot(self, kind: Kind | None = None, **options: Any) -> Any:
        """A plotly figure of all rows. See `tickstone.plot.figure`."""
        return self._in_time().plot(kind, **options)

    # Writing the SQL.

    def _ask(self, sql: str, frames: dict[str, _tickstone.Frame] | None = None) -> Relation:
        return self._database._run(self._database._session(), sql, None, None, frames or {})

    def _in_time_sql(self) -> str:
        order = f" ORDER BY {_quoted(self.timestamp)}" if self.timestamp is not None else ""
        return f"SELECT * FROM {self._sql_name()}{order}"

    def _in_time(self) -> Relation:
        return self._ask(self._in_time_sql())

    def _sql_name(self) -> str:
        return _quoted(self.name)

    def _need_time(self) -> str:
        if self.timestamp is None:
            raise Error(f"table '{self.name}' has no designated timestamp")
        return self.timestamp

    def _keys(self, by: str | Sequence[str] | None) -> list[str]:
        if by is None:
            return self.series
        return [by] if isinstance(by, str) else list(by)

    def _size_column(self) -> str | None:
        names = {name.lower(): name for name in self.columns}
        return next((names[name] for name in ("size", "amount", "quantity", "qty") if name in names), None)

    def _within(self, start: Time | None, end: Time | None) -> str:
        bounds = []
        if start is not None:
            bounds.append(f"{_quoted(self._need_time())} >= {_time(start)}")
        if end is not None:
            bounds.append(f"{_quoted(self._need_time())} < {_time(end)}")
        return f" WHERE {' AND '.join(bounds)}" if bounds else ""


class _SchemaOf:
    """Hands a schema's capsule on."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


def _quoted(name: str) -> str:
    """A name as SQL takes it exactly."""
    return '"' + name.replace('"', '""') + '"'


def _renamed(column: str, taken: set[str]) -> str:
    """What gives a column another name where its own is taken; the new one is taken then."""
    name = column
    while name.lower() in taken:
        name += "_right"
    taken.add(name.lower())
    return f" AS {_quoted(name)}" if name != column else ""


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _stride(text: str) -> str:
    """A length of time such as "5m": letters and digits only, so that it stays one word."""
    if not text.isalnum() or not text.isascii():
        raise ValueError(f"{text!r} is no length of time: write it as 100ms, 1s, 5m, 1h or 1d")
    return text


def _fill(fill: str | float) -> str:
    words = {"prev": "PREV", "null": "NULL", "linear": "LINEAR", "none": "NONE"}
    word = words.get(str(fill).lower())
    if word is None:
        float(fill)
        word = str(fill)
    return word


def _time(time: Time) -> str:
    """A time as SQL has it, to the nanosecond."""
    if isinstance(time, str):
        return _text(time)
    if isinstance(time, datetime.datetime):
        nanoseconds = getattr(time, "nanosecond", 0)
        if time.tzinfo is not None:
            time = time.astimezone(datetime.timezone.utc)
        return _text(f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond:06d}{nanoseconds:03d}Z")
    if isinstance(time, datetime.date):
        return _text(f"{time:%Y-%m-%d}T00:00:00Z")
    if hasattr(time, "astype"):
        time = int(time.astype("datetime64[ns]").astype("int64"))
    seconds, nanoseconds = divmod(int(time), 1_000_000_000)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return _text(f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z")

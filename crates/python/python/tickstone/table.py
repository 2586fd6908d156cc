"""Table: the common questions about one table, without SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tickstone import _tickstone
from tickstone.chain import Select
from tickstone.errors import Error
from tickstone.relation import Relation
from tickstone.rows import Rows
from tickstone.texts import bracketed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy
    import pandas
    import polars
    import pyarrow

    from tickstone.database import Database
    from tickstone.plot import Kind
    from tickstone.subscription import Events, Slow, Subscription
    from tickstone.texts import Time

__all__ = ["Table"]


class Table(Rows):
    """A table of a database, as it is when a question is asked, or a view. What is in `Rows` it can do as well.

    Of rows with equal times, those of one series stay in the order they came. Those of different series may
    change theirs once they are sealed into a part, and with it what is first or last among them, for
    example in `bars(by=[])`.

    Each question is a `Relation`, read when its rows are asked for; its `sql` is the text of the query. A Table
    can be read like a relation itself: all its rows, in order of time.
    """

    def __init__(self, database: Database, described: _tickstone.Described) -> None:
        self._database = database
        self._described = described
        self._is_view = False

    @classmethod
    def _of_view(cls, database: Database, described: _tickstone.Described) -> Table:
        """A view as one: its columns are those of its query."""
        columns = database._run(database._session(), f"DESCRIBE {quoted(described['name'])}", None, None, {}).fetchall()
        view = cls(
            database,
            {
                **described,
                "columns": [(column[0], column[1]) for column in columns],
                "timestamp": next((column[0] for column in columns if column[2]), None),
                "series": [column[0] for column in columns if column[3]],
            },
        )
        view._is_view = True
        return view

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

        if self._is_view:
            return self.select().schema
        return pyarrow.schema(_SchemaOf(self._database._handle.table_schema(self.name)))

    def count(self) -> int:
        """How many rows it has now."""
        if self._is_view:
            return super().count()
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
            tz: align bars to the calendar and the clocks of a time zone, "America/New_York"; `start` and `end` as text
                without an offset are what these clocks show.

        Raises:
            Error: where the table has no designated timestamp.
            SqlError: where a column or a length is none.
        """
        size = size if size is not None else self._size_column()
        rows = [f"first({quoted(price)}) AS open", f"max({quoted(price)}) AS high"]
        rows += [f"min({quoted(price)}) AS low", f"last({quoted(price)}) AS close"]
        if size is not None:
            rows.append(f"sum({quoted(size)}) AS volume")
            rows.append(f"vwap({quoted(price)}, {quoted(size)}) AS vwap")
        rows.append("count(*) AS count")
        return self.sample(every, rows, by, fill=fill, start=start, end=end, tz=tz)

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
        return self.asof_join(other, on, tolerance=tolerance)

    def latest(self, by: str | Sequence[str] | None = None) -> Relation:
        """The last row of each key: of the series key, or of the columns `by`.

        Raises:
            Error: where the table has no designated timestamp, or neither `by` nor a series key.
        """
        keys = self._keys(by, "latest(by=…)")
        if not keys:
            raise Error(f"table '{self.name}' has no series key", hint="name the columns of a key: latest(by=…)")
        latest = f" LATEST ON {quoted(self._need_time())} PARTITION BY {', '.join(map(quoted, keys))}"
        return self._make(self._select().with_(grouped=latest))

    def between(self, start: Time | None, end: Time | None) -> Relation:
        """The rows from `start` (inclusive) to `end` (exclusive), in order of time; None leaves a side open.

        Times are text, datetimes (without a zone: UTC) or nanoseconds since the Unix epoch.
        """
        order = f" ORDER BY {quoted(self._need_time())}"
        return self._make(self._select().with_(where=tuple(self._within(start, end)), order=order))

    def head(self, n: int = 10) -> Relation:
        """The first `n` rows, in order of time."""
        return self._in_time().limit(n)

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
        from tickstone.subscription import statement

        what = quoted(self.name)
        if columns is not None or where is not None:
            named = [columns] if isinstance(columns, str) else list(columns or ["*"])
            picked = ", ".join(map(self._column, named))
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

    def _select(self) -> Select:
        return Select(quoted(self.name), series=tuple(self.series))

    def _timestamp(self) -> str | None:
        return self.timestamp

    def _export(self, path: str, format_: str | None, compression: str | None) -> int:
        return self._in_time()._export(path, format_, compression)

    def _in_time(self) -> Relation:
        order = f" ORDER BY {quoted(self.timestamp)}" if self.timestamp is not None else ""
        return self._make(self._select().with_(order=order))

    def _size_column(self) -> str | None:
        names = {name.lower(): name for name in self.columns}
        return next((names[name] for name in ("size", "amount", "quantity", "qty") if name in names), None)


class _SchemaOf:
    """Hands a schema's capsule on."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule

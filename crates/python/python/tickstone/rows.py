"""Rows: what relations and tables have in common, and DuckDB's and Polars' names for it."""

from __future__ import annotations

import abc
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tickstone import _tickstone
from tickstone.chain import Select, beside
from tickstone.errors import Error
from tickstone.frames import as_stream, caller
from tickstone.hints import ON_ROWS, unknown
from tickstone.texts import (
    bracketed,
    ended,
    fill_of,
    precision_and_scale,
    quoted,
    renamed,
    stride,
    text_of,
    time_of,
)

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

    from tickstone.database import Database, PartitionBy
    from tickstone.relation import Relation
    from tickstone.table import Table
    from tickstone.texts import Time

__all__ = ["Rows"]

Names: TypeAlias = str | Sequence[str]
How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
AsofHow: TypeAlias = Literal["left", "inner", "semi", "anti"]
Direction: TypeAlias = Literal["backward", "forward", "nearest"]
Column: TypeAlias = tuple[str, str, None, None, int | None, int | None, bool | None]

_HOWS = ("inner", "left", "right", "full", "semi", "anti", "cross")
# Types that have a mean.
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


class Rows(abc.ABC):
    """What a `Relation` and a `Table` can both do.

    Methods that give a `Relation` chain: each adds to the text of one query, `sql` of the relation, which runs when
    rows are asked for. Conditions, expressions and keys are SQL; where a column's exact name stands alone, it may hold
    spaces and be any word. Names come out with `_right` at their end where both sides of a join have them.

        db.table("trades").filter("px > 2").aggregate("sym, sum(sz) AS v").order("v DESC").df()
    """

    _database: Database

    # What each of them says for itself.

    @property
    @abc.abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns."""

    @property
    @abc.abstractmethod
    def types(self) -> list[str]:
        """SQL types of the columns: "TIMESTAMP", "SYMBOL", "DOUBLE", …."""

    # Other names for the ways to its rows.

    def df(self) -> pandas.DataFrame:
        """The same as `pandas()`."""
        return self.pandas()

    def to_pandas(self) -> pandas.DataFrame:
        """The same as `pandas()`."""
        return self.pandas()

    def fetchdf(self) -> pandas.DataFrame:
        """The same as `pandas()`."""
        return self.pandas()

    def pl(self) -> polars.DataFrame:
        """The same as `polars()`."""
        return self.polars()

    def to_polars(self) -> polars.DataFrame:
        """The same as `polars()`."""
        return self.polars()

    def to_arrow_table(self) -> pyarrow.Table:
        """The same as `arrow()`."""
        return self.arrow()

    def fetch_arrow_table(self) -> pyarrow.Table:
        """The same as `arrow()`."""
        return self.arrow()

    def fetchnumpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """The same as `numpy()`."""
        return self.numpy()

    # The ways themselves.

    @abc.abstractmethod
    def arrow(self) -> pyarrow.Table:
        """All rows as a pyarrow Table."""

    @abc.abstractmethod
    def polars(self) -> polars.DataFrame:
        """All rows as a Polars DataFrame."""

    @abc.abstractmethod
    def pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame."""

    @abc.abstractmethod
    def numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """All rows as one array a column, each of shape (rows,)."""

    @abc.abstractmethod
    def _select(self) -> Select:
        """The query of its rows, to add to."""

    @abc.abstractmethod
    def _timestamp(self) -> str | None:
        """The designated timestamp, None where it has none."""

    @abc.abstractmethod
    def _export(self, path: str, format_: str | None, compression: str | None) -> int:
        """Writes its rows to a file; how many."""

    # What it is.

    @property
    def dtypes(self) -> list[str]:
        """The same as `types`."""
        return self.types

    @property
    def description(self) -> list[Column]:
        """A tuple for each column as PEP 249 has it: name, SQL type, None, None, precision, scale, None."""
        return [
            (name, type_, None, None, *precision_and_scale(type_), None)
            for name, type_ in zip(self.columns, self.types, strict=True)
        ]

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are; the rows are counted by a query."""
        return self.count(), len(self.columns)

    def count(self) -> int:
        """How many rows there are now, by a query that counts them."""
        counted = self._make(self._select().unordered().with_(what="count(*)")).fetchone()
        assert counted is not None, "an aggregate without keys has one row"
        return int(counted[0])

    def __len__(self) -> int:
        """The same as `count()`."""
        return self.count()

    def __bool__(self) -> bool:
        # Without it, whether there are rows would be asked of the database.
        return True

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown(self, name, ON_ROWS)

    # Queries over its rows.

    def filter(self, condition: str) -> Relation:
        """The rows for which a condition in SQL holds: `filter("price > 100 AND side = 'buy'")`."""
        of = self._select().unordered()
        return self._make(of.with_(where=(*of.where, condition)))

    def where(self, condition: str) -> Relation:
        """The same as `filter`."""
        return self.filter(condition)

    def select(self, *expressions: str) -> Relation:
        """Columns or expressions in SQL: `select("ts", "price * size AS value")`; all columns if there are none."""
        what = ", ".join(map(self._column, expressions)) or "*"
        return self._make(self._select().unordered().with_(what=ended(what)))

    def project(self, *expressions: str) -> Relation:
        """The same as `select`."""
        return self.select(*expressions)

    def aggregate(self, expressions: Names, group_by: Names | None = None) -> Relation:
        """Aggregates in SQL: `aggregate("symbol, sum(size) AS size")`.

        Args:
            expressions: what to select.
            group_by: the keys; if None, what is selected and holds no aggregate.
        """
        keys = ", ".join(map(self._column, _listed(group_by)))
        grouped = f" GROUP BY {ended(keys) or 'ALL'}"
        what = ended(", ".join(_listed(expressions)))
        return self._make(self._select().unordered().with_(what=what, grouped=grouped))

    def sample(
        self,
        every: str,
        aggregates: Names,
        by: Names | None = None,
        *,
        fill: str | float | Sequence[str | float] | None = None,
        start: Time | None = None,
        end: Time | None = None,
        tz: str | None = None,
    ) -> Relation:
        """Aggregates of stretches of time of one length (SAMPLE BY): the start of each, its key, then they.

        Args:
            every: the length: "100ms", "1s", "5m", "1h", "1d", ….
            aggregates: aggregates in SQL: "last(price) AS price, sum(size) AS size".
            by: the columns of the key, an empty list for all rows as one; if None, the series key of a table.
            fill: what stretches without rows hold: "prev", "null", "linear" or a number, or a list with one for each
                aggregate; no such stretches if None.
            start, end: from this time (inclusive) to that (exclusive): text, datetime, or nanoseconds since the
                Unix epoch. With both, `fill` reaches from one to the other.
            tz: align stretches to the calendar and the clocks of a time zone, "America/New_York"; `start` and `end` as
                text without an offset are what these clocks show.

        Raises:
            Error: where there is no designated timestamp, or `by` is None and no table's series key is known.
            SqlError: where a column or a length is none.
        """
        ts, keys = quoted(self._need_time()), self._keys(by, "sample(…, by=…)")
        sample = f" SAMPLE BY {stride(every)}"
        if tz is not None or (start is not None and end is not None and fill is not None):
            sample += f" FROM {time_of(start)}" if start is not None else ""
            sample += f" TO {time_of(end)}" if end is not None else ""
        if fill is not None:
            sample += f" FILL({fill_of(fill)})"
        if tz is not None:
            sample += f" ALIGN TO CALENDAR TIME ZONE {text_of(tz)}"
        what = ended(", ".join([ts, *map(quoted, keys), *_listed(aggregates)]))
        of, within = self._select().unordered(), self._within(start, end) if tz is None else []
        return self._make(of.with_(what=what, where=(*of.where, *within), grouped=sample))

    def order(self, *keys: str) -> Relation:
        """The rows in the order of columns or expressions: `order("symbol", "price DESC NULLS LAST")`."""
        if not keys:
            raise ValueError("name a column to order by")
        order = f" ORDER BY {ended(', '.join(map(self._sort_key, keys)))}"
        return self._make(self._select().unordered().with_(order=order))

    def sort(self, *keys: str) -> Relation:
        """The same as `order`."""
        return self.order(*keys)

    def limit(self, n: int, offset: int = 0) -> Relation:
        """The first `n` rows after the first `offset`."""
        of = self._select()
        of = of.nested() if of.limit else of
        skip = f" OFFSET {_whole(offset, 'offset')}" if offset else ""
        return self._make(of.with_(limit=f" LIMIT {_whole(n, 'n')}{skip}"))

    def head(self, n: int = 10) -> Relation:
        """The first `n` rows."""
        return self.limit(n)

    def distinct(self, *columns: str) -> Relation:
        """The rows, or the values of some columns, each once."""
        what = ended(", ".join(map(self._column, columns)) or "*")
        return self._make(self._select().unordered().with_(what=f"DISTINCT {what}"))

    def describe(self) -> Relation:
        """A row for each column: its type, how many values and NULLs, and as text and numbers the smallest and the
        greatest value, the mean and the standard deviation, where its type has them."""
        picked, shown = [], []
        for at, (name, type_) in enumerate(zip(self.columns, self.types, strict=True)):
            column, is_number = quoted(name), type_.partition("(")[0].partition(" ")[0] in _NUMBERS and "[" not in type_
            ordered = "[" not in type_ and type_.partition("(")[0] not in ("MAP", "STRUCT", "INTERVAL")
            ends = [f"CAST({f}({column}) AS VARCHAR)" if ordered else "CAST(NULL AS VARCHAR)" for f in ("min", "max")]
            means = [f"CAST({f}({column}) AS DOUBLE)" if is_number else "CAST(NULL AS DOUBLE)" for f in ("avg", "stddev")]
            counts = [f"count({column})", f"count(*) - count({column})"]
            of_it = [text_of(name), text_of(type_), *counts, *ends, *means]
            shown.append([f"d{at}_{number}" for number in range(len(of_it))])
            picked += [f"{value} AS {alias}" for value, alias in zip(of_it, shown[-1], strict=True)]
        of = self._select().unordered().with_(what=", ".join(picked)).nested()
        names = ("column", "type", "count", "nulls", "min", "max", "mean", "std")
        what = [
            f"unnest(make_array({', '.join(values)})) AS {quoted(name)}"
            for name, *values in zip(names, *shown, strict=True)
        ]
        return self._make(of.with_(what=", ".join(what), alias=""))

    def alias(self, name: str) -> Relation:
        """The same rows, by a name for conditions: `t.alias("a").join(t.alias("b"), "a.n = b.n + 1")`."""
        of = self._select()
        return self._make((of if of.plain and not of.where else of.nested()).with_(alias=name))

    # Two of them.

    def join(self, other: Rows | str | object, on: Names | None = None, how: How = "inner") -> Relation:
        """Its rows beside those of another.

        Args:
            other: a Table, the name of one or of a view, a Relation, or any frame.
            on: a column or several that both have and that must be equal, or a condition in SQL. There each side goes
                by the name that `alias` gave it, the name of a table, or else `l` and `r`.
            how: "inner"; "left", "right" or "full": also the rows of that side, or both, without a match; "semi" or
                "anti": the rows of this side alone that have a match, or have none; "cross": each with each, without
                `on`.

        Raises:
            SqlError: where a column or the condition is wrong.
        """
        if how not in _HOWS:
            raise ValueError(f"how is one of {', '.join(_HOWS)}, not {how!r}")
        if (on is None) != (how == "cross"):
            raise ValueError("a cross join has no condition" if how == "cross" else "name the columns that must be equal")
        left, right, columns = self._with(other)
        names = (left.alias or _name_of(self) or "l", right.alias or _name_of(other) or "r")
        if names[0].lower() == names[1].lower():
            if left.alias or right.alias:
                raise ValueError(f"both sides are called {names[0]}: give one of them another alias")
            names = ("l", "r")
        keys = self._shared(on, columns)
        condition = ""
        if keys is not None:
            condition = " AND ".join(f"{_of(names[0], key)} = {_of(names[1], key)}" for key in keys)
        elif on is not None:
            condition = ended(on if isinstance(on, str) else " AND ".join(f"({ended(each)})" for each in on))
        word = {"inner": "JOIN", "semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}.get(how, f"{how.upper()} JOIN")
        source = f"{left.item(names[0])} {word} {right.item(names[1])}{f' ON {condition}' if condition else ''}"
        shown = [] if how in ("semi", "anti") else columns
        what = self._beside(shown, keys or [], names, both=how in ("right", "full"))
        return self._make(Select(source, left.params, left.frames, what=what))

    def asof_join(
        self,
        other: Rows | str | object,
        on: Names | None = None,
        *,
        by: Names | None = None,
        tolerance: str | None = None,
        direction: Direction = "backward",
        how: AsofHow = "left",
    ) -> Relation:
        """Each row with the last row of `other` at its time or before, of the same key; where there is none, with
        NULLs.

        Args:
            other: a Table, the name of one or of a view, a Relation, or any frame.
            on: the columns that must be equal, an empty list for none; if None, the series key of a table.
            by: the same as `on`, as pandas and Polars call it; times are the designated timestamps.
            tolerance: how far in time the other row may be at most: "5s", "100ms".
            direction: "forward": the first row at its time or after; "nearest": the nearer of both.
            how: "inner": without the rows that have no match; "semi" or "anti": the rows of this side alone that have
                one, or have none.

        Raises:
            Error: where `on` is None and no table's series key is known.
            SqlError: where one side has no time or no such column.
        """
        if on is not None and by is not None:
            raise TypeError("`on` and `by` are the same: give one of them")
        keys = self._keys(on if on is not None else by, "asof_join(other, on=…)")
        words = {"left": "ASOF", "inner": "ASOF INNER", "semi": "ASOF SEMI", "anti": "ASOF ANTI"}
        if how not in words:
            raise ValueError(f"how is one of {', '.join(words)}, not {how!r}")
        if direction not in ("backward", "forward", "nearest"):
            raise ValueError(f"direction is one of backward, forward, nearest, not {direction!r}")
        left, right, columns = self._with(other)
        matched = f" ON ({', '.join(map(quoted, keys))})" if keys else ""
        matched += f" TOLERANCE {stride(tolerance)}" if tolerance is not None else ""
        matched += f" DIRECTION {direction.upper()}" if direction != "backward" else ""
        source = f"{left.item('l')} {words[how]} JOIN {right.item('r')}{matched}"
        what = self._beside([] if how in ("semi", "anti") else columns, keys, ("l", "r"))
        return self._make(Select(source, left.params, left.frames, what=what))

    def union(self, other: Rows | str | object, *, distinct: bool = False) -> Relation:
        """Its rows and those of another, column by column in their order; with `distinct`, each once."""
        return self._set("UNION" if distinct else "UNION ALL", other)

    def intersect(self, other: Rows | str | object) -> Relation:
        """The rows that another has too, each once."""
        return self._set("INTERSECT", other)

    def except_(self, other: Rows | str | object) -> Relation:
        """The rows that another does not have, each once."""
        return self._set("EXCEPT", other)

    # Somewhere else.

    def create(
        self,
        name: str,
        *,
        timestamp: str | None = None,
        series: Names | None = None,
        partition_by: PartitionBy | None = None,
    ) -> Table:
        """Makes a table of its rows, durable when it returns. The other arguments are those of `Database.append`.

        Raises:
            SqlError: where there is one of this name, or a column is none.
        """
        clauses = f" TIMESTAMP({quoted(timestamp)})" if timestamp is not None else ""
        clauses += f" SERIES BY ({', '.join(map(quoted, _listed(series)))})" if series else ""
        clauses += f" PARTITION BY {stride(partition_by)}" if partition_by is not None else ""
        of = self._select()
        self._run(f"CREATE TABLE {quoted(name)} AS {bracketed(of.sql())}{clauses}", of)
        return self._database.table(name)

    def to_table(self, name: str) -> Table:
        """The same as `create`."""
        return self.create(name)

    def create_view(self, name: str) -> Relation:
        """Makes a view of its query, and gives the rows of that.

        Raises:
            Error: where the query sees frames, which a view cannot keep.
            SqlError: where there is a table or a view of this name.
        """
        of = self._select()
        if of.frames or of.params:
            what = "frames" if of.frames else "parameters"
            raise Error(f"the query has {what}, which a view cannot keep", hint="create(name) makes a table of its rows")
        self._run(f"CREATE VIEW {quoted(name)} AS {of.sql()}", of)
        return self._database.view(name)

    def insert_into(self, name: str) -> int:
        """Appends its rows to a table, columns by name; how many. As `Database.append`."""
        return self._database.append(name, self)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        format: Literal["csv", "json", "ndjson", "parquet", "arrow"] | None = None,
        compression: Literal["gzip", "zstd"] | None = None,
    ) -> int:
        """Writes its rows to a file, the format by the name; how many. As `Database.export`."""
        return self._database.export(self, path, format=format, compression=compression)

    def to_parquet(self, path: str | os.PathLike[str]) -> int:
        """Writes its rows to a Parquet file; how many."""
        return self.write(path, format="parquet")

    def write_parquet(self, path: str | os.PathLike[str]) -> int:
        """The same as `to_parquet`."""
        return self.to_parquet(path)

    def to_csv(self, path: str | os.PathLike[str], *, compression: Literal["gzip", "zstd"] | None = None) -> int:
        """Writes its rows to a CSV file; how many."""
        return self.write(path, format="csv", compression=compression)

    def write_csv(self, path: str | os.PathLike[str], *, compression: Literal["gzip", "zstd"] | None = None) -> int:
        """The same as `to_csv`."""
        return self.to_csv(path, compression=compression)

    def write_ndjson(self, path: str | os.PathLike[str], *, compression: Literal["gzip", "zstd"] | None = None) -> int:
        """Writes its rows to a file with a JSON object in each line; how many."""
        return self.write(path, format="ndjson", compression=compression)

    # Writing the SQL.

    def _make(self, select: Select) -> Relation:
        """A relation of a query that can be added to."""
        made = self._run(select.sql(), select)
        made._chain = select
        return made

    def _run(self, sql: str, of: Select) -> Relation:
        return self._database._run(self._database._session(), sql, of.params, caller(), of.frames)

    def _column(self, text: str) -> str:
        """A column's exact name in quotes, any other expression as it is."""
        return quoted(text) if text in self.columns else text

    def _sort_key(self, text: str) -> str:
        """An expression to order by; a column's exact name in quotes, whatever follows it."""
        if text in self.columns:
            return quoted(text)
        for name in self.columns:
            rest = text[len(name) :]
            if text.startswith(f"{name} ") and set(rest.lower().split()) <= {"asc", "desc", "nulls", "first", "last"}:
                return quoted(name) + rest
        return text

    def _keys(self, by: Names | None, what: str) -> list[str]:
        """The columns of a key, the series key if none are named."""
        if by is not None:
            return _listed(by)
        series = self._select().nested().series
        if series is None:
            raise Error("the series key of these rows is not known", hint=f"name the columns, or []: {what}")
        return list(series)

    def _need_time(self) -> str:
        timestamp = self._timestamp()
        if timestamp is None:
            raise Error(f"{_told(self)} no designated timestamp")
        return timestamp

    def _within(self, start: Time | None, end: Time | None) -> list[str]:
        """The condition of a range of time."""
        bounds = []
        if start is not None:
            bounds.append(f"{quoted(self._need_time())} >= {time_of(start)}")
        if end is not None:
            bounds.append(f"{quoted(self._need_time())} < {time_of(end)}")
        return [" AND ".join(bounds)] if bounds else []

    def _shared(self, on: Names | None, columns: list[str]) -> list[str] | None:
        """The columns of both sides that `on` names; None where it is a condition."""
        listed = _listed(on)
        return listed if listed and set(listed) <= set(self.columns) & set(columns) else None

    def _beside(self, columns: list[str], keys: list[str], names: tuple[str, str], *, both: bool = False) -> str:
        """All columns of this side and those of another: keys once, from either side where a row may lack one."""
        taken, folded = {column.lower() for column in self.columns}, {key.lower() for key in keys}
        mine = [f"{_alias(names[0])}.*"]
        if both and keys:
            mine = [
                f"coalesce({_of(names[0], column)}, {_of(names[1], column)}) AS {quoted(column)}"
                if column.lower() in folded
                else _of(names[0], column)
                for column in self.columns
            ]
        return ", ".join(
            mine + [f"{_of(names[1], each)}{renamed(each, taken)}" for each in columns if each.lower() not in folded]
        )

    def _set(self, word: str, other: Rows | str | object) -> Relation:
        left, right, _ = self._with(other)
        source = f"({bracketed(left.sql())} {word} {bracketed(right.sql())})"
        return self._make(Select(source, left.params, left.frames))

    def _with(self, other: Rows | str | object) -> tuple[Select, Select, list[str]]:
        """This one's query and another's as parts of one statement, and the columns of the other."""
        mine = self._select()
        if isinstance(other, str):
            other = self._database.table(other)
        if isinstance(other, Rows) and other._database is self._database:
            theirs = other._select()
            if all(mine.frames.get(name, frame) is frame for name, frame in theirs.frames.items()):
                return *beside(mine, theirs), other.columns
        frame = self._framed(other, "other", mine.frames)
        return *beside(mine, Select(quoted(frame.name), frames={frame.name: frame})), frame.columns()

    def _framed(self, value: object, name: str, taken: Iterable[str] = ()) -> _tickstone.Frame:
        """Rows as a frame, under this name or one like it that is no table."""
        while name in taken or self._database._handle.describe(name) is not None:
            name += "_"
        return _tickstone.Frame(name, as_stream(value))


def _listed(names: Names | None) -> list[str]:
    if names is None or names == "":
        return []
    return [names] if isinstance(names, str) else list(names)


def _alias(name: str) -> str:
    return name if name in ("l", "r") else quoted(name)


def _of(alias: str, column: str) -> str:
    return f"{_alias(alias)}.{quoted(column)}"


def _name_of(rows: object) -> str | None:
    """The name of a table."""
    if isinstance(rows, str):
        return rows
    name = getattr(rows, "name", None) if isinstance(rows, Rows) else None
    return name if isinstance(name, str) else None


def _told(rows: Rows) -> str:
    name = _name_of(rows)
    return f"table '{name}' has" if name is not None else "the query has"


def _whole(number: int, name: str) -> int:
    if int(number) < 0:
        raise ValueError(f"{name} is 0 or more, not {number}")
    return int(number)

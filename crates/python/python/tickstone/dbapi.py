"""DB-API 2.0 (PEP 249) over an embedded database.

    import tickstone.dbapi

    with tickstone.dbapi.connect("ticks") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT ts, price FROM trades WHERE symbol = :symbol", {"symbol": "BTC-USD"})
        rows = cursor.fetchmany(100)

Parameters are written `:name` and given as a mapping (`paramstyle` is "named"); `$1`, `$2`, … with a
sequence work too.

Transactions: with `autocommit=False` (the default, as PEP 249 asks) the first INSERT begins a transaction
and `commit()` makes all its rows durable and visible together. Until then no query sees them, not even one
of this connection. Every other statement that changes something (CREATE, DROP, COPY, …) takes effect at once
and does not end the transaction.
"""

from __future__ import annotations

import datetime
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import tickstone
from tickstone import errors
from tickstone.rows import Column

if TYPE_CHECKING:
    from typing import Self

    import pyarrow

    from tickstone.database import Database, Transaction
    from tickstone.relation import Relation

__all__ = [
    "BINARY",
    "Binary",
    "Connection",
    "Cursor",
    "DATETIME",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NUMBER",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ROWID",
    "STRING",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeCode",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

#: The version of the DB-API that this module keeps to.
apilevel = "2.0"
#: Threads may share the module and connections; a cursor belongs to one thread.
threadsafety = 2
#: `:name` with a mapping; `$1`, `$2`, … with a sequence are accepted as well.
paramstyle = "named"

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]

# Most parameters of one INSERT that `executemany` makes of many.
PARAMETERS_MAX = 2_000
# Up to here a float holds every whole number.
FLOAT_INTEGER_MAX = 2**53


class Warning(Exception):  # noqa: A001 (the name is PEP 249's)
    """Never raised; PEP 249 asks for it."""


class Error(errors.Error):
    """Base of all errors of this module; a `tickstone.Error` too.

    `__cause__` is the error of the database, with the position in the SQL where there is one.
    """


class InterfaceError(Error):
    """The connection or cursor is closed, or was misused."""


class DatabaseError(Error):
    """Something went wrong in the database."""


class DataError(DatabaseError):
    """A value does not fit its column, or cannot be converted or computed with."""


class OperationalError(DatabaseError):
    """The disk, memory or another process stands in the way; not the statement."""


class IntegrityError(DatabaseError):
    """Never raised yet: tables have no constraints."""


class InternalError(DatabaseError):
    """A defect in the database; please report it."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: syntax, names, types or parameters."""


class NotSupportedError(DatabaseError):
    """The database cannot do that."""


class TypeCode:
    """What `description` holds as type code compares equal to one of these: STRING, NUMBER, …

    A type code is the SQL name of the type, for example "DOUBLE" or "DECIMAL(10,2)".
    """

    def __init__(self, name: str, *types: str) -> None:
        self.name = name
        self.types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeCode):
            return self.types == other.types
        return isinstance(other, str) and type_family(other) in self.types

    def __hash__(self) -> int:
        return hash(self.types)

    def __repr__(self) -> str:
        return f"tickstone.dbapi.{self.name}"


def type_family(sql_type: str) -> str:
    """The name of a SQL type without precision and sign, in capitals."""
    return re.split(r"[\s(]", sql_type.strip().upper(), maxsplit=1)[0]


STRING = TypeCode("STRING", "VARCHAR", "SYMBOL", "TEXT", "CHAR", "UUID")
BINARY = TypeCode("BINARY", "BINARY", "BLOB")
NUMBER = TypeCode(
    "NUMBER", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"
)
DATETIME = TypeCode("DATETIME", "TIMESTAMP", "DATE", "TIME", "INTERVAL")
#: There are no row ids; equals no type code.
ROWID = TypeCode("ROWID")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 (PEP 249)
    """The UTC day of a time in seconds since the Unix epoch."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 (PEP 249)
    """The UTC time of day of a time in seconds since the Unix epoch."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802 (PEP 249)
    """A time in seconds since the Unix epoch, as a datetime in UTC."""
    return datetime.datetime.fromtimestamp(ticks, datetime.UTC)


def connect(
    path: str | os.PathLike[str] = "tickstone-data",
    *,
    database: Database | None = None,
    autocommit: bool = False,
    **options: Any,
) -> Connection:
    """Opens a database directory (":memory:" for none), or the database of a server ("tickstone://host"), as a DB-API
    connection.

    `database` takes a database that is open already instead of a path; closing the connection then leaves
    it open. `options` are those of `tickstone.open`.

    Raises OperationalError if the directory cannot be opened, for example because another process writes it.
    """
    if database is not None:
        return Connection(database, owned=False, autocommit=autocommit)
    with translated():
        return Connection(opened(path, **options), owned=True, autocommit=autocommit)


def opened(path: str | os.PathLike[str], **options: Any) -> Database:
    """A directory, or a server."""
    if isinstance(path, str) and path.startswith(("tickstone://", "tickstone+tls://")):
        return tickstone.connect(path, **options)
    return tickstone.open(path, **options)


@contextmanager
def translated() -> Iterator[None]:
    """Raises the errors of the database as those of PEP 249, the original as their cause."""
    try:
        yield
    except Error:
        raise
    except errors.Error as error:
        raise class_of(error)(str(error), kind=error.kind) from error
    except OverflowError as error:
        raise DataError(str(error)) from error
    except (TypeError, ValueError, LookupError) as error:
        raise ProgrammingError(str(error)) from error


# What the database says of requests that are not simply wrong.
NOT_SUPPORTED = re.compile(r" (is|are) not supported( yet$|:|$)")
UNFIT_VALUE = re.compile(
    r"(row \d+: )?the (value for column|designated timestamp) |column '.*' is a TIMESTAMP and the value "
    r"|Cannot cast |'.*' is no [A-Z]+($|[( ])|division by zero"
)


def class_of(error: errors.Error) -> type[Error]:
    """The class of PEP 249 for an error of the database."""
    if isinstance(error, (errors.ClosedError, errors.ForkedError)):
        return InterfaceError
    if isinstance(error, errors.StorageError) or error.kind in ("retry", "free space"):
        return OperationalError
    if error.kind == "report":
        return InternalError
    if NOT_SUPPORTED.search(error.message):
        return NotSupportedError
    return DataError if UNFIT_VALUE.match(error.message) else ProgrammingError


class Connection:
    """A connection: an open database and at most one transaction. Made by `connect`.

    As a context manager it commits at the end, or rolls back if an exception leaves the block, and then
    closes. Threads may share it.
    """

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, database: Database, *, owned: bool, autocommit: bool) -> None:
        self._database: Database | None = database
        self._owned = owned
        self._autocommit = autocommit
        self._transaction: Transaction | None = None
        self._lock = threading.RLock()

    @property
    def database(self) -> Database:
        """The database underneath, for what the DB-API has no words for: frames, Arrow, imports.

        Raises InterfaceError if the connection is closed.
        """
        if self._database is None:
            raise InterfaceError("the connection is closed")
        return self._database

    @property
    def autocommit(self) -> bool:
        """Whether each INSERT is a transaction of its own. Setting it to True commits what is open."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value:
            self.commit()
        self._autocommit = value

    def cursor(self) -> Cursor:
        """A new cursor. Raises InterfaceError if the connection is closed."""
        _ = self.database
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Runs a statement on a new cursor and returns that; a shorthand beyond PEP 249."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Makes the rows inserted since the last commit durable and visible, all or none.

        Raises OperationalError if they cannot be written; the transaction is over then, too.
        """
        self._end(commit=True)

    def rollback(self) -> None:
        """Forgets the rows inserted since the last commit."""
        self._end(commit=False)

    def close(self) -> None:
        """Rolls back what is not committed and closes; again does nothing."""
        with self._lock:
            if self._database is None:
                return
            try:
                self.rollback()
            finally:
                database, self._database = self._database, None
                if self._owned:
                    with translated():
                        database.close()

    def _end(self, *, commit: bool) -> None:
        _ = self.database
        with self._lock, translated():
            transaction, self._transaction = self._transaction, None
            if transaction is not None and commit:
                transaction.commit()
            elif transaction is not None:
                transaction.rollback()

    def _insert(self, operation: str, parameters: Parameters | None) -> Relation:
        """Runs an INSERT in the open transaction, beginning it if there is none."""
        with self._lock, translated():
            if self._autocommit:
                return self.database.sql(operation, parameters)
            if self._transaction is None:
                self._transaction = self.database.transaction()
            return self._transaction.sql(operation, parameters)

    def __enter__(self) -> Self:
        _ = self.database
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()


class Cursor:
    """Runs statements and hands out their rows. Made by `Connection.cursor`; belongs to one thread."""

    def __init__(self, connection: Connection) -> None:
        #: The connection it belongs to.
        self.connection = connection
        #: Rows that `fetchmany` returns when it is not told how many.
        self.arraysize = 1
        #: Always None: there are no row ids.
        self.lastrowid: None = None
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._relation: Relation | None = None
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._description: list[Column] | None = None
        self._rowcount = -1
        self._rownumber: int | None = None

    @property
    def description(self) -> list[Column] | None:
        """A tuple for each column of the result: name, type code, None, None, precision, scale, nullable.

        The type code is the SQL name of the type; compare it with STRING, NUMBER, DATETIME and BINARY. None
        after a statement that returns no rows.
        """
        return self._description

    @property
    def rowcount(self) -> int:
        """Rows that the last INSERT or COPY stored; -1 for a query, whose rows are counted by fetching."""
        return self._rowcount

    @property
    def rownumber(self) -> int | None:
        """The index of the next row, from 0; None if there is no result."""
        return self._rownumber

    def execute(self, operation: str, parameters: Parameters | None = None) -> Self:
        """Runs a statement, with a mapping for `:name` or a sequence for `$1`, and returns the cursor.

        BEGIN, COMMIT and ROLLBACK act on the connection's transaction. Raises ProgrammingError with the
        position if the SQL is wrong.
        """
        connection = self._open()
        self._reset()
        keyword = first_keyword(operation)
        if keyword in ("BEGIN", "COMMIT", "ROLLBACK"):
            self._transaction_statement(keyword)
        elif keyword == "INSERT":
            self._take(connection._insert(operation, checked(parameters)))
        else:
            with translated():
                self._take(connection.database.sql(operation, checked(parameters)))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Self:
        """Runs a statement once for each set of parameters.

        An INSERT of one row of placeholders is sent many rows at a time, as long as the values of a column are of
        one type. With autocommit on, what was stored before an error stays.
        """
        connection = self._open()
        self._reset()
        total = 0
        for statement, parameters in merged(operation, seq_of_parameters):
            if first_keyword(statement) == "INSERT":
                total += max(connection._insert(statement, parameters).rowcount, 0)
                continue
            with translated():
                result = connection.database.sql(statement, parameters)
                if result.columns:
                    raise ProgrammingError("executemany takes no statement that returns rows")
                total += max(result.rowcount, 0)
        self._rowcount = total
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, None after the last. Raises InterfaceError if there is no result."""
        with translated():
            row = next(self._result(), None)
        if row is not None and self._rownumber is not None:
            self._rownumber += 1
        return row

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next `size` rows (`arraysize` if not given), fewer at the end.

        Raises ProgrammingError if that is negative.
        """
        count = self.arraysize if size is None else size
        if count < 0:
            raise ProgrammingError(f"size is 0 or more, not {count}")
        with translated():
            rows = list(itertools.islice(self._result(), count))
        self._rownumber = (self._rownumber or 0) + len(rows)
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        with translated():
            rows = list(self._result())
        self._rownumber = (self._rownumber or 0) + len(rows)
        return rows

    def fetch_arrow_table(self) -> pyarrow.Table:
        """The result of the last query as an Arrow table, from its first row; runs the query again.

        A shorthand beyond PEP 249. Needs pyarrow.
        """
        self._result()
        assert self._relation is not None, "a result has its relation"
        with translated():
            return self._relation.arrow()

    def close(self) -> None:
        """Closes the cursor; again does nothing. `rowcount` stays what it was."""
        rowcount = self._rowcount
        self._reset()
        self._rowcount = rowcount
        self._closed = True

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing; PEP 249 asks for it."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing; PEP 249 asks for it."""

    def _open(self) -> Connection:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        _ = self.connection.database
        return self.connection

    def _result(self) -> Iterator[tuple[Any, ...]]:
        self._open()
        if self._rows is None:
            raise InterfaceError("there are no rows to fetch: the last statement was not a query")
        return self._rows

    def _take(self, relation: Relation) -> None:
        if not relation.columns:
            self._rowcount = relation.rowcount
            return
        with translated():
            rows = iter(relation)
            # The first row now: errors come from `execute`, and the query sees the rows of this moment.
            first = list(itertools.islice(rows, 1))
        self._relation = relation
        self._rows = itertools.chain(first, rows)
        self._rownumber = 0
        self._description = relation.description

    def _transaction_statement(self, keyword: str) -> None:
        if keyword == "COMMIT":
            self.connection.commit()
        elif keyword == "ROLLBACK":
            self.connection.rollback()
        elif self.connection.autocommit:
            raise NotSupportedError("BEGIN needs a connection with autocommit=False")

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows that are left, one by one."""
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def first_keyword(sql: str) -> str:
    """The first word of a statement in capitals, after spaces and comments; empty if there is none."""
    found = re.match(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]*)", sql, re.DOTALL)
    return found[1].upper() if found else ""


def checked(parameters: Parameters | None) -> Parameters | None:
    """The parameters if they are a sequence or a mapping. Raises ProgrammingError otherwise."""
    if parameters is None or isinstance(parameters, Mapping):
        return parameters
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Sequence):
        raise ProgrammingError(f"parameters are a sequence or a mapping, not {type(parameters).__name__}")
    return parameters


PLACEHOLDER = r"(?:\$\d+|:\w+)"
INSERT_ROW = re.compile(
    rf"(\s*INSERT\s+INTO\s+.+?\s+VALUES\s*)\(\s*({PLACEHOLDER}(?:\s*,\s*{PLACEHOLDER})*)\s*\)[\s;]*",
    re.IGNORECASE | re.DOTALL,
)


def merged(operation: str, rows: Iterable[Parameters]) -> Iterator[tuple[str, Parameters | None]]:
    """The statements and parameters that do what `operation` does for each row, as few as possible."""
    found = INSERT_ROW.fullmatch(operation)
    if found is None:
        yield from ((operation, checked(row)) for row in rows)
        return
    head, row_of = found[1], row_reader(re.split(r"\s*,\s*", found[2]))
    column_count = found[2].count(",") + 1
    for chunk in uniform(map(row_of, rows), max(PARAMETERS_MAX // column_count, 1)):
        numbers = itertools.count(1)
        values = ", ".join(
            "(" + ", ".join(f"${next(numbers)}" for _ in range(column_count)) + ")" for _ in chunk
        )
        yield head + values, [value for row in chunk for value in row]


def uniform(rows: Iterable[list[Any]], rows_max: int) -> Iterator[list[list[Any]]]:
    """The rows in their order, in lists that hold values of one type, or NULL, in each column.

    VALUES gives a column one type for all its rows: in such a list that is the type each has alone.
    """
    chunk: list[list[Any]] = []
    types: list[type | None] = []
    for row in rows:
        of_row = [type_in_values(value) for value in row]
        differ = any(mine and other and mine is not other for mine, other in zip(types, of_row, strict=False))
        if differ or len(chunk) == rows_max:
            yield chunk
            chunk, types = [], []
        types = [mine or other for mine, other in zip(types, of_row, strict=True)] if chunk else of_row
        chunk.append(row)
    if chunk:
        yield chunk


def type_in_values(value: Any) -> type | None:
    """What must not change within a column of VALUES. A whole number may stand among floats that hold it exactly."""
    if value is None:
        return None
    return float if type(value) is int and abs(value) <= FLOAT_INTEGER_MAX else type(value)


def row_reader(placeholders: list[str]) -> Callable[[Parameters], list[Any]]:
    """Takes the values of the placeholders, in their order, out of a set of parameters."""
    count = max((int(name[1:]) for name in placeholders if name[0] == "$"), default=0)

    def value(row: Parameters, name: str) -> Any:
        if isinstance(row, Mapping) == (name[0] == "$"):
            raise ProgrammingError("$1 takes a sequence of parameters, :name a mapping")
        return row[name[1:]] if isinstance(row, Mapping) else row[int(name[1:]) - 1]

    def read(row: Parameters) -> list[Any]:
        checked(row)
        if not isinstance(row, Mapping) and len(row) != count:
            raise ProgrammingError(f"the statement takes {count} parameters, got {len(row)}")
        try:
            return [value(row, name) for name in placeholders]
        except LookupError as error:
            raise ProgrammingError(f"parameter {error} is missing") from error

    return read



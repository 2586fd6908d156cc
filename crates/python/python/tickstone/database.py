"""Database: an open database, in this process or in a server."""

from __future__ import annotations

import functools
import operator
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tickstone import _tickstone
from tickstone.errors import ClosedError, Error, StorageError
from tickstone.frames import as_stream, caller, is_rows, lookup, rows_with_names
from tickstone.functions import Kind, NullHandling, Type, adapted, arrow_type
from tickstone.hints import ON_DATABASE, unknown
from tickstone.imports import FileReport, ImportProgress, ImportReport, ProgressTeller
from tickstone.parameters import Parameters, parameters_of
from tickstone.relation import Relation
from tickstone.rows import Rows
from tickstone.subscription import Subscription
from tickstone.texts import StrPath, file_call

if TYPE_CHECKING:
    from typing import Self

    from tickstone.table import Table

__all__ = ["Database", "FileReport", "ImportProgress", "ImportReport", "RemoteDatabase", "Transaction", "connect", "open"]

SyncPolicy: TypeAlias = Literal["always", "interval", "never"]
PartitionBy: TypeAlias = Literal["hour", "day", "week", "month", "year", "none"]
Frames: TypeAlias = Mapping[str, _tickstone.Frame]
Session: TypeAlias = _tickstone.Session | _tickstone.RemoteSession
Statement: TypeAlias = _tickstone.Statement | _tickstone.RemoteStatement
Query: TypeAlias = _tickstone.Query | _tickstone.RemoteQuery | _tickstone.Batch

#: What a statement reads that gives again what RETURNING gave.
_RETURNED = "__returned"


def open(
    path: StrPath = "tickstone-data",
    *,
    read_only: bool = False,
    memory_budget: int | None = None,
    query_memory: int | None = None,
    threads: int | None = None,
    sync_interval_ms: float | None = None,
    progress: bool | None = None,
) -> Database:
    """Opens the database in a directory, which is made if missing, or one in memory (":memory:").

    Args:
        path: the directory.
        read_only: only read, also beside another process that writes: each query sees what was committed when it began.
        memory_budget: most bytes of rows not yet sealed; 1 GiB if None.
        query_memory: most bytes that running queries take together; three quarters of the memory of the machine, or of
            the container, if None.
        threads: threads that run queries and seal; one a core if None.
        sync_interval_ms: longest time in milliseconds that rows of sync policy "interval" stay unsynced; 10
            if None.
        progress: while a query takes long, a line on standard error says how many of its rows have been read (None:
            if that is a terminal).

    Raises:
        StorageError: where it is open for writing already (kind "retry"), its files are damaged or the disk fails.
        ValueError: where `path` is empty, or a number is not positive.
    """
    return Database(
        path,
        read_only=read_only,
        memory_budget=memory_budget,
        query_memory=query_memory,
        threads=threads,
        sync_interval_ms=sync_interval_ms,
        progress=progress,
    )


def connect(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    ca: StrPath | None = None,
    cert: StrPath | None = None,
    key: StrPath | None = None,
) -> RemoteDatabase:
    """Connects to the database of a server that `tickstone serve` runs. It has the methods of one that `open` opens: a
    notebook moves from a directory to a server by this one line.

    Args:
        url: "tickstone://host" or "tickstone://host:port"; the port is the server's `flight_port`, 8815 if it is left
            out. "tickstone+tls://host" speaks TLS; the server's certificate must be of that name, and of an authority
            that the system trusts. "tickstone://user:password@host" has the user before the host, special characters
            escaped as in any URL.
        user: who connects, where the server has users; with `password`.
        password: the user's password.
        token: a token of CREATE TOKEN, instead of a user and a password.
        ca: a PEM file of the authorities that are trusted instead, for "tickstone+tls://".
        cert: a PEM file of the certificate that says who connects, where the server takes those; with `key`.
        key: a PEM file of its key.

    Raises:
        ValueError: where `ca`, `cert` or `key` is given for an address without TLS, one of `cert` and `key` without the
            other, a password without a user, or a token beside them.
        Error: where that is no such address, no server answers there (kind "retry"), or it does not know the user.
    """
    if (user is None) != (password is None):
        raise ValueError("user and password are given together")
    if token is not None and user is not None:
        raise ValueError("either a user and a password, or a token")
    if (cert is None) != (key is None):
        raise ValueError("cert and key are given together")
    files = {"ca": ca, "cert": cert, "key": key}
    asked = "&".join(f"{name}={os.fspath(path)}" for name, path in files.items() if path is not None)
    if asked:
        if not url.startswith("tickstone+tls://") or "?" in url:
            raise ValueError("ca, cert and key are for an address of the form tickstone+tls://host")
        url = f"{url}?{asked}"
    return RemoteDatabase(url, user=user, password=password, token=token)


class Database:
    """An open database. A context manager: it closes at the end of the block.

    It can be used from many threads at once; each has a session of its own, with its own settings. A process
    forked from the one that opened it cannot use it (`ForkedError`). The arguments are those of `open`.
    """

    def __init__(
        self,
        path: StrPath = "tickstone-data",
        *,
        read_only: bool = False,
        memory_budget: int | None = None,
        query_memory: int | None = None,
        threads: int | None = None,
        sync_interval_ms: float | None = None,
        progress: bool | None = None,
    ) -> None:
        self._path = os.fspath(path)
        if not self._path:
            raise ValueError("path is empty: name a directory, or ':memory:'")
        if self._path.startswith(("tickstone://", "tickstone+tls://")):
            raise ValueError("the path is the address of a server: tickstone.connect connects to it")
        _check_positive(memory_budget=memory_budget, query_memory=query_memory, threads=threads)
        self._read_only = read_only
        self._progress = progress
        try:
            self._handle: _tickstone.Database | _tickstone.Remote = _tickstone.Database(
                self._path,
                read_only=read_only,
                memory_budget=memory_budget,
                query_memory=query_memory,
                threads=threads,
                sync_interval_ms=sync_interval_ms,
            )
        except StorageError as error:
            # The lock does not say who has it: that may be this process, where an earlier handle was not closed.
            message = error.message.replace("in another process", "in this process or another")
            message = message.replace("stop that process", "close it there")
            raise StorageError(message, kind=error.kind, detail=error.detail, hint=error.hint) from None
        self._local = threading.local()
        self._registered: dict[str, _tickstone.Frame] = {}

    # The handle.

    @property
    def path(self) -> str:
        """The directory, or ":memory:"."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading only."""
        return self._read_only

    @property
    def progress(self) -> bool | None:
        """Whether long queries say on standard error how far they are; None: if that is a terminal."""
        return self._progress

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle.closed

    def close(self) -> None:
        """Closes it; everything acknowledged is in its files. Relations of it raise `ClosedError` from now on; one
        that is being read gives the rows that it has in memory first. Subscriptions end, with the same error where
        they are waited for. A second call does nothing."""
        self._registered.clear()
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self._read_only else "open"
        return f"<Database {self._path!r}, {state}>"

    def _here(self, what: str, hint: str) -> _tickstone.Database:
        """The engine in this process, for what a server cannot do."""
        if isinstance(self._handle, _tickstone.Remote):
            raise Error(f"{what}, and this one is in a server", hint=hint)
        return self._handle

    def _session(self) -> Session:
        """This thread's session."""
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = self._handle.session()
        return session

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown(self, name, ON_DATABASE)

    # SQL.

    def sql(self, query: str, params: Parameters = None, **named: Any) -> Relation:
        """A query as a relation, or any other statement, which runs at once.

        Args:
            query: one statement, or several separated by semicolons: all run in turn, and the last one's
                result is returned.
            params: a sequence for `$1`, `$2`, … or a mapping for `:name`. A value is typed by what it is
                compared with or stored into, as a literal there would be: a str compared with a timestamp is
                read as one. A list stands in `IN ($1)`.
            named: values for `:name`, in the place of a mapping.

        Returns:
            A relation: the rows of a SELECT are read when they are asked for; for another statement it has no
            columns and `rowcount` says how many rows were changed.

        A name in FROM that is no table of the database is looked up as a variable where `sql` is called, local
        then global: a Polars, pandas or pyarrow frame, a Relation or anything else with `__arrow_c_stream__`.
        Registered frames come before variables, tables of the database before both.

        Raises:
            SqlError: where the statement is wrong, with the place in its text.
            KeyboardInterrupt: on Ctrl-C; the statement is cancelled.
        """
        return self._run(self._session(), query, parameters_of(params, named), caller(), {})

    def execute(self, query: str, params: Parameters = None) -> Relation:
        """The same as `sql`: what it gives has `fetchone()`, `fetchall()`, `df()` and the others."""
        return self.sql(query, params)

    def query(self, query: str, params: Parameters = None) -> Relation:
        """The same as `sql`."""
        return self.sql(query, params)

    def read_parquet(self, path: StrPath | Iterable[StrPath], **options: Any) -> Relation:
        """The rows of Parquet files where they lie: nothing is imported.

        Args:
            path: a file, a pattern (`data/**/*.parquet`), a folder, or several. Of a server it is one of the server's.
            options: those of `read_parquet` in SQL: hive_partitioning, union_by_name, filename, timestamp, series.
        """
        return self.sql(file_call("read_parquet", path, options))

    def read_csv(self, path: StrPath | Iterable[StrPath], **options: Any) -> Relation:
        """The same of CSV files, also packed ones; options beside: delim, header, names, types, columns, all_varchar,
        ignore_errors, compression."""
        return self.sql(file_call("read_csv", path, options))

    def read_json(self, path: StrPath | Iterable[StrPath], **options: Any) -> Relation:
        """The same of JSON, an object a line; options beside: types, ignore_errors, compression."""
        return self.sql(file_call("read_json", path, options))

    def read_arrow(self, path: StrPath | Iterable[StrPath], **options: Any) -> Relation:
        """The same of Arrow IPC, files and streams."""
        return self.sql(file_call("read_arrow", path, options))

    def _run(
        self,
        session: Session,
        query: str,
        params: Parameters,
        scope: FrameType | Mapping[str, object] | None,
        frames: Frames,
    ) -> Relation:
        """Runs statements that see `frames`, the registered ones and the variables of `scope`."""
        statements = session.parse(query, params)
        if not statements:
            raise Error("the text holds no statement")
        last = statements.pop()
        for statement in statements:
            statement.run(self._frames(statement, scope, frames))
        seen = self._frames(last, scope, frames)
        if last.is_query():
            return _Prepared(self, query, last.query(seen), params, seen)
        if last.returns_rows():
            # Its rows may be read again, and it must not run again.
            rows_of = _Prepared(self, query, last.query(seen), params, seen)
            returned = _tickstone.Frame(_RETURNED, as_stream(rows_of))
            reader = self._reader()
            return reader._run(reader._session(), f'SELECT * FROM "{_RETURNED}"', None, None, {_RETURNED: returned})
        rows = last.run(seen)
        return Relation(self, query, None, -1 if rows is None else rows)

    def _reader(self) -> Database:
        """The database in this process that reads rows which are here already."""
        return self

    def _subscribe(
        self, sql: str, since: str | None, params: Parameters = None, frames: Sequence[_tickstone.Frame] = ()
    ) -> Subscription:
        """Begins what a SUBSCRIBE says."""
        (statement,) = self._session().parse(sql, params)
        return Subscription(self, sql, statement.query(list(frames)).messages(), since)

    def _frames(
        self, statement: Statement, scope: FrameType | Mapping[str, object] | None, frames: Frames
    ) -> list[_tickstone.Frame]:
        """The frames that a statement names."""
        found = []
        for name in statement.missing():
            known = frames.get(name, self._registered.get(name))
            if known is None:
                value = lookup(name, scope)
                if value is None:
                    continue
                known = _tickstone.Frame(name, as_stream(value))
            found.append(known)
        return found

    def register(
        self,
        name: str,
        frame: object,
        *,
        timestamp: str | None = None,
        series: str | Sequence[str] | None = None,
    ) -> None:
        """Makes a frame a table of this database's queries, under a name, until `unregister`.

        Its rows are those it has now; they need not be sorted. Buffers are shared, not copied: what is changed in
        place in an array of NumPy or pandas shows. `timestamp` names the designated timestamp;
        without, it is the only timestamp column, or of several the one named ts, timestamp or time. `series`
        names the columns of the series key.

        Raises:
            Error: where a named column is not there, or a value cannot be converted.
        """
        self._registered[name] = _tickstone.Frame(name, as_stream(frame), timestamp, names_of(series))

    def unregister(self, name: str) -> None:
        """Forgets a registered frame.

        Raises:
            KeyError: where none of that name is registered.
        """
        del self._registered[name]

    # Functions.

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Sequence[Type],
        return_type: Type,
        *,
        kind: Kind = "scalar",
        null_handling: NullHandling = "default",
        side_effects: bool = False,
        replace: bool = False,
    ) -> None:
        """Makes a Python function one of SQL: for every later statement of this database, in all threads, until it is
        removed or the database is closed.

        The function gets a `pyarrow.Array` for each parameter, all of one length, which share their buffers with the
        engine. It gives, by `kind`:

        - "scalar": an array with a value for each row. It is called for batches of rows, in any order.
        - "window": the same, for all rows of a partition at once, in the order that OVER says.
        - "aggregate": one value, a Python object or a `pyarrow.Scalar`, of the rows of a group. All rows of all groups
          are in memory then, and count against `query_memory`. Without ORDER BY in the call they come in any order.

        An array is a pyarrow, NumPy or pandas one, or a list. The function may be called from any thread, and with the
        interpreter held, so that one call runs at a time; it cannot run statements.

        Args:
            name: its name in SQL, in any case: letters, digits and `_`. What is built in keeps its name.
            function: the function.
            parameters: the types of its arguments, at least one: as CREATE TABLE names them ("DOUBLE", "TIMESTAMP";
                a "SYMBOL" is text), or pyarrow types. Arguments of other types are cast where nothing is lost.
            return_type: the type of what it gives.
            kind: what it is.
            null_handling: "default": rows with a NULL are kept from the function, which is NULL there; an aggregate
                passes over them. "special": they are rows like any other.
            side_effects: whether it may give something else for the same arguments: else a call of constants is made
                once, and equal calls are one.
            replace: take the place of an earlier function of this name.

        Raises:
            Error: where the name is taken or no name, or a type is none.
            ImportError: where pyarrow is not installed.

        What the function raises ends the statement with a `SqlError` whose `__cause__` it is.
        """
        if null_handling not in ("default", "special"):
            raise ValueError(f"null_handling is 'default' or 'special', not {null_handling!r}")
        if isinstance(parameters, str):
            raise TypeError("parameters is a list of types, one for each argument")
        if not callable(function):
            raise TypeError(f"function is {type(function).__name__}, which cannot be called")
        engine = self._here(
            "a function in Python runs in the process of its database",
            "read the rows into a frame and call it here, or write it in SQL",
        )
        returns = arrow_type(return_type)
        engine.create_function(
            name,
            adapted(function, kind, returns),
            [arrow_type(parameter) for parameter in parameters],
            returns,
            kind=kind,
            special_nulls=null_handling == "special",
            side_effects=side_effects,
            replace=replace,
        )

    def remove_function(self, name: str) -> None:
        """Takes a function away that `create_function` made; statements under way go on with it.

        Raises:
            Error: where there is none of this name.
        """
        self._here("a function in Python is one of the process of its database", "there is none").remove_function(name)

    # Rows in and out.

    def append(
        self,
        table: str,
        frame: object,
        *,
        columns: Sequence[str] | None = None,
        timestamp: str | None = None,
        series: str | Sequence[str] | None = None,
        partition_by: PartitionBy | None = None,
        create: bool = False,
        sync: SyncPolicy | None = None,
    ) -> int:
        """Appends rows in one commit, durable and visible to every query when it returns; how many. It is no part of
        a transaction that `sql("BEGIN")` began: `transaction` has an `append` of its own.

        Args:
            table: the table.
            frame: anything with `__arrow_c_stream__` or `__arrow_c_array__` (Polars, pyarrow, a Relation, …), a
                pandas frame, a dict of columns, a list of dicts, or a list of tuples. Columns are matched by name,
                in any case; one that is missing is NULL.
            columns: names for the values of tuples; the table's columns in their order if None.
            timestamp, series, partition_by: of a new table: the designated timestamp, the columns of the
                series key (an empty list: none), the length of partitions. Without them they are found by type
                and name. Of a table that is there they must be what it has.
            create: make the table where it is missing.
            sync: when the rows are on stable storage: "always" before this returns, "interval" within the
                interval the database was opened with, "never" whenever the operating system likes. Without, it
                is as the table says. From 262,144 rows on they always are when this returns.

        Timestamps in any unit and zone become nanoseconds in UTC, exactly; categoricals and text become
        symbols where the table has them.

        Raises:
            Error: where a column or a value does not fit the table, with column and row; nothing is stored.
            StorageError: where the disk fails or is full.
        """
        source = self._rows(table, frame, columns, create)
        if source is None:
            return 0
        return self._handle.append(
            table,
            source,
            timestamp=timestamp,
            series=names_of(series),
            partition_by=partition_by,
            create=create,
            sync=sync,
        )

    def _rows(
        self, table: str, frame: object, columns: Sequence[str] | None, create: bool = False
    ) -> object | None:
        """What is to be appended as something with Arrow rows, None for an empty list."""
        if not is_rows(frame):
            return as_stream(frame)
        known = None if create and self._handle.describe(table) is None else self.table(table).columns
        names = known if columns is None else columns
        if names is None:
            raise Error(f"table '{table}' does not exist", hint="name the values of the tuples: append(…, columns=[…])")
        return rows_with_names(frame, names) if frame else None

    def transaction(self) -> Transaction:
        """A transaction: what is appended in its block becomes durable and visible together at its end, and
        none of it where the block raises."""
        return Transaction(self, self._handle.session())

    def import_file(
        self,
        path: StrPath | Iterable[StrPath],
        table: str,
        *,
        format: Literal["csv", "ndjson", "parquet", "arrow"] | None = None,
        timestamp: str | None = None,
        series: str | Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        rename: Mapping[str, str] | None = None,
        partition_by: PartitionBy | None = None,
        bad_rows: StrPath = "fail",
        again: bool = False,
        progress: bool | Callable[[ImportProgress], object] | None = None,
    ) -> ImportReport:
        """Imports files, each in one commit, or all that a pattern or a folder names in one; the table is made from the
        first where it is missing.

        Args:
            path: a file, a pattern (`data/**/*.parquet`), a folder, or several: CSV and NDJSON (also gzip, zstd),
                Parquet, Arrow IPC. Of a pattern or a folder, files that the table has already are left out, and
                folders named key=value are columns.
            table: the table.
            format: what the files hold; by their names if None.
            timestamp, series, partition_by: of a new table, as for `append`; a file without a time needs
                `timestamp="none"`.
            types: SQL types of columns; the others are inferred.
            rename: other names for columns of the files, as they are written there: `{"E": "event_time"}` tells `E`
                from `e`.
            bad_rows: "fail", "skip" or a file that takes the rows that cannot be read.
            again: import a file also where the table has it already.
            progress: a bar on standard error (None: if it is a terminal), or a function that is called with an
                `ImportProgress` some times a second; what it raises stops the import.

        Raises:
            Error: for the first file that cannot be imported; it left nothing behind, those before it are in.
            KeyboardInterrupt: on Ctrl-C; likewise.
        """
        engine = self._here(
            "files are read by the process of the database",
            "read the file into a frame and append that, or use `tickstone import` beside the database",
        )
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        text = os.fspath(bad_rows)
        with ProgressTeller(progress) as tell:
            report = engine.import_files(
                [os.fspath(each) for each in paths],
                table,
                format=format,
                timestamp=timestamp,
                series=names_of(series),
                types=list(types.items()) if types else None,
                rename=list(rename.items()) if rename else None,
                partition_by=partition_by,
                bad_rows=text if text in ("fail", "skip") else f"collect={text}",
                again=again,
                progress=tell,
            )
        return ImportReport.of(report)

    def export(
        self,
        query_or_table: str | Rows,
        path: StrPath,
        *,
        format: Literal["csv", "json", "ndjson", "parquet", "arrow"] | None = None,
        compression: Literal["gzip", "zstd"] | None = None,
    ) -> int:
        """Writes a table (in order of time), a query or a relation to a file, which is there whole or not at
        all; how many rows.

        Args:
            query_or_table: the name of a table, the text of a query, a relation or a table.
            path: the file.
            format: by the name's ending if None.
            compression: of CSV, JSON and NDJSON; by a further ending .gz or .zst if None. Parquet is packed
                with zstd inside, Arrow is not packed.

        Raises:
            Error: where the query is wrong, the ending says another compression or the file cannot be written; a
                file of that name stays as it was.
        """
        target = os.fspath(path)
        ending = os.path.splitext(target)[1].lower()
        packed = {".gz": "gzip", ".zst": "zstd"}.get(ending)
        if compression is not None and packed is not None and packed != compression:
            raise Error(f"the name ends in {ending} and compression is '{compression}'", hint="leave one of them out")
        if isinstance(query_or_table, Rows):
            rows = query_or_table
        elif self._handle.describe(query_or_table) is not None:
            rows = self.table(query_or_table)
        else:
            rows = self._run(self._session(), query_or_table, None, caller(), {})
        return rows._export(target, format, compression)

    # Tables.

    def table(self, name: str) -> Table:
        """A table or a view, for the common questions without SQL.

        Raises:
            Error: where there is none of this name.
        """
        from tickstone.table import Table

        described = self._handle.describe(name)
        if described is None:
            known = ", ".join(self.tables())
            raise Error(f"table '{name}' does not exist", hint=f"the tables are {known}" if known else None)
        if not described["columns"]:
            return Table._of_view(self, described)
        return Table(self, described)

    def view(self, name: str) -> Relation:
        """The rows of a view or a table, as a relation.

        Raises:
            Error: where there is none of this name.
        """
        return self.table(name).select()

    def tables(self) -> list[str]:
        """Names of the tables."""
        return self._handle.tables()

    def seal(self, table: str | None = None) -> None:
        """Writes the rows that are still in memory, of one table or of all, into parts (CHECKPOINT).

        Raises:
            Error: where there is no such table.
            StorageError: where the disk fails; the rows stay where they were.
        """
        self._handle.seal(table)


@functools.cache
def _memory() -> Database:
    """A database of this process alone, for rows that a server has given."""
    return open(":memory:", threads=1)


class RemoteDatabase(Database):
    """The database of a server, with the methods of one in this process.

    Statements run there, and rows come as they are read, to the nanosecond; a relation that is dropped, and Ctrl-C, cancel
    its statement there. Frames that a query names, registered ones and local variables, go to the server with it, into the
    memory of this thread's session: for large ones, `append` them to a table. What runs in the process of a database is not
    there: `create_function`, `remove_function` and `import_file` raise an Error that says what to do instead; `export`
    writes a file here. How far a query is, is not told.
    """

    def __init__(
        self, url: str, *, user: str | None = None, password: str | None = None, token: str | None = None
    ) -> None:
        # What stands before an @ may be a password.
        scheme, _, rest = url.partition("://")
        self._path = f"{scheme}://{rest.rpartition('@')[2]}"
        self._read_only = False
        self._progress = False
        self._handle = _tickstone.Remote(url, user, password, token)
        self._local = threading.local()
        self._registered = {}

    def _reader(self) -> Database:
        # The statement is done: no limit of the server's says otherwise.
        return _memory()


class _Prepared(Relation):
    """A relation that remembers what its query was made with."""

    def __init__(
        self,
        database: Database,
        sql: str,
        query: Query,
        params: Parameters,
        frames: list[_tickstone.Frame],
    ) -> None:
        super().__init__(database, sql, query)
        self._params = params
        self._frames = {frame.name: frame for frame in frames}

    def _again(self, sql: str) -> Relation:
        return self._database._run(self._database._session(), sql, self._params, None, self._frames)

    def _listen(self, sql: str, since: str | None) -> Subscription:
        return self._database._subscribe(sql, since, self._params, list(self._frames.values()))


class Transaction:
    """Rows for one or more tables that become durable and visible together. A context manager."""

    def __init__(self, database: Database, session: Session) -> None:
        self._database = database
        self._session: Session | None = session
        self._execute("BEGIN")

    def append(self, table: str, frame: object, *, columns: Sequence[str] | None = None) -> int:
        """Adds rows to a table that is there; how many. They are checked now and stored by the commit.

        Raises:
            Error: where they do not fit; what was added before stays in the transaction.
        """
        session = self._open()
        source = self._database._rows(table, frame, columns)
        return 0 if source is None else session.append(table, source)

    def sql(self, query: str, params: Parameters = None, **named: Any) -> Relation:
        """A statement of the transaction, an INSERT as a rule. Queries do not see its rows before the commit."""
        return self._database._run(self._open(), query, parameters_of(params, named), caller(), {})

    def execute(self, query: str, params: Parameters = None) -> Relation:
        """The same as `sql`."""
        return self.sql(query, params)

    def commit(self) -> None:
        """Stores all rows. The transaction has ended then."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Forgets all rows. The transaction has ended then."""
        self._end("ROLLBACK")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is None:
            return
        if kind is None:
            self.commit()
            return
        try:
            self.rollback()
        except ClosedError:
            # The database was closed in the block: nothing is left to roll back.
            self._session = None

    def _open(self) -> Session:
        if self._session is None:
            raise ClosedError("the transaction has ended")
        return self._session

    def _execute(self, word: str) -> None:
        for statement in self._open().parse(word):
            statement.run([])

    def _end(self, word: str) -> None:
        try:
            self._execute(word)
        finally:
            self._session = None


def _check_positive(**counts: int | None) -> None:
    """Refuses a number below 1, by the name of its argument."""
    for name, count in counts.items():
        if count is not None and operator.index(count) < 1:
            raise ValueError(f"{name} is 1 or more, not {count}")


def names_of(names: str | Sequence[str] | None) -> list[str] | None:
    """One name or several, as a list."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)

"""A dialect of SQLAlchemy 2, for what speaks to databases through that: pandas, notebooks, dashboards.

    from sqlalchemy import create_engine

    create_engine("tickstone:///ticks")             # a directory; "tickstone:////data/ticks" from the root on
    create_engine("tickstone://")                   # in memory
    create_engine("tickstone://host:8815")          # a server

The connections of an engine share one open database, which is closed with the last of them (`engine.dispose()`);
`create_engine(…, connect_args={"database": db})` takes one that is open already and leaves it open. Options of
`tickstone.open` stand behind the path: "tickstone:///ticks?read_only=true".

A transaction is that of `tickstone.dbapi`: INSERTs become durable and visible together at the commit, every other
statement that changes something takes effect at once.

`Table(…, tickstone_timestamp="ts", tickstone_series=["symbol"], tickstone_partition_by="day")` say what CREATE TABLE
says of these. If no designated timestamp is named, it is the column of times called ts, timestamp or time, or the only
one that is not nullable; with "" there is none. There are no keys, no constraints and no indexes: CREATE TABLE leaves
them out, and reflection finds none.

Values are those of `Relation.fetchall()`: datetimes, with nanoseconds where there are some.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, exc, sql, types, util
from sqlalchemy.engine import URL, default
from sqlalchemy.sql import compiler, elements

import tickstone
from tickstone import dbapi
from tickstone.texts import precision_and_scale, quoted

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tickstone.database import Database

__all__ = ["SYMBOL", "TickstoneDialect"]

# Options of `tickstone.open` that may stand in an address.
_OPTIONS: dict[str, Callable[[Any], object]] = {
    "read_only": util.asbool,
    "memory_budget": int,
    "query_memory": int,
    "threads": int,
    "sync_interval_ms": float,
    "autocommit": util.asbool,
    "tls": util.asbool,
    "ca": str,
    "cert": str,
    "key": str,
}


class SYMBOL(types.String):
    """Text with few different values: instruments, exchanges, sides."""

    __visit_name__ = "SYMBOL"


class _Unsigned(types.Integer):
    """Whole numbers from 0 up."""

    __visit_name__ = "TICKSTONE_UNSIGNED"

    def __init__(self, name: str = "BIGINT") -> None:
        super().__init__()
        self.name = name


class _TinyInt(types.SmallInteger):
    """Whole numbers of 8 bits."""

    __visit_name__ = "TINYINT"


_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": _TinyInt,
    "SMALLINT": types.SMALLINT,
    "INT": types.INTEGER,
    "BIGINT": types.BIGINT,
    "FLOAT": types.REAL,
    "DOUBLE": types.DOUBLE,
    "SYMBOL": SYMBOL,
    "VARCHAR": types.VARCHAR,
    "BINARY": types.LargeBinary,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "INTERVAL": types.Interval,
}


def type_of(name: str) -> types.TypeEngine[Any]:
    """The type of SQLAlchemy for one of SQL: "DOUBLE", "DECIMAL(10,2)", "VARCHAR[]"."""
    if name.endswith("[]"):
        inner = name
        while inner.endswith("[]"):
            inner = inner[:-2]
        return types.ARRAY(type_of(inner), dimensions=name.count("[]"))
    if name.endswith(" UNSIGNED"):
        return _Unsigned(name.removesuffix(" UNSIGNED"))
    if name == "TIMESTAMP":
        return types.TIMESTAMP(timezone=True)
    if name == "UUID":
        return types.UUID()
    precision, scale = precision_and_scale(name)
    if precision is not None:
        return types.NUMERIC(precision, scale)
    known = _TYPES.get(name)
    return known() if known is not None else types.NullType()


class _Compiler(compiler.SQLCompiler):
    """Queries."""

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        """A query without rows."""
        return f"SELECT {', '.join(['NULL'] * max(len(element_types), 1))} WHERE 1 != 1"


class _Types(compiler.GenericTypeCompiler):
    """Types as CREATE TABLE and CAST name them."""

    def visit_SYMBOL(self, type_: Any, **kw: Any) -> str:
        """Text with few different values; in a CAST, which knows no symbols, a text."""
        return "VARCHAR" if isinstance(kw.get("type_expression"), elements.TypeClause) else "SYMBOL"

    def visit_TICKSTONE_UNSIGNED(self, type_: _Unsigned, **kw: Any) -> str:
        """Whole numbers from 0 up."""
        return f"{type_.name} UNSIGNED"

    def visit_TINYINT(self, type_: Any, **kw: Any) -> str:
        """Whole numbers of 8 bits."""
        return "TINYINT"

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        """Whole numbers of 32 bits."""
        return "INT"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        """Up to 24 bits of precision a FLOAT, without any or with more a DOUBLE."""
        return "FLOAT" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        """Floating point of 32 bits."""
        return "FLOAT"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:
        """Floating point of 64 bits."""
        return "DOUBLE"

    visit_DOUBLE_PRECISION = visit_DOUBLE

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        """Exact decimals; without a precision 38 digits, 18 of them after the point."""
        if type_.precision is None:
            return "DECIMAL(38, 18)"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        """Text of any length."""
        return "VARCHAR"

    visit_CHAR = visit_NVARCHAR = visit_NCHAR = visit_TEXT = visit_CLOB = visit_NCLOB = visit_VARCHAR

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:
        """Bytes."""
        return "BINARY"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        """A time in UTC, to the nanosecond."""
        return "TIMESTAMP"

    visit_DATETIME = visit_TIMESTAMP

    def visit_UUID(self, type_: Any, **kw: Any) -> str:
        """A UUID."""
        return "UUID"

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        """A UUID."""
        return "UUID"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        """An array of another type."""
        return self.process(type_.item_type, **kw) + "[]" * (type_.dimensions or 1)


class _Ddl(compiler.DDLCompiler):
    """CREATE TABLE without what there is not."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        """A name and a type."""
        type_ = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        return f"{self.preparer.format_column(column)} {type_}"

    def create_table_constraints(self, table: Table, *args: Any, **kw: Any) -> str:
        """None: there are no constraints."""
        return ""

    def post_create_table(self, table: Table) -> str:
        """The designated timestamp, the series key and the length of partitions."""
        options = table.dialect_options["tickstone"]
        timestamp = options["timestamp"] if options["timestamp"] is not None else _designated(table)
        text = f" TIMESTAMP({quoted(timestamp)})" if timestamp else ""
        series = options["series"] or []
        if series:
            listed = [series] if isinstance(series, str) else series
            text += f" SERIES BY ({', '.join(map(quoted, listed))})"
        if options["partition_by"]:
            text += f" PARTITION BY {re.sub(r'[^A-Za-z]', '', options['partition_by'])}"
        return text

    def visit_create_index(self, create: Any, *args: Any, **kw: Any) -> str:
        """An error: there are no indexes to add."""
        raise exc.CompileError(
            "a table has no indexes of its own: leave them out; pandas: to_sql(…, index=False)"
        )

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> str:
        """None."""
        return ""


def _designated(table: Table) -> str | None:
    """The column that is taken for the designated timestamp where none is named."""
    times = [column for column in table.columns if isinstance(column.type, types.DateTime)]
    named = [column.name for name in ("ts", "timestamp", "time") for column in times if column.name.lower() == name]
    if not named and len(times) == 1 and not times[0].nullable:
        named = [times[0].name]
    return next(iter(named), None)


class _Names(compiler.IdentifierPreparer):
    """Names, each in quotes: any word may be one."""

    def _requires_quotes(self, value: str) -> bool:
        return True


class _Shared:
    """The databases that engines have open, by dialect: opened for the first connection, closed with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._users = 0

    def take(self, path: str, options: dict[str, Any]) -> Database:
        """The database, for one more connection."""
        with self._lock:
            if self._database is None or self._database.closed:
                with dbapi.translated():
                    self._database = dbapi.opened(path, **options)
                self._users = 0
            self._users += 1
            return self._database

    def leave(self, database: Database) -> None:
        """One connection less."""
        with self._lock:
            if self._database is not database:
                return
            self._users -= 1
            if self._users == 0:
                self._database = None
                database.close()


class _Connection(dbapi.Connection):
    """A connection to a database that others share."""

    def __init__(self, database: Database, shared: _Shared, *, autocommit: bool) -> None:
        super().__init__(database, owned=False, autocommit=autocommit)
        self._shared = shared

    def close(self) -> None:
        """Rolls back what is not committed and closes; again does nothing."""
        database = self._database
        try:
            super().close()
        finally:
            if database is not None:
                self._shared.leave(database)


class TickstoneDialect(default.DefaultDialect):
    """What SQLAlchemy asks of a dialect."""

    name = "tickstone"
    driver = "tickstone"
    default_paramstyle = "numeric_dollar"
    default_schema_name = "public"
    supports_statement_cache = True
    supports_alter = False
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_multivalues_insert = True
    supports_default_values = False
    supports_empty_insert = False
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = False
    postfetch_lastrowid = False
    insert_returning = False
    update_returning = False
    delete_returning = False
    statement_compiler = _Compiler
    type_compiler_cls = _Types
    ddl_compiler = _Ddl
    preparer = _Names
    construct_arguments = [(Table, {"timestamp": None, "series": None, "partition_by": None})]

    def __init__(self, paramstyle: Any = None, **kwargs: Any) -> None:
        # The names of columns make no placeholders that need quotes.
        super().__init__(paramstyle=paramstyle or "numeric_dollar", **kwargs)
        self._shared = _Shared()

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The module of PEP 249."""
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Path or address, and the options behind it."""
        if url.username and not url.host:
            raise exc.ArgumentError("a user connects to a server: name its host")
        unknown = set(url.query) - set(_OPTIONS)
        if unknown:
            raise exc.ArgumentError(f"unknown option {', '.join(sorted(unknown))}: there are {', '.join(_OPTIONS)}")
        options = {name: _OPTIONS[name](value) for name, value in url.query.items()}
        tls = options.pop("tls", False) or not options.keys().isdisjoint({"ca", "cert", "key"})
        if not url.host:
            if tls:
                raise exc.ArgumentError("tls, ca, cert and key are for a server: name its host")
            return [url.database or ":memory:"], options
        if url.database:
            raise exc.ArgumentError(f"a server has one database, and '{url.database}' is not its name")
        host = f"[{url.host}]" if ":" in url.host else url.host
        if url.username:
            options |= {"user": url.username, "password": url.password or ""}
        return [f"tickstone{'+tls' if tls else ''}://{host}{f':{url.port}' if url.port else ''}"], options

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """A connection to the engine's database."""
        autocommit = cparams.pop("autocommit", False)
        if "database" in cparams:
            return dbapi.connect(database=cparams["database"], autocommit=autocommit)
        return _Connection(self._shared.take(cargs[0], cparams), self._shared, autocommit=autocommit)

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", tickstone.__version__)[:3])

    def _get_default_schema_name(self, connection: Connection) -> str:
        return "public"

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the database answers."""
        dbapi_connection.cursor().execute("SELECT 1").fetchall()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether an error is that of a connection or a database that is closed."""
        return isinstance(e, dbapi.InterfaceError) and "closed" in str(e)

    # Transactions.

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[Any]:
        """Each query sees one moment; with AUTOCOMMIT an INSERT is a transaction of its own."""
        return ["SNAPSHOT", "AUTOCOMMIT"]

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """What a connection begins with."""
        return self.get_isolation_level(dbapi_conn)

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """What a connection has."""
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SNAPSHOT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Gives a connection another one."""
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    # Reflection.

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """The only schema."""
        return ["public"]

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Tables, without materialized views."""
        views = set(self._views(connection))
        return [name for name in self._tables(connection) if name not in views] if _is_ours(schema) else []

    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Views."""
        tables = set(self._tables(connection))
        return [name for name in self._views(connection) if name not in tables] if _is_ours(schema) else []

    def get_materialized_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Materialized views."""
        tables = set(self._tables(connection))
        return [name for name in self._views(connection) if name in tables] if _is_ours(schema) else []

    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        """The query of a view."""
        views = self._views(connection)
        if view_name not in views or not _is_ours(schema):
            raise exc.NoSuchTableError(view_name)
        return views[view_name]

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Whether there is a table or a view of this name."""
        return _is_ours(schema) and (table_name in self._tables(connection) or table_name in self._views(connection))

    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """The columns of a table or a view."""
        return [
            {"name": name, "type": type_of(type_), "nullable": nullable, "default": None, "autoincrement": False}
            for name, type_, _, _, nullable in self._described(connection, table_name, schema)
        ]

    def get_table_options(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """The designated timestamp and the series key."""
        rows = self._described(connection, table_name, schema)
        timestamp = next((row[0] for row in rows if row[2]), None)
        options = {"tickstone_timestamp": timestamp, "tickstone_series": [row[0] for row in rows if row[3]]}
        return {name: value for name, value in options.items() if value}

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """There are no keys."""
        self._need(connection, table_name, schema)
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """There are no keys."""
        return self._need(connection, table_name, schema)

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """There are none to reflect."""
        return self._need(connection, table_name, schema)

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """There are none."""
        return self._need(connection, table_name, schema)

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """There are none."""
        return self._need(connection, table_name, schema)

    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """There is none."""
        self._need(connection, table_name, schema)
        return {"text": None}

    def _need(self, connection: Connection, table_name: str, schema: str | None) -> list[Any]:
        """An empty list, where there is such a table."""
        if not self.has_table(connection, table_name, schema):
            raise exc.NoSuchTableError(table_name)
        return []

    def _described(self, connection: Connection, table_name: str, schema: str | None) -> list[Any]:
        self._need(connection, table_name, schema)
        return list(connection.execute(sql.text(f"DESCRIBE {quoted(table_name)}".replace(":", "\\:"))))

    def _tables(self, connection: Connection) -> list[str]:
        return [row[0] for row in connection.execute(sql.text("SHOW TABLES"))]

    def _views(self, connection: Connection) -> dict[str, str]:
        return {row[0]: row[1] for row in connection.execute(sql.text("SHOW VIEWS"))}


def _is_ours(schema: str | None) -> bool:
    return schema in (None, "public")

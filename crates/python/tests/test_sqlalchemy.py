"""The dialect of SQLAlchemy: engines, reflection, statements, and pandas over it."""

import datetime
import importlib
import pathlib
import tomllib
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import tickstone
from tickstone.sqlalchemy_dialect import SYMBOL, TickstoneDialect, type_of

registry.register("tickstone", "tickstone.sqlalchemy_dialect", "TickstoneDialect")

START = datetime.datetime(2024, 8, 8, 9, 30, tzinfo=datetime.UTC)
ODD = ["my col", "select", 'quo"te', "Größe", "a.b", "per%cent", "co:lon", "(x)", "$1"]


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    made = sa.create_engine("tickstone://")
    yield made
    made.dispose()


@pytest.fixture
def trades(engine: sa.Engine) -> sa.Table:
    """A table with four rows."""
    table = sa.Table(
        "trades",
        sa.MetaData(),
        sa.Column("ts", sa.DateTime, nullable=False),
        sa.Column("sym", SYMBOL),
        sa.Column("px", sa.Double),
        sa.Column("n", sa.BigInteger),
        tickstone_series=["sym"],
        tickstone_partition_by="month",
    )
    table.create(engine)
    rows = [{"ts": START + datetime.timedelta(seconds=at), "sym": "AB"[at % 2], "px": at + 0.5, "n": at} for at in range(3)]
    with engine.begin() as connection:
        connection.execute(table.insert(), [*rows, {"ts": START, "sym": None, "px": None, "n": None}])
    return table


def test_the_entry_point() -> None:
    project = tomllib.loads((pathlib.Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"]["sqlalchemy.dialects"]["tickstone"].split(":")
    assert getattr(importlib.import_module(module), name) is TickstoneDialect
    assert "sqlalchemy" in project["optional-dependencies"] and "ipython" in project["optional-dependencies"]


def test_a_directory(directory: pathlib.Path) -> None:
    engine = sa.create_engine(f"tickstone:///{directory}?threads=1")
    with engine.begin() as one, engine.connect() as other:
        one.execute(sa.text("CREATE TABLE t (a BIGINT)"))
        one.execute(sa.text("INSERT INTO t VALUES (1)"))
        assert other.execute(sa.text("SELECT count(*) FROM t")).scalar() == 0, "not committed yet"
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT a FROM t")).all() == [(1,)]
        assert engine.dialect.server_version_info is not None and engine.dialect.default_schema_name == "public"
    with pytest.raises(sa.exc.OperationalError, match="open for writing"):
        sa.create_engine(f"tickstone:///{directory}").connect()
    engine.dispose()
    with tickstone.open(directory) as db:
        assert db.sql("SELECT a FROM t").fetchall() == [(1,)], "closed with the last connection"
    reader = sa.create_engine(f"tickstone:///{directory}?read_only=true")
    with reader.connect() as connection, pytest.raises(sa.exc.DBAPIError):
        connection.execute(sa.text("INSERT INTO t VALUES (2)"))
        connection.commit()
    reader.dispose()


def test_a_database_that_is_open(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (a BIGINT)")
    engine = sa.create_engine("tickstone://", connect_args={"database": db})
    assert sa.inspect(engine).get_table_names() == ["t"]
    engine.dispose()
    assert not db.closed
    db.close()
    with pytest.raises(sa.exc.InterfaceError, match="closed"):
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))


def test_addresses() -> None:
    dialect = TickstoneDialect()
    for url, path, options in (
        ("tickstone://", ":memory:", {}),
        ("tickstone:///:memory:", ":memory:", {}),
        ("tickstone:///ticks", "ticks", {}),
        ("tickstone:////data/ticks?read_only=1&memory_budget=5", "/data/ticks", {"read_only": True, "memory_budget": 5}),
        ("tickstone://host", "tickstone://host", {}),
        ("tickstone://host:8815", "tickstone://host:8815", {}),
        ("tickstone://[::1]:8815/", "tickstone://[::1]:8815", {}),
        ("tickstone://me:s%40crt@host", "tickstone://host", {"user": "me", "password": "s@crt"}),
        ("tickstone://host?tls=true", "tickstone+tls://host", {}),
        ("tickstone://me:x@host:9?ca=/a/ca.pem", "tickstone+tls://host:9", {"ca": "/a/ca.pem", "user": "me", "password": "x"}),
    ):
        assert dialect.create_connect_args(sa.make_url(url)) == ([path], options)
    for url, message in (
        ("tickstone:///ticks?tls=true", "for a server"),
        ("tickstone://host/name", "has one database"),
        ("tickstone:///ticks?speed=9", "unknown option speed"),
    ):
        with pytest.raises(sa.exc.ArgumentError, match=message):
            dialect.create_connect_args(sa.make_url(url))


def test_reflection(engine: sa.Engine, trades: sa.Table) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text('CREATE VIEW "the high" AS SELECT sym, px FROM trades WHERE px > 1'))
        connection.execute(sa.text("CREATE MATERIALIZED VIEW bars AS SELECT ts, sym, sum(n) AS n FROM trades SAMPLE BY 1m"))
    found = sa.inspect(engine)
    assert found.get_table_names() == ["trades"] and found.get_view_names() == ["the high"]
    assert found.get_materialized_view_names() == ["bars"] and found.get_schema_names() == ["public"]
    assert found.get_table_names(schema="public") == ["trades"] and found.get_table_names(schema="other") == []
    assert found.has_table("trades") and found.has_table("the high") and not found.has_table("nope")
    assert not found.has_table("trades", schema="other")
    assert found.get_view_definition("the high") == "SELECT sym, px FROM trades WHERE px > 1"
    assert [column["name"] for column in found.get_columns("the high")] == ["sym", "px"]
    assert found.get_table_options("trades") == {"tickstone_timestamp": "ts", "tickstone_series": ["sym"]}
    assert found.get_pk_constraint("trades")["constrained_columns"] == []
    assert not found.get_foreign_keys("trades") and not found.get_indexes("trades")
    assert not found.get_check_constraints("trades") and not found.get_unique_constraints("trades")
    for ask in (found.get_columns, found.get_pk_constraint, found.get_indexes, found.get_view_definition):
        with pytest.raises(sa.exc.NoSuchTableError):
            ask("nope")
    again = sa.Table("trades", sa.MetaData(), autoload_with=engine)
    assert [(column.name, repr(column.type), column.nullable) for column in again.columns] == [
        ("ts", "TIMESTAMP(timezone=True)", False),
        ("sym", "SYMBOL()", True),
        ("px", "DOUBLE()", True),
        ("n", "BIGINT()", True),
    ]
    assert list(again.primary_key) == [] and again.dialect_options["tickstone"]["timestamp"] == "ts"
    every = sa.MetaData()
    every.reflect(engine, views=True)
    assert set(every.tables) == {"trades", "the high"} or set(every.tables) == {"trades", "the high", "bars"}


TYPES = [
    ("BOOLEAN", sa.Boolean, True),
    ("TINYINT", sa.SmallInteger, -1),
    ("SMALLINT", sa.SmallInteger, 300),
    ("INT", sa.Integer, 70_000),
    ("BIGINT", sa.BigInteger, 2**60),
    ("BIGINT UNSIGNED", sa.Integer, 2**64 - 1),
    ("FLOAT", sa.Float, 0.5),
    ("DOUBLE", sa.Double, 0.1),
    ("DECIMAL(20,4)", sa.Numeric, Decimal("1234567890123456.0001")),
    ("SYMBOL", SYMBOL, "A"),
    ("VARCHAR", sa.VARCHAR, "it's \"é\" :x $1 %s"),
    ("BINARY", sa.LargeBinary, b"\x00\xff"),
    ("UUID", sa.Uuid, uuid.UUID(int=5)),
    ("DATE", sa.Date, datetime.date(2024, 8, 8)),
    ("TIMESTAMP", sa.TIMESTAMP, START + datetime.timedelta(microseconds=1)),
    ("DOUBLE[]", sa.ARRAY, [1.0, None, 2.5]),
    ("VARCHAR[]", sa.ARRAY, ["a", "b"]),
]


@pytest.mark.parametrize(("name", "kind", "value"), TYPES, ids=[name for name, _, _ in TYPES])
def test_types_there_and_back(engine: sa.Engine, name: str, kind: type[sa.types.TypeEngine[Any]], value: Any) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE first (v {name})"))
    reflected = sa.Table("first", sa.MetaData(), autoload_with=engine)
    assert isinstance(reflected.c.v.type, kind)
    made = sa.Table("second", sa.MetaData(), sa.Column("v", reflected.c.v.type))
    made.create(engine)
    with engine.connect() as connection:
        described = connection.execute(sa.text("DESCRIBE second")).one()
        assert described[:2] == ("v", name), "what is reflected makes the same table"
        connection.execute(made.insert(), [{"v": value}, {"v": None}])
        connection.commit()
        assert set(map(repr, connection.execute(sa.select(made.c.v)).scalars())) == {repr(value), "None"}


def test_types_without_a_column() -> None:
    assert isinstance(type_of("TIME"), sa.TIME) and isinstance(type_of("INTERVAL"), sa.Interval)
    assert isinstance(type_of("MAP(VARCHAR, INT)"), sa.types.NullType)
    nested = type_of("DOUBLE[][]")
    assert isinstance(nested, sa.ARRAY) and nested.dimensions == 2


def test_names_of_types(engine: sa.Engine) -> None:
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "a": sa.String(9), "b": sa.Text(), "c": sa.Unicode(), "d": sa.Float(53), "e": sa.Float(24), "f": sa.Float(),
        "g": sa.REAL(), "h": sa.Numeric(), "i": sa.Numeric(9), "j": sa.DateTime(timezone=True), "k": sa.Uuid(),
        "l": sa.ARRAY(sa.Integer), "m": sa.SmallInteger(), "n": sa.Boolean(), "o": sa.VARBINARY(9),
    }  # fmt: skip
    table = sa.Table("t", sa.MetaData(), *(sa.Column(name, type_) for name, type_ in columns.items()))
    table.create(engine)
    with engine.connect() as connection:
        types = [row[1] for row in connection.execute(sa.text("DESCRIBE t"))]
    assert types == [
        "VARCHAR", "VARCHAR", "VARCHAR", "DOUBLE", "FLOAT", "DOUBLE", "FLOAT", "DECIMAL(38,18)", "DECIMAL(9,0)",
        "TIMESTAMP", "UUID", "INT[]", "SMALLINT", "BOOLEAN", "BINARY",
    ]  # fmt: skip


def test_tables_have_a_timestamp(engine: sa.Engine) -> None:
    def made(*columns: sa.Column[Any], **options: Any) -> dict[str, Any]:
        table = sa.Table("t", sa.MetaData(), *columns, sa.Column("sym", SYMBOL, primary_key=True), **options)
        table.create(engine)
        found = sa.inspect(engine).get_table_options("t")
        table.drop(engine)
        return dict(found)

    at, ts = "at", "ts"
    assert made(sa.Column(at, sa.DateTime), sa.Column(ts, sa.DateTime))["tickstone_timestamp"] == ts
    assert made(sa.Column(at, sa.DateTime, nullable=False))["tickstone_timestamp"] == at
    assert "tickstone_timestamp" not in made(sa.Column(at, sa.DateTime))
    assert "tickstone_timestamp" not in made(sa.Column(ts, sa.DateTime), tickstone_timestamp="")
    named = made(sa.Column(at, sa.DateTime), sa.Column(ts, sa.DateTime), tickstone_timestamp=at, tickstone_series="sym")
    assert named == {"tickstone_timestamp": at, "tickstone_series": ["sym"]}


def test_queries(engine: sa.Engine, trades: sa.Table) -> None:
    again = sa.Table("trades", sa.MetaData(), autoload_with=engine)
    c = again.c
    with engine.connect() as connection:

        def rows(query: Any, *params: Any) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query, *params)]

        assert rows(sa.select(c.n).where(c.px > 1, c.sym == "B")) == [(1,)]
        assert rows(sa.select(c.ts, c.sym).where(c.n == 0)) == [(START, "A")]
        assert rows(sa.select(c.n).where(c.ts > START).order_by(c.n.desc()).limit(1)) == [(2,)]
        assert rows(sa.select(c.n).order_by(c.n).limit(1).offset(1)) == [(1,)]
        assert rows(sa.select(c.n).where(c.sym.in_(["A", "Z"])).order_by(c.n)) == [(0,), (2,)]
        assert rows(sa.select(c.n).where(c.sym.in_([]))) == [] and len(rows(sa.select(c.n).where(c.sym.not_in([])))) == 4
        assert rows(sa.select(c.n).where(c.sym.is_(None))) == [(None,)]
        assert rows(sa.select(c.n).where(c.sym.ilike("a%"), sa.true()).order_by(c.n)) == [(0,), (2,)]
        total = sa.select(c.sym, sa.func.sum(c.n).label("v"), sa.func.count()).group_by(c.sym).having(sa.func.count() > 1)
        assert rows(total) == [("A", 2, 2)]
        other = again.alias("o")
        assert rows(sa.select(c.n, other.c.n).join(other, c.n == other.c.n + 1).order_by(c.n)) == [(1, 0), (2, 1)]
        assert rows(sa.select(sa.func.count()).select_from(sa.select(c.n).subquery("a b"))) == [(4,)]
        assert rows(sa.select(sa.cast(c.n, sa.String), sa.cast(c.n, SYMBOL)).where(c.n == 1)) == [("1", "1")]
        assert rows(sa.select(sa.case((c.n > 1, "hi"), else_="lo")).where(c.n > 0).order_by(c.n)) == [("lo",), ("hi",)]
        assert len(rows(sa.union_all(sa.select(c.n), sa.select(c.n)))) == 8
        assert rows(sa.select(c.n).where(c.n > sa.bindparam("my param")).order_by(c.n), {"my param": 0}) == [(1,), (2,)]
        assert rows(sa.text("SELECT n FROM trades WHERE n > :n AND sym = :s"), {"n": 0, "s": "A"}) == [(2,)]
        assert rows(sa.text("SELECT ts, vwap(px, n) AS v FROM trades WHERE n > 0 SAMPLE BY 1m")) == [(START, 13 / 6)]
        assert connection.exec_driver_sql("SELECT $1 + 1", (1,)).scalar() == 2
        assert connection.exec_driver_sql("SELECT :a", {"a": 2}).scalar() == 2
        with pytest.raises(sa.exc.ProgrammingError, match="column 'prize' does not exist\n 1 | SELECT prize"):
            connection.execute(sa.text("SELECT prize FROM trades"))


def test_changes(engine: sa.Engine, trades: sa.Table) -> None:
    row = {"ts": START, "sym": "C", "px": 9.5, "n": 9}
    count = sa.select(sa.func.count()).select_from(trades)
    with engine.connect() as connection:
        assert connection.execute(trades.insert(), row).rowcount == 1
        assert connection.execute(trades.insert().values([row, row])).rowcount == 2
        assert connection.scalar(count) == 4, "seen by nobody before the commit"
        connection.rollback()
        assert connection.scalar(count) == 4
        connection.execute(trades.insert(), [row] * 5)
        connection.commit()
        assert connection.scalar(count) == 9
        assert connection.execute(trades.update().where(trades.c.n == 9).values(px=1.0)).rowcount == 5
        assert connection.execute(trades.delete().where(trades.c.n == 9)).rowcount == 5
        connection.execute(trades.insert().from_select(["ts", "n"], sa.select(trades.c.ts, trades.c.n)))
        connection.commit()
        assert connection.scalar(count) == 8
    with pytest.raises(RuntimeError), engine.begin() as connection:
        connection.execute(trades.insert(), row)
        raise RuntimeError
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        connection.execute(trades.insert(), row)
        assert connection.scalar(count) == 9
    with engine.connect() as connection:
        assert str(connection.get_isolation_level()) == "SNAPSHOT"
        with pytest.raises(sa.exc.DBAPIError, match="ts"):
            connection.execute(trades.insert(), {**row, "ts": None})
            connection.commit()


def test_odd_names(engine: sa.Engine) -> None:
    table = sa.Table('my "table" :x %', sa.MetaData(), *(sa.Column(name, sa.Integer) for name in ODD))
    table.create(engine)
    rows = [dict.fromkeys(ODD, at) for at in range(3)]
    with engine.connect() as connection:
        connection.execute(table.insert(), rows)
        connection.execute(table.insert(), dict.fromkeys(ODD, 3))
        connection.commit()
        again = sa.Table(table.name, sa.MetaData(), autoload_with=connection)
        assert [column.name for column in again.columns] == ODD
        for name in ODD:
            assert connection.execute(sa.select(again.c[name]).where(again.c[name] > 2)).all() == [(3,)]
            assert connection.execute(again.update().where(again.c[name] == 3).values({name: 3})).rowcount == 1
    assert pd.read_sql_table(table.name, engine).columns.tolist() == ODD


def test_pandas(engine: sa.Engine, trades: sa.Table) -> None:
    frame = pd.DataFrame(
        {
            "ts": pd.to_datetime(["2024-08-08T09:30:00.000001", "2024-08-09T00:00:00.000000"]),
            "sym": ["A", None],
            "px": [1.5, float("nan")],
            "n": [1, 2],
            "ok": [True, False],
        }
    )
    assert frame.to_sql("made", engine, index=False, dtype={"sym": SYMBOL}) == 2
    assert sa.inspect(engine).get_table_options("made") == {"tickstone_timestamp": "ts", "tickstone_series": ["sym"]}
    assert frame.to_sql("made", engine, index=False, if_exists="append") == 2
    assert frame.to_sql("made", engine, index=False, if_exists="append", method="multi") == 2
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("made", engine, index=False)
    back = pd.read_sql("SELECT * FROM made WHERE n = 1", engine)
    assert back["ts"].tolist() == [pd.Timestamp("2024-08-08T09:30:00.000001", tz="UTC")] * 3
    assert back[["sym", "px", "n", "ok"]].values.tolist() == [["A", 1.5, 1, True]] * 3
    nulls = pd.read_sql(sa.text("SELECT sym, px FROM made WHERE n = :n"), engine, params={"n": 2})
    assert nulls["sym"].isna().all() and nulls["px"].isna().all() and len(nulls) == 3
    assert pd.read_sql_table("made", engine, columns=["n", "sym"]).shape == (6, 2)
    assert pd.read_sql("SELECT * FROM made WHERE n > 9", engine).shape == (0, 5)
    assert len(list(pd.read_sql("SELECT * FROM made", engine, chunksize=4))) == 2
    assert frame.to_sql("made", engine, index=False, if_exists="replace") == 2
    assert len(pd.read_sql("made", engine)) == 2
    with pytest.raises(sa.exc.CompileError, match=r"to_sql\(…, index=False\)"):
        frame.set_index("n").to_sql("indexed", engine)


def test_nanoseconds_stay(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE TABLE t (ts TIMESTAMP) TIMESTAMP(ts)"))
        connection.execute(sa.text("INSERT INTO t VALUES (:ts)"), {"ts": "2024-08-08T09:30:00.000001234"})
        connection.commit()
        found = connection.execute(sa.text("SELECT ts FROM t")).scalar()
        assert isinstance(found, tickstone.Timestamp) and found.nanosecond == 234
        assert found.replace(nanosecond=0) == START + datetime.timedelta(microseconds=1)
        table = sa.Table("t", sa.MetaData(), autoload_with=connection)
        for of_found in (sa.text("SELECT ts FROM t WHERE ts = :ts").bindparams(ts=found), sa.select(table).where(table.c.ts == found)):
            assert connection.execute(of_found).fetchall() == [(found,)]
        database = connection.connection.driver_connection.database  # type: ignore[union-attr]
        assert database.sql("SELECT ts FROM t").df()["ts"].dt.nanosecond.tolist() == [234]


class Base(DeclarativeBase):
    """The classes of the test below."""


class Trade(Base):
    """A row of a table."""

    __tablename__ = "orm trades"
    ts: Mapped[datetime.datetime] = mapped_column(sa.DateTime(timezone=True), primary_key=True)
    px: Mapped[float]


def test_mapped_classes(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Trade(ts=START + datetime.timedelta(seconds=at), px=at / 2) for at in range(4)])
        session.commit()
        found = session.scalars(sa.select(Trade).where(Trade.px > 0.5).order_by(Trade.ts)).all()
        assert [trade.px for trade in found] == [1.0, 1.5] and found[0].ts == START + datetime.timedelta(seconds=2)
    Base.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []


def test_closing(directory: pathlib.Path) -> None:
    engine = sa.create_engine(f"tickstone:///{directory}", pool_pre_ping=True)
    connection = engine.connect()
    connection.execute(sa.text("CREATE TABLE t (a BIGINT)"))
    database = connection.connection.driver_connection.database  # type: ignore[union-attr]
    database.close()
    with pytest.raises(sa.exc.InterfaceError, match="closed") as raised:
        connection.execute(sa.text("SELECT 1"))
    assert raised.value.connection_invalidated
    connection.close()
    with engine.connect() as again:
        assert again.execute(sa.text("SELECT count(*) FROM t")).scalar() == 0, "opened anew"
    engine.dispose()

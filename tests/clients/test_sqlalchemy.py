"""SQLAlchemy over psycopg and over asyncpg, and pandas over it: reflection, Core, streams, frames."""

import asyncio
import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine


def test_tables_rows_and_questions(server: Any) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://admin:quest@127.0.0.1:{server.ports['pg_port']}/qdb")
    with engine.begin() as db:
        db.execute(
            sa.text("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)")
        )
    trades = sa.Table("trades", sa.MetaData(), autoload_with=engine)
    with engine.begin() as db:
        db.execute(
            trades.insert(),
            [
                {"ts": dt.datetime(2024, 8, 8, 9, 30, 5), "symbol": "BTC", "price": 61500.5, "size": 2},
                {"ts": dt.datetime(2024, 8, 8, 9, 30, 40), "symbol": "BTC", "price": 61503.5, "size": 1},
                {"ts": dt.datetime(2024, 8, 8, 9, 31, 10), "symbol": "ETH", "price": 2650.25, "size": 3},
            ],
        )
    minute = sa.func.time_bucket("1 minute", trades.c.ts).label("minute")
    vwap = sa.func.vwap(trades.c.price, trades.c.size).label("vwap")
    bars = pd.read_sql(
        sa.select(minute, vwap).where(trades.c.symbol == "BTC").group_by(sa.text("minute")).order_by(sa.text("minute")),
        engine,
    )
    engine.dispose()
    assert bars.to_dict("list") == {"minute": [pd.Timestamp("2024-08-08T09:30")], "vwap": [61501.5]}


AT = dt.datetime(2024, 8, 8, 9, 30)
EVERYTHING = """CREATE TABLE everything (ts TIMESTAMP, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT,
    f8 DOUBLE, n DECIMAL(18,4), v VARCHAR, s SYMBOL, d DATE, u UUID, y BINARY, a DOUBLE[], av VARCHAR[]) TIMESTAMP(ts)"""
REFLECTED: dict[str, type] = {
    "ts": sa.TIMESTAMP, "b": sa.BOOLEAN, "i1": sa.SMALLINT, "i2": sa.SMALLINT, "i4": sa.INTEGER, "i8": sa.BIGINT,
    "f4": sa.REAL, "f8": sa.DOUBLE_PRECISION, "n": sa.NUMERIC, "v": sa.String, "s": sa.String, "d": sa.DATE,
    "u": sa.UUID, "y": sa.LargeBinary, "a": sa.ARRAY, "av": sa.ARRAY,
}  # fmt: skip
VALUES: list[dict[str, Any]] = [
    {"ts": AT, "b": True, "i1": -128, "i2": -32768, "i4": -(2**31), "i8": -(2**63), "f4": 0.5, "f8": 0.1,
     "n": Decimal("-99999999999999.9999"), "v": "zwölf 'Ω' \\ 🚀", "s": "", "d": dt.date(1969, 12, 31),
     "u": uuid.UUID(int=7), "y": b"\x00\xff\\", "a": [1.5, None], "av": ["a,b", 'q"']},
    {"ts": AT + dt.timedelta(seconds=1), **dict.fromkeys(list(REFLECTED)[1:])},
    {"ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "b": False, "i1": 127, "i2": 32767, "i4": 2**31 - 1,
     "i8": 2**63 - 1, "f4": -0.25, "f8": 1e300, "n": Decimal("0.0000"), "v": "", "s": "BTC", "d": dt.date(2024, 8, 8),
     "u": uuid.UUID(int=2**128 - 1), "y": b"", "a": [], "av": []},
]  # fmt: skip


def at(server: Any, driver: str, work: Callable[[sa.Connection], None]) -> None:
    """Does work on a connection of psycopg, or of asyncpg as SQLAlchemy lends it to synchronous code."""
    url = f"postgresql+{driver}://admin:quest@127.0.0.1:{server.ports['pg_port']}/qdb"
    if driver == "psycopg":
        engine = sa.create_engine(url, pool_pre_ping=True)
        with engine.connect() as db:
            work(db)
        engine.dispose()
        return

    async def run() -> None:
        engine = create_async_engine(url, pool_pre_ping=True)
        async with engine.connect() as db:
            await db.run_sync(work)
        await engine.dispose()

    asyncio.run(run())


DRIVERS = pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])


@DRIVERS
def test_inspection(server: Any, driver: str) -> None:
    def work(db: sa.Connection) -> None:
        for sql in (EVERYTHING, "CREATE TABLE other (ts TIMESTAMP, x INT) TIMESTAMP(ts)",
                    "CREATE VIEW seen AS SELECT ts, n, v FROM everything"):  # fmt: skip
            db.execute(sa.text(sql))
            db.commit()
        look = sa.inspect(db)
        assert look.get_schema_names() and look.default_schema_name == "public"
        assert sorted(look.get_table_names()) == ["everything", "other"]
        assert sorted(look.get_table_names(schema="public")) == ["everything", "other"]
        assert look.get_view_names() == ["seen"]
        assert "everything" in (look.get_view_definition("seen") or "")
        assert look.get_temp_table_names() == look.get_materialized_view_names() == look.get_sequence_names() == []
        assert [look.has_table(name) for name in ("everything", "seen", "nosuch")] == [True, True, False]
        assert look.has_table("everything", schema="public") and not look.has_table("everything", schema="nosuch")
        columns = look.get_columns("everything")
        assert [column["name"] for column in columns] == list(REFLECTED)
        for column in columns:
            name, kind = column["name"], column["type"]
            assert isinstance(kind, REFLECTED[name]), f"{name}: {kind!r}"
            assert column["nullable"] == (name != "ts") and column["default"] is None
        kinds: dict[str, Any] = {column["name"]: column["type"] for column in columns}
        assert (kinds["n"].precision, kinds["n"].scale) == (18, 4)
        assert not kinds["ts"].timezone
        assert isinstance(kinds["a"].item_type, sa.DOUBLE_PRECISION) and isinstance(kinds["av"].item_type, sa.String)
        assert [column["name"] for column in look.get_columns("seen")] == ["ts", "n", "v"]
        assert look.get_pk_constraint("everything")["constrained_columns"] == []
        for none in (look.get_foreign_keys, look.get_unique_constraints, look.get_check_constraints, look.get_indexes):
            assert none("everything") == []
        assert look.get_table_comment("everything") == {"text": None}
        with pytest.raises(sa.exc.NoSuchTableError):
            look.get_columns("nosuch")
        metadata = sa.MetaData()
        metadata.reflect(db, views=True)
        assert sorted(metadata.tables) == ["everything", "other", "seen"]
        assert db.get_isolation_level() in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

    at(server, driver, work)


@DRIVERS
def test_every_type_through_a_reflected_table(server: Any, driver: str) -> None:
    def work(db: sa.Connection) -> None:
        db.execute(sa.text(EVERYTHING))
        db.commit()
        everything = sa.Table("everything", sa.MetaData(), autoload_with=db)
        db.execute(everything.insert(), VALUES)
        db.commit()
        for row in VALUES:
            db.execute(everything.insert().values(row))
        db.rollback()
        rows = db.execute(sa.select(everything).order_by(everything.c.ts)).mappings().all()
        assert [dict(row) for row in rows] == sorted(VALUES, key=lambda row: row["ts"])
        for name in set(REFLECTED) - {"a", "av"}:
            found = db.execute(sa.select(everything.c.ts).where(everything.c[name] == VALUES[0][name])).scalars().all()
            assert found == [AT], name
            assert len(db.execute(sa.select(everything.c.ts).where(everything.c[name].is_(None))).all()) == (
                name != "ts"
            )

    at(server, driver, work)


def fill(db: sa.Connection, rows: int = 100) -> sa.Table:
    db.execute(sa.text("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)"))
    db.commit()
    trades = sa.Table("trades", sa.MetaData(), autoload_with=db)
    made = [{"ts": AT + dt.timedelta(seconds=n), "symbol": f"S{n % 3}", "price": n / 4, "size": n} for n in range(rows)]
    db.execute(trades.insert(), made)
    db.commit()
    return trades


@DRIVERS
def test_core(server: Any, driver: str) -> None:
    def work(db: sa.Connection) -> None:
        c = fill(db).c

        def ask(question: Any) -> list[Any]:
            return [tuple(row) for row in db.execute(question)]

        assert ask(sa.select(sa.func.count()).select_from(c.ts.table).where(c.symbol.in_(["S0", "S1"]))) == [(67,)]
        assert ask(
            sa.select(c.size).where(c.ts.between(AT, AT + dt.timedelta(seconds=9)), c.size > 7).order_by(c.ts)
        ) == [(8,), (9,)]
        assert ask(sa.select(c.size).order_by(c.ts.desc()).limit(2).offset(1)) == [(98,), (97,)]
        by = (
            sa.select(c.symbol, sa.func.max(c.price)).group_by(c.symbol).having(sa.func.count() > 33).order_by(c.symbol)
        )
        assert ask(by) == [("S0", 24.75)]
        last = sa.select(c.symbol, sa.func.max(c.ts).label("ts")).group_by(c.symbol).subquery()
        joined = sa.select(c.size).join(last, (last.c.symbol == c.symbol) & (last.c.ts == c.ts)).order_by(c.size)
        assert ask(joined) == [(97,), (98,), (99,)]
        assert ask(sa.select(sa.case((c.size > 98, "large"), else_="small")).order_by(c.ts.desc()).limit(2)) == [
            ("large",),
            ("small",),
        ]
        assert ask(sa.select(sa.cast(c.size, sa.Text), sa.literal(1.5)).where(c.size == 3)) == [("3", 1.5)]
        assert ask(sa.select(c.size).where(c.symbol.like("S%"), c.symbol.ilike("%2"), ~c.size.in_([2])).limit(1)) == [
            (5,)
        ]
        assert ask(sa.select(c.size).where(c.symbol == sa.any_(sa.literal(["S1"], sa.ARRAY(sa.Text)))).limit(1)) == [
            (1,)
        ]
        assert db.execute(sa.text("SELECT :a + 1"), {"a": 1}).scalar() == 2

    at(server, driver, work)


@DRIVERS
def test_updates_are_done_or_refused_never_ignored(server: Any, driver: str) -> None:
    def work(db: sa.Connection) -> None:
        trades = fill(db)
        changes = [
            trades.delete().where(trades.c.size >= 90),
            trades.update().where(trades.c.size < 3).values(price=-1.0),
        ]
        for change in changes:
            # In a transaction.
            before = count = db.execute(sa.text("SELECT count(*), min(price) FROM trades")).one()
            try:
                db.execute(change)
                db.commit()
                count = db.execute(sa.text("SELECT count(*), min(price) FROM trades")).one()
                assert count != before
            except sa.exc.DBAPIError as error:
                assert getattr(error.orig, "sqlstate", "") in ("0A000", "25001")
            db.rollback()
        db = db.execution_options(isolation_level="AUTOCOMMIT")
        for change in changes:
            db.execute(change)
        assert db.execute(sa.text("SELECT count(*), min(price) FROM trades")).one() == (90, -1.0)

    at(server, driver, work)


@DRIVERS
def test_rows_by_pieces(server: Any, driver: str) -> None:
    def work(db: sa.Connection) -> None:
        trades = fill(db, 5000)
        question = sa.select(trades.c.size).order_by(trades.c.ts).execution_options(stream_results=True, yield_per=100)
        total = 0
        for part in db.execute(question).partitions():
            assert len(part) == 100
            total += sum(size for (size,) in part)
        assert total == 5000 * 4999 // 2

    at(server, driver, work)


@DRIVERS
def test_errors(server: Any, driver: str) -> None:
    def work(db: sa.Connection) -> None:
        trades = fill(db)
        for question, error, state in (
            (sa.text("SELECT * FROM nosuch"), sa.exc.ProgrammingError, "42P01"),
            (sa.text("SELECT nosuch FROM trades"), sa.exc.ProgrammingError, "42703"),
            (sa.text("SELEC 1"), sa.exc.ProgrammingError, "42601"),
            (trades.insert().values(ts=None, size=1), sa.exc.IntegrityError, "23502"),
            (sa.text("SELECT 1/0"), sa.exc.DBAPIError, "22012"),
        ):
            with pytest.raises(error) as raised:
                db.execute(question)
            assert raised.value.orig.sqlstate == state  # type: ignore[union-attr]
            db.rollback()
        assert db.execute(sa.text("SELECT count(*) FROM trades")).scalar() == 100

    at(server, driver, work)


@DRIVERS
def test_tables_of_metadata_are_made(server: Any, driver: str) -> None:
    def work(db: sa.Connection) -> None:
        metadata = sa.MetaData()
        made = sa.Table(
            "made", metadata, sa.Column("ts", sa.DateTime), sa.Column("price", sa.Double), sa.Column("note", sa.Text),
            sa.Column("n", sa.Numeric(18, 4)), sa.Column("size", sa.BigInteger), sa.Column("up", sa.Boolean),
            sa.Column("id", sa.Uuid), sa.Column("name", sa.String(10)), sa.Column("d", sa.Date),
            sa.Column("a", sa.ARRAY(sa.Double)), sa.Column("y", sa.LargeBinary),
        )  # fmt: skip
        metadata.create_all(db)
        db.commit()
        metadata.create_all(db)  # they are there
        row = {"ts": AT, "price": 1.5, "note": "n", "n": Decimal("1.5000"), "size": 1, "up": True, "id": uuid.UUID(int=1),
               "name": "x", "d": AT.date(), "a": [1.5], "y": b"\x00"}  # fmt: skip
        db.execute(made.insert(), row)
        db.commit()
        assert dict(db.execute(sa.select(made)).mappings().one()) == row
        db.commit()
        metadata.drop_all(db)
        db.commit()
        assert not sa.inspect(db).has_table("made")

    at(server, driver, work)


def test_frames(server: Any) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://admin:quest@127.0.0.1:{server.ports['pg_port']}/qdb")
    with engine.connect() as db:
        fill(db, 10)
    frame = pd.DataFrame(
        {
            "ts": pd.date_range("2024-08-09", periods=3000, freq="s"),
            "symbol": [f"S{n % 3}" for n in range(3000)],
            "price": [n / 2 if n % 100 else None for n in range(3000)],
            "size": range(3000),
        }
    )
    methods: list[tuple[Any, int]] = [(None, 3000), ("multi", 500)]
    for method, rows in methods:
        frame[:rows].to_sql("trades", engine, if_exists="append", index=False, method=method, chunksize=1000)
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("trades", engine, if_exists="fail", index=False)
    question = "SELECT * FROM trades WHERE ts >= %(since)s AND ts < %(to)s ORDER BY ts LIMIT 3000"
    since = {"since": dt.datetime(2024, 8, 9), "to": dt.datetime(2024, 8, 9, 0, 0, 10)}
    found = pd.read_sql(question, engine, params=since)
    assert len(found) == 20
    assert [str(kind)[:5] for kind in found.dtypes] == ["datet", "str", "float", "int64"]
    assert found.iloc[2].to_dict() == frame.iloc[1].to_dict()
    whole = pd.read_sql_table("trades", engine)
    assert len(whole) == 3510 and int(whole["price"].isna().sum()) == 35
    pieces = pd.read_sql_table("trades", engine, columns=["size"], chunksize=1000)
    assert sum(int(piece["size"].sum()) for piece in pieces) == 3000 * 2999 // 2 + 500 * 499 // 2 + 45
    engine.dispose()

"""The DB-API 2.0 module: what PEP 249 asks for, and how it meets the database."""

import datetime
import decimal
import pathlib
import threading
from collections.abc import Iterator

import pytest

import tickstone
from tickstone import dbapi

CREATE = "CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, n BIGINT, d DECIMAL(10, 2)) TIMESTAMP(ts)"
INSERT = "INSERT INTO t (ts, symbol, price, n) VALUES (:ts, :symbol, :price, :n)"
NOON = datetime.datetime(2024, 8, 8, 12, tzinfo=datetime.UTC)


@pytest.fixture
def connection() -> Iterator[dbapi.Connection]:
    """A connection to a database in memory with an empty table."""
    connection = dbapi.connect(":memory:")
    connection.execute(CREATE)
    yield connection
    connection.close()


def count(connection: dbapi.Connection) -> int:
    """Rows of the table that everyone sees."""
    row = connection.execute("SELECT count(*) FROM t").fetchone()
    assert row is not None
    return int(row[0])


def row(n: int) -> dict[str, object]:
    """Parameters for INSERT."""
    return {"ts": NOON + datetime.timedelta(seconds=n), "symbol": f"S{n % 3}", "price": n / 2, "n": n}


def test_module_globals() -> None:
    assert (dbapi.apilevel, dbapi.paramstyle, dbapi.threadsafety) == ("2.0", "named", 2)
    for name in dbapi.__all__:
        assert hasattr(dbapi, name), name
    assert dbapi.TimestampFromTicks(0) == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert dbapi.DateFromTicks(86_400) == dbapi.Date(1970, 1, 2)
    assert dbapi.TimeFromTicks(61) == dbapi.Time(0, 1, 1)
    assert dbapi.Binary(b"x") == b"x"


def test_exceptions_form_the_tree_of_the_standard() -> None:
    assert issubclass(dbapi.Error, tickstone.Error)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    for kind in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        found = getattr(dbapi, f"{kind}Error")
        assert issubclass(found, dbapi.DatabaseError)
        assert getattr(dbapi.Connection, f"{kind}Error") is found


def test_fetching(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.executemany(INSERT, [row(n) for n in range(10)]).rowcount == 10
    connection.commit()
    cursor.execute("SELECT n FROM t ORDER BY n")
    assert cursor.rownumber == 0
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany() == [(1,)]
    cursor.arraysize = 3
    assert cursor.fetchmany() == [(2,), (3,), (4,)]
    assert cursor.fetchmany(2) == [(5,), (6,)]
    assert cursor.rownumber == 7
    assert next(iter(cursor)) == (7,)
    assert cursor.fetchall() == [(8,), (9,)]
    assert cursor.fetchone() is None and cursor.fetchmany(5) == [] and cursor.fetchall() == []
    assert cursor.fetch_arrow_table().num_rows == 10


def test_values_and_description(connection: dbapi.Connection) -> None:
    connection.execute("INSERT INTO t VALUES ($1, $2, $3, $4, $5)", [NOON, "A", 1.5, 7, "12.34"])
    connection.commit()
    cursor = connection.execute("SELECT * FROM t")
    assert cursor.description is not None
    assert [entry[0] for entry in cursor.description] == ["ts", "symbol", "price", "n", "d"]
    codes = [entry[1] for entry in cursor.description]
    assert codes[0] == dbapi.DATETIME and codes[0] != dbapi.NUMBER
    assert codes[1] == dbapi.STRING
    assert codes[2] == dbapi.NUMBER and codes[3] == dbapi.NUMBER and codes[4] == dbapi.NUMBER
    assert all(code not in (dbapi.ROWID, dbapi.BINARY) for code in codes)
    assert cursor.description[4][4:6] == (10, 2)
    assert all(len(entry) == 7 for entry in cursor.description)
    found = cursor.fetchone()
    assert found is not None and found[1:4] == ("A", 1.5, 7) and str(found[4]) == "12.34"
    assert connection.execute("CREATE TABLE u (n BIGINT)").description is None


def test_commit_and_rollback(connection: dbapi.Connection) -> None:
    connection.execute(INSERT, row(1))
    assert count(connection) == 0, "not visible before the commit"
    connection.commit()
    assert count(connection) == 1
    connection.execute(INSERT, row(2))
    connection.rollback()
    connection.commit()
    assert count(connection) == 1


def test_autocommit() -> None:
    with dbapi.connect(":memory:", autocommit=True) as connection:
        connection.execute(CREATE)
        connection.execute(INSERT, row(1))
        assert count(connection) == 1
        with pytest.raises(dbapi.NotSupportedError):
            connection.execute("BEGIN")
        connection.autocommit = False
        connection.execute(INSERT, row(2))
        assert count(connection) == 1
        connection.autocommit = True
        assert count(connection) == 2


def test_transaction_statements(connection: dbapi.Connection) -> None:
    connection.execute("BEGIN")
    connection.execute(INSERT, row(1))
    connection.execute("  -- all or none\n rollback")
    connection.execute(INSERT, row(2))
    connection.execute("COMMIT;")
    assert connection.execute("SELECT n FROM t").fetchall() == [(2,)]


def test_context_managers(directory: pathlib.Path) -> None:
    with dbapi.connect(directory) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE)
        cursor.execute(INSERT, row(1))
    with pytest.raises(RuntimeError), dbapi.connect(directory) as connection:
        connection.execute(INSERT, row(2))
        raise RuntimeError
    with dbapi.connect(directory) as connection:
        assert count(connection) == 1


def test_closed(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    cursor.close()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    other = connection.cursor()
    connection.close()
    connection.close()
    for call in (connection.cursor, connection.commit, connection.rollback, lambda: other.execute("SELECT 1")):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            call()


def test_a_shared_database_stays_open(db: tickstone.Database) -> None:
    with dbapi.connect(database=db) as connection:
        connection.execute(CREATE)
        connection.execute(INSERT, row(1))
    assert db.sql("SELECT count(*) FROM t").fetchone() == (1,)


@pytest.mark.parametrize(
    ("sql", "parameters", "kind"),
    [
        ("SELEC 1", None, dbapi.ProgrammingError),
        ("SELECT x FROM nowhere", None, dbapi.ProgrammingError),
        ("SELECT $1", [], dbapi.ProgrammingError),
        ("SELECT :a", {"b": 1}, dbapi.ProgrammingError),
        ("SELECT $1", "text", dbapi.ProgrammingError),
        ("INSERT INTO nowhere VALUES (1)", None, dbapi.ProgrammingError),
        ("SELECT $1", [2**70], dbapi.ProgrammingError),
        ("INSERT INTO t (ts, n) VALUES ('2024-01-01', 'x')", None, dbapi.DataError),
        ("INSERT INTO t (ts, n) VALUES ('2024-01-01', $1)", [1.5], dbapi.DataError),
        ("INSERT INTO t (ts, n) VALUES (NULL, 1)", None, dbapi.DataError),
        ("INSERT INTO t (ts, n) VALUES (5, 1)", None, dbapi.DataError),
        ("SELECT CAST('x' AS BIGINT)", None, dbapi.DataError),
        ("SELECT 1 / 0", None, dbapi.DataError),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", None, dbapi.NotSupportedError),
        ("CREATE INDEX i ON t (n)", None, dbapi.NotSupportedError),
    ],
)
def test_errors(connection: dbapi.Connection, sql: str, parameters: list[object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        connection.execute(sql, parameters)


def test_the_cause_has_the_position(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError) as caught:
        connection.execute("SELECT nope FROM t")
    cause = caught.value.__cause__
    assert isinstance(cause, tickstone.SqlError) and cause.column == 8


def test_nothing_to_fetch(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall):
        with pytest.raises(dbapi.InterfaceError):
            fetch()
    cursor.execute(INSERT, row(1))
    assert cursor.rowcount == 1
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchone()


def test_executemany(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    values = [[NOON, "A", None if n % 2 else 1.0, n] for n in range(1_234)]
    cursor.executemany("INSERT INTO t (ts, symbol, price, n) VALUES ($1, $2, $3, $4);", values)
    assert cursor.rowcount == 1_234
    cursor.executemany("INSERT INTO t (ts, n) VALUES (:t, abs(:n))", [{"t": NOON, "n": -5}, {"t": NOON, "n": -6}])
    assert cursor.rowcount == 2
    connection.commit()
    assert connection.execute("SELECT count(*), sum(n), count(price) FROM t").fetchall() == [
        (1_236, sum(range(1_234)) + 11, 617)
    ]
    with pytest.raises(dbapi.ProgrammingError, match="takes 4 parameters, got 3"):
        cursor.executemany("INSERT INTO t (ts, symbol, price, n) VALUES ($1, $2, $3, $4)", [[NOON, "A", 1.0]])
    with pytest.raises(dbapi.ProgrammingError, match="'n' is missing"):
        cursor.executemany("INSERT INTO t (ts, n) VALUES (:t, :n)", [{"t": NOON}])
    with pytest.raises(dbapi.ProgrammingError, match="returns rows"):
        cursor.executemany("SELECT $1", [[1]])


def mixed_rows(n: int) -> list[list[object]]:
    """Sets whose types change from one to the next."""
    wide = decimal.Decimal("12345678901234567890123456.25")
    times: list[object] = ["2024-01-01", datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1), None]
    doubles: list[object] = [1, 2.5, "3.5", decimal.Decimal("4.5"), None]
    wholes: list[object] = [2**62 + 1, 2.0, "3", True, None, 4]
    texts: list[object] = ["a", 1, 2.5, True, None]
    decimals: list[object] = [wide, 0.25, 2**62 + 1, "7.5", None]
    return [
        [times[at % 3], texts[at % 5], doubles[at // 2 % 5], wholes[at // 3 % 6], decimals[at // 5 % 5]] for at in range(n)
    ]


@pytest.mark.parametrize("autocommit", [False, True])
def test_executemany_is_each_set_alone(autocommit: bool) -> None:
    """Whatever types follow each other, what is stored is what single statements store."""
    create = "CREATE TABLE t (ts TIMESTAMP, s VARCHAR, x DOUBLE, n BIGINT, d DECIMAL(38, 2)) TIMESTAMP(ts)"
    insert = "INSERT INTO t VALUES ($1, $2, $3, $4, $5)"
    found = []
    for together in (True, False):
        with dbapi.connect(":memory:", autocommit=autocommit) as connection:
            cursor = connection.cursor()
            cursor.execute(create)
            if together:
                assert cursor.executemany(insert, mixed_rows(200)).rowcount == 200
            else:
                for values in mixed_rows(200):
                    cursor.execute(insert, values)
            connection.commit()
            found.append(cursor.execute("SELECT * FROM t").fetchall())
    assert found[0] == found[1]


def test_executemany_of_one_type_is_few_statements() -> None:
    insert = "INSERT INTO t VALUES (:a, :b)"
    prices = [{"a": None if n % 3 else NOON, "b": n if n % 2 else n + 0.5} for n in range(2_500)]
    assert len(list(dbapi.merged(insert, prices))) == 3
    assert len(list(dbapi.merged(insert, [{"a": 1, "b": "x"}, {"a": 2, "b": NOON}, {"a": 3, "b": NOON}]))) == 2


def test_executemany_that_fails_can_be_rolled_back(connection: dbapi.Connection) -> None:
    rows: list[list[object]] = [[NOON, 1], ["2024-01-01", 2], ["no time", 3]]
    with pytest.raises(dbapi.DataError):
        connection.cursor().executemany("INSERT INTO t (ts, n) VALUES ($1, $2)", rows)
    connection.rollback()
    assert count(connection) == 0


def test_threads_share_a_connection(connection: dbapi.Connection) -> None:
    def work(first: int) -> None:
        for n in range(first, first + 10):
            connection.execute(INSERT, row(n))

    threads = [threading.Thread(target=work, args=(at * 10,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connection.commit()
    assert count(connection) == 40


def test_a_second_writer_is_an_operational_error(directory: pathlib.Path) -> None:
    with dbapi.connect(directory), pytest.raises(dbapi.OperationalError) as caught:
        dbapi.connect(directory)
    assert caught.value.kind == "retry"


def test_a_directory_that_cannot_be_is_an_operational_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(tmp_path / "file")


def test_a_negative_number_of_rows(connection: dbapi.Connection) -> None:
    cursor = connection.execute("SELECT 1")
    with pytest.raises(dbapi.ProgrammingError, match="size is 0 or more, not -1"):
        cursor.fetchmany(-1)
    assert cursor.fetchmany(0) == [] and cursor.fetchmany(1) == [(1,)]

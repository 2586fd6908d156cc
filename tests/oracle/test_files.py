"""Files where they lie, and folders in and out, asked of DuckDB too: the same text, the same answer.

`TICKSTONE_SEED` says which values; what fails prints it.
"""

import math
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import tickstone

SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
ROWS = 3_000
NAN_OTHER = -math.nan


def rows(made: random.Random, count: int) -> pa.Table:
    """Rows of every type that a file has in common with a table, NULLs among them."""

    def some(value: object) -> object:
        return None if made.random() < 0.1 else value

    start = 1_730_700_000_000_000
    floats = [1.5, -0.0, 0.0, math.inf, -math.inf, math.nan, NAN_OTHER, 1e300]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "ts": pa.array([start + i * 1_000_003 for i in range(count)], pa.timestamp("us")),
            "symbol": pa.array([some(f"S{made.randrange(7)}") for _ in range(count)]),
            "note": pa.array([some(f"n{made.randrange(10**9)}") for _ in range(count)]),
            "n": pa.array([some(made.randrange(-50, 50)) for _ in range(count)], pa.int64()),
            "small": pa.array([some(made.randrange(-5, 5)) for _ in range(count)], pa.int16()),
            "x": pa.array([some(made.choice([*floats, made.uniform(-9, 9)])) for _ in range(count)]),
            "bought": pa.array([some(made.random() < 0.5) for _ in range(count)]),
            "day": pa.array([some(20_000 + made.randrange(5)) for _ in range(count)], pa.date32()),
            "exact": pa.array([some(made.randrange(10**6)) for _ in range(count)], pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def made() -> random.Random:
    print(f"TICKSTONE_SEED={SEED}")
    return random.Random(SEED)


@pytest.fixture(scope="module")
def files(made: random.Random, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("files")
    table = rows(made, ROWS)
    group = made.choice([7, 100, 1_000, 1_000_000])
    pa.parquet.write_table(table, folder / "t.parquet", row_group_size=group, data_page_size=made.choice([64, 1 << 20]))
    # Text of floats is another matter: NaN and infinities are written as words.
    plain = table.drop_columns(["x"])
    with pa.csv.CSVWriter(folder / "t.csv", plain.schema) as out:
        out.write_table(plain)
    pa.feather.write_feather(table, folder / "t.arrow", compression=made.choice(["uncompressed", "zstd", "lz4"]))
    beside = duckdb.connect()
    beside.sql(f"COPY (SELECT * EXCLUDE (x) FROM '{folder}/t.parquet') TO '{folder}/t.json'")
    beside.sql(f"COPY (FROM '{folder}/t.parquet') TO '{folder}/hive' (FORMAT parquet, PARTITION_BY (day, symbol))")
    beside.sql(f"COPY (SELECT * EXCLUDE (x) FROM '{folder}/t.parquet') TO '{folder}/text' (FORMAT csv, PARTITION_BY (symbol))")
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


QUESTIONS = """
SELECT count(*), count(note), sum(n), min(day), max(small) FROM {}
SELECT symbol, count(*), sum(n), min(note) FROM {} GROUP BY symbol ORDER BY symbol
SELECT id, ts, symbol, note, n, small, bought, day FROM {} WHERE n > 30 ORDER BY id
SELECT id % 100 + 1 AS next FROM {} ORDER BY next DESC LIMIT 3
SELECT id FROM {} WHERE symbol = 'S3' AND day = '2024-10-05' ORDER BY id
SELECT id FROM {} WHERE ts >= '2024-11-04T06:20:00' AND ts < '2024-11-04T06:45:00' ORDER BY id
SELECT id FROM {} WHERE note > 'n5' AND bought ORDER BY id DESC LIMIT 20
SELECT id FROM {} WHERE symbol IS NULL OR day IS NULL ORDER BY id
SELECT id FROM {} WHERE symbol IN ('S1', 'S5') AND small BETWEEN -2 AND 3 ORDER BY id
SELECT id FROM {} WHERE n = 7 ORDER BY id
SELECT id, note FROM {} WHERE exact IN (SELECT exact FROM {} WHERE id < 9) OR n = 3 ORDER BY id
SELECT id, bought FROM {} WHERE n IN (7, 8, -20) AND symbol = 'S3' AND note IS NOT NULL AND bought ORDER BY id
SELECT symbol, day, count(*), min(note) FROM {} GROUP BY ROLLUP (symbol, day) ORDER BY ALL
SELECT day, bought, count(DISTINCT symbol) FROM {} GROUP BY ALL ORDER BY ALL
SELECT count(*) FROM {} a JOIN {} b ON a.n = b.small AND a.symbol = b.symbol
SELECT id, lag(n) OVER (PARTITION BY symbol ORDER BY id) FROM {} ORDER BY id LIMIT 50
""".strip().splitlines()

FLOATS = """
SELECT count(*) FROM {} WHERE x > 5
SELECT count(*) FROM {} WHERE x >= 1e300
SELECT count(*) FROM {} WHERE x = 0
SELECT count(*) FROM {} WHERE x = -0.0
SELECT id, x FROM {} WHERE isnan(x) ORDER BY id
SELECT x, count(*) FROM {} WHERE x IS NOT NULL AND x <> 0 GROUP BY x ORDER BY x LIMIT 30
SELECT id, x FROM {} WHERE x <> 0 ORDER BY x DESC, id LIMIT 9
SELECT max(x), min(x) FROM {}
""".strip().splitlines()

PLACES = ["'t.parquet'", "'t.csv'", "'t.json'", "'t.arrow'", "'hive/**/*.parquet'", "read_csv('text/*/*.csv')"]


def opened(folder: Path) -> tickstone.Database:
    return tickstone.open(folder / "database")


def same(ours: list[tuple[object, ...]], theirs: list[tuple[object, ...]], text: str) -> None:
    def plain(value: object) -> object:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else round(value, 9)
        if hasattr(value, "isoformat"):
            return value.isoformat().removesuffix("+00:00")
        return value

    ours, theirs = ([tuple(map(plain, row)) for row in all_rows] for all_rows in (ours, theirs))
    assert ours == theirs, f"{text}\nTICKSTONE_SEED={SEED}\nours   {ours[:5]}\ntheirs {theirs[:5]}"


def in_duckdb(place: str) -> str:
    """The place of the same rows in DuckDB: Arrow files it does not read, and times in its own JSON are texts to it."""
    return "'t.parquet'" if place in ("'t.arrow'", "'t.json'") else place


@pytest.mark.parametrize("place", PLACES)
def test_files_are_read_as_duckdb_reads_them(files: Path, tmp_path: Path, place: str) -> None:
    beside = duckdb.connect()
    # By a file's statistics, which leave NaN out, DuckDB misses rows of NaN: it is asked of a table.
    beside.sql("CREATE TABLE t AS FROM 't.parquet'")
    with opened(tmp_path) as db:
        for question in QUESTIONS:
            ours = db.sql(question.replace("{}", place)).fetchall()
            theirs = beside.sql(question.replace("{}", in_duckdb(place))).fetchall()
            same(ours, theirs, f"{question} of {place}")
        if ".csv" not in place and ".json" not in place:
            for question in FLOATS:
                ours = db.sql(question.replace("{}", place)).fetchall()
                same(ours, beside.sql(question.replace("{}", "t")).fetchall(), f"{question} of {place}")


def test_what_a_condition_leaves_of_a_large_file(made: random.Random, tmp_path: Path) -> None:
    """Row groups are dealt out to several threads, and conditions that few rows fulfil go to the reader."""
    rows, step = 400_000, made.choice([1_000, 250_000])
    group, names = made.choice([2_048, 20_000, 122_880]), made.choice([3, 40, 3_000])
    beside = duckdb.connect()
    beside.sql(
        f"""CREATE TABLE t AS SELECT i AS id, TIMESTAMP '2024-11-04' + to_microseconds(i * {step}) AS ts,
            CASE WHEN hash(i) % 50 > 0 THEN 'SYM' || (hash(i * 5) % {names}) END AS symbol,
            (hash(i * 11) % 1000)::BIGINT AS size, 'id' || hash(i * 13) AS note, (hash(i) % 997) / 10 AS price
            FROM range({rows}) AS r(i)"""
    )
    for part, condition in enumerate(["id < 250000", "id >= 250000"]):
        beside.sql(f"COPY (FROM t WHERE {condition}) TO '{tmp_path}/{part}.parquet' (ROW_GROUP_SIZE {group})")
    with opened(tmp_path) as db:
        db.sql("SET optimizer.repartition_file_min_size = 1")
        for _ in range(25):
            at, wide = made.randrange(rows), made.choice([10, 5_000, 100_000])
            some = f"SYM{made.randrange(names)}"
            conditions = [
                f"ts >= TIMESTAMP '2024-11-04' + INTERVAL '{at * step} microseconds'",
                f"ts < TIMESTAMP '2024-11-04' + INTERVAL '{(at + wide) * step} microseconds'",
                f"symbol = '{some}'",
                f"symbol IN ('{some}', 'SYM1', 'nothing')",
                f"size = {made.randrange(1000)}",
                f"note = (SELECT note FROM {{}} WHERE id = {at})",
                f"note = 'id{made.randrange(10)}'",
                "symbol IS NULL",
                "price > 90",
                f"id BETWEEN {at} AND {at + wide}",
            ]
            where = " AND ".join(made.sample(conditions, made.randint(0, 3))) or "true"
            what = made.choice(
                [
                    "SELECT count(*), sum(size), min(id), max(note) FROM {} WHERE ?",
                    "SELECT id, symbol, note FROM {} WHERE ? ORDER BY id LIMIT 500",
                    "SELECT symbol, count(*), sum(size) FROM {} WHERE ? GROUP BY symbol ORDER BY ALL LIMIT 500",
                    "SELECT symbol, date_trunc('hour', ts) AS h, count(*) FROM {} WHERE ? GROUP BY symbol, h ORDER BY ALL LIMIT 500",
                    "SELECT DISTINCT symbol, size % 3 AS third FROM {} WHERE ? ORDER BY ALL LIMIT 500",
                ]
            ).replace("?", where)
            ours = db.sql(what.replace("{}", f"'{tmp_path}/*.parquet'")).fetchall()
            same(ours, beside.sql(what.replace("{}", "t")).fetchall(), what)


def test_a_file_and_a_table_of_it_answer_alike(files: Path, tmp_path: Path) -> None:
    """What a table is made of a file and the file itself: every kind of plan, also by time."""
    with opened(tmp_path) as db:
        db.sql("CREATE TABLE t AS (SELECT * FROM 't.parquet') TIMESTAMP(ts)")
        for question in [
            *QUESTIONS,
            *FLOATS,
            "SELECT ts, symbol, count(*), last(n) FROM {} SAMPLE BY 10m ORDER BY ts, symbol",
            "SELECT ts, sum(n), first(x) FROM {} SAMPLE BY 1h FILL(0)",
            "SELECT id FROM {} LATEST ON ts PARTITION BY symbol ORDER BY id",
            "SELECT a.id, b.id FROM {} a ASOF JOIN (SELECT * FROM {} WHERE bought) b ON (symbol) ORDER BY a.id LIMIT 100",
            "SELECT symbol, vwap(x, n) FROM {} WHERE x BETWEEN -9 AND 9 AND n > 0 GROUP BY symbol ORDER BY symbol",
            "SELECT * FROM {} WHERE ts IN '2024-11-04T07' ORDER BY id",
            "SELECT count(*) FROM {} WHERE id IN (SELECT n FROM {})",
        ]:
            same(
                db.sql(question.replace("{}", "'t.parquet'")).fetchall(),
                db.sql(question.replace("{}", "t")).fetchall(),
                question,
            )


def test_folders_written_are_folders_read(files: Path, made: random.Random, tmp_path: Path) -> None:
    """COPY TO with PARTITION_BY, read back here, by DuckDB, and by an import of the folder."""
    keys = made.choice(["symbol", "(day, symbol)", "(bought, small)", "(symbol, note)", "n"])
    names = keys.strip("()").split(", ")
    options = made.choice(["FORMAT parquet", "FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 10", "FORMAT csv", "FORMAT csv, COMPRESSION gzip"])
    text = f"{options}, PARTITION_BY {keys}"
    ending = "*.parquet" if "parquet" in options else "*.csv*"
    source = "SELECT * EXCLUDE (x) FROM 't.parquet'"
    with opened(tmp_path) as db:
        db.sql(f"COPY ({source}) TO '{tmp_path}/out' ({text})")
        order = "id, ts, symbol, note, n, small, bought, day, exact"
        wanted = db.sql(f"SELECT {order} FROM ({source}) ORDER BY id").fetchall()
        cast = ", ".join(f"{name}::VARCHAR" if name in names else name for name in order.split(", "))
        written = db.sql(f"SELECT {cast} FROM ({source}) ORDER BY id").fetchall()
        pattern = f"'{tmp_path}/out/**/{ending}'"
        same(db.sql(f"SELECT {cast} FROM {pattern} ORDER BY id").fetchall(), written, text)
        theirs = f"read_parquet({pattern})" if "parquet" in options else f"read_csv({pattern}, hive_partitioning = true)"
        # Our text of a time says its zone, which makes it another type there.
        plain = cast.replace("ts, ", "epoch_us(ts), ", 1)
        written = db.sql(f"SELECT {plain} FROM ({source}) ORDER BY id").fetchall()
        same(duckdb.sql(f"SELECT {plain} FROM {theirs} ORDER BY id").fetchall(), written, f"DuckDB: {text}")
        db.sql("CREATE TABLE back (id BIGINT, ts TIMESTAMP, symbol SYMBOL, note VARCHAR, n BIGINT, small SMALLINT, bought BOOLEAN, day DATE, exact BIGINT) TIMESTAMP(ts)")
        db.sql(f"COPY back FROM '{tmp_path}/out'")
        same(db.sql(f"SELECT {order} FROM back ORDER BY id").fetchall(), wanted, f"import: {text}")
        with pytest.raises(tickstone.Error, match="was already imported"):
            db.sql(f"COPY back FROM '{tmp_path}/out'")
        with pytest.raises(tickstone.Error, match="is there already"):
            db.sql(f"COPY ({source}) TO '{tmp_path}/out' ({text})")
        db.sql(f"COPY ({source} LIMIT 0) TO '{tmp_path}/out' ({text}, OVERWRITE true)")
        assert not list((tmp_path / "out").rglob("*.*"))
        assert not [path for path in tmp_path.iterdir() if path.name not in ("out", "database")]


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson", "arrow"])
def test_keys_of_folders_keep_their_values(form: str, tmp_path: Path) -> None:
    """NULL is told from the text that stands for it, and a name has what a path takes for a folder."""
    texts = [None, "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__x", "%5F", "..", "a/b", "c=d", "", "ü"]
    rows = list(enumerate(texts))
    with opened(tmp_path) as db:
        frame = pa.table({"id": [row for row, _ in rows], "a/b=c": texts})
        db.sql(f"""COPY (SELECT * FROM frame) TO '{tmp_path}/out' (FORMAT {form}, PARTITION_BY ("a/b=c"))""")
        read = f"FROM '{tmp_path}/out/**/*.{form}'"
        found = db.sql(f"""SELECT id, "a/b=c"::VARCHAR {read} ORDER BY id""").fetchall()
        assert found == rows
        assert db.sql(f"""SELECT id {read} WHERE "a/b=c" IS NULL""").fetchall() == [(0,)]


def test_files_of_different_columns(tmp_path: Path) -> None:
    """`union_by_name`, and without it an error that names the file."""
    for name, table in {
        "a": {"id": [1, 2], "x": [1.5, 2.5]},
        "b": {"x": [3.5], "y": ["u"], "id": [3]},
    }.items():
        pa.parquet.write_table(pa.table(table), tmp_path / f"{name}.parquet")
        pa.csv.write_csv(pa.table(table), tmp_path / f"{name}.csv")
        pa.feather.write_feather(pa.table(table), tmp_path / f"{name}.arrow", compression="uncompressed")
    with opened(tmp_path) as db:
        for ending, function in (("parquet", "read_parquet"), ("csv", "read_csv"), ("arrow", "read_arrow")):
            place = f"{function}('{tmp_path}/*.{ending}', union_by_name => true)"
            assert db.sql(f"SELECT id, x, y FROM {place} ORDER BY id").fetchall() == [
                (1, 1.5, None),
                (2, 2.5, None),
                (3, 3.5, "u"),
            ], ending
            # The other way round, the second file lacks a column of the first.
            listed = f"{function}(['{tmp_path}/b.{ending}', '{tmp_path}/a.{ending}'])"
            with pytest.raises(tickstone.Error, match=rf"a\.{ending} has no column 'y'"):
                db.sql(f"SELECT count(y) FROM {listed}").fetchall()


@pytest.mark.parametrize("ending", ["parquet", "csv", "json", "arrow"])
def test_empty_and_damaged_files(ending: str, tmp_path: Path) -> None:
    empty = pa.table({"id": pa.array([], pa.int64()), "s": pa.array([], pa.string())})
    if ending == "parquet":
        pa.parquet.write_table(empty, tmp_path / "e.parquet")
    elif ending == "csv":
        pa.csv.write_csv(empty, tmp_path / "e.csv")
    elif ending == "arrow":
        pa.feather.write_feather(empty, tmp_path / "e.arrow", compression="uncompressed")
    (tmp_path / f"zero.{ending}").write_bytes(b"")
    (tmp_path / f"bad.{ending}").write_bytes(b"PAR1\0\0\0\0\0\xff\xfe{]not,a\nfile" * 40)
    with opened(tmp_path) as db:
        if ending != "json":
            assert db.sql(f"SELECT count(*), min(s) FROM '{tmp_path}/e.{ending}'").fetchall() == [(0, None)]
        for name in ("zero", "bad"):
            if (name, ending) == ("bad", "csv"):
                continue
            with pytest.raises(tickstone.Error, match=name):
                db.sql(f"SELECT * FROM '{tmp_path}/{name}.{ending}'").fetchall()
        # Nothing is the worse for it.
        assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        for count in (3, 5, 4):
            pa.parquet.write_table(pa.table({"id": list(range(count))}), tmp_path / "t.parquet")
            for _ in range(3):
                assert db.sql(f"SELECT count(*), max(id) FROM '{tmp_path}/t.parquet'").fetchall() == [(count, count - 1)]
        pa.parquet.write_table(pa.table({"other": ["x"]}), tmp_path / "t.parquet")
        assert db.sql(f"SELECT * FROM '{tmp_path}/t.parquet'").fetchall() == [("x",)]


def csv(path: Path, first: int, count: int, extra: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"2024-11-04T{10 + i // 3600:02}:{i // 60 % 60:02}:{i % 60:02},S{i % 3},{i}" for i in range(first, first + count)]
    path.write_text("\n".join(["ts,symbol,n", *lines, extra]).rstrip("\n") + "\n")


def test_a_folder_is_imported_as_one_commit(tmp_path: Path) -> None:
    """All files or none; those that the table has are left out; folders are columns; what was imported is known after
    the database was closed and opened."""
    folder = tmp_path / "in"
    for number in range(12):
        csv(folder / f"venue=V{number % 2}" / f"day=2024-11-0{1 + number % 4}" / f"{number}.csv", number * 100, 100)
    csv(folder / "venue=V0/day=2024-11-01/bad.csv", 5_000, 10, "2024-11-04T10:00:00,S1,many")
    with opened(tmp_path) as db:
        with pytest.raises(tickstone.Error, match=r"bad\.csv, line 12.*'many' is not a BIGINT"):
            db.import_file(folder, "t", progress=False)
        with pytest.raises(tickstone.Error, match="'t' does not exist"):
            db.sql("SELECT * FROM t")
        csv(folder / "venue=V0/day=2024-11-01/bad.csv", 5_000, 10)
        report = db.import_file(folder, "t", progress=False)
        assert (report.created, len(report.files), report.rows, report.known) == (True, 13, 1_210, [])
        assert db.sql("SELECT count(*), sum(n), count(DISTINCT venue), min(day), max(day) FROM t").fetchall() == [
            (1_210, sum(range(1_200)) + sum(range(5_000, 5_010)), 2, *db.sql("SELECT DATE '2024-11-01', DATE '2024-11-04'").fetchall()[0])
        ]
        types = {row[0]: row[1] for row in db.sql("DESCRIBE t").fetchall()}
        assert (types["venue"], types["day"], types["ts"]) == ("SYMBOL", "DATE", "TIMESTAMP")
        with pytest.raises(tickstone.Error, match="was already imported"):
            db.import_file(folder, "t", progress=False)
    csv(folder / "venue=V2/day=2024-11-05/new.csv", 9_000, 7)
    with opened(tmp_path) as db:
        report = db.import_file(folder, "t", progress=False)
        assert (len(report.files), report.rows, len(report.known)) == (1, 7, 13)
        assert db.sql("SELECT venue, count(*) FROM t WHERE n >= 9000 GROUP BY venue").fetchall() == [("V2", 7)]
        # A table without a place for the keys takes the files without them, unless they are asked for.
        db.sql("CREATE TABLE plain (ts TIMESTAMP, symbol SYMBOL, n BIGINT) TIMESTAMP(ts)")
        db.sql(f"COPY plain FROM '{folder}/**/*.csv'")
        assert db.sql("SELECT count(*) FROM plain").fetchall() == [(1_217,)]
        with pytest.raises(tickstone.Error, match="a column 'venue' that table 'plain' does not have"):
            db.sql(f"COPY plain FROM '{folder}/**/*.csv' WITH (hive_partitioning true, again true)")
        # A key that is no number for a column that is.
        db.sql("CREATE TABLE odd (ts TIMESTAMP, symbol SYMBOL, n BIGINT, venue BIGINT) TIMESTAMP(ts)")
        with pytest.raises(tickstone.Error, match="column 'venue' does not fit BIGINT"):
            db.sql(f"COPY odd FROM '{folder}'")
        assert db.sql("SELECT count(*) FROM odd").fetchall() == [(0,)]


def test_keys_that_say_the_last_row_over_several_files(tmp_path: Path) -> None:
    """Of rows with one key the last counts, over the files of one commit as over commits."""
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"ts,symbol,n\n2024-11-04T10:00:00,A,{number}\n2024-11-04T10:00:0{number},B,{number}\n")
    with opened(tmp_path) as db:
        db.sql("CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, n BIGINT) TIMESTAMP(ts) DEDUP UPSERT KEYS (ts, symbol)")
        db.sql(f"COPY t FROM '{tmp_path}/?.csv'")
        wanted = [("A", 2), ("B", 0), ("B", 1), ("B", 2)]
        assert db.sql("SELECT symbol, n FROM t ORDER BY symbol, ts").fetchall() == wanted
    with opened(tmp_path) as db:
        assert db.sql("SELECT symbol, n FROM t ORDER BY symbol, ts").fetchall() == wanted
        with pytest.raises(tickstone.Error, match="was already imported"):
            db.sql(f"COPY t FROM '{tmp_path}/1.csv'")


def test_types_of_files_that_differ(tmp_path: Path) -> None:
    """No value is cut to a column's type without a word, and `union_by_name` takes types that hold both."""
    for ending, write in (("parquet", pa.parquet.write_table), ("arrow", pa.feather.write_feather)):
        folder = tmp_path / ending
        folder.mkdir()
        write(pa.table({"x": pa.array([1], pa.int32()), "s": ["a"]}), str(folder / f"a.{ending}"))
        write(pa.table({"x": pa.array([2.75]), "s": [f"{n}" for n in range(1)]}), str(folder / f"b.{ending}"))
        with opened(folder) as db:
            place = f"read_{ending}('{folder}/*.{ending}'"
            assert db.sql(f"SELECT sum(x) FROM {place}, union_by_name => true)").fetchall() == [(3.75,)]
            with pytest.raises(tickstone.Error, match=r"column 'x' of .*b\.\w+ is DOUBLE, and INT in the files before"):
                db.sql(f"SELECT sum(x) FROM {place})").fetchall()
            # The other way round every value has its place.
            listed = f"read_{ending}(['{folder}/b.{ending}', '{folder}/a.{ending}', '{folder}/a.{ending}'])"
            assert db.sql(f"SELECT sum(x), count(*) FROM {listed}").fetchall() == [(4.75, 3)]


def test_rows_that_are_left_out_are_so_whatever_is_asked(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 50 + "x,3\n4,y\n")
    (tmp_path / "t.json").write_text('{"a":1,"b":2}\n' * 50 + '{"a":"x","b":3}\n{"a":4,"b":"y"}\n')
    with opened(tmp_path) as db:
        for function, ending in (("read_csv", "csv"), ("read_json", "json")):
            place = f"{function}('{tmp_path}/t.{ending}', types => {{'a': 'BIGINT', 'b': 'BIGINT'}}, ignore_errors => true)"
            for what in ("count(*)", "count(a)", "count(b)", "sum(a)", "sum(b) / 2"):
                assert db.sql(f"SELECT {what} FROM {place}").fetchall() == [(50,)], (what, ending)


def test_rows_of_files_need_no_time(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ts,symbol,x\n2024-11-04T10:00:00,A,1\n,A,2\n2024-11-04T10:00:30,B,3\n,,4\n2024-11-04T10:02:00,A,5\n")
    beside = duckdb.connect()
    beside.sql(f"COPY (FROM '{tmp_path}/t.csv') TO '{tmp_path}/t.parquet'")
    beside.sql(f"COPY (FROM '{tmp_path}/t.csv') TO '{tmp_path}/t.json'")
    pa.feather.write_feather(pa.parquet.read_table(tmp_path / "t.parquet"), tmp_path / "t.arrow", compression="uncompressed")
    questions = [
        "SELECT ts, symbol, x FROM {} ORDER BY x",
        "SELECT x FROM {} ORDER BY ts, x",
        "SELECT x FROM {} ORDER BY ts DESC NULLS LAST, x",
        "SELECT count(*), count(ts), min(ts), max(ts) FROM {}",
        "SELECT x FROM {} WHERE ts IS NULL ORDER BY x",
        "SELECT x FROM {} WHERE ts IS NOT NULL ORDER BY x",
        "SELECT x FROM {} WHERE ts >= '2024-11-04T10:00:30' ORDER BY x",
        "SELECT ts, count(*) FROM {} GROUP BY ts ORDER BY ts NULLS FIRST",
        "SELECT date_trunc('minute', ts) AS m, sum(x) FROM {} WHERE ts IS NOT NULL GROUP BY m ORDER BY m",
        "SELECT x, lag(x) OVER (ORDER BY ts NULLS FIRST, x) FROM {} ORDER BY x",
    ]
    with opened(tmp_path) as db:
        for ending in ("csv", "parquet", "json", "arrow"):
            for question in questions:
                ours = question.format(f"'{tmp_path}/t.{ending}'")
                theirs = beside.sql(question.format(f"'{tmp_path}/t.parquet'")).fetchall()
                same(db.sql(ours).fetchall(), theirs, ours)
            bars = db.sql(f"SELECT ts, sum(x) AS x FROM '{tmp_path}/t.{ending}' WHERE ts IS NOT NULL SAMPLE BY 1m ORDER BY ts")
            assert [row[1] for row in bars.fetchall()] == [4, 5], ending


def test_codes_are_no_numbers(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        codes = "(VALUES ('000001', 1), ('600519', 2), ('1', 3), ('a/b', 4), ('x=y', 5), ('..', 6), ('', 7)) AS t(code, v)"
        db.sql(f"COPY (SELECT * FROM {codes}) TO '{tmp_path}/codes' (FORMAT parquet, PARTITION_BY code)")
        wanted = db.sql(f"SELECT * FROM {codes} ORDER BY v").fetchall()
        assert db.sql(f"SELECT code, v FROM '{tmp_path}/codes' ORDER BY v").fetchall() == wanted
        db.import_file(tmp_path / "codes", "t", timestamp="none", progress=False)
        assert db.sql("SELECT code, v FROM t ORDER BY v").fetchall() == wanted


def test_files_of_the_same_bytes_in_other_folders(tmp_path: Path) -> None:
    csv(tmp_path / "in/k=1/a.csv", 0, 3)
    with opened(tmp_path) as db:
        db.import_file(tmp_path / "in", "t", progress=False)
        csv(tmp_path / "in/k=2/a.csv", 0, 3)
        report = db.import_file(tmp_path / "in", "t", progress=False)
        assert (report.rows, len(report.known)) == (3, 1)
        assert db.sql("SELECT k, count(*) FROM t GROUP BY k ORDER BY k").fetchall() == [(1, 3), (2, 3)]


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    """`overwrite` replaces what a COPY could have written alone; bad rows do not go into a file that is read."""
    kept = tmp_path / "kept"
    (kept / "sub").mkdir(parents=True)
    (kept / "important.txt").write_text("x")
    csv(tmp_path / "t.csv", 0, 3, "2024-11-04T10:00:00,S,many")
    with opened(tmp_path) as db:
        for place in (kept, tmp_path / "database", tmp_path):
            with pytest.raises(tickstone.Error, match="is not replaced: no COPY wrote"):
                db.sql(f"COPY (SELECT 1 AS a, 2 AS b) TO '{place}' (FORMAT csv, PARTITION_BY b, OVERWRITE true)")
        assert (kept / "important.txt").read_text() == "x"
        db.sql("CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, n BIGINT) TIMESTAMP(ts)")
        before = (tmp_path / "t.csv").read_text()
        with pytest.raises(tickstone.Error, match="would be written over"):
            db.sql(f"COPY t FROM '{tmp_path}/t.csv' WITH (on_bad_row 'collect={tmp_path}/t.csv')")
        assert (tmp_path / "t.csv").read_text() == before


def test_two_write_the_same_at_once(tmp_path: Path) -> None:
    """What is there afterwards is one of them, whole."""
    with opened(tmp_path) as db:
        for target, options in (("o.csv", ""), ("o.parquet", ""), ("folder", "(FORMAT csv, PARTITION_BY b, OVERWRITE true)")):

            def write(value: int, target: str = target, options: str = options) -> None:
                query = f"SELECT {value} AS v, x, x % 3 AS b FROM generate_series(1, {20_000 * value}) AS g(x)"
                try:
                    db.sql(f"COPY ({query}) TO '{tmp_path}/{target}' {options}")
                except tickstone.Error as error:
                    assert "cannot write" in str(error), error

            for _ in range(3):
                threads = [threading.Thread(target=write, args=(value,)) for value in (1, 2)]
                [thread.start() for thread in threads]
                [thread.join() for thread in threads]
                found = db.sql(f"SELECT v, count(*) FROM '{tmp_path}/{target}' GROUP BY v").fetchall()
                assert found in ([(1, 20_000)], [(2, 40_000)]), (target, found)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_damaged_arrow_is_an_error(made: random.Random, tmp_path: Path) -> None:
    pa.feather.write_feather(rows(made, 200), tmp_path / "t.arrow", compression="uncompressed")
    whole = (tmp_path / "t.arrow").read_bytes()
    claims = b"\xff\xff\xff\x7f" + bytes(100)
    with opened(tmp_path) as db:
        for number in range(60):
            damaged = bytearray(whole)
            for _ in range(made.randrange(1, 8)):
                damaged[made.randrange(len(damaged))] = made.randrange(256)
            (tmp_path / "d.arrow").write_bytes(claims if number == 0 else bytes(damaged))
            try:
                db.sql(f"SELECT count(*), sum(n), max(note) FROM '{tmp_path}/d.arrow' WHERE id > 5").fetchall()
            except tickstone.Error as error:
                assert "defect" not in str(error), f"TICKSTONE_SEED={SEED} {error}"


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_buffers_that_claim_too_much_are_an_error(made: random.Random, tmp_path: Path, compression: str) -> None:
    """Arrow's reader makes room for what a compressed buffer claims to hold, and ends the process where there is none."""
    numbers = pa.array([made.randrange(100) for _ in range(5_000)], pa.int64())
    pa.feather.write_feather(pa.table({"n": numbers}), tmp_path / "t.arrow", compression=compression)
    whole = (tmp_path / "t.arrow").read_bytes()
    claim = (40_000).to_bytes(8, "little")
    assert claim in whole
    with opened(tmp_path) as db:
        query = f"SELECT count(*), sum(n) FROM '{tmp_path}/d.arrow'"
        (tmp_path / "d.arrow").write_bytes(whole)
        assert db.sql(query).fetchall() == [(5_000, sum(numbers.to_pylist()))]
        (tmp_path / "d.arrow").write_bytes(whole.replace(claim, (1 << made.randrange(45, 62)).to_bytes(8, "little")))
        with pytest.raises(tickstone.Error, match="claims to hold"):
            db.sql(query).fetchall()
        with pytest.raises(tickstone.Error, match="claims to hold"):
            db.import_file(tmp_path / "d.arrow", "d", progress=False)


def test_bodies_that_claim_too_much_are_an_error(made: random.Random, tmp_path: Path) -> None:
    """Arrow's reader allocates the length that a file's footer claims for a body, and ends the process where it cannot."""
    pa.feather.write_feather(rows(made, 200), tmp_path / "t.arrow", compression="uncompressed")
    whole = bytearray((tmp_path / "t.arrow").read_bytes())
    batch = pa.ipc.open_file(pa.BufferReader(bytes(whole))).get_batch(0)
    lengths = [at for at in range(len(whole) - 8) if batch.nbytes <= int.from_bytes(whole[at : at + 8], "little") < len(whole)]
    assert lengths
    with opened(tmp_path) as db:
        refused = 0
        for at in lengths:
            damaged = whole[:]
            damaged[at + made.choice([5, 6])] = made.randrange(1, 256)
            (tmp_path / "d.arrow").write_bytes(damaged)
            try:
                db.sql(f"SELECT count(*) FROM '{tmp_path}/d.arrow'").fetchall()
            except tickstone.Error as error:
                refused += "claims to end at byte" in str(error)
        assert refused


def test_damaged_parquet_is_no_import(made: random.Random, tmp_path: Path) -> None:
    pa.parquet.write_table(rows(made, 200), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    with opened(tmp_path) as db:
        for number in range(60):
            damaged = bytearray(whole)
            for _ in range(made.randrange(1, 8)):
                damaged[made.randrange(len(damaged))] = made.randrange(256)
            (tmp_path / "d.parquet").write_bytes(damaged)
            try:
                db.import_file(tmp_path / "d.parquet", f"d{number}", progress=False)
            except tickstone.Error as error:
                assert "defect" not in str(error), f"TICKSTONE_SEED={SEED} {error}"

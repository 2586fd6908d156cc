"""Files in and out, and progress that only terminals see."""

import os
import pathlib
import select
import subprocess
import sys
import time
from typing import Literal

import polars as pl
import pyarrow.parquet
import pytest

import tickstone

CSV = "ts,symbol,price\n" + "".join(f"2024-08-08T09:30:{n:02},{'AB'[n % 2]},{n}.5\n" for n in range(60))


@pytest.fixture
def csv(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file of sixty rows."""
    path = tmp_path / "trades.csv"
    path.write_text(CSV)
    return path


def test_import_finds_the_types(db: tickstone.Database, csv: pathlib.Path) -> None:
    report = db.import_file(csv, "trades")
    assert report.rows == 60
    assert db.sql("SELECT * FROM trades").types == ["TIMESTAMP", "SYMBOL", "DOUBLE"]
    assert db.sql("SELECT count(*), sum(price), last(symbol) FROM trades").fetchall() == [(60, 1_800.0, "B")]


def test_import_of_the_same_file_twice(db: tickstone.Database, csv: pathlib.Path) -> None:
    db.import_file(csv, "trades")
    with pytest.raises(tickstone.Error, match="already imported"):
        db.import_file(csv, "trades")
    assert db.table("trades").count() == 60
    db.import_file(csv, "trades", again=True)
    assert db.table("trades").count() == 120


def test_import_of_several_files_with_choices(db: tickstone.Database, csv: pathlib.Path) -> None:
    other = csv.with_name("other.csv")
    other.write_text(CSV.replace("2024-08-08", "2024-08-09"))
    db.import_file([csv, other], "trades", timestamp="ts", series="symbol", types={"price": "DECIMAL(10, 2)"}, partition_by="hour")
    assert db.table("trades").count() == 120
    assert db.sql("SELECT price FROM trades").types[0].startswith("DECIMAL")


def test_bad_rows(db: tickstone.Database, csv: pathlib.Path) -> None:
    csv.write_text(CSV + "2024-08-08T09:31:00,A,not a number\n")
    types = {"price": "DOUBLE"}
    with pytest.raises(tickstone.Error, match="62"):
        db.import_file(csv, "trades", types=types)
    assert db.tables() == [] or db.table("trades").count() == 0
    report = db.import_file(csv, "trades", types=types, bad_rows="skip")
    assert report.rows == 60 and db.table("trades").count() == 60


def test_a_missing_file(db: tickstone.Database, tmp_path: pathlib.Path) -> None:
    with pytest.raises((tickstone.Error, OSError), match="nowhere.csv"):
        db.import_file(tmp_path / "nowhere.csv", "trades")


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.ndjson", "t.arrow"])
def test_export_and_back(db: tickstone.Database, csv: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    db.import_file(csv, "trades")
    path = tmp_path / name
    assert db.export("trades", path) == 60
    assert db.export("SELECT * FROM trades WHERE price > 30", path) == 30
    db.import_file(path, "back")
    ours = db.sql("SELECT ts, symbol, price FROM back ORDER BY ts").fetchall()
    assert ours == db.sql("SELECT ts, symbol, price FROM trades WHERE price > 30 ORDER BY ts").fetchall()


def test_parquet_for_others(db: tickstone.Database, csv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    db.import_file(csv, "trades")
    db.export("trades", tmp_path / "t.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").num_rows == 60
    assert pl.read_parquet(tmp_path / "t.parquet").height == 60


def test_compressed_text(db: tickstone.Database, csv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    db.import_file(csv, "trades")
    assert db.export("trades", tmp_path / "t.csv.gz") == 60
    assert (tmp_path / "t.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    db.import_file(tmp_path / "t.csv.gz", "back")
    assert db.table("back").count() == 60


@pytest.mark.parametrize(("name", "compression"), [("t.csv.gz", "zstd"), ("t.csv.zst", "gzip"), ("t.JSON.GZ", "zstd")])
def test_a_compression_that_the_name_contradicts(
    db: tickstone.Database, tmp_path: pathlib.Path, name: str, compression: Literal["gzip", "zstd"]
) -> None:
    db.append("t", {"a": [1]}, create=True)
    with pytest.raises(tickstone.Error, match=rf"ends in \{pathlib.Path(name).suffix.lower()} and compression"):
        db.export("t", tmp_path / name, compression=compression)
    assert list(tmp_path.iterdir()) == []
    assert db.export("t", tmp_path / "t.csv.gz", compression="gzip") == 1


IMPORT = """
import sys, tickstone
db = tickstone.open(":memory:")
db.import_file(sys.argv[1], "trades"%s)
print("rows", db.table("trades").count())
"""


@pytest.fixture
def large(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file that takes a moment."""
    path = tmp_path / "large.csv"
    body = "".join(f"2024-08-08T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02},A,{n}.5\n" for n in range(86_400))
    path.write_text("ts,symbol,price\n" + body * 4)
    return path


def test_no_progress_without_a_terminal(large: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT % "", str(large)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "rows 345600\n" and done.stderr == ""


def on_terminal(code: str, *arguments: object) -> tuple[str, int]:
    """What Python code prints, its errors on a terminal, and its exit code."""
    import pty

    main, side = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=side, stderr=side, stdin=side)
    os.close(side)
    seen, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        ready, _, _ = select.select([main], [], [], 0.1)
        try:
            piece = os.read(main, 65_536) if ready else b"" if process.poll() is None else None
        except OSError:
            piece = None
        if piece is None:
            break
        seen += piece
    os.close(main)
    return seen.decode(errors="replace"), process.wait(10)


QUERY = """
import numpy as np, tickstone
from tickstone import progress
progress._SHOWN_AFTER = 0.0
with tickstone.open(":memory:"%s) as db:
    db.sql("CREATE TABLE t (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)")
    db.append("t", {"ts": np.arange(200_000).astype("datetime64[ns]"), "n": np.arange(200_000)})
    print("sum", db.sql("SELECT sum(x.n %% 7) FROM t x JOIN t y ON x.n %% 200 = y.n %% 200").fetchone()[0])
"""


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
def test_progress_of_a_long_query_on_a_terminal() -> None:
    seen, code = on_terminal(QUERY % "")
    assert code == 0, seen
    line = "% of 400,000 rows read, "
    assert line in seen, repr(seen)
    # The line is gone before the result is printed.
    assert "\rsum 599994000" in seen, repr(seen)
    quiet, code = on_terminal(QUERY % ", progress=False")
    assert (line in quiet, code) == (False, 0)
    piped = subprocess.run([sys.executable, "-c", QUERY % ""], capture_output=True, text=True, timeout=60)
    assert piped.stderr == "" and piped.stdout.startswith("sum ")


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
def test_progress_on_a_terminal(large: pathlib.Path) -> None:
    seen, code = on_terminal(IMPORT % ", progress=True", large)
    assert code == 0, seen
    assert "rows 345600" in seen and len(seen) > len("rows 345600\r\n"), repr(seen)
    quiet, code = on_terminal(IMPORT % ", progress=False", large)
    assert (quiet.strip(), code) == ("rows 345600", 0)


def test_names_that_differ_in_case_are_told_apart(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("ts,e,E,px\n2024-08-08T09:30:00,trade,7,1.5\n")
    with tickstone.open(tmp_path / "db") as db:
        with pytest.raises(tickstone.Error, match="rename={'E': 'another'}"):
            db.import_file(file, "events")
        db.import_file(file, "events", rename={"E": "number"})
        assert db.sql("SELECT e, number, px FROM events").fetchall() == [("trade", 7, 1.5)]

"""`tickstone check`, `backup` and `restore` as a user runs them."""

import shutil

import pytest
from conftest import Tickstone

MADE = """CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, id BIGINT) TIMESTAMP(ts);
INSERT INTO trades SELECT to_timestamp_seconds(value * 60), CASE WHEN value % 2 = 0 THEN 'BTC' ELSE 'ETH' END,
value / 4.0, value FROM generate_series(1, 20000); CHECKPOINT"""
SUM = "SELECT count(*) AS n, sum(id) AS ids, max(price) AS p FROM trades"


@pytest.fixture
def filled(tickstone):
    """A database with parts, and a row that is in the tape alone."""
    tickstone.run("sql", "-c", MADE)
    tickstone.run("sql", "-c", "INSERT INTO trades VALUES ('1971-01-01', 'SOL', 1.5, 7)")
    return tickstone


def test_a_whole_database_checks_clean(filled):
    done = filled.run("check", "--quiet")
    assert "all is as it was written" in done.stdout and "20001 rows" in done.stdout, done.stdout
    assert "all is as it was written" in filled.run("check", "--quick", "--quiet").stdout
    before = filled.query(SUM)
    assert "nothing to repair" in filled.run("check", "--repair", "--quiet").stdout
    assert filled.query(SUM) == before


def test_damage_is_named_and_mended(filled):
    """The tape still has the rows of the part: a repair takes them from there."""
    before = filled.query(SUM)
    part = max(filled.data.rglob("*.part"), key=lambda path: path.stat().st_size)
    held = bytearray(part.read_bytes())
    held[len(held) // 3] ^= 0x40
    part.write_bytes(held)
    done = filled.run("check", "--quiet", check=False)
    assert done.returncode == 1 and "damage" in done.stdout and part.name in done.stdout, done.stdout
    assert "check --repair" in done.stderr
    repaired = filled.run("check", "--repair", "--quiet")
    assert "put aside" in repaired.stdout and "all is as it was written" in repaired.stdout, repaired.stdout
    assert bytes(held) in [path.read_bytes() for path in (filled.data / "damaged").rglob("*.part")]
    assert filled.query(SUM) == before


def test_backups_are_databases(filled, tmp_path):
    backup = tmp_path / "backup"
    first = filled.run("backup", backup, "--quiet")
    assert "20,001 rows in 1 tables" in first.stdout, first.stdout
    again = Tickstone(filled.program, backup)
    assert again.query(SUM) == filled.query(SUM)
    assert "all is as it was written" in again.run("check", "--quiet").stdout
    filled.run("sql", "-c", "DELETE FROM trades WHERE id > 19000; INSERT INTO trades VALUES ('1972-01-01', 'X', 1, 1)")
    second = filled.run("backup", backup, "--quiet")
    assert "19,002 rows" in second.stdout and " 0 removed" not in second.stdout, second.stdout
    restored = Tickstone(filled.program, tmp_path / "restored")
    restored.run("restore", backup, "--quiet")
    assert restored.query(SUM) == filled.query(SUM)
    restored.run("sql", "-c", "INSERT INTO trades VALUES ('1973-01-01', 'Y', 1, 1)")
    refused = restored.run("restore", backup, "--quiet", check=False)
    assert refused.returncode == 1 and "empty directory" in refused.stderr, refused.stderr


def test_what_is_no_database_is_refused(tickstone, tmp_path):
    nowhere = Tickstone(tickstone.program, tmp_path / "nowhere")
    assert nowhere.run("check", "--quiet", check=False).returncode == 1
    assert not nowhere.data.exists()
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"x")
    tickstone.run("sql", "-c", MADE)
    refused = tickstone.run("backup", other, "--quiet", check=False)
    assert refused.returncode == 1 and (other / "cat.jpg").exists(), refused.stdout
    shutil.rmtree(other)


def test_deleted_rows_come_back_where_they_are_asked_for_alone(tickstone):
    """Without its manifests a table's rows come from the tape, as they were before the DELETE."""
    rows = "SELECT to_timestamp_seconds(value), value FROM generate_series(1, 100)"
    tickstone.run(
        "sql",
        "-c",
        "CREATE TABLE trades (ts TIMESTAMP, id BIGINT) TIMESTAMP(ts); CREATE TABLE other (ts TIMESTAMP, id BIGINT)"
        f" TIMESTAMP(ts); INSERT INTO other {rows}; INSERT INTO trades {rows}; DELETE FROM trades WHERE id % 4 = 0",
    )
    assert tickstone.value("SELECT count(*) FROM trades") == "75"
    found = [path for path in tickstone.data.rglob("manifest*") if path.parent.name == "1"]
    assert len(found) == 2, found
    for path in found:
        path.unlink()
    checked = tickstone.run("check", "--quiet", check=False)
    assert checked.returncode == 1
    assert "up to 25 rows of table 'trades' that a DELETE removed would come back" in checked.stdout, checked.stdout
    repaired = tickstone.run("check", "--repair", "--quiet", check=False)
    assert repaired.returncode == 1 and "--bring-back" in repaired.stderr, repaired.stderr
    assert "table 'trades' is left damaged" in repaired.stdout, repaired.stdout
    refused = tickstone.run("sql", "-c", "SELECT count(*) FROM other", check=False)
    assert refused.returncode == 1 and "tables/1" in refused.stderr, refused.stderr
    alone = tickstone.run("check", "--bring-back", "--quiet", check=False)
    assert alone.returncode == 2 and "--repair" in alone.stderr, alone.stderr
    brought = tickstone.run("check", "--repair", "--bring-back", "--quiet")
    assert "that a DELETE removed are back" in brought.stdout, brought.stdout
    assert tickstone.value("SELECT count(*) FROM trades") == "100"
    assert tickstone.value("SELECT count(*) FROM other") == "100"

"""SHOW QUERIES and CANCEL QUERY from another thread, SHOW METRICS, SHOW CONFIG."""

import pathlib
import threading
import time
from typing import Any

import pytest

import tickstone

ENDLESS = "SELECT sum(x.a * y.a % 7) AS a FROM t x CROSS JOIN t y"
# From CANCEL QUERY to the exception, in seconds, on a slow machine in a dev build.
PROMPT_S = 5.0


def listed(db: tickstone.Database, text: str) -> dict[str, Any]:
    """What SHOW QUERIES says of the statement with this text, as soon as it is listed."""
    until = time.monotonic() + PROMPT_S
    while time.monotonic() < until:
        for row in db.sql("SHOW QUERIES").arrow().to_pylist():
            if row["statement"] == text:
                found: dict[str, Any] = row
                return found
        time.sleep(0.002)
    raise AssertionError(f"{text} is not listed")


@pytest.fixture
def numbers(directory: pathlib.Path) -> Any:
    with tickstone.open(directory, threads=2) as db:
        db.append("t", {"a": list(range(200_000))}, create=True)
        yield db


@pytest.mark.parametrize("sql", [ENDLESS, f"INSERT INTO t {ENDLESS}", f"CREATE TABLE made AS ({ENDLESS})"])
def test_a_statement_of_another_thread_is_cancelled(numbers: tickstone.Database, sql: str) -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            result = numbers.sql(sql)
            if result is not None:
                result.fetchall()
        except tickstone.Error as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    row = listed(numbers, sql)
    assert row["state"] in ("planning", "running") and row["seconds"] >= 0 and row["memory_bytes"] >= 0
    time.sleep(0.1)
    numbers.sql(f"CANCEL QUERY {row['id']}")
    thread.join(PROMPT_S)
    assert not thread.is_alive()
    (error,) = raised
    assert isinstance(error, tickstone.Error)
    assert error.message == f"cancelled by CANCEL QUERY {row['id']}" and error.kind == "retry"
    assert numbers.sql("SHOW QUERIES").fetchall() == []
    assert numbers.sql("SELECT count(*) FROM t").fetchone() == (200_000,)
    with pytest.raises(tickstone.Error, match=f"query {row['id']} has ended"):
        numbers.sql(f"CANCEL QUERY {row['id']}")


def test_a_relation_that_nobody_reads_does_not_run(numbers: tickstone.Database) -> None:
    relation = numbers.sql("SELECT a FROM t")
    assert numbers.sql("SHOW QUERIES").fetchall() == []
    assert len(relation.fetchall()) == 200_000
    assert numbers.sql("SHOW QUERIES").fetchall() == []


def test_metrics_and_settings(directory: pathlib.Path) -> None:
    with tickstone.open(directory, query_memory=1 << 26, sync_interval_ms=2.5) as db:
        db.append("t", {"a": [1, 2, 3]}, create=True)
        metrics = {row["metric"]: row["value"] for row in db.sql("SHOW METRICS").arrow().to_pylist()}
        assert metrics["rows_committed"] == 3 and metrics["commits"] == 1 and metrics["tables"] == 1
        assert metrics["query_memory_budget_bytes"] == 1 << 26 and metrics["query_memory_bytes"] == 0
        config = {row["setting"]: row for row in db.sql("SHOW CONFIG").arrow().to_pylist()}
        assert (config["query_memory"]["value"], config["query_memory"]["default"]) == (str(1 << 26), "3/4 of all")
        assert config["sync_interval"]["value"] == "2.5"

"""Handles: two of them, closed ones, threads, forks, other processes."""

import gc
import os
import pathlib
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

import tickstone

ROW = {"a": [1]}


def count(db: tickstone.Database, table: str = "t") -> int:
    """Rows of a table."""
    row = db.sql(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def python(code: str, *arguments: object, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs Python code in another process."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)


def test_rows_survive_closing(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.append("t", ROW, create=True)
        assert pathlib.Path(db.path) == directory and not db.closed and not db.read_only
    assert db.closed
    with tickstone.open(directory) as db:
        assert count(db) == 1


def test_rows_survive_a_process_that_just_ends(directory: pathlib.Path) -> None:
    code = """if True:
        import os, sys, tickstone
        db = tickstone.open(sys.argv[1])
        db.append("t", {"a": [1, 2]}, create=True)
        os._exit(0)"""
    assert python(code, directory).returncode == 0
    with tickstone.open(directory) as db:
        assert count(db) == 2


@pytest.mark.parametrize("argument", ["threads", "memory_budget", "query_memory"])
@pytest.mark.parametrize("number", [0, -1])
def test_numbers_that_are_not_positive(argument: str, number: int) -> None:
    with pytest.raises(ValueError, match=f"{argument} is 1 or more, not {number}"):
        tickstone.open(":memory:", **{argument: number})  # type: ignore[arg-type]


def test_an_empty_path(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="path is empty"):
        tickstone.open("")
    assert list(tmp_path.iterdir()) == []


def test_a_second_handle_may_be_of_this_process(directory: pathlib.Path) -> None:
    with tickstone.open(directory), pytest.raises(tickstone.StorageError, match="in this process or another") as caught:
        tickstone.open(directory)
    assert caught.value.kind == "retry"


def test_rows_in_memory_outlive_the_handle(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.append("t", {"a": [1, 2, 3]}, create=True)
        relation = db.sql("SELECT a FROM t")
        assert relation.fetchmany(1) == [(1,)]
    assert relation.fetchmany(2) == [(2,), (3,)]
    with pytest.raises(tickstone.ClosedError):
        relation.fetchmany(1)


def test_a_closed_handle(directory: pathlib.Path) -> None:
    db = tickstone.open(directory)
    db.append("t", ROW, create=True)
    relation, table, iterator = db.sql("SELECT * FROM t"), db.table("t"), iter(db.sql("SELECT * FROM t"))
    db.close()
    db.close()
    assert "closed" in repr(db)
    for call in (
        lambda: db.sql("SELECT 1"),
        lambda: db.append("t", ROW),
        lambda: db.table("t"),
        lambda: db.tables(),
        lambda: db.seal(),
        lambda: relation.fetchall(),
        lambda: table.count(),
        lambda: next(iterator),
        lambda: db.transaction().__enter__(),
    ):
        with pytest.raises(tickstone.ClosedError, match="closed"):
            call()


def test_two_handles_on_one_directory(directory: pathlib.Path) -> None:
    """One writes; a second that wants to write is refused, also in the same process; readers may be many."""
    with tickstone.open(directory) as db:
        db.append("t", ROW, create=True)
        with pytest.raises(tickstone.StorageError):
            tickstone.open(directory)
        with tickstone.open(directory, read_only=True) as reader:
            assert count(reader) == 1
        assert count(db) == 1
    with tickstone.open(directory) as again:
        assert count(again) == 1


def test_a_second_writer_is_refused(directory: pathlib.Path) -> None:
    code = """if True:
        import sys, tickstone
        try:
            tickstone.open(sys.argv[1])
        except tickstone.StorageError as error:
            print(error.kind, error)
            sys.exit(7)"""
    with tickstone.open(directory) as db:
        db.append("t", ROW, create=True)
        other = python(code, directory)
    assert other.returncode == 7, other.stderr
    assert str(directory) in other.stdout


def test_read_only(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.append("t", ROW, create=True)
    with tickstone.open(directory, read_only=True) as db:
        assert db.read_only and count(db) == 1 and "read" in repr(db)
        frame = pl.DataFrame({"a": [1]})
        assert db.sql("SELECT t.a FROM t JOIN frame USING (a)").fetchall() == [(frame["a"][0],)]
        for call in (
            lambda: db.append("t", ROW),
            lambda: db.sql("INSERT INTO t VALUES (2)"),
            lambda: db.sql("CREATE TABLE u (a BIGINT)"),
        ):
            with pytest.raises(tickstone.Error, match="read"):
                call()
        assert count(db) == 1


def test_read_only_needs_a_database(directory: pathlib.Path) -> None:
    with pytest.raises(tickstone.Error):
        tickstone.open(directory, read_only=True)
    assert not directory.exists()


def test_a_file_is_no_directory(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(tickstone.Error, match="file"):
        tickstone.open(tmp_path / "file")


def test_memory_databases_are_separate() -> None:
    with tickstone.open(":memory:") as one, tickstone.open(":memory:") as other:
        one.append("t", ROW, create=True)
        assert one.tables() == ["t"] and other.tables() == []


def test_a_dropped_handle_closes(directory: pathlib.Path) -> None:
    db = tickstone.open(directory)
    db.append("t", ROW, create=True)
    del db
    gc.collect()
    with tickstone.open(directory) as again:
        assert count(again) == 1


def test_many_threads_on_one_handle(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (a BIGINT)")

    def work(thread: int) -> None:
        for at in range(10):
            db.append("t", {"a": [thread * 10 + at]}, sync="never")
            assert count(db) > 0

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert db.sql("SELECT count(*), count(DISTINCT a) FROM t").fetchone() == (80, 80)


def test_one_relation_from_many_threads(db: tickstone.Database) -> None:
    db.append("t", {"a": list(range(1_000))}, create=True)
    relation = db.sql("SELECT sum(a) FROM t")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: relation.polars().rows(), range(16))) == [[(499_500,)]] * 16


def test_the_interpreter_runs_on_while_a_query_works(db: tickstone.Database) -> None:
    db.append("t", {"a": list(range(3_000))}, create=True)
    done = threading.Event()
    ticks = 0

    def query() -> None:
        db.sql("SELECT sum(x.a * y.a) FROM t x CROSS JOIN t y").fetchall()
        done.set()

    thread = threading.Thread(target=query)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks >= 5, "the interpreter stood still"


def test_closing_while_others_work(directory: pathlib.Path) -> None:
    db = tickstone.open(directory)
    db.append("t", {"a": list(range(1_000))}, create=True)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                count(db)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    db.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert all(isinstance(failure, tickstone.ClosedError) for failure in failures), failures
    assert len(failures) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_the_child_is_told(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.append("t", ROW, create=True)
        relation = db.sql("SELECT count(*) FROM t")
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            answers = []
            for call in (lambda: count(db), lambda: db.append("t", ROW), lambda: relation.fetchall(), db.close):
                try:
                    call()
                    answers.append("worked")
                except tickstone.Error as error:
                    answers.append("fork" if "fork" in str(error) else str(error))
            os.write(write, ",".join(answers).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            answers = pipe.read().split(",")
        assert os.waitpid(child, 0)[1] == 0
        assert answers[:3] == ["fork"] * 3 and answers[3] in ("fork", "worked")
        db.append("t", ROW)
        assert count(db) == 2, "the parent works on"


def test_a_forked_child_that_ends_takes_nothing_along(directory: pathlib.Path) -> None:
    code = """if True:
        import os, sys, tickstone
        db = tickstone.open(sys.argv[1])
        db.append("t", {"a": [1]}, create=True)
        if os.fork() == 0:
            sys.exit(0)
        assert os.wait()[1] == 0
        db.append("t", {"a": [2]})
        print(db.sql("SELECT count(*) FROM t").fetchone())"""
    done = python(code, directory)
    assert done.stdout.strip() == "(2,)", done.stderr


def test_a_pool_of_processes_reads(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.append("t", ROW, create=True)
        code = "import sys, tickstone; print(tickstone.open(sys.argv[1], read_only=True).sql('SELECT a FROM t').fetchall())"
        assert python(code, directory).stdout.strip() == "[(1,)]"


def test_importing_is_light() -> None:
    code = """if True:
        import sys, tickstone
        heavy = {"pyarrow", "polars", "pandas", "numpy", "plotly", "duckdb"} & set(sys.modules)
        assert not heavy, heavy"""
    done = python(code)
    assert done.returncode == 0, done.stderr

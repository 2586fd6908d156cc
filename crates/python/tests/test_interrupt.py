"""Ctrl-C ends what is under way, promptly, and the database is usable afterwards."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

# From the signal to the end of the query, in seconds, on a slow machine in a dev build.
PROMPT_S = 3.0
# After which a query that does not end is given up.
HUNG_S = 15.0

LONG = """
import signal, sys, tickstone
# A shell may have started this with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
db = tickstone.open(sys.argv[1], threads=int(sys.argv[3]))
db.append("t", {"a": list(range(100))}, create=True)
db.append("b", {"a": list(range(30_000))}, create=True)
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 1000000000) SELECT max(a) FROM r"
relation = db.sql(ENDLESS)
print("running", flush=True)
try:
    %s
except KeyboardInterrupt:
    print("interrupted", flush=True)
except Exception as error:
    # Arrow's C interface hands on words only.
    assert "KeyboardInterrupt" in str(error) and "from_stream" in sys.argv[2], error
    print("interrupted", flush=True)
else:
    print("ended", flush=True)
print(db.sql("SELECT count(*) FROM t").fetchone()[0], flush=True)
db.append("t", {"a": [1]})
db.close()
"""

WAYS = {
    "cross join": 'db.sql("SELECT sum(x.a * y.a % 7) FROM b x CROSS JOIN b y").arrow()',
    "arrow": "relation.arrow()",
    "rows": "relation.fetchall()",
    "stream": "import pyarrow; pyarrow.RecordBatchReader.from_stream(relation).read_all()",
    "insert": 'db.sql(f"INSERT INTO t SELECT * FROM ({ENDLESS})")',
}


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c(directory: pathlib.Path, way: str, threads: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LONG % WAYS[way], str(directory), WAYS[way], str(threads)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    watchdog = threading.Timer(HUNG_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.3)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - sent < PROMPT_S
        assert process.stdout.readline() == "100\n"
        assert process.wait(20) == 0, process.stderr and process.stderr.read()
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_another_handler_runs_while_a_query_works(directory: pathlib.Path) -> None:
    """A handler that raises nothing does not end the query."""
    code = """
import signal, sys, tickstone
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
db = tickstone.open(":memory:")
db.append("t", {"a": list(range(4_000))}, create=True)
count = db.sql("SELECT count(*) FROM t x CROSS JOIN t y WHERE (x.a * y.a) % 7 >= 0").fetchone()
print(count)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "(16000000,)", done.stderr

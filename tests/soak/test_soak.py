"""The server is killed again and again under all kinds of load at once, and its files are damaged.

`sh scripts/soak.sh kills 600` goes on for so many seconds ($TICKSTONE_SOAK_SECONDS), the ordinary suite for a few. All loads
of loads.py and readers.py run beside each other; after each kill `tickstone check` finds no damage, and what is stored agrees
with the ledger of every load: nothing that was acknowledged is lost, nothing is there twice or in part, views are their
queries. A database is stopped after some kills, its files are damaged one at a time (damage.py), and the next one begins.
$TICKSTONE_WITHSTAND_SEED repeats what was drawn, though not the moments at which threads meet.
"""

import os
import random
import shutil
import subprocess
import threading
import time
from pathlib import Path

from damage import check_damage
from loads import Documents, LinesOverHttp, LinesOverTcp, Load, Made, Replaced, Transactions, Uploads
from readers import VIEWS, Catalog, Statements, Temporary, Ticks, Views
from serving import PATIENCE_S, Server, new_random, until

SECONDS = float(os.environ.get("TICKSTONE_SOAK_SECONDS", "0"))
KILLS = 6 if SECONDS else 2
# How long the server runs between two kills.
RUN_S = (0.5, 6.0) if SECONDS else (1.0, 2.5)
DAMAGED = 40 if SECONDS else 6


def all_loads(seed: int) -> list[Load]:
    return [
        LinesOverHttp("http", seed),
        LinesOverTcp("tcp", seed),
        Transactions("pg", seed),
        Uploads("imp", seed),
        Replaced("replaced", seed),
        Made("made", seed),
        Documents("documents", seed),
        Ticks("ticks1", seed),
        Ticks("ticks2", seed),
        Views("views", seed),
        Temporary("temporary1", seed),
        Temporary("temporary2", seed),
        Catalog("catalog", seed),
        Statements("statements", seed),
    ]


class Round:
    """All loads beside each other, until the server is killed."""

    def __init__(self, loads: list[Load], served: Server) -> None:
        self.killing = threading.Event()
        self.faults: list[str] = []
        self.steps = dict.fromkeys((load.name for load in loads), 0)
        self.threads = [threading.Thread(target=self.run, args=(load, served)) for load in loads]
        for thread in self.threads:
            thread.start()

    def run(self, load: Load, served: Server) -> None:
        try:
            load.begin(served)
            while not self.killing.is_set():
                load.step()
                self.steps[load.name] += 1
        except Exception as error:  # Whatever a client says of a server that is gone.
            if not self.killing.is_set():
                self.faults.append(f"{load.name}: {error!r}")

    def all_began(self) -> bool:
        return bool(self.faults) or all(self.steps.values())

    def join(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a client waits for a server that is gone"
        assert not self.faults, "\n".join(self.faults)


def checked(program: Path, data: Path) -> None:
    """A crash leaves no damage."""
    done = subprocess.run([program, "check", "--quiet", "--data", data], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def questions(served: Server) -> list[str]:
    """Statements that tell every table and stream from others of its kind."""
    asked = ["SELECT count(*), sum(seq), sum(length(encode(document, 'hex'))) FROM stream('documents')"]
    columns = "SELECT table_name, column_name FROM information_schema.columns WHERE column_name IN ('n', 'id', 'v') ORDER BY 1, 2"
    asked += [f"SELECT count(*), sum({column}), min({column}) FROM {table}" for table, column in served.rows(columns)]
    return asked + [f"SELECT * FROM {view} ORDER BY 1, 2" for view in VIEWS]


def soak(program: Path, data: Path, choose: random.Random) -> str:
    """One database from its beginning to its damage; what was done."""
    loads = all_loads(choose.randrange(2**32))
    served = Server(program, data, "--memory-budget", choose.choice(["16MB", "64MB", "1GB"]))
    try:
        for load in loads:
            load.prepare(served)
        steps = 0
        for _ in range(KILLS):
            now = Round(loads, served)
            until(now.all_began, "every load has begun", 2 * PATIENCE_S)
            end = time.monotonic() + choose.uniform(*RUN_S)
            while time.monotonic() < end and not now.faults:
                time.sleep(0.05)
            now.killing.set()
            served.kill()
            now.join()
            steps += sum(now.steps.values())
            checked(program, data)
            served = Server(program, data)
            for load in loads:
                load.check(served)
        asked = questions(served)
        assert served.stop() == 0
    finally:
        if served.process.poll() is None:
            served.kill()
    checked(program, data)
    named = check_damage(program, data, data.with_name("damaged"), asked, DAMAGED, choose)
    return f"{KILLS} kills after {steps} steps, {DAMAGED} files damaged, {named} of them named by a check"


def test_kills_under_all_loads_at_once(program: Path, tmp_path: Path) -> None:
    choose, end, number = new_random(), time.monotonic() + SECONDS, 0
    while number == 0 or time.monotonic() < end:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        print(f"database {number}: {soak(program, folder / 'data', choose)}", flush=True)
        # What holds is not kept.
        shutil.rmtree(folder)

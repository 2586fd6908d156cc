"""`kill -9` of an importing process: its file is there whole or not at all, and the directory opens."""

import random
import subprocess
import time

import pytest

KILLS = 50
ROWS = 40_000


@pytest.fixture(scope="module")
def trades(program, tmp_path_factory):
    """A file of trades and the sum of their ids."""
    folder = tmp_path_factory.mktemp("ticks")
    subprocess.run(
        [program, "gen", "ticks", "--rows", str(ROWS * 5 // 2), "--levels", "1", "--out", folder], check=True
    )
    path = folder / "trades.csv"
    lines = path.read_text().splitlines()[1:]
    assert len(lines) == ROWS
    return path, sum(int(line.rsplit(",", 1)[1]) for line in lines)


def test_killed_imports(tickstone, trades):
    path, ids = trades
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    times = []
    for _ in range(3):
        began = time.monotonic()
        tickstone.run("import", "--table", "trades", "--again", path)
        times.append(time.monotonic() - began)
    # The quickest: what else the machine did meanwhile must not let later imports end before they are killed.
    seconds, files, killed = min(times), len(times), 0
    for kill in range(KILLS):
        command = tickstone.command("import", "--table", "trades", "--again", path)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(choose.uniform(0, 1.1 * seconds))
        process.kill()
        finished = process.wait() == 0
        killed += not finished
        [row] = tickstone.query("SELECT count(*) AS n, sum(id) AS ids FROM trades")
        n = int(row["n"])
        assert n in ([files * ROWS, (files + 1) * ROWS]), f"kill {kill} of seed {seed} left {n} rows"
        assert not finished or n == (files + 1) * ROWS, f"kill {kill} of seed {seed}: acknowledged, not there"
        files = n // ROWS
        assert int(row["ids"]) == files * ids, f"kill {kill} of seed {seed}"
    assert killed >= KILLS // 2, f"only {killed} of {KILLS} imports were still running when killed"
    tickstone.run("import", "--table", "trades", "--again", path)
    assert int(tickstone.value("SELECT count(*) FROM trades")) == (files + 1) * ROWS

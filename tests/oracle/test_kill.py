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


VIEW_KILLS = 12
BARS = "SELECT ts, sym, first(px) AS o, max(px) AS h, sum(n) AS v, count(*) AS c FROM ticks SAMPLE BY 1m"
HOURS = "SELECT ts, max(h) AS h, sum(v) AS v FROM bars SAMPLE BY 1h"


def changes(choose, day):
    """Statements that change the table below and have views stored, of a few seconds."""
    statements = []
    for step in range(120):
        rows = []
        for _ in range(20):
            second = choose.randrange(86_400) if choose.random() < 0.3 else 600 * step % 86_400
            at = f"2024-08-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            rows.append(f"('{at}', '{choose.choice('ABC')}', {choose.randrange(400) / 4}, {choose.randrange(100)})")
        statements.append(f"INSERT INTO ticks VALUES {', '.join(rows)}")
        if step % 20 == 7:
            statements.append(f"DELETE FROM ticks WHERE n = {choose.randrange(100)}")
        if step % 20 == 13:
            statements.append(f"UPDATE ticks SET px = px + 1 WHERE n = {choose.randrange(100)}")
        if step % 30 == 11:
            statements.append(choose.choice(["CHECKPOINT", "REFRESH MATERIALIZED VIEW hours"]))
        if step == 70:
            statements.append(f"REFRESH MATERIALIZED VIEW {choose.choice(['bars', 'hours'])} FULL")
    return ";\n".join(statements)


def test_killed_views(tickstone, tmp_path):
    """Views are their queries after `kill -9` at any moment of changes and refreshes."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    tickstone.run("sql", "-c", "CREATE TABLE ticks (ts TIMESTAMP, sym SYMBOL, px DOUBLE, n BIGINT) TIMESTAMP(ts)")
    for name, query in [("bars", BARS), ("hours", HOURS)]:
        tickstone.run("sql", "-c", f"CREATE MATERIALIZED VIEW {name} AS {query}")
    script = tmp_path / "changes.sql"
    seconds, killed = None, 0
    for kill in range(VIEW_KILLS):
        script.write_text(changes(choose, 1 + kill % 28))
        process = subprocess.Popen(
            tickstone.command("sql", "-f", script), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        began = time.monotonic()
        if seconds is None:
            assert process.wait() == 0
            seconds = time.monotonic() - began
        else:
            time.sleep(choose.uniform(0, seconds))
            process.kill()
            killed += process.wait() != 0
        for name, query in [("bars", BARS), ("hours", HOURS.replace("FROM bars", f"FROM ({BARS})"))]:
            for one, other in [(f"SELECT * FROM {name}", query), (query, f"SELECT * FROM {name}")]:
                rows = tickstone.query(f"SELECT * FROM ({one}) EXCEPT SELECT * FROM ({other})")
                assert rows == [], f"kill {kill} of seed {seed}: {name} {rows[:3]}"
    assert killed > VIEW_KILLS // 3, f"only {killed} were still running when killed"
    assert int(tickstone.value("SELECT count(*) FROM bars")) > 0

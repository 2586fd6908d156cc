"""Generated tables against DuckDB: the answer does not depend on the order rows came in, nor on how they
are split over files, memory and parts."""

import csv
import random

import pytest

from comparing import Oracle, assert_same

SECOND = 1_000_000_000
# 2024-03-30T22:00:00Z, ns since the Unix epoch: the days around a change of the clocks.
START = 1_711_836_000 * SECOND
SYMBOLS = ["AAA", "BBB", "C-USD", "D.X", "long symbol name"]
COLUMNS = {
    "ts": "BIGINT",
    "symbol": "VARCHAR",
    "venue": "VARCHAR",
    "price": "DOUBLE",
    "amount": "DOUBLE",
    "id": "BIGINT",
}
CREATE = """CREATE TABLE {name} (ts TIMESTAMP, symbol SYMBOL, venue SYMBOL, price DOUBLE, amount DOUBLE, id BIGINT)
  TIMESTAMP(ts) SERIES BY (symbol) PARTITION BY {unit}"""

# Each query as we say it and as DuckDB does; both in a defined order.
QUERIES = {
    "everything": ("SELECT * FROM t ORDER BY id", "SELECT * EXCLUDE n FROM t ORDER BY id"),
    "bars": (
        """SELECT ts, symbol, first(price), last(price), max(price), min(price), sum(amount), count(*), count(amount)
           FROM t SAMPLE BY 7m ORDER BY ts, symbol""",
        """SELECT ts // 420000000000 * 420000000000 AS b, symbol, first(price ORDER BY ts),
                  last(price ORDER BY ts), max(price), min(price), sum(amount), count(*), count(amount)
           FROM t GROUP BY b, symbol ORDER BY b, symbol""",
    ),
    "days of a zone": (
        "SELECT ts, count(*), sum(id) FROM t SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin' ORDER BY ts",
        """SELECT epoch_ns(timezone('Europe/Berlin', date_trunc('day', timezone('Europe/Berlin', to_timestamp(ts / 1e9)))))
                  AS b, count(*), sum(id)::BIGINT FROM t GROUP BY b ORDER BY b""",
    ),
    "a window of one symbol": (
        """SELECT ts, id FROM t WHERE symbol = 'BBB' AND ts >= '2024-03-31T00:30:00' AND ts < '2024-03-31T03:00:00'
           ORDER BY id""",
        """SELECT ts, id FROM t WHERE symbol = 'BBB' AND ts >= 1711845000000000000 AND ts < 1711854000000000000
           ORDER BY id""",
    ),
    "two symbols, a value": (
        "SELECT id FROM t WHERE symbol IN ('AAA', 'D.X') AND price > 120 ORDER BY id",
        "SELECT id FROM t WHERE symbol IN ('AAA', 'D.X') AND price > 120 ORDER BY id",
    ),
    "nulls": (
        "SELECT venue, count(*), avg(amount) FROM t WHERE venue IS NULL OR amount IS NULL GROUP BY venue ORDER BY venue",
        """SELECT venue, count(*), avg(amount) FROM t WHERE venue IS NULL OR amount IS NULL
           GROUP BY venue ORDER BY venue NULLS LAST""",
    ),
    "latest": (
        "SELECT symbol, ts, id FROM t LATEST ON ts PARTITION BY symbol ORDER BY symbol",
        "SELECT symbol, max(ts), arg_max(id, ts) FROM t GROUP BY symbol ORDER BY symbol",
    ),
    "vwap": (
        "SELECT symbol, vwap(price, amount) FROM t GROUP BY symbol ORDER BY symbol",
        """SELECT symbol, sum(price * amount) / sum(amount) FROM t
           WHERE price IS NOT NULL AND amount IS NOT NULL GROUP BY symbol ORDER BY symbol""",
    ),
    "as-of itself": (
        """SELECT a.id, b.id FROM (SELECT * FROM t WHERE symbol <> 'AAA') a
           ASOF JOIN (SELECT * FROM t WHERE price > 110) b MATCH_CONDITION (a.ts > b.ts) ON a.symbol = b.symbol
           ORDER BY a.id""",
        """SELECT a.id, b.id FROM (SELECT * FROM t WHERE symbol <> 'AAA') a
           ASOF LEFT JOIN (SELECT * FROM t WHERE price > 110) b ON a.symbol = b.symbol AND a.ts > b.ts ORDER BY a.id""",
    ),
    "extremes": (
        "SELECT min(ts), max(ts), min(price), max(price), count(*) FROM t",
        "SELECT min(ts), max(ts), min(price), max(price), count(*) FROM t",
    ),
}


def generate(seed: int, rows: int) -> list[list]:
    """Rows in order of time; times are unique within a symbol, so that first and last have one answer."""
    choose = random.Random(seed)
    made, ts = [], START
    for id_ in range(rows):
        ts += choose.choice([1, 1_000, SECOND // 3, SECOND, 40 * SECOND])
        made.append(
            [
                ts,
                choose.choices(SYMBOLS, weights=[50, 30, 10, 9, 1])[0],
                choose.choice(["X", "Y", ""]),
                round(choose.gauss(110, 10), 4),
                choose.choice([round(choose.expovariate(2) + 0.001, 3), ""]),
                id_,
            ]
        )
    return made


def write(path, rows) -> None:
    """Writes rows as CSV."""
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        out.writerows(rows)


def split(rows: list, pieces: int, choose: random.Random) -> list[list]:
    """Cuts rows into pieces of random sizes."""
    cuts = sorted(choose.sample(range(1, len(rows)), pieces - 1))
    return [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)])]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("arrival", ["ordered", "shuffled", "reversed files"])
@pytest.mark.parametrize("unit", ["HOUR", "DAY", "MONTH"])
def test_arrival_and_splits_do_not_matter(tickstone, tmp_path, seed, arrival, unit):
    rows = generate(seed, 6_000)
    choose = random.Random(f"{seed} {arrival} {unit}")
    write(tmp_path / "all.csv", rows)
    oracle = Oracle()
    oracle.load("t", tmp_path / "all.csv", COLUMNS)

    arriving = list(rows)
    if arrival == "shuffled":
        choose.shuffle(arriving)
    pieces = split(arriving, 5, choose)
    if arrival == "reversed files":
        pieces.reverse()
    statements = [CREATE.format(name="t", unit=unit)]
    for at, piece in enumerate(pieces):
        write(tmp_path / f"{at}.csv", piece)
        if at % 2:
            # Through the tape into memory, as SQL does; the others as bulk loads.
            load = f"CREATE TABLE s{at} AS (SELECT * FROM t LIMIT 0) TIMESTAMP(ts)"
            statements += [load, f"COPY s{at} FROM '{tmp_path / f'{at}.csv'}'"]
            statements += [f"INSERT INTO t SELECT * FROM s{at}", f"DROP TABLE s{at}"]
        else:
            statements.append(f"COPY t FROM '{tmp_path / f'{at}.csv'}'")
        if at == 2 and choose.random() < 0.5:
            statements.append("CHECKPOINT t")
    tickstone.run("sql", "-c", ";\n".join(statements))

    for name, (ours, theirs) in QUERIES.items():
        assert_same(tickstone.table(ours), oracle.rows(theirs), f"{name} ({seed=}, {arrival}, {unit})")


def test_a_file_larger_than_the_memory_budget_imports(tickstone, tmp_path):
    rows = generate(3, 60_000)
    random.Random(3).shuffle(rows)
    write(tmp_path / "all.csv", rows)
    tickstone.run("import", "--table", "t", "--memory-budget", "1MB", tmp_path / "all.csv")
    assert tickstone.query("SELECT count(*) AS n, sum(id) AS s FROM t") == [
        {"n": "60000", "s": str(sum(range(60_000)))}
    ]

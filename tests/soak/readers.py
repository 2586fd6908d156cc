"""Loads that change rows below materialized views, keep temporary tables, and read: the catalog, and statements that are
asked in two ways, whose answers must agree at every moment."""

import time
from typing import Any

from loads import Load, connect, iso
from serving import Server

BARS = "SELECT ts, w, first(px) AS o, max(px) AS h, sum(id) AS v, count(*) AS c FROM ticks SAMPLE BY 1h"
DAYS = "SELECT ts, max(h) AS h, sum(v) AS v, sum(c) AS c FROM {} SAMPLE BY 1d"
VIEWS = {"bars": BARS, "days": DAYS.format(f"({BARS})")}


class Ticks(Load):
    """INSERT, UPDATE, DELETE, REFRESH and CHECKPOINT on one table below views. Each client has rows of its own, and knows them
    all."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.next = 0
        # Ids and prices before and after the statement under way.
        self.rows: dict[int, float] = {}
        self.changed: dict[int, float] = {}

    def prepare(self, served: Server) -> None:
        served.run(
            "CREATE TABLE IF NOT EXISTS ticks (ts TIMESTAMP, w SYMBOL, px DOUBLE, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY",
            f"CREATE MATERIALIZED VIEW IF NOT EXISTS bars AS {BARS}",
            f"CREATE MATERIALIZED VIEW IF NOT EXISTS days AS {DAYS.format('bars')}",
        )

    def begin(self, served: Server) -> None:
        self.db = connect(served)

    def carry_out(self, sql: str, changed: dict[int, float]) -> None:
        self.changed = changed
        self.db.execute(sql.encode())
        self.rows = changed

    def step(self) -> None:
        kind, part = self.random.random(), self.random.randrange(40)
        mine = f"w = '{self.name}' AND id % 40 = {part}"
        if kind < 0.5:
            new = range(self.next, self.next + self.random.randrange(1, 60))
            self.next = new.stop
            # A price that no other row of a moment has: `first` is one row.
            values = [f"('{iso(self.time(id))}', '{self.name}', {id / 4}, {id})" for id in new]
            self.carry_out(f"INSERT INTO ticks VALUES {', '.join(values)}", self.rows | {id: id / 4 for id in new})
        elif kind < 0.7:
            moved = {id: px + 1 if id % 40 == part else px for id, px in self.rows.items()}
            self.carry_out(f"UPDATE ticks SET px = px + 1 WHERE {mine}", moved)
        elif kind < 0.9:
            kept = {id: px for id, px in self.rows.items() if id % 40 != part}
            self.carry_out(f"DELETE FROM ticks WHERE {mine}", kept)
        else:
            other = ["REFRESH MATERIALIZED VIEW days", "REFRESH MATERIALIZED VIEW bars FULL", "CHECKPOINT"]
            self.carry_out(self.random.choice(other), self.rows)

    def time(self, id: int) -> int:
        """Each row's own nanosecond, so that none depends on the order of equal times."""
        return self.random.randrange(7 * 86_400) * 10**9 + id * 10 + int(self.name[-1])

    def check(self, served: Server) -> None:
        rows = served.rows(f"SELECT id, px FROM ticks WHERE w = '{self.name}'")
        found = dict(rows)
        assert len(found) == len(rows), f"{self.name}: rows are there twice"
        if found not in (self.rows, self.changed):
            lost, new = self.rows.keys() - found.keys(), found.keys() - self.rows.keys()
            raise AssertionError(f"{self.name}: {len(rows)} rows for {len(self.rows)}: without {lost}, with {new}, or changed")
        self.rows = self.changed = found
        check_views(served)


def check_views(served: Server) -> None:
    """Views are their queries, at every moment."""
    for view, query in VIEWS.items():
        for one, other in [(f"SELECT * FROM {view}", query), (query, f"SELECT * FROM {view}")]:
            rows = served.rows(f"SELECT * FROM ({one}) EXCEPT SELECT * FROM ({other})")
            assert rows == [], f"{view} differs from its query: {rows[:3]} of {one} only"


class Views(Load):
    """Compares views with their queries beside those who change what is below."""

    def begin(self, served: Server) -> None:
        self.served = served

    def step(self) -> None:
        check_views(self.served)


class Temporary(Load):
    """A session's own table, by a name that other sessions have too: its rows are its own until it ends."""

    def begin(self, served: Server) -> None:
        self.db = connect(served)
        self.own = self.random.randrange(1_000_000)
        self.count = 0
        self.db.execute("CREATE TEMP TABLE scratch (ts TIMESTAMP, own BIGINT) TIMESTAMP(ts)")

    def step(self) -> None:
        new = self.random.randrange(1, 50)
        values = ", ".join(f"('{iso(self.random.randrange(10**15))}', {self.own})" for _ in range(new))
        self.db.execute(f"INSERT INTO scratch VALUES {values}".encode())
        self.count += new
        found = self.db.execute("SELECT count(*), min(own), max(own) FROM scratch").fetchone()
        assert found == (self.count, self.own, self.own), f"{self.name}: {found} for {self.count} of {self.own}"
        time.sleep(0.02)

    def check(self, served: Server) -> None:
        left = served.rows("SELECT count(*) FROM information_schema.tables WHERE table_name = 'scratch'")
        assert left == [[0]], "a temporary table outlived its session"


class Catalog(Load):
    """What drivers ask of the catalog, beside everything."""

    ASKED = (
        "SELECT count(*) FROM pg_proc",
        "SELECT c.relname, a.attname, t.typname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "JOIN pg_type t ON t.oid = a.atttypid WHERE c.relname = 'ticks' AND a.attnum > 0 ORDER BY a.attnum",
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'ticks' ORDER BY ordinal_position",
        "SELECT relname FROM pg_class WHERE relname IN ('ticks', 'bars', 'days') ORDER BY relname",
        "SELECT table_name FROM information_schema.tables WHERE table_name IN ('ticks', 'bars', 'days') ORDER BY 1",
        "SHOW TABLES",
    )
    COLUMNS = ["ts", "w", "px", "id"]
    RELATIONS = ["bars", "days", "ticks"]

    def begin(self, served: Server) -> None:
        self.db = connect(served)

    def step(self) -> None:
        answers: list[Any] = [self.db.execute(sql.encode()).fetchall() for sql in self.ASKED]
        assert answers[0][0][0] > 100, answers[0]
        assert [name for _, name, _ in answers[1]] == self.COLUMNS, answers[1]
        assert [name for (name,) in answers[2]] == self.COLUMNS, answers[2]
        assert [name for (name,) in answers[3]] == self.RELATIONS, answers[3]
        assert [name for (name,) in answers[4]] == self.RELATIONS, answers[4]


class Statements(Load):
    """Statements that are asked in two ways of one moment: in three parts by a condition (TLP), counted in two ways (NoREC),
    the last row by order and by value."""

    CONDITIONS = (
        "px > 20", "id % 3 = 1", "ts::DATE = '1970-01-03'", "ts::TIME > '12:00'", "extract(hour FROM ts) < 6",
        "w = 'ticks1'", "px::BIGINT % 2 = 0", "nullif(id % 5, 0) > 2", "w IN ('ticks2', NULL)", "lower(w) LIKE '%1'",
    )  # fmt: skip

    def begin(self, served: Server) -> None:
        self.served = served

    def step(self) -> None:
        p = self.random.choice(self.CONDITIONS)
        if self.random.random() < 0.5:
            p = f"({p}) {self.random.choice(['AND', 'OR'])} NOT ({self.random.choice(self.CONDITIONS)})"
        parts = " + ".join(f"(SELECT count(*) FROM ticks WHERE {each})" for each in [p, f"NOT ({p})", f"({p}) IS NULL"])
        for one, other in [
            ("(SELECT count(*) FROM ticks)", parts),
            (f"(SELECT count(*) FROM ticks WHERE {p})", f"(SELECT coalesce(sum(CASE WHEN {p} THEN 1 ELSE 0 END), 0) FROM ticks)"),
            (f"(SELECT ts FROM ticks WHERE {p} ORDER BY ts DESC LIMIT 1)", f"(SELECT max(ts) FROM ticks WHERE {p})"),
            (f"(SELECT sum(c) FROM (SELECT count(*) AS c FROM ticks WHERE {p} GROUP BY ts::DATE, w))",
             f"(SELECT nullif(count(*), 0) FROM ticks WHERE {p})"),
        ]:  # fmt: skip
            ((same, left, right),) = self.served.rows(f"SELECT {one} IS NOT DISTINCT FROM {other}, {one}, {other}")
            assert same, f"{one} is {left}, {other} is {right}"

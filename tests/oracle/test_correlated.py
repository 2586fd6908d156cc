"""Sub-queries and LATERAL that read the query around them, in conditions, lists, aggregates and sub-queries of their own,
beside DuckDB: random statements, new ones each run."""

import os
import random

import duckdb
import pytest
import tickstone

SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
STATEMENTS = max(120, int(os.environ.get("TICKSTONE_STATEMENTS", "0")) // 10)

TABLES = {"p": ("e", "k"), "q": ("b", "c"), "r": ("b", "d")}


class Writer:
    """Writes statements over the tables; each table that it names has an alias of its own."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def value(self, scope: list[str], depth: int = 1) -> str:
        """An expression over columns in scope."""
        one = self.rng.choice(scope)
        match self.rng.randrange(6 if depth else 4):
            case 0 | 1:
                return one
            case 2:
                return f"{one} {self.rng.choice('+-*')} {self.rng.randint(1, 3)}"
            case 3:
                return f"CASE WHEN {one} > {self.rng.randint(0, 3)} THEN {self.rng.choice(scope)} END"
            case _:
                return f"{self.value(scope, 0)} + {self.value(scope, 0)}"

    def condition(self, own: list[str], around: list[str], depth: int) -> str:
        left, right = self.rng.choice(own), self.value(around, 0)
        match self.rng.randrange(8 if depth else 5):
            case 0 | 1:
                return f"{left} = {right}"
            case 2:
                return f"{left} {self.rng.choice(['<', '<=', '<>', '>'])} {right}"
            case 3:
                return f"({left} = {right} OR {left} IS NULL)"
            case 4:
                return f"{left} = {right} AND {self.value(own, 0)} > {self.rng.randint(0, 4)}"
            case 5:
                return f"{'NOT ' * self.rng.randrange(2)}EXISTS ({self.rows(own + around, depth - 1)[0]})"
            case _:
                return f"{left} {self.rng.choice(['<', '>='])} ({self.scalar(own + around, depth - 1)})"

    def source(self) -> tuple[str, list[str]]:
        table, alias = self.rng.choice(["q", "r"]), self.name()
        return f"{table} {alias}", [f"{alias}.{column}" for column in TABLES[table]]

    def scalar(self, around: list[str], depth: int) -> str:
        """A query of one value, which reads what is around."""
        if self.rng.random() < 0.15:
            return f"SELECT {self.value(around)}"
        if depth > 0 and self.rng.random() < 0.3:
            return f"SELECT ({self.scalar(around, depth - 1)})"
        source, own = self.source()
        if self.rng.random() < 0.2:
            # One row at most for most of the rows around, and more than one is an error of both.
            return f"SELECT {self.value(own)} FROM {source} WHERE {self.condition(own, around, depth)} AND {own[1]} = 1"
        of = self.rng.choice([self.rng.choice(own), f"{self.rng.choice(own)} * {self.value(around, 0)}"])
        call = self.rng.choice(["sum({})", "max({})", "min({})", "count({})", "count(DISTINCT {})"]).format(of)
        after = f" + {self.value(around, 0)}" if self.rng.random() < 0.2 else ""
        where = f" WHERE {self.condition(own, around, depth)}" if self.rng.random() < 0.9 else ""
        return f"SELECT {call}{after} FROM {source}{where}"

    def rows(self, around: list[str], depth: int) -> tuple[str, list[str]]:
        """A query of rows, and the names of its columns."""
        first, second = self.name(), self.name()
        if self.rng.random() < 0.25:
            where = f" WHERE {self.rng.choice(around)} > {self.rng.randint(0, 2)}" if self.rng.random() < 0.4 else ""
            return f"SELECT {self.value(around)} AS {first}, {self.value(around)} AS {second}{where}", [first, second]
        source, own = self.source()
        both = own + around
        items = [self.value(both), self.value(both)]
        if depth > 0 and self.rng.random() < 0.4:
            items[1] = f"({self.scalar(both, depth - 1)})"
        distinct = "DISTINCT " if self.rng.random() < 0.15 else ""
        where = f" WHERE {self.condition(own, around, depth)}" if self.rng.random() < 0.9 else ""
        return f"SELECT {distinct}{items[0]} AS {first}, {items[1]} AS {second} FROM {source}{where}", [first, second]

    def statement(self) -> str:
        outer = self.name()
        scope = [f"{outer}.{column}" for column in TABLES["p"]]
        source = f"p {outer}"
        for _ in range(self.rng.choice([0, 1, 1, 1, 2])):
            rows, columns = self.rows(scope, 2)
            alias = self.name()
            join = self.rng.choice([", LATERAL ({}) {}", " CROSS JOIN LATERAL ({}) {}", " LEFT JOIN LATERAL ({}) {} ON true"])
            source += join.format(rows, alias)
            scope += [f"{alias}.{column}" for column in columns]
        items = [self.rng.choice(scope), self.value(scope)]
        items += [f"({self.scalar(scope, 2)})" for _ in range(self.rng.randrange(3))]
        where = f" WHERE {self.condition(scope, scope, 1)}" if self.rng.random() < 0.3 else ""
        listed = ", ".join(f"{item} AS x{at}" for at, item in enumerate(items))
        return f"SELECT {listed} FROM {source}{where}"


@pytest.fixture(scope="module")
def both():
    ours, theirs = tickstone.Database(":memory:"), duckdb.connect()
    rng = random.Random(SEED)
    for name, columns in TABLES.items():
        made = f"CREATE TABLE {name} ({', '.join(f'{column} INT' for column in columns)})"
        rows = [[rng.choice([None, 0, 1, 2, 3]) for _ in columns] for _ in range(rng.randint(4, 9))]
        listed = ", ".join(f"({', '.join('NULL' if v is None else str(v) for v in row)})" for row in rows)
        for connection in (ours.sql, theirs.execute):
            connection(made)
            connection(f"INSERT INTO {name} VALUES {listed}")
    return ours, theirs


def test_statements_that_read_the_query_around_them(both):
    ours, theirs = both
    rng = random.Random(SEED)
    print(f"seed {SEED}, {STATEMENTS} statements")
    refused: dict[str, str] = {}
    differ, asked = [], 0
    key = lambda row: tuple((value is not None, value or 0) for value in row)  # noqa: E731
    for _ in range(STATEMENTS):
        sql = Writer(rng).statement()
        try:
            expected = sorted(theirs.execute(sql).fetchall(), key=key)
        except duckdb.Error:
            continue
        asked += 1
        try:
            found = sorted(ours.sql(sql).fetchall(), key=key)
        except tickstone.Error as error:
            # What reads nothing around is asked once, also where there is no row to ask it for.
            if "more than one row" in str(error) and expected:
                differ.append(f"{sql}\n  ours   {error}\n  theirs {expected[:8]}")
                continue
            refused.setdefault(str(error).splitlines()[0], sql)
            continue
        if found != expected:
            differ.append(f"{sql}\n  ours   {found[:8]}\n  theirs {expected[:8]}")
    for message, sql in refused.items():
        print(f"refused: {message}\n  {sql}")
    assert not differ, f"seed {SEED}: {len(differ)} of {asked} differ\n" + "\n".join(differ[:5])
    assert asked > STATEMENTS // 2

"""What asks one query in several ways, of tables in several states, and tells where the answers differ.

`Blind` holds the rows as frames without a designated timestamp, a series key, statistics or an order, and has the
identities that no optimizer sees through. What it answers is what the tables must answer.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
import tickstone
from tickstone.testing import assert_same
from tickstone.testing.comparing import Mismatch, rows_of
from tickstone.testing.states import STATES, TestTable

from inference import TYPES, Making, Query, blindfolded, plain

# Rules of the optimizer that can be switched, and settings that choose another way to the same answer.
SWITCHES = {
    "block_statistics": "false",
    "pipeline": "false",
    "deterministic_sums": "true",
    "datafusion.optimizer.enable_distinct_aggregation_soft_limit": "false",
    "datafusion.optimizer.enable_topk_aggregation": "false",
    "datafusion.optimizer.enable_window_limits": "false",
    "datafusion.optimizer.enable_unions_to_filter": "true",
    "datafusion.optimizer.filter_null_join_keys": "true",
    "datafusion.optimizer.prefer_hash_join": "false",
    "datafusion.optimizer.prefer_existing_sort": "true",
    "datafusion.optimizer.repartition_aggregations": "false",
    "datafusion.optimizer.repartition_joins": "false",
    "datafusion.optimizer.repartition_sorts": "false",
    "datafusion.optimizer.repartition_windows": "false",
    "datafusion.optimizer.top_down_join_key_reordering": "false",
    "datafusion.optimizer.join_reordering": "false",
    "datafusion.optimizer.max_passes": "3",
    "datafusion.execution.target_partitions": "1",
    "datafusion.execution.batch_size": "100",
}


@dataclass
class Finding:
    """A query that is answered wrongly, as small as it could be made."""

    query: Query
    how: str
    told: str


@dataclass
class World:
    """The same rows in tables of several states and blindfolded."""

    rng: random.Random
    blind: tickstone.Database
    states: Mapping[str, tickstone.Database]
    ids: Mapping[str, list[int]]
    asked: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    #: The last blindfolded text and its answer, which every state and setting is compared with.
    right: tuple[str, pa.Table | None] = ("", None)

    def value(self, expression: str) -> str | None:
        """An expression's value in some row."""
        name, table = ("b", "small") if "{b." in expression else ("a", "wide")
        if not self.ids[table]:
            return None
        return self.of_row(expression, name, table, self.rng.choice(self.ids[table]))

    def of_row(self, expression: str, name: str, table: str, row: int) -> str | None:
        """An expression's value in one row, as text."""
        sql = f"SELECT CAST({blindfolded(expression)} AS VARCHAR) FROM {table} {name} WHERE {name}.id = {row}"
        found = self.blind.sql(sql).fetchone()
        return None if found is None else found[0]

    def check(self, query: Query) -> Finding | None:
        """Asks a query in every way; what is wrong, made small."""
        for way in (self.states_agree, self.switched, self.partitioned, self.counted, self.pivoted):
            found = way(query)
            if found is not None:
                return found
        return None

    # --- the ways

    def states_agree(self, query: Query) -> Finding | None:
        """Every state answers as the blindfolded do."""
        for state, database in self.states.items():
            told = self.differs(query, database)
            if told is not None:
                smaller = self.shrunk(query, database)
                return Finding(smaller, state, self.differs(smaller, database) or told)
        return None

    def switched(self, query: Query) -> Finding | None:
        """A rule is off, or a setting another: the answer is the same."""
        name, value = self.rng.choice(list(SWITCHES.items()))
        state, database = self.rng.choice(list(self.states.items()))
        with setting(database, name, value):
            told = self.differs(query, database)
            if told is None:
                return None
            smaller = self.shrunk(query, database)
            return Finding(smaller, f"{state}, SET {name} = {value}", self.differs(smaller, database) or told)

    def partitioned(self, query: Query) -> Finding | None:
        """Of every condition, rows for which it is true, is false and is NULL are all rows (TLP)."""
        clause = "having" if query.group else "qualify" if " OVER " in query.text() else "where"
        if query.sets or query.distinct or query.totals or not query.source.startswith("wide a"):
            return None
        condition = self.third(query, clause)
        whole = replace(query, order=(), limit="", **({clause: ()} if clause != "where" else {}))
        state, database = self.rng.choice(list(self.states.items()))
        parts = [f"({condition})", f"NOT ({condition})", f"({condition}) IS NULL"]
        pieces = [replace(whole, **{clause: (*getattr(whole, clause), part)}) for part in parts]
        together = " UNION ALL ".join(f"({plain(each.text())})" for each in pieces)
        answers = [self.answer(database, sql) for sql in (plain(whole.text()), together)]
        if any(each is None for each in answers):
            return None
        told = mismatch(answers[1], answers[0], ordered=False, what="p, NOT p and p IS NULL together, and all rows")
        return None if told is None else Finding(pieces[0], f"{state}, TLP of {clause}: {plain(condition)}", told)

    def third(self, query: Query, clause: str) -> str:
        """A condition that may stand in a clause."""
        making = Making(self.rng, self.value)
        if clause == "where":
            return making.condition("a")
        if clause == "qualify":
            over = f"OVER (PARTITION BY {making.key('a')} ORDER BY {making.key('a')}, {{a.id}})"
            return f"{self.rng.choice(['lag', 'lead', 'max'])}({{a.id}}) {over} > {{a.n}}"
        key = self.rng.choice(query.group)
        of_key = [f"{key} = {key}", f"{key} IS NULL"]
        return self.rng.choice([*of_key, "max({a.x}) > min({a.n})", f"count(DISTINCT {making.key('a')}) > 2"])

    def counted(self, query: Query) -> Finding | None:
        """The rows that a condition leaves are as many as those for which it is true (NoREC)."""
        condition = " AND ".join(query.where)
        if not condition or "SELECT" in condition or not query.source.startswith("wide a"):
            return None
        state, database = self.rng.choice(list(self.states.items()))
        left = Query(("count(*)",), query.source, query.where)
        true = Query((f"coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0)",), query.source)
        answers = [self.answer(database, plain(each.text())) for each in (left, true)]
        if any(each is None for each in answers):
            return None
        told = mismatch(answers[0], answers[1], ordered=False, what="rows that are left, and those for which it is true")
        return None if told is None else Finding(left, f"{state}, NoREC", told)

    def pivoted(self, query: Query) -> Finding | None:
        """A row for which a condition is made true is there (PQS)."""
        if not self.ids["wide"]:
            return None
        making = Making(self.rng, self.value)
        row = self.rng.choice(self.ids["wide"])
        conditions = []
        for _ in range(self.rng.choice([1, 2])):
            condition = making.condition("a")
            value = self.of_row(f"({condition})", "a", "wide", row)
            true_of_it = {"true": f"({condition})", "false": f"NOT ({condition})", None: f"({condition}) IS NULL"}
            conditions.append(true_of_it[value])
        key = making.key("a")
        order = self.rng.choice([(), (f"{key} DESC",)])
        state, database = self.rng.choice(list(self.states.items()))
        pivot = Query(("{a.id}", key), "wide a", tuple(conditions), order=order)
        found = self.answer(database, plain(pivot.text()))
        if found is None:
            return None
        wanted = self.blind.sql(blindfolded(Query(("{a.id}", key), "wide a").text()) + f" WHERE a.id = {row}").arrow()
        rows = [each for each in rows_of(found) if each[0] == row]
        told = mismatch(rows, rows_of(wanted), ordered=False, what=f"the row of id {row}")
        return None if told is None else Finding(pivot, f"{state}, PQS", told)

    # --- answers

    def answer(self, database: tickstone.Database, sql: str) -> pa.Table | None:
        """What a database answers, None where it refuses, which is counted."""
        self.asked += 1
        try:
            return database.sql(sql).arrow()
        except tickstone.Error as error:
            if error.kind == "report":
                raise
            message = str(error).splitlines()[0][:60]
            self.refused[message] = self.refused.get(message, 0) + 1
            return None

    def differs(self, query: Query, database: tickstone.Database) -> str | None:
        """How the answer of a database differs from that of the blindfolded; None where it does not, or either refuses."""
        sql = blindfolded(query.text())
        try:
            if self.right[0] != sql:
                self.right = (sql, self.answer(self.blind, sql))
        except BaseException as error:
            interrupted(error)
            return f"blindfolded: {type(error).__name__}: {str(error)[:300]}"
        theirs = self.right[1]
        if theirs is None:
            return None
        try:
            ours = self.answer(database, plain(query.text()))
        except BaseException as error:
            interrupted(error)
            return f"{type(error).__name__}: {str(error)[:300]}"
        return None if ours is None else mismatch(ours, theirs, ordered=query.ordered, what="")

    def shrunk(self, query: Query, database: tickstone.Database) -> Query:
        """The query with all taken away that it is wrong without."""
        small = query
        while True:
            less = next((each for each in small.smaller() if self.differs(each, database) is not None), None)
            if less is None:
                return small
            small = less


def interrupted(error: BaseException) -> None:
    """Raises what ends the run, and not what a query raised: a panic of Rust is no Exception."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        raise error


def mismatch(ours: object, theirs: object, *, ordered: bool, what: str) -> str | None:
    """How two answers differ."""
    try:
        assert_same(ours, theirs, ordered=ordered, what=what, names=("answered", "right"))
    except Mismatch as error:
        return str(error)
    return None


@contextmanager
def setting(database: tickstone.Database, name: str, value: str) -> Iterator[None]:
    """A setting, for a while."""
    before = database.sql(f"SHOW {name}").fetchall()[0][-1]
    database.sql(f"SET {name} = {value}")
    try:
        yield
    finally:
        database.sql(f"SET {name} = {before}")


@contextmanager
def opened(rng: random.Random, states: tuple[str, ...], **frames: pa.Table) -> Iterator[World]:
    """The frames in tables of these states, and blindfolded."""
    tables = {name: TestTable(rows, "ts", "k") for name, rows in frames.items()}
    with ExitStack() as stack:
        blind = stack.enter_context(tickstone.open(":memory:"))
        for name, rows in frames.items():
            blind.register(name, rows)
        for kind, type_ in TYPES.items():
            blind.create_function(f"seen_{kind}", lambda values: values, [type_], type_, null_handling="special")
        held = {name: stack.enter_context(STATES[name].opened(tables)) for name in states}
        ids = {name: rows.column("id").to_pylist() for name, rows in frames.items()}
        yield World(rng, blind, held, ids)

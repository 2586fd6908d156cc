"""Random statements against DuckDB: every one cold, through a kept plan, with other literals and with parameters, in
some of the states that rows can be in.

`TICKSTONE_STATEMENTS` says how many (the default takes about a minute in the dev profile), `TICKSTONE_SEED` from
which seed; without it each run has new ones, and what fails prints its own.
"""

import os
import random
from itertools import islice

import duckdb
import pytest
import tickstone
from tickstone.testing import STATES, asking
from tickstone.testing.comparing import Mismatch, assert_same

from statements import TABLES, Statement, statements, table

COUNT = int(os.environ.get("TICKSTONE_STATEMENTS", "1500"))
SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
# Statements about the same tables, and the states they are asked in.
WORLD_STATEMENTS = 50
WORLD_STATES = 1
# What a statement that is refused says, and how many may be: one in so many.
REFUSALS = (
    "not supported",
    "does not support",
    # Of DataFusion 55.2: a UNION of times some of which are designated, a sort kept across one that is not there, and
    # rows numbered by two columns that are one, as EXCEPT ALL numbers them.
    "Physical input schema should be the same",
    "does not satisfy order requirements",
    "Expects PARTITION BY expression to be ordered",
    # Grouping by x and by a cast of x that are both selected.
    "two columns of the result have one name",
)
REFUSED_MAX = 25
# Failures that are shown before a run ends.
SHOWN_MAX = int(os.environ.get("TICKSTONE_SHOWN", "5"))


class Asked:
    """What became of the statements of a run."""

    def __init__(self) -> None:
        self.compared, self.refused = 0, 0
        self.failures: list[str] = []


def answers(database: tickstone.Database, statement: Statement, other: Statement):
    """The ways to ask: first, again, about other values, and with parameters; each with whose answer it must be."""
    yield "cold", statement, lambda: database.sql(statement.tick()).arrow()
    yield "again", statement, lambda: database.sql(statement.tick()).arrow()
    yield "other literals", other, lambda: database.sql(other.tick()).arrow()
    yield "parameters", statement, lambda: database.sql(*statement.with_parameters()).arrow()


def ask(statement: Statement, rng: random.Random, questions, asked: Asked) -> None:
    """Asks one statement everywhere and every way."""
    other = statement.with_other_literals(rng)
    theirs = {}
    for each in (statement, other):
        try:
            theirs[each] = questions.peer.sql(each.duck()).to_arrow_table()
        except duckdb.Error:
            # No statement there: nothing to compare with.
            continue
    for state, database in questions.states.items():
        for way, of, run in answers(database, statement, other):
            if of not in theirs:
                continue
            try:
                assert_same(run(), theirs[of], ordered=of.ordered, what=f"{state}, {way}", names=("tickstone", "duckdb"))
            except (Mismatch, tickstone.Error) as error:
                if isinstance(error, tickstone.Error) and any(words in str(error) for words in REFUSALS):
                    asked.refused += 1
                    return
                asked.failures.append(f"{error}\n  {of.tick()}\n  DuckDB: {of.duck()}")
                return
            asked.compared += 1


@pytest.mark.filterwarnings("ignore")
def test_random_statements_answer_as_duckdb():
    asked = Asked()
    left, world = COUNT, 0
    while left > 0 and len(asked.failures) < SHOWN_MAX:
        seed = SEED + world
        rng = random.Random(seed)
        frames = {name: table(rng) for name in TABLES}
        states = rng.sample(sorted(STATES), WORLD_STATES)
        known = len(asked.failures)
        with asking(states=states, timestamp="ts", series="k", **frames) as questions:
            for statement in islice(statements(rng), min(left, WORLD_STATEMENTS)):
                ask(statement, rng, questions, asked)
        asked.failures[known:] = [f"TICKSTONE_SEED={seed}: {failure}" for failure in asked.failures[known:]]
        left, world = left - WORLD_STATEMENTS, world + 1
    print(f"seeds {SEED} to {SEED + world - 1}: {asked.compared} answers compared")
    assert not asked.failures, "\n\n".join(asked.failures)
    assert asked.refused * REFUSED_MAX <= COUNT, f"{asked.refused} statements were refused"

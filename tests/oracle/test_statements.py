"""Random statements against DuckDB: every one cold, through a kept plan, with other literals, with parameters and with a
rule or setting switched, in the states that rows can be in, each of which every run has.

`TICKSTONE_STATEMENTS` says how many (the default takes about a minute in the dev profile), `TICKSTONE_SEED` from
which seed; without it each run has new ones (CI draws from the hash of the commit), and what fails prints its own. A
statement that ends the process is found in the file that `TICKSTONE_LAST` names. `switches.py` says what is
generated.
"""

import os
import random
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import tickstone
from tickstone.testing import STATES, asking
from tickstone.testing.comparing import Mismatch, assert_same

from blindfold import SWITCHES, setting
from pieces import TABLES, Statement, table
from statements import statements

COUNT = int(os.environ.get("TICKSTONE_STATEMENTS", "640"))
SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
LAST = os.environ.get("TICKSTONE_LAST")
# Statements about the same tables, and the states they are asked in: one after the other, so that a run has them all.
WORLD_STATEMENTS = max(1, min(50, COUNT // len(STATES)))
WORLD_STATES = 2
# What a statement that is refused says, and how many may be: one in so many. Each is a known limit.
REFUSALS = (
    # Queries that are correlated otherwise than by equality.
    "of the query around it, for each row anew, which is not supported",
    # The negative of a BIGINT UNSIGNED, such as the length of an array.
    "Unary operator '-' only supports signed numeric",
    # Of DataFusion 55.2: a UNION of times some of which are designated, a sort kept across one that is not there, and
    # rows numbered by two columns that are one, as EXCEPT ALL numbers them.
    "Physical input schema should be the same",
    "does not satisfy order requirements",
    "Expects PARTITION BY expression to be ordered",
    # Of DataFusion 55.2: NOT IN of a correlated query, beside another condition once NOT has been taken through OR.
    "null_aware anti join only supports single column join key",
)
REFUSED_MAX = 25
# Failures that are shown before a run ends.
SHOWN_MAX = int(os.environ.get("TICKSTONE_SHOWN", "5"))


class Asked:
    """What became of the statements of a run."""

    def __init__(self) -> None:
        self.compared, self.unknown = 0, 0
        self.refused: Counter[str] = Counter()
        self.failures: list[str] = []


def answers(database: tickstone.Database, statement: Statement, other: Statement, switch: tuple[str, str]):
    """The ways to ask: first, again, about other values, with parameters, and switched; each with whose answer it must be."""

    def switched() -> pa.Table:
        with setting(database, *switch):
            return database.sql(statement.tick()).arrow()

    yield "cold", statement, lambda: database.sql(statement.tick()).arrow()
    yield "again", statement, lambda: database.sql(statement.tick()).arrow()
    yield "other literals", other, lambda: database.sql(other.tick()).arrow()
    yield "parameters", statement, lambda: database.sql(*statement.with_parameters()).arrow()
    yield " = ".join(switch), statement, switched


def ask(statement: Statement, rng: random.Random, questions, asked: Asked) -> None:
    """Asks one statement everywhere and every way."""
    other = statement.with_other_literals(rng)
    theirs = {}
    for each in (statement, other):
        try:
            answer = questions.peer.sql(each.duck()).to_arrow_table()
        except duckdb.Error:
            # No statement there: nothing to compare with.
            asked.unknown += 1
            continue
        # DuckDB 2.0.0 gives four rows of LIMIT 3 now and then.
        limit = re.search(r" LIMIT (\d+)(?: OFFSET \d+)?$", each.duck())
        if limit and answer.num_rows > int(limit[1]):
            asked.unknown += 1
            continue
        theirs[each] = answer
    for state, database in questions.states.items():
        for way, of, run in answers(database, statement, other, rng.choice(list(SWITCHES.items()))):
            if of not in theirs:
                continue
            try:
                assert_same(run(), theirs[of], ordered=of.ordered, what=f"{state}, {way}", names=("tickstone", "duckdb"))
            except (KeyboardInterrupt, SystemExit):
                raise
            # A panic of Rust is no Exception.
            except BaseException as error:
                known = [words for words in REFUSALS if isinstance(error, tickstone.Error) and words in str(error)]
                asked.refused.update(known[:1])
                if known:
                    return
                asked.failures.append(failure(error, state, way, of))
                return
            asked.compared += 1


def failure(error: BaseException, state: str, way: str, statement: Statement) -> str:
    """What is said of a failure: its kind, what of the switches is in the statement, and the statement."""
    kind = type(error).__name__ + (f" of kind {error.kind!r}" if isinstance(error, tickstone.Error) else "")
    told = str(error) if isinstance(error, Mismatch) else f"{state}, {way}: {kind}: {error}"
    uses = f"[{', '.join(sorted(statement.uses))}] " if statement.uses else ""
    return f"{uses}{told}\n  {statement.tick()}\n  DuckDB: {statement.duck()}"


def states_of(seed: int, rng: random.Random) -> list[str]:
    """One state by the seed, so that as many seeds as there are states have them all, and others by chance."""
    names = sorted(STATES)
    first = names.pop(seed % len(names))
    return [first, *rng.sample(names, WORLD_STATES - 1)]


@pytest.mark.filterwarnings("ignore")
def test_random_statements_answer_as_duckdb():
    asked = Asked()
    left, world = COUNT, 0
    while left > 0 and len(asked.failures) < SHOWN_MAX:
        seed = SEED + world
        rng = random.Random(seed)
        frames = {name: table(rng) for name in TABLES}
        states = states_of(seed, rng)
        known = len(asked.failures)
        with asking(states=states, timestamp="ts", series="k", **frames) as questions:
            for statement in islice(statements(rng), min(left, WORLD_STATEMENTS)):
                if LAST:
                    Path(LAST).write_text(f"TICKSTONE_SEED={seed} in {states}: {statement.tick()}\n")
                ask(statement, rng, questions, asked)
        asked.failures[known:] = [f"TICKSTONE_SEED={seed}: {failure}" for failure in asked.failures[known:]]
        left, world = left - WORLD_STATEMENTS, world + 1
    print(
        f"seeds {SEED} to {SEED + world - 1}: {asked.compared} answers compared, {asked.unknown} unknown to DuckDB, "
        f"refused: {dict(asked.refused)}"
    )
    assert not asked.failures, "\n\n".join(asked.failures)
    assert asked.refused.total() * REFUSED_MAX <= COUNT, f"{asked.refused} statements were refused"

"""Random queries whose answers nothing may change that is inferred: asked as they are, and blindfolded (`blindfold`).

Each query goes to tables in memory, in parts and after recovery, and to one more state by chance; with a rule of the
optimizer off or a setting another; cut in three by a condition (TLP), with its condition counted (NoREC), and with a
condition that holds for a row (PQS).

`TICKSTONE_STATEMENTS` says how many, `TICKSTONE_SEED` from which seed; without it each run has new ones, and what fails
prints its own. `TICKSTONE_SHOWN` failures end a run. A statement that ends the process is found in the file that
`TICKSTONE_LAST` names.
"""

import os
import random
from pathlib import Path

from blindfold import Finding, World, opened
from inference import Making, blindfolded, plain, rows
from tickstone.testing import STATES

COUNT = int(os.environ.get("TICKSTONE_STATEMENTS", "60"))
SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
LAST = os.environ.get("TICKSTONE_LAST")
SHOWN_MAX = int(os.environ.get("TICKSTONE_SHOWN", "5"))
# Statements about the same tables: more of them for long runs, since filling tables takes as long as asking dozens.
WORLD_STATEMENTS = int(os.environ.get("TICKSTONE_WORLD_STATEMENTS", "30"))
ALWAYS = ("memory", "parts", "reopened")


def said(finding: Finding, seed: int, at: int) -> str:
    """What is said of a failure, and how it is repeated."""
    return (
        f"TICKSTONE_SEED={seed} TICKSTONE_STATEMENTS={at + 1} TICKSTONE_WORLD_STATEMENTS={WORLD_STATEMENTS} ({finding.how}): {finding.told}\n"
        f"  {plain(finding.query.text())}\n  blindfolded: {blindfolded(finding.query.text())}"
    )


def asked(world: World, seed: int, count: int) -> list[str]:
    """Asks so many statements; what failed."""
    failures = []
    making = Making(world.rng, world.value)
    for at in range(count):
        query = making.query()
        if LAST:
            Path(LAST).write_text(f"TICKSTONE_SEED={seed} TICKSTONE_STATEMENTS={at + 1}: {plain(query.text())}\n")
        finding = world.check(query)
        if finding is not None:
            failures.append(said(finding, seed, at))
            if len(failures) == SHOWN_MAX:
                break
    return failures


def test_nothing_is_inferred_that_does_not_hold():
    failures: list[str] = []
    left, seed, ways, refused = COUNT, SEED, 0, 0
    while left > 0 and len(failures) < SHOWN_MAX:
        rng = random.Random(seed)
        wide, small = rows(rng, rng.choice([0, 500, 2_000, 5_000])), rows(rng, rng.choice([0, 1, 12, 40]))
        states = (*ALWAYS, rng.choice(sorted(set(STATES) - set(ALWAYS))))
        with opened(rng, states, wide=wide, small=small) as world:
            failures += asked(world, seed, min(left, WORLD_STATEMENTS))
            ways, refused = ways + world.asked, refused + sum(world.refused.values())
        left, seed = left - WORLD_STATEMENTS, seed + 1
    print(f"seeds {SEED} to {seed - 1}: {ways} answers, {refused} refused")
    assert not failures, "\n\n".join(failures)
    assert refused * 5 <= ways, f"{refused} of {ways} were refused"

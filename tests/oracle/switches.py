"""What statements may have that one of the two systems answers wrongly or refuses today.

Each is generated where it is on, and its failures say its name, so that those of one cause are seen together.
`TICKSTONE_WITHOUT="NOT IN below OR"` switches off for a run, `TICKSTONE_WITH="SIMILAR TO,DECIMAL beside DOUBLE"` on.
"""

import os

# Off is what Tickstone answers wrongly or refuses; it is switched on for good when that is mended.
SWITCHES = {
    # A NULL among the values is passed over.
    "NOT IN below OR": True,
    # A condition on them goes below the aggregate, whose one row stays.
    "constants beside aggregates": True,
    # All keys of a join are compared as one of them is: NULL with NULL, or not.
    "joins by IS NOT DISTINCT FROM": True,
    # The pattern is sought within the text.
    "SIMILAR TO": True,
    # The DOUBLE becomes a DECIMAL(30, 15): digits are lost, NaN and infinities are refused.
    "DECIMAL beside DOUBLE": True,
    # A length of nanoseconds is less than any of days.
    "lengths of days": True,
    # A DATE stays one, and the time of day is lost.
    "DATE and hours": True,
    # No row of the aggregate where nothing correlates.
    "EXISTS of an aggregate": True,
    # Days are taken for something else.
    "RANGE of whole days": True,
    # The statement meets a defect: "assertion failed".
    "ORDER BY a key twice": True,
    # Refused, "column does not exist": expressions of doubles there.
    "GROUPING SETS of doubles": True,
    # and -0.0 before 0.0.
    "DISTINCT ON of doubles": True,
    # The statement meets a defect: an empty dictionary of patterns.
    "LIKE of two SYMBOLs": True,
    # A defect beside others whose arguments are expressions of doubles; an error to report beside frames of RANGE.
    "windows by expressions": True,
    # A defect: it calculates with what is under a NULL.
    "date_trunc of what DISTINCT gives": True,
    # An error to report: bounds of a difference of days have another type.
    "differences of days compared": True,
    # The cast goes from the condition, and with it the rounding.
    "conditions on a DECIMAL cast to fewer digits": True,
    # Refused: the type is another one than was planned.
    "round of a DECIMAL": True,
    # NaN: infinity less infinity.
    "quantiles between infinities": True,
    # Refused: "conflicting ordering requirements", "must appear in argument list".
    "string_agg of two orders": False,
    "string_agg DISTINCT of a SYMBOL": False,
    # Refused: "null_aware anti join only supports single column join key".
    "correlated NOT IN without NULL": True,
    # Refused: "invalid comparison operation".
    "IN of DECIMALs of several scales": True,
    # Refused as if it were no equality, and "column is in more than one table".
    "LATERAL by doubles": False,
    "LATERAL that names its key": False,
    # DataFusion 55.2 makes one list of two:
    "two lists": True,
    # FALSE of a NULL, and TRUE where both are NOT IN.
    "lists with nothing in common, of NULL": True,
    # Refused where the condition turns out to be FALSE.
    "LATERAL of no row": False,
    # Refused: conditions with queries outside of WHERE and HAVING.
    "queries beside columns": True,
    # Refused: reading columns of the query around it otherwise than by equality.
    "correlated by less": True,
}


def listed(name: str) -> list[str]:
    """The names in a variable of the environment; an unknown one is a mistake."""
    names = [each.strip() for each in os.environ.get(name, "").split(",") if each.strip()]
    unknown = sorted(set(names) - set(SWITCHES))
    assert not unknown, f"{name} has {unknown}, there are {sorted(SWITCHES)}"
    return names


#: The switches of this run.
ON = frozenset({name for name, on in SWITCHES.items() if on} | set(listed("TICKSTONE_WITH"))) - set(listed("TICKSTONE_WITHOUT"))

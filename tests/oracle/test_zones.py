"""Times in zones against Python's zoneinfo: random zones, strides and instants, most of them near a change of clocks."""

import bisect
import datetime
import random
import zoneinfo

import pytest

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
MINUTE = datetime.timedelta(minutes=1)
# Clocks that are put forward and back, by an hour and by half of one, at midnight and at a minute past it.
ZONES = [
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/Havana",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Beirut",
    "UTC",
]
STRIDES = [5, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720]
ROWS = 400


def minutes_of_clock(minute: int, zone: zoneinfo.ZoneInfo) -> int:
    """What the clocks of a zone show at a minute since 1970, in minutes since 1970."""
    shown = (EPOCH + minute * MINUTE).astimezone(zone)
    return minute + int(shown.utcoffset().total_seconds()) // 60


def starts(first: int, last: int, stride: int, zone: zoneinfo.ZoneInfo) -> list[int]:
    """The minutes at which the clocks show a multiple of the stride, or jump over one."""
    found = []
    before = minutes_of_clock(first - 1, zone) // stride
    for minute in range(first, last + 1):
        clock = minutes_of_clock(minute, zone)
        if clock % stride == 0 or clock // stride != before:
            found.append(minute)
        before = clock // stride
    return found


def instant_of(clock: datetime.datetime, zone: zoneinfo.ZoneInfo) -> datetime.datetime:
    """As PostgreSQL: the last of two instants, and as the offset before a gap has it."""
    both = [clock.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    utc = [one.astimezone(datetime.timezone.utc) for one in both]
    there = [one for one in utc if one.astimezone(zone).replace(tzinfo=None) == clock]
    return there[-1] if there else utc[0]


@pytest.mark.parametrize("seed", range(3))
def test_times_in_zones(tickstone, seed):
    seed = seed or random.randrange(1 << 32)
    chance = random.Random(seed)
    years = [2010 + chance.randrange(14) for _ in range(3)]
    changes = [datetime.datetime(year, month, 1, tzinfo=datetime.timezone.utc) for year, month in zip(years, (3, 10, 11))]
    minutes = sorted((chance.choice(changes) - EPOCH) // MINUTE + chance.randrange(34 * 24 * 60) for _ in range(ROWS))
    rows = ", ".join(f"('{(EPOCH + minute * MINUTE):%Y-%m-%dT%H:%M:%S}Z', {at})" for at, minute in enumerate(minutes))
    create = "CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY MONTH"
    tickstone.run("sql", "-c", f"{create}; INSERT INTO t VALUES {rows}")
    for zone in chance.sample(ZONES, 3):
        tz = zoneinfo.ZoneInfo(zone)
        for stride in chance.sample(STRIDES, 2):
            expected: dict[int, int] = {}
            for low in range(0, len(minutes), 20):
                some = minutes[low : low + 20]
                known = starts(some[0] - 3 * 24 * 60, some[0], stride, tz)
                for minute in some:
                    known = known if minute - known[-1] < 24 * 60 else starts(minute - 3 * 24 * 60, minute, stride, tz)
                    known += starts(known[-1] + 1, minute, stride, tz)
                    start = known[bisect.bisect_right(known, minute) - 1]
                    expected[start] = expected.get(start, 0) + 1
            for asked in (
                f"SELECT ts, count(*) AS n FROM t SAMPLE BY {stride}m ALIGN TO CALENDAR TIME ZONE '{zone}' ORDER BY ts",
                f"SELECT time_bucket('{stride}m', ts, '{zone}') AS ts, count(*) AS n FROM t GROUP BY 1 ORDER BY 1",
            ):
                found = tickstone.table(asked).to_pydict()
                times = ((ts.replace(tzinfo=datetime.timezone.utc) - EPOCH) // MINUTE for ts in found["ts"])
                given = dict(zip(times, found["n"]))
                assert given == expected, f"seed {seed}: {asked}"
        days: dict[datetime.datetime, int] = {}
        for minute in minutes:
            clock = (EPOCH + minute * MINUTE).astimezone(tz).replace(tzinfo=None)
            day = instant_of(clock.replace(hour=0, minute=0), tz)
            days[day] = days.get(day, 0) + 1
        asked = f"""SELECT date_trunc('day', ts AT TIME ZONE '{zone}') AT TIME ZONE '{zone}' AS day, count(*) AS n
                    FROM t GROUP BY 1 ORDER BY 1"""
        found = tickstone.table(asked).to_pydict()
        given = {ts.replace(tzinfo=datetime.timezone.utc): n for ts, n in zip(found["day"], found["n"])}
        assert given == days, f"seed {seed}: {asked}"

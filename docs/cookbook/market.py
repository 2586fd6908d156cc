"""What the notebooks of the cookbook share: generated markets, cells of SQL, and the comparison of answers.

Everything is made from a seed, so that each run has the same rows. Times are in UTC and to the nanosecond, as the
database has them; sessions are given in the time of their exchange.
"""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

NEW_YORK = "America/New_York"
NANOSECONDS = 1_000_000_000


def instant(day: date, at: time, zone: str = NEW_YORK) -> int:
    """Nanoseconds since 1970 (UTC) of a time of day on the clocks of a zone."""
    return int(datetime.combine(day, at, ZoneInfo(zone)).timestamp()) * NANOSECONDS


def ticks(
    seed: int,
    symbols: Sequence[str],
    days: Sequence[date],
    *,
    quotes: int = 1500,
    trades: int = 500,
    venues: Sequence[str] = ("X",),
    opens: time = time(9, 30),
    closes: time = time(16),
    zone: str = NEW_YORK,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Quotes and trades: so many of each symbol on each day, more of them near the open and the close.

    Buyers lift the ask and move the price up, sellers hit the bid and move it down; one trade in seven is at the
    midpoint, and one in twenty is a second print at the time of the one before. `side` is the side that was in a
    hurry. Each quote is of one venue, and a venue that has not quoted for a while may be beside the market.
    """
    random = np.random.default_rng(seed)
    asked, done, last_id = [], [], 0
    for number, symbol in enumerate(symbols):
        start = 20.0 * 1.6**number
        price = start
        for day in days:
            begin, end = instant(day, opens, zone), instant(day, closes, zone)
            quoted = _times(random, begin, end, quotes)
            traded = _times(random, begin, end, trades)
            again = (random.random(trades) < 0.05) & (np.arange(trades) > 0)
            traded = traded[np.maximum.accumulate(np.where(again, 0, np.arange(trades)))]
            at_trade = random.random(quotes) < 0.02  # an answer to a trade, at its very time
            quoted[at_trade] = random.choice(traded, at_trade.sum())
            quoted.sort()

            sign = np.where(random.random(trades) < 0.5 + 0.1 * np.sin(np.arange(trades) / 40), 1, -1)
            size = 100 * random.geometric(0.35, trades)
            moves = np.concatenate([random.normal(0, 1.5e-4, quotes), 4e-5 * sign * np.sqrt(size / 100)])
            order = np.argsort(np.concatenate([quoted, traded]), kind="stable")
            fair = np.empty(quotes + trades)
            fair[order] = price * np.exp(np.cumsum(moves[order]))
            price = fair[order[-1]]

            middle, wide = fair[:quotes], start * random.uniform(0.5e-4, 3e-4, quotes)
            bid = np.floor((middle - wide) * 100).round() / 100
            ask = np.ceil((middle + wide) * 100).round() / 100
            asked.append({
                "ts": quoted, "symbol": np.full(quotes, symbol), "venue": random.choice(venues, quotes),
                "bid": bid, "ask": ask,
                "bid_size": 100 * random.geometric(0.2, quotes), "ask_size": 100 * random.geometric(0.2, quotes),
            })
            stood = np.maximum(np.searchsorted(quoted, traded, side="left") - 1, 0)
            inside = random.random(trades) < 1 / 7
            hit = np.where(sign > 0, ask[stood], bid[stood])
            done.append({
                "ts": traded, "symbol": np.full(trades, symbol),
                "side": np.where(sign > 0, "buy", "sell"),
                "price": np.where(inside, ((bid[stood] + ask[stood]) / 2).round(3), hit),
                "size": size, "id": np.arange(last_id + 1, last_id + trades + 1),
            })
            last_id += trades
    return _frame(asked), _frame(done)


def minutes(seed: int, symbols: Sequence[str], days: Sequence[date]) -> pl.DataFrame:
    """The last price of each minute of New York's session; prices share one factor, each in its own measure."""
    random = np.random.default_rng(seed)
    at = np.concatenate([instant(day, time(9, 30)) + np.arange(390) * 60 * NANOSECONDS for day in days])
    common = random.normal(0, 3e-4, len(at))
    return _frame([
        {
            "ts": at, "symbol": np.full(len(at), symbol),
            "price": (40 * np.exp(np.cumsum(random.uniform(0.2, 1.8) * common + random.normal(0, 4e-4, len(at))))).round(4),
        }
        for symbol in symbols
    ])


def daily(seed: int, symbols: Sequence[str], first: date, count: int) -> pl.DataFrame:
    """Daily bars of `count` weekdays, stamped at midnight UTC; symbols share one factor."""
    random = np.random.default_rng(seed)
    days, day = [], first
    while len(days) < count:
        if day.weekday() < 5:
            days.append(day)
        day += timedelta(days=1)
    at = np.array(days, dtype="datetime64[ns]").astype(np.int64)
    common = random.normal(3e-4, 8e-3, count)
    frames = []
    for number, symbol in enumerate(symbols):
        steps = (0.5 + 0.3 * number) * common + random.normal(0, 0.01, count)
        close = 50 * np.exp(np.cumsum(steps))
        open_ = np.concatenate([[50.0], close[:-1]]) * np.exp(random.normal(0, 0.003, count))
        high = np.maximum(open_, close) * np.exp(np.abs(random.normal(0, 0.005, count)))
        low = np.minimum(open_, close) * np.exp(-np.abs(random.normal(0, 0.005, count)))
        frames.append({
            "ts": at, "symbol": np.full(count, symbol), "open": open_.round(4), "high": high.round(4) + 1e-4,
            "low": low.round(4) - 1e-4, "close": close.round(4), "volume": random.integers(1_000, 90_000, count) * 100,
        })
    return _frame(frames)


def _times(random: np.random.Generator, begin: int, end: int, count: int) -> np.ndarray:
    """Sorted times in a session, crowded at both ends of it."""
    return np.sort(begin + (random.beta(0.7, 0.7, count) * (end - begin)).astype(np.int64))


def _frame(pieces: list[dict[str, np.ndarray]]) -> pl.DataFrame:
    """The pieces one below the other, in order of time; what came first stays first among equal times."""
    whole = pl.concat([pl.DataFrame(piece) for piece in pieces])
    return whole.with_columns(pl.from_epoch("ts", time_unit="ns")).sort("ts", maintain_order=True)


def sql_cells(db, rows: int = 4) -> None:
    """From now on a cell that begins with `%%sql NAME` is SQL: it shows the first rows, and NAME is the relation."""
    from IPython import get_ipython

    shell = get_ipython()

    def sql(name: str, text: str) -> None:
        relation = db.sql(text)
        if name:
            shell.user_ns[name] = relation
        if relation.columns:
            relation.show(rows)

    shell.register_magic_function(sql, "cell", "sql")


def same(got, want: pl.DataFrame, by: Sequence[str] | str, *, relative: float = 1e-9, absolute: float = 0.0) -> bool:
    """Whether a relation or frame has the columns and rows of another, whose keys are `by`; says what differs.

    Floats may differ by a share of the larger one, or by an absolute amount where a sum is of both signs.
    """
    got = _plain(got if isinstance(got, pl.DataFrame) else got.polars()).sort(by)
    want = _plain(want).sort(by)
    if sorted(got.columns) != sorted(want.columns):
        print(f"columns {got.columns} and not {want.columns}")
        return False
    if got.height != want.height:
        print(f"{got.height} rows and not {want.height}")
        return False
    for name in want.columns:
        left, right = got[name], want[name]
        if left.dtype.is_numeric() and right.dtype.is_numeric():
            left, right = left.cast(pl.Float64), right.cast(pl.Float64)
            most = pl.max_horizontal(left.abs(), right.abs()) * relative + absolute
            near = ((left - right).abs() <= most) & left.is_finite() & right.is_finite()
            equal = pl.select((left == right) | near).to_series()
        else:
            equal = left == right
        wrong = ~(equal.fill_null(False) | (left.is_null() & right.is_null()))
        if wrong.any():
            at = wrong.arg_max()
            print(f"{name} is {left[at]} and not {right[at]} at {want.select(by).row(at)}; {wrong.sum()} rows differ")
            return False
    return True


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Symbols as text, and times to the nanosecond."""
    for name, kind in frame.schema.items():
        if kind == pl.Categorical or isinstance(kind, pl.Enum):
            frame = frame.with_columns(pl.col(name).cast(pl.String))
        elif isinstance(kind, pl.Datetime):
            frame = frame.with_columns(pl.col(name).cast(pl.Datetime("ns")))
    return frame

"""Charts of results: candles, the depth of a book, the spread over time, lines.

`Relation.plot()` leads here. Needs plotly and NumPy: `pip install 'tickstone[plot]'`. The kind is taken
from the names of the columns, whatever their case:

- `candles`: open, high, low and close; with volume, that in a panel below.
- `depth`: price and size by side, or the numbered levels of one book (`b1price`, `b1size`, `a1price`, …).
- `spread`: bid and ask, or a column spread, over time.
- `lines`: every numeric column over time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    import numpy as np
    import plotly.graph_objects as go

    from tickstone.relation import Relation

__all__ = ["Kind", "figure"]

Kind: TypeAlias = Literal["candles", "depth", "spread", "lines"]

PRICES = ("open", "high", "low", "close")
SIZES = ("size", "amount", "quantity", "qty", "volume", "sz")
TIMES = ("ts", "timestamp", "time", "bucket")
SERIES = ("symbol", "sym", "ticker", "instrument")
BIDS = ("bid", "b", "buy", "bids")
ASKS = ("ask", "a", "sell", "asks")
LEVEL = re.compile(r"(bid|ask|b|a)_?(\d+)_?(price|px|size|sz)|(bid|ask|b|a)_?(price|px|size|sz)_?(\d+)")
# Colours that red-green blind readers tell apart.
BID_COLOUR, ASK_COLOUR = "#1a7fb5", "#d1603d"


def figure(
    relation: Relation,
    kind: Kind | None = None,
    *,
    x: str | None = None,
    y: str | Iterable[str] | None = None,
    by: str | None = None,
    title: str | None = None,
    height: int | None = None,
) -> go.Figure:
    """A plotly figure of a result.

    `kind` is inferred if it is not given. `x` is the column along the axis (the timestamp if not given),
    `y` the columns to draw as lines, `by` the column that splits the rows into traces (the instrument if
    there is one), `height` is in pixels. Rows may come in any order: they are drawn by time.

    Raises ImportError without plotly, ValueError if the columns that `kind` needs are missing.
    """
    plotly = imported()
    columns = Columns(relation, x=x, by=by)
    wanted = [y] if isinstance(y, str) else list(y) if y is not None else None
    chosen = kind if kind is not None else inferred(columns, wanted)
    if chosen == "candles":
        drawn = candles(columns)
    elif chosen == "depth":
        drawn = depth(columns)
    elif chosen == "spread":
        drawn = spread(columns)
    elif chosen == "lines":
        drawn = lines(columns, wanted)
    else:
        raise ValueError(f"kind is one of {', '.join(get_args(Kind))}, not {chosen!r}")
    drawn.update_layout(template="plotly_white", title=title, height=height, margin={"t": 48 if title else 24})
    assert isinstance(drawn, plotly.Figure)
    return drawn


def imported() -> Any:
    """plotly.graph_objects. Raises ImportError that says what to install."""
    try:
        import numpy  # noqa: F401
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError("plots need plotly and NumPy: pip install 'tickstone[plot]'") from error
    return go


class Columns:
    """The columns of a result as NumPy arrays, by name and by what they are for."""

    def __init__(self, relation: Relation, *, x: str | None, by: str | None) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = dict(relation.numpy())
        self.names = list(self.arrays)
        self._by_lower = {name.lower(): name for name in reversed(self.names)}
        for given in (x, by):
            if given is not None and given not in self.arrays:
                raise self.missing([given], "the plot")
        self.time = x if x is not None else self._time()
        self.by = by if by is not None else self.find(SERIES)
        if self.time is not None:
            self._sort(self.time)

    def find(self, names: Iterable[str]) -> str | None:
        """The column with the first of these names that there is, whatever its case."""
        return next((self._by_lower[name] for name in names if name in self._by_lower), None)

    def need(self, names: Iterable[str], purpose: str) -> list[str]:
        """The columns with these names. Raises ValueError naming those that are missing."""
        wanted = list(names)
        found = [self.find([name]) for name in wanted]
        if None in found:
            raise self.missing([name for name, there in zip(wanted, found) if there is None], purpose)
        return [name for name in found if name is not None]

    def missing(self, names: list[str], purpose: str) -> ValueError:
        """The error for columns that are not there."""
        return ValueError(
            f"{purpose} needs the column {' and '.join(map(repr, names))}; "
            f"the result has {', '.join(map(repr, self.names)) or 'no columns'}"
        )

    def numbers(self) -> list[str]:
        """The columns that can be drawn as lines, but for time and the splitting one."""
        return [
            name
            for name, array in self.arrays.items()
            if (array.dtype.kind in "iuf" or decimals(array)) and name not in (self.time, self.by)
        ]

    def values(self, name: str) -> np.ndarray[Any, Any]:
        """A numeric column as doubles, NaN where it is NULL."""
        import numpy as np

        array = self.arrays[name]
        if array.dtype == object or np.ma.isMaskedArray(array):
            return np.array([np.nan if value is None else value for value in array.tolist()], dtype=float)
        return array.astype(float)

    def groups(self) -> Iterator[tuple[str | None, np.ndarray[Any, Any]]]:
        """The value of the splitting column and the rows that have it, in order of first appearance."""
        import numpy as np

        if self.by is None:
            yield None, np.arange(self.row_count)
            return
        rows: dict[object, list[int]] = {}
        for row, key in enumerate(self.arrays[self.by].tolist()):
            rows.setdefault(key, []).append(row)
        yield from ((str(key), np.array(at)) for key, at in rows.items())

    @property
    def row_count(self) -> int:
        """Rows of the result."""
        return len(next(iter(self.arrays.values()), ()))

    def _time(self) -> str | None:
        times = [name for name, array in self.arrays.items() if array.dtype.kind == "M"]
        named = self.find(TIMES)
        return named if named in times else (times[0] if times else None)

    def _sort(self, name: str) -> None:
        import numpy as np

        order = np.argsort(self.arrays[name], kind="stable")
        self.arrays = {name: array[order] for name, array in self.arrays.items()}


def decimals(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array of objects holds numbers, such as decimals and integers with NULLs."""
    from numbers import Number

    values = [value for value in array.tolist() if value is not None] if array.dtype == object else []
    return bool(values) and all(isinstance(value, Number) for value in values)


def inferred(columns: Columns, y: list[str] | None) -> Kind:
    """The kind of chart that the columns ask for; lines if none does."""
    if y is not None:
        return "lines"
    if all(columns.find([name]) for name in PRICES):
        return "candles"
    sized = columns.find(("price", "px")) and columns.find(SIZES) and columns.find(("side",))
    if (sized and columns.time is None) or levels(columns):
        return "depth"
    if columns.time is not None and (columns.find(("spread",)) or all(columns.find([s]) for s in ("bid", "ask"))):
        return "spread"
    return "lines"


def candles(columns: Columns) -> go.Figure:
    """A candlestick for each row, a trace for each instrument; volume in a panel below."""
    from plotly.subplots import make_subplots

    go = imported()
    time = needed_time(columns, "a candle chart")
    opened, high, low, close = columns.need(PRICES, "a candle chart")
    volume = columns.find(("volume",))
    drawn = (
        make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.78, 0.22], vertical_spacing=0.03)
        if volume
        else make_subplots(rows=1, cols=1)
    )
    for key, rows in columns.groups():
        at = columns.arrays[time][rows]
        prices = {
            part: columns.values(name)[rows]
            for part, name in zip(PRICES, (opened, high, low, close), strict=True)
        }
        drawn.add_trace(go.Candlestick(x=at, name=key or close, **prices), row=1, col=1)
        if volume:
            bars = go.Bar(x=at, y=columns.values(volume)[rows], name=f"{key or ''} {volume}".strip())
            drawn.add_trace(bars.update(marker_color="#8a97a6", showlegend=False), row=2, col=1)
    drawn.update_xaxes(rangeslider_visible=False)
    drawn.update_yaxes(title_text="price", row=1, col=1)
    if volume:
        drawn.update_yaxes(title_text=volume, row=2, col=1)
    return drawn


def depth(columns: Columns) -> go.Figure:
    """Cumulative size from the best price outwards, bids to the left and asks to the right."""
    import numpy as np

    go = imported()
    drawn = go.Figure()
    for name, colour, downwards, prices, sizes in sides(columns):
        known = ~(np.isnan(prices) | np.isnan(sizes))
        prices, sizes = prices[known], sizes[known]
        order = np.argsort(-prices if downwards else prices, kind="stable")
        drawn.add_trace(
            go.Scatter(
                x=prices[order],
                y=np.cumsum(sizes[order]),
                name=name,
                mode="lines",
                line={"shape": "hv", "color": colour},
                fill="tozeroy",
            )
        )
    drawn.update_xaxes(title_text="price")
    drawn.update_yaxes(title_text="cumulative size", rangemode="tozero")
    return drawn


Side: TypeAlias = "tuple[str, str, bool, np.ndarray[Any, Any], np.ndarray[Any, Any]]"


def sides(columns: Columns) -> Iterator[Side]:
    """Bids, then asks: name, colour, whether prices fall away from the best, prices, sizes."""
    import numpy as np

    numbered = levels(columns)
    if numbered:
        for name, colour, downwards in (("bid", BID_COLOUR, True), ("ask", ASK_COLOUR, False)):
            pairs = [pair for (side, _), pair in sorted(numbered.items()) if side == name[0]]
            newest = columns.row_count - 1
            take = [[columns.values(column)[newest] for column in pair] for pair in pairs if newest >= 0]
            prices, sizes = np.array(take, dtype=float).reshape(-1, 2).T
            yield name, colour, downwards, prices, sizes
        return
    size = columns.find(SIZES)
    price, side = columns.need(["price", "side"], "a depth chart")
    if size is None:
        raise columns.missing(["size"], "a depth chart")
    labels = [str(label).lower() for label in columns.arrays[side].tolist()]
    unknown = set(labels) - {*BIDS, *ASKS}
    if unknown:
        raise ValueError(f"side is bid or ask, buy or sell; the result has {', '.join(sorted(unknown))}")
    for name, colour, downwards, words in (("bid", BID_COLOUR, True, BIDS), ("ask", ASK_COLOUR, False, ASKS)):
        rows = np.flatnonzero([label in words for label in labels])
        yield name, colour, downwards, columns.values(price)[rows], columns.values(size)[rows]


def levels(columns: Columns) -> dict[tuple[str, int], tuple[str, str]]:
    """Price and size column of each side ("b" or "a") and level, where both are there."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    for name in columns.names:
        match = LEVEL.fullmatch(name.lower())
        if match:
            side, level, what = match.group(1, 2, 3) if match[1] else match.group(4, 6, 5)
            found.setdefault((side[0], int(level)), {})[what[0]] = name
    return {key: (pair["p"], pair["s"]) for key, pair in found.items() if pair.keys() == {"p", "s"}}


def spread(columns: Columns) -> go.Figure:
    """Ask − bid, or the column spread, as steps over time: a quote stands until the next one."""
    go = imported()
    time = needed_time(columns, "a spread chart")
    given = columns.find(("spread",))
    bid_ask = [] if given else columns.need(("bid", "ask"), "a spread chart")
    values = columns.values(given) if given else columns.values(bid_ask[1]) - columns.values(bid_ask[0])
    drawn = go.Figure()
    for key, rows in columns.groups():
        drawn.add_trace(
            go.Scatter(
                x=columns.arrays[time][rows],
                y=values[rows],
                name=key or "spread",
                mode="lines",
                line={"shape": "hv"},
            )
        )
    drawn.update_yaxes(title_text="spread", rangemode="tozero")
    return drawn


def lines(columns: Columns, y: list[str] | None) -> go.Figure:
    """Numeric columns over time, or over the row number without one; a trace for each column and key."""
    import numpy as np

    go = imported()
    unknown = [name for name in y or [] if name not in columns.arrays]
    if unknown:
        raise columns.missing(unknown, "the plot")
    drawn = go.Figure()
    chosen = y if y is not None else columns.numbers()
    axis = columns.arrays[columns.time] if columns.time is not None else np.arange(columns.row_count)
    for key, rows in columns.groups():
        for name in chosen:
            label = name if key is None else key if len(chosen) == 1 else f"{key} {name}"
            drawn.add_trace(go.Scatter(x=axis[rows], y=columns.values(name)[rows], name=label, mode="lines"))
    if len(chosen) == 1:
        drawn.update_yaxes(title_text=chosen[0])
    return drawn


def needed_time(columns: Columns, purpose: str) -> str:
    """The column along the axis. Raises ValueError if there is none."""
    if columns.time is None:
        raise columns.missing(["ts"], purpose)
    return columns.time

"""Times of Python with the nanoseconds that `datetime` and `time` have no room for.

A query gives a plain `datetime` or `time` wherever that says the value exactly, else one of these. As parameters, in
comparisons and as text they keep their nanoseconds; everything else is as with their base classes.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["Time", "Timestamp"]


class _Nanoseconds:
    """Nanoseconds past the microsecond, of a class whose next base is `datetime` or `time`."""

    _nanosecond = 0

    @property
    def nanosecond(self) -> int:
        """Nanoseconds past the microsecond, 0 to 999."""
        return self._nanosecond

    def _with(self, nanosecond: int) -> Any:
        if not 0 <= nanosecond < 1_000:
            raise ValueError(f"nanosecond is 0 to 999, not {nanosecond}")
        self._nanosecond = nanosecond
        return self

    def _kept(self, made: Any) -> Any:
        """What has come of this time: with its nanoseconds, where it is one."""
        return made._with(self._nanosecond) if isinstance(made, _Nanoseconds) else made

    def _compared(self, compare: Callable[[Any, Any], Any], name: str, other: object) -> Any:
        """What a comparison gives: nanoseconds decide where the rest is equal."""
        if super().__eq__(other) is True:
            return compare(self._nanosecond, getattr(other, "nanosecond", 0))
        return getattr(super(), name)(other)

    def __eq__(self, other: object) -> Any:
        return self._compared(operator.eq, "__eq__", other)

    def __ne__(self, other: object) -> Any:
        return self._compared(operator.ne, "__ne__", other)

    def __lt__(self, other: object) -> Any:
        return self._compared(operator.lt, "__lt__", other)

    def __le__(self, other: object) -> Any:
        return self._compared(operator.le, "__le__", other)

    def __gt__(self, other: object) -> Any:
        return self._compared(operator.gt, "__gt__", other)

    def __ge__(self, other: object) -> Any:
        return self._compared(operator.ge, "__ge__", other)

    def __hash__(self) -> int:
        rest = super().__hash__()
        return hash((rest, self._nanosecond)) if self._nanosecond else rest

    def __str__(self) -> str:
        return str(self.isoformat(" "))  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, nanosecond={self._nanosecond})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, (type(self), super().__reduce_ex__(protocol)[1], self._nanosecond)


def _restored(made: type[Any], parts: tuple[Any, ...], nanosecond: int) -> Any:
    """What was pickled."""
    return made(*parts)._with(nanosecond)


class Timestamp(_Nanoseconds, datetime.datetime):
    """A `datetime` with nanoseconds. Differences of two are whole microseconds."""

    def __new__(cls, *args: Any, nanosecond: int = 0, **named: Any) -> Timestamp:
        made: Timestamp = super().__new__(cls, *args, **named)._with(nanosecond)
        return made

    def replace(self, *args: Any, nanosecond: int | None = None, **named: Any) -> Timestamp:
        """The same with other parts."""
        made: Timestamp = super().replace(*args, **named)._with(self._nanosecond if nanosecond is None else nanosecond)
        return made

    def astimezone(self, tz: datetime.tzinfo | None = None) -> Timestamp:
        """The same moment in another zone."""
        made: Timestamp = super().astimezone(tz)._with(self._nanosecond)
        return made

    def __add__(self, other: Any) -> Any:
        return self._kept(super().__add__(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._kept(super().__sub__(other))

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        """As ISO 8601 has it: with "auto" and "nanoseconds" to the nanosecond."""
        if timespec not in ("auto", "nanoseconds"):
            return super().isoformat(sep, timespec)
        text = super().isoformat(sep, "microseconds")
        return f"{text[:26]}{self._nanosecond:03d}{text[26:]}"


class Time(_Nanoseconds, datetime.time):
    """A `time` with nanoseconds."""

    def __new__(cls, *args: Any, nanosecond: int = 0, **named: Any) -> Time:
        made: Time = super().__new__(cls, *args, **named)._with(nanosecond)
        return made

    def replace(self, *args: Any, nanosecond: int | None = None, **named: Any) -> Time:
        """The same with other parts."""
        made: Time = super().replace(*args, **named)._with(self._nanosecond if nanosecond is None else nanosecond)
        return made

    def isoformat(self, timespec: str = "auto") -> str:
        """As ISO 8601 has it: with "auto" and "nanoseconds" to the nanosecond."""
        if timespec not in ("auto", "nanoseconds"):
            return super().isoformat(timespec)
        text = super().isoformat("microseconds")
        return f"{text[:15]}{self._nanosecond:03d}{text[15:]}"

    __str__ = datetime.time.__str__

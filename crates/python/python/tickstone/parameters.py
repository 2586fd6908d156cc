"""Values for the placeholders of a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tickstone.errors import Error
from tickstone.scalars import plain

__all__ = ["Parameters", "parameters_of"]

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any] | None


def parameters_of(params: Parameters, named: Mapping[str, Any]) -> list[Any] | dict[str, Any] | None:
    """A list for `$1`, `$2`, …, a dict for `:name`, None for neither.

    Raises:
        TypeError: where both are given.
        Error: where `params` is neither a sequence nor a mapping.
    """
    if named and params is not None:
        raise TypeError("parameters come as `params` or by name, not both")
    given = named or params
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {name: plain(value) for name, value in given.items()}
    try:
        # Text and bytes are one value each, though Python can go through them.
        values = None if isinstance(given, (str, bytes, bytearray, memoryview)) else iter(given)
    except TypeError:
        values = None
    if values is None:
        raise Error(
            f"params is a sequence for $1, $2, … or a mapping for :name, not {type(given).__name__}",
            hint="put a single value into a list: [value]",
        )
    return [plain(value) for value in values]

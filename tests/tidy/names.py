"""The names of code that a page mentions in backticks, and whether the tree has them.

A name that stands in the section of a crate must be in that crate; one elsewhere, anywhere.
"""

import fnmatch
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rust import Crate

_SECTION = re.compile(r"## (?:`crates/([\w-]+)`)?")
_SHAPE = re.compile(r"[\w:./{},*-]+")
_PYTHON = re.compile(r"^\s*(?:async\s+)?(?:def|class)\s+(\w+)|^(\w+)\s*(?::[^=]+)?=", re.MULTILINE)


class Mention(NamedTuple):
    line: int
    crate: str | None
    name: str


def mentions(text: str) -> Iterator[Mention]:
    """What stands in backticks and looks like a name of code or a target of make; the blocks of code are left out.

    Phrases, SQL (`SAMPLE BY`), values and paths of URLs do not look so.
    """
    crate, is_fenced = None, False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        if is_fenced:
            continue
        if section := _SECTION.match(line):
            crate = section[1]
        for name in re.findall(r"`([^`]+)`", line):
            name = name.removesuffix("()")
            looks_so = _SHAPE.fullmatch(name) and re.search("[a-z]", name) and not re.match(r"[/.\d]", name)
            if looks_so or re.fullmatch(r"make [\w-]+", name):
                yield Mention(number, crate, name)


def alternatives(name: str) -> list[str]:
    """`a/{b,c}` is `a/b` and `a/c`."""
    group = re.search(r"\{([^{}]*)\}", name)
    return [name[: group.start()] + one + name[group.end() :] for one in group[1].split(",")] if group else [name]


class Index:
    """What there is to name: paths, names that are defined, and those that a module or a type owns, with it."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.names: set[str] = set()
        self.owned: set[tuple[str, str]] = set()

    def add(self, other: "Index") -> None:
        """Adds all that another has."""
        self.paths |= other.paths
        self.names |= other.names
        self.owned |= other.owned

    def add_path(self, path: str) -> None:
        """Adds every stretch of a path, with and without the file's ending: of `a/b.rs` `a`, `a/b`, `b`, `b.rs` …"""
        for parts in (path.split("/"), path.rsplit(".", 1)[0].split("/")):
            self.paths |= {"/".join(parts[a:b]) for a, b in itertools.combinations(range(len(parts) + 1), 2)}

    def add_python(self, path: str, text: str) -> None:
        """Adds functions, classes and names of a Python module."""
        self._own(path.rsplit("/", 1)[-1].removesuffix(".py"), (one or two for one, two in _PYTHON.findall(text)))

    def add_crate(self, crate: Crate) -> None:
        """Adds what a crate defines outside of its tests."""
        for module in crate.modules.values():
            if not module.is_test:
                owner = module.path[-1] if module.path else crate.src.split("/")[-2]
                self._own(owner, module.defined)
                self.owned |= {(owner, name) for name in module.named}
        for source in {module.source for module in crate.modules.values() if not module.is_test}:
            members = source.members()
            self.owned |= members
            self.names |= {name for _, name in members}

    def _own(self, owner: str, names: Iterable[str]) -> None:
        for name in names:
            self.names.add(name)
            self.owned.add((owner, name))

    def has(self, name: str) -> bool:
        """Whether a name, or a path by `::` or by `/`, leads to something."""
        if "::" in name:
            parts = name.split("::")
            return "/".join(parts) in self.paths or all(pair in self.owned for pair in itertools.pairwise(parts[-2:]))
        if "*" in name:
            return any(fnmatch.fnmatchcase(path, name) for path in self.paths)
        return name.rstrip("/") in self.paths or name in self.names

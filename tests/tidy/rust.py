"""Rust sources as the rules see them: code without comments and strings, modules, and what their paths lead to.

Enter at `Source` (one file) and `Crate` (the modules of a `src` folder). Nothing here knows a rule or a setting.
"""

import bisect
import collections
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

Path = tuple[str, ...]  # of a module: () is the crate's root
Seen = frozenset[tuple[object, object]]  # what is being resolved: modules, and names or globs in them
Place = tuple[Path, str | None]  # a module, and the name of an item in it; `None`: the module itself

_NO_CODE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)|(?<=r)(?P<hashes>\#*)".*?"(?P=hashes)|"(?:[^"\\]|\\.)*" """
    r"""|'(?:\\(?:x\w\w|u\{[^}]*\}|.)|[^'\\\n])'""",
    re.VERBOSE | re.DOTALL,
)
_FOR_TESTS = re.compile(r"#(!?)\[cfg\(\s*(?:all\(\s*)?test\b[^\]]*\]")
_DEFINITION = re.compile(
    r"\b(?:struct|enum|union|trait|type|fn|const|static|mod|macro_rules!)\s+(?:mut\s+|r#)?([A-Za-z_]\w*)"
)
_MODULE = re.compile(r"\bmod\s+(\w+)\s*([;{])")
_IMPL = re.compile(r"(?:\A|[;{}\]])\s*impl\b")
_BODY = re.compile(r"\b(struct|enum|union|trait)\s+(\w+)[^;{]*\{")
_USE = re.compile(r"\buse\s+([^;]+);")
_VISIBILITY = re.compile(r"\bpub\s*\(\s*in\b[^)]*\)")
_PATH = re.compile(r"(?<![\w:])\$?\w+(?:\s*::\s*\w+)+")


class Impl(NamedTuple):
    """An `impl` block: from `impl` on, its braces, the type as it is written, whether it is a trait's."""

    start: int
    opened: int
    closed: int
    type: Path
    is_trait: bool


class Source:
    """One file: its text, and its code with all else made blank, every character in the place that it had."""

    def __init__(self, path: str, text: str):
        self.path, self.text, self.lines = path, text, text.split("\n")
        self.comments: list[tuple[int, int]] = []
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        kept, at = [], 0
        while found := _NO_CODE.search(text, at):
            start, end = found.span()
            if found["comment"]:
                end = _closed(text, start, "/*", "*/") if found["comment"] == "/*" else end
                self.comments.append((start, end))
            kept += [text[at:start], _blank(text[start:end])]
            at = end
        self.code = "".join([*kept, text[at:]])

    def line(self, offset: int) -> int:
        """The number of the line of an offset, from 1."""
        return bisect.bisect_right(self._starts, offset)

    @cached_property
    def tests(self) -> list[tuple[int, int]]:
        """Where items stand that are compiled for tests only, from their attribute to their end."""
        found = _FOR_TESTS.finditer(self.code)
        return [(0, len(self.code)) if one[1] else (one.start(), self._end_of_item(one.end())) for one in found]

    def is_test(self, offset: int) -> bool:
        """Whether it is in an item that is compiled for tests only."""
        return any(start <= offset < end for start, end in self.tests)

    def _end_of_item(self, at: int) -> int:
        depth = 0
        for found in re.compile(r"[;{}()\[\]]").finditer(self.code, at):
            if depth == 0 and found[0] == "{":
                return _closed(self.code, found.start(), "{", "}")
            depth += (found[0] in "{([") - (found[0] in "})]")
            if depth < 0 or depth == 0 and found[0] == ";":
                return found.end()
        return len(self.code)

    def inline_tests(self) -> Iterator[tuple[str, int, int]]:
        """The modules of tests inside the file: name, first line, last line."""
        for start, end in self.tests:
            if found := re.compile(r"[^;{]*?\bmod\s+(\w+)\s*\{").match(self.code, start):
                yield found[1], self.line(found.start(1)), self.line(end - 1)

    def has_above(self, line: int, *words: str, lines_max: int | None) -> bool:
        """Whether a comment above a line has one of some words.

        At most so many lines above and not past another `unsafe`; or, by `None`, in the comments of an item.
        """
        for number in range(line, max(0, line - (lines_max or line)) - 1, -1):
            text = self.lines[number - 1].strip() if number else ""
            if "//" in text and any(word in text for word in words):
                return True
            is_past = re.search(r"\bunsafe\b", text.split("//")[0]) if lines_max else not text.startswith(("//", "#["))
            if number < line and is_past:
                return False
        return False

    @cached_property
    def impls(self) -> list[Impl]:
        """The `impl` blocks."""
        return [impl for found in _IMPL.finditer(self.code) if (impl := self._impl(found.end()))]

    def _impl(self, at: int) -> Impl | None:
        opened = self.code.find("{", at)
        head = self.code[at:opened].replace("->", "  ").lstrip()
        if head.startswith("<"):
            head = head[_closed(head, 0, "<", ">") :]
        trait, *of = re.split(r"\bfor\b(?!\s*<)", re.split(r"\bwhere\b", head)[0])
        name = re.match(r"\s*&?\s*((?:\w+\s*::\s*)*\w+)", of[0] if of else trait)
        return Impl(at, opened, _closed(self.code, opened, "{", "}"), _parts(name[1]), bool(of)) if name else None

    def members(self) -> set[tuple[str, str]]:
        """What types and traits own, each name with its owner's: fields, variants, functions, constants, types."""
        bodies = [("impl", impl.type[-1], impl.opened) for impl in self.impls]
        bodies += [(found[1], found[2], found.end() - 1) for found in _BODY.finditer(self.code)]
        members = set()
        for kind, owner, opened in [body for body in bodies if not self.is_test(body[2])]:
            body = re.sub(r"#\[[^\]]*\]", "", self.code[opened : _closed(self.code, opened, "{", "}")])
            is_of_data = kind not in ("impl", "trait")
            names = re.findall(r"(?<!:)\b(\w+)\s*:(?!:)" if is_of_data else r"\b(?:fn|const|type)\s+(\w+)", body)
            names += re.findall(r"[{,}]\s*([A-Z]\w*)", body) if kind == "enum" else []
            members |= {(owner, name) for name in names}
        return members


class Module:
    """A file, or `mod name { … }` inside one: what it defines, and where its other names are from."""

    def __init__(self, path: Path, source: Source, start: int, end: int, is_test: bool):
        self.path, self.source, self.start, self.end, self.is_test = path, source, start, end, is_test
        self.defined: set[str] = set()
        self.named: dict[str, Path] = {}
        self.globs: list[Path] = []
        self.paths: list[tuple[Path, int]] = []  # all that its `use` and its code have


class Import(NamedTuple):
    """What a module takes from its crate: the line that says so, the module that defines it, its name there."""

    line: int
    target: Path
    item: str | None


class Crate:
    """The modules of a `src` folder, and what the paths in them lead to."""

    def __init__(self, src: str, sources: Iterable[Source], test_files: Iterable[str] = ()):
        self.src, self.test_files = src, set(test_files)
        self.modules: dict[Path, Module] = {}
        self._in_file: dict[str, list[Module]] = {}
        by_path = {source.path: source for source in sources}
        if f"{src}/lib.rs" in by_path:
            by_path.pop(f"{src}/main.rs", None)  # a crate of its own, above this one
        # Parents come first: those declare which of their children are for tests.
        for path in sorted(by_path, key=lambda path: (path.count("/"), not path.endswith(("mod.rs", "lib.rs")), path)):
            self._add(by_path[path])
        for module in self.modules.values():
            self._read(module)

    def _add(self, source: Source) -> None:
        parts = tuple(source.path.removeprefix(f"{self.src}/").removesuffix(".rs").split("/"))
        path = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
        is_test = "tests" in parts or f"{parts[-1]}.rs" in self.test_files or self._is_declared_for_tests(path)
        self.modules[path] = Module(path, source, 0, len(source.code) + 1, is_test)
        inside = self._in_file[source.path] = [self.modules[path]]
        for found in _MODULE.finditer(source.code):
            if found[2] == "{":
                outer, end = self.module_at(source, found.start()), _closed(source.code, found.end() - 1, "{", "}")
                is_test = outer.is_test or source.is_test(found.start())
                inside.append(Module((*outer.path, found[1]), source, found.end(), end, is_test))
                self.modules.setdefault(inside[-1].path, inside[-1])

    def _is_declared_for_tests(self, path: Path) -> bool:
        parent = self.modules.get(path[:-1]) if path else None
        if parent is None or parent.is_test:
            return parent is not None
        declared = [found for found in _MODULE.finditer(parent.source.code) if found[1] == path[-1]]
        return bool(declared) and all(parent.source.is_test(found.start()) for found in declared)

    def module_at(self, source: Source, offset: int) -> Module:
        """The module, of a file or inside one, that an offset is in."""
        around = [module for module in self._in_file[source.path] if module.start <= offset < module.end]
        return max(around, key=lambda module: module.start)

    def _own(self, module: Module, pattern: re.Pattern[str], code: str) -> Iterator[re.Match[str]]:
        """What matches in a module's code: not in modules inside it, not in tests."""
        inside = [other for other in self._in_file[module.source.path] if module.start < other.start < module.end]
        for found in pattern.finditer(code, module.start, module.end):
            at = found.start()
            if not module.source.is_test(at) and not any(other.start <= at < other.end for other in inside):
                yield found

    def _read(self, module: Module) -> None:
        code = module.source.code
        for found in self._own(module, _DEFINITION, code):
            module.defined.add(found[1])
        for found in self._own(module, _USE, code):
            before = code[module.start : found.start()]
            for path, name, offset in _leaves(found[1], found.start(1)):
                module.paths.append((path, offset))
                if before.count("{") != before.count("}"):
                    continue  # inside a function, for it alone
                if name == "*":
                    module.globs.append(path)
                else:
                    module.named.setdefault(name, path)
        bodies = _USE.sub(lambda found: _blank(found[0]), _VISIBILITY.sub(lambda found: _blank(found[0]), code))
        module.paths += [(_parts(found[0]), found.start()) for found in self._own(module, _PATH, bodies)]

    def resolve(self, within: Path, path: Path, seen: Seen = frozenset()) -> Place | None:
        """Where what a path names is defined, through all re-exports; `None` where it leads out of the crate."""
        if path[0] in ("crate", "$crate"):
            return self._descend((), path[1:], seen)
        is_relative = path[0] in ("self", "super")
        while path and path[0] in ("self", "super"):
            within, path = within[:-1] if path[0] == "super" else within, path[1:]
        return self._descend(within, path, seen) if is_relative or self._has(within, path[0], seen) else None

    def _has(self, at: Path, name: str, seen: Seen) -> bool:
        module = self.modules[at]
        is_known = (*at, name) in self.modules or name in module.named or name in module.defined
        return is_known or self._by_glob(at, name, seen) is not None

    def _descend(self, at: Path, path: Path, seen: Seen) -> Place | None:
        module = self.modules.get(at)
        if module is None or not path:
            return (at, None) if module else None
        name, rest = path[0], path[1:]
        if (*at, name) in self.modules:
            return self._descend((*at, name), rest, seen)
        if (at, name) not in seen:
            seen |= {(at, name)}
            if name in module.named:
                found = self.resolve(at, module.named[name], seen)
                return self._descend(found[0], rest, seen) if found and found[1] is None else found
            if name not in module.defined and (glob := self._by_glob(at, name, seen)) is not None:
                return self._descend(glob, path, seen)
        return at, name

    def _by_glob(self, at: Path, name: str, seen: Seen) -> Path | None:
        """The module that a name comes from by `use module::*`."""
        for path in self.modules[at].globs:
            if (at, path) in seen or not (found := self.resolve(at, path, seen | {(at, path)})) or found[1]:
                continue
            if self._has(found[0], name, seen | {(at, path)}):
                return found[0]
        return None

    def imports(self, module: Module) -> Iterator[Import]:
        """What a module takes from its crate, by `use` and by the paths in its code."""
        for path, offset in module.paths:
            if path[0] not in ("crate", "$crate", "self", "super") and len(path) > 1:
                # One that begins with an item has it by a `use` that was told already.
                first = self.resolve(module.path, path[:1])
                if first is None or first[1] is not None:
                    continue
            if found := self.resolve(module.path, path):
                yield Import(module.source.line(offset), *found)

    def inherent_impls(self) -> Iterator[tuple[Source, int, str, Source]]:
        """Inherent impls of the crate's own types outside of tests: file, line, type, the file that defines it."""
        for source in [module.source for module in self.modules.values() if module.start == 0 and not module.is_test]:
            for impl in source.impls:
                found = self.resolve(self.module_at(source, impl.start).path, impl.type)
                if impl.is_trait or source.is_test(impl.start) or not found or not found[1]:
                    continue
                if found[1] in self.modules[found[0]].defined:
                    yield source, source.line(impl.start), found[1], self.modules[found[0]].source


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text) if "\n" in text else " " * len(text)


def _closed(text: str, at: int, opening: str, closing: str) -> int:
    """Where what is opened at an offset is closed again, past the end of that."""
    depth = 0
    for found in re.compile(f"{re.escape(opening)}|{re.escape(closing)}").finditer(text, at):
        depth += 1 if found[0] == opening else -1
        if depth <= 0:
            return found.end()
    return len(text)


def _parts(path: str) -> Path:
    return tuple(part.strip() for part in path.split("::"))


def _leaves(tree: str, offset: int) -> Iterator[tuple[Path, str, int]]:
    """The paths of a `use` tree: path (without `*` or `self` at its end), name that it gets, offset."""
    tokens = collections.deque((found[0], offset + found.start()) for found in re.finditer(r"::|[{},*]|[\w$#]+", tree))

    def one(prefix: Path) -> Iterator[tuple[Path, str, int]]:
        path, name, at = prefix, "", offset
        while tokens and tokens[0][0] not in ",}":
            token, place = tokens.popleft()
            if token == "{":
                while tokens and tokens[0][0] != "}":
                    yield from one(path)
                    if tokens and tokens[0][0] == ",":
                        tokens.popleft()
                tokens.popleft()
                return
            if token == "as":
                name = tokens.popleft()[0]
            elif token != "::":
                path, at = (*path, token.removeprefix("r#")), place
        if path != prefix:
            whole = path[:-1] if path[-1] in ("*", "self") and len(path) > 1 else path
            yield whole, name or ("*" if path[-1] == "*" else whole[-1]), at

    yield from one(())

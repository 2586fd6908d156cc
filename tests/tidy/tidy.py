#!/usr/bin/env python3
"""Rules of the source tree that no compiler checks: which module may import which, and what ARCHITECTURE.md and
CONTRIBUTING.md say about files, headers, tests and names. `tidy.toml` has the settings.

    python3 tests/tidy/tidy.py [TREE]

prints what is against a rule as `path:line: rule: what is wrong and what to do`, and exits with 1 if anything is.
"""

import fnmatch
import functools
import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from names import Index, alternatives, mentions
from rust import Crate, Module, Path, Source

SETTINGS = "tests/tidy/tidy.toml"
# Folders that no rule looks into: what builds and tools make.
PASSED_OVER = {"target", "build", "node_modules", "__pycache__"}


# Blocks, implementations, and what callers or implementors must take care of; no types of functions.
UNSAFE = re.compile(r"\bunsafe\b\s*(?:\w+\s+)*?(?:(fn|trait)\s+\w+|impl\b|extern\b(?!\s*fn\b)|(?=\{))")


class Violation(NamedTuple):
    """What is against a rule. `what` is what an exception may name beside the path, such as a type."""

    path: str
    line: int
    rule: str
    text: str
    what: str = ""


class Tree:
    """The files that rules look at, read once."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.settings_text = (root / SETTINGS).read_text()
        self.settings: dict[str, Any] = tomllib.loads(self.settings_text)
        self.files = sorted(self._walk())
        rust = [path for path in self.files if path.endswith(".rs") and path.startswith(("crates/", "fuzz/"))]
        self.sources = {path: Source(path, self.text(path)) for path in rust}

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name not in PASSED_OVER and not name.startswith(".")]
            for name in files:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    @functools.cached_property
    def crates(self) -> dict[str, Crate]:
        """The crates by the names of their folders."""
        by_name: dict[str, list[Source]] = {}
        for path, source in self.sources.items():
            if found := re.match(r"crates/([^/]+)/src/", path):
                by_name.setdefault(found[1], []).append(source)
        tests = self.settings.get("test_files", [])
        return {name: Crate(f"crates/{name}/src", sources, tests) for name, sources in by_name.items()}

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def matching(self, *patterns: str) -> list[str]:
        """The files whose paths match one of the patterns; `*` also stands for several folders."""
        return [path for path in self.files if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)]

    def line_of_setting(self, word: str, section: str = "", number: int = 0) -> int:
        """The line of the settings that has a text, behind the section's header, the one of this number."""
        lines = self.settings_text.split("\n")
        headers = [at for at, line in enumerate(lines) if line.startswith(section)]
        begin = headers[number] if number < len(headers) else 0
        return next((at + 1 for at in range(begin, len(lines)) if f'"{word}"' in lines[at]), begin + 1)


class Layers:
    """A list of layers: the modules of a crate, or those in one folder of it, from the ground up."""

    def __init__(self, tree: Tree, number: int, setting: dict[str, Any]):
        self.tree, self.number, self.name = tree, number, setting["crate"]
        self.within = tuple(filter(None, setting.get("within", "").split("::")))
        numbered = enumerate(setting["order"], 1)
        self.layers = {tuple(entry.split("::")): layer for layer, entries in numbered for entry in entries}

    def entry(self, module: Path) -> Path:
        """The entry that has a module or, most closely, a module around it; () where none has."""
        inner = module[len(self.within) :] if module[: len(self.within)] == self.within else ()
        return next((inner[:end] for end in range(len(inner), 0, -1) if inner[:end] in self.layers), ())

    def violations(self) -> Iterator[Violation]:
        crate = self.tree.crates.get(self.name)
        if crate is None or self.within not in crate.modules:
            yield self._of_settings(self.name, f"there is no {'::'.join((self.name, *self.within))}; take the list out")
            return
        for entry in self.layers:
            if (*self.within, *entry) not in crate.modules:
                name = "::".join(entry)
                yield self._of_settings(name, f"{self.name} has no module {name}; take it out of the list")
        root = crate.modules[self.within].source
        for path, module in crate.modules.items():
            if module.is_test or module.source is root or path[: len(self.within)] != self.within:
                continue
            if entry := self.entry(path):
                yield from self._of_imports(crate, module, entry, os.path.basename(root.path))
            elif path[:-1] == self.within:
                text = f"{path[-1]} has no layer; put it into the list of {self.name} in {SETTINGS}"
                yield Violation(module.source.path, 1, "layers", text)

    def _of_imports(self, crate: Crate, module: Module, own: Path, root: str) -> Iterator[Violation]:
        for line, target, item in crate.imports(module):
            other = self.entry(target)
            if target == self.within and item:
                above, what = f"{root} (above all layers)", root
            elif other and other != own and self.layers[other] >= self.layers[own]:
                above, what = self._named(other), "::".join(other)
            else:
                continue
            imported = "::".join(("crate", *target, item or "")).removesuffix("::")
            yield Violation(module.source.path, line, "layers", f"{self._named(own)} imports {above}: {imported}", what)

    def _named(self, entry: Path) -> str:
        return f"{'::'.join(entry)} (layer {self.layers[entry]})"

    def _of_settings(self, word: str, text: str) -> Violation:
        return Violation(SETTINGS, self.tree.line_of_setting(word, "[[layers]]", self.number), "layers", text)


def layers(tree: Tree) -> Iterator[Violation]:
    """A module imports from lower layers and from itself."""
    for number, setting in enumerate(tree.settings.get("layers", [])):
        yield from Layers(tree, number, setting).violations()


def impls(tree: Tree) -> Iterator[Violation]:
    """Methods stand in the file that defines their type, or in its folder: elsewhere they hide an import upwards."""
    for crate in tree.crates.values():
        for source, line, name, home in crate.inherent_impls():
            folder, file = home.path.rsplit("/", 1)
            if folder == crate.src:  # all of the crate is in there
                folder = home.path.removesuffix(".rs") if file not in ("lib.rs", "main.rs") else home.path
            if source is not home and not source.path.startswith(f"{folder}/"):
                text = f"impl {name} far from {home.path}, which defines it; make it functions, or a trait's"
                yield Violation(source.path, line, "impls", text, name)


def headers(tree: Tree) -> Iterator[Violation]:
    """A file begins with what it is for."""
    for path in tree.matching(*tree.settings["headers"]["files"]):
        text = tree.text(path)
        if path.endswith(".rs") and not text.lstrip().startswith("//!"):
            yield Violation(path, 1, "headers", "does not begin with //!; say what the file is for")
        if path.endswith(".py") and not re.match(r'(?:#[^\n]*\n|\s)*r?"""', text):
            yield Violation(path, 1, "headers", 'does not begin with """; say what the file is for')


def width(tree: Tree) -> Iterator[Violation]:
    """Comments are no wider than the settings say; a row of a table or one long word cannot be wrapped."""
    most = tree.settings["width"]["columns_max"]
    for source in tree.sources.values():
        for start, end in source.comments:
            for number in range(source.line(start), source.line(end) + 1):
                line = source.lines[number - 1]
                content = re.sub(r"^\s*//[/!]?\s*", "", line)
                if len(line) > most and not re.fullmatch(r"\|.*|(\[[^\]]+\]: )?\S+", content):
                    text = f"a comment of {len(line)} columns; wrap it at {most}"
                    yield Violation(source.path, number, "width", text)


def inline_tests(tree: Tree) -> Iterator[Violation]:
    """Tests inside a file are short."""
    most = tree.settings["inline_tests"]["lines_max"]
    for source in tree.sources.values():
        for name, first, last in source.inline_tests():
            if last - first + 1 > most:
                sibling = f"{os.path.basename(source.path.removesuffix('.rs'))}/{name}.rs"
                if source.path.endswith("/mod.rs"):
                    sibling = f"{name}.rs"
                text = f"mod {name} of {last - first + 1} lines, and {most} is the most; move it to {sibling}"
                yield Violation(source.path, first, "inline-tests", text)


def unsafe(tree: Tree) -> Iterator[Violation]:
    """`unsafe` is in few files, each of them an exception with its reason."""
    for source in tree.sources.values():
        if found := re.search(r"\bunsafe\b", source.code):
            text = f"unsafe in a file that is no exception of this rule; do without, or give the reason in {SETTINGS}"
            yield Violation(source.path, source.line(found.start()), "unsafe", text)


def safety(tree: Tree) -> Iterator[Violation]:
    """Whatever is unsafe says why it is sound, or what it asks of its callers."""
    for source in tree.sources.values():
        for found in UNSAFE.finditer(source.code):
            line = source.line(found.start())
            if found[1] and not source.has_above(line, "# Safety", "SAFETY:", lines_max=None):
                text = f"unsafe {found[1]} without # Safety; say what callers must keep"
                yield Violation(source.path, line, "safety", text)
            if not found[1] and not source.has_above(line, "SAFETY:", lines_max=10):
                yield Violation(source.path, line, "safety", "unsafe without // SAFETY: above; say why it is sound")


def modules(tree: Tree) -> Iterator[Violation]:
    """A module with modules inside is a folder with `mod.rs`, unless they are its tests."""
    for path in tree.matching("crates/*/src/*.rs"):
        folder = path.removesuffix(".rs") + "/"
        inside = [other for other in tree.sources if other.startswith(folder)]
        if any(other != f"{folder}tests.rs" and not other.startswith(f"{folder}tests/") for other in inside):
            yield Violation(path, 1, "modules", f"stands beside {folder}; make it {folder}mod.rs")


def length(tree: Tree) -> Iterator[Violation]:
    """Files are not too long to read."""
    limits = tree.settings["length"]
    for source in tree.sources.values():
        is_test = re.search(r"/tests(/|\.rs$)", source.path)
        most = limits["tests_lines_max"] if is_test else limits["lines_max"]
        if (count := source.text.count("\n")) > most:
            text = f"{count} lines, and {most} are the most; split it"
            yield Violation(source.path, most + 1, "length", text)


def declared(tree: Tree) -> Iterator[Violation]:
    """What implements a trait is listed by its name where facts about all of them are."""
    for rule in tree.settings.get("declared", []):
        listed = set(re.findall(r'"(\w+)"', tree.text(rule["in"])))
        for path in tree.sources:
            if not fnmatch.fnmatchcase(path, rule["files"]):
                continue
            lines = tree.text(path).split("\n")
            for at, line in enumerate(lines):
                if not re.match(rule["implements"], line):
                    continue
                body = "\n".join(lines[at : at + rule["lines"]])
                for name in re.findall(rule["names"], body):
                    if name not in listed:
                        yield Violation(path, at + 1, "declared", f"{name} is not in {rule['in']}; declare it there", name)


def dependencies(tree: Tree) -> set[str]:
    """The crates of the manifests."""
    found = set()
    for path in tree.matching("Cargo.toml", "crates/*/Cargo.toml"):
        manifest = tomllib.loads(tree.text(path))
        found |= {*manifest.get("workspace", {}).get("dependencies", {}), *manifest.get("dependencies", {})}
        found |= {manifest.get("package", {}).get("name", "")}
    return found


def index(tree: Tree) -> dict[str | None, Index]:
    """What there is to name in each crate and, by `None`, in all of the tree."""
    indexes: dict[str | None, Index] = {None: Index()}
    for name, crate in tree.crates.items():
        indexes[name] = Index()
        indexes[name].add_crate(crate)
    for path in tree.files:
        found = re.match(r"crates/([^/]+)/(.+)", path)
        home = indexes.setdefault(found[1], Index()) if found else indexes[None]
        home.add_path(path)
        if path.endswith(".py"):
            home.add_python(path, tree.text(path))
    for other in [one for crate, one in indexes.items() if crate]:
        indexes[None].add(other)
    return indexes


def names(tree: Tree) -> Iterator[Violation]:
    """What ARCHITECTURE.md names is there: in the crate whose section it is in, or anywhere."""
    page, ignored = "ARCHITECTURE.md", set(tree.settings["names"]["ignore"])
    indexes, crates = index(tree), dependencies(tree) | set(tree.crates)
    targets = set(re.findall(r"^([\w-]+):", tree.text("Makefile"), re.MULTILINE))

    def is_there(name: str, crate: str | None) -> bool:
        if name.startswith("make "):
            return name.removeprefix("make ") in targets
        if name.startswith("-") and not name.startswith("--"):  # the end of a dependency's name
            return any(dependency.endswith(name) for dependency in crates)
        option = name.removeprefix("--").replace("-", "_") if name.startswith("--") else name
        return name in crates or indexes.get(crate, indexes[None]).has(option)

    missing = [
        (line, crate, name)
        for line, crate, mentioned in mentions(tree.text(page))
        for name in alternatives(mentioned)
        if not is_there(name, crate)
    ]
    for line, crate, name in missing:
        if name not in ignored:
            where = f"crates/{crate}" if crate else "the tree"
            yield Violation(page, line, "names", f"`{name}` is not in {where}; name what is there", name)
    for name in sorted(ignored - {name for _, _, name in missing}):
        text = f"names.ignore has {name}, which is not needed; take it out"
        yield Violation(SETTINGS, tree.line_of_setting(name, "[names]"), "stale", text)


def slugs(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them, and those that are set by hand."""
    found: dict[str, int] = {}
    slugs_found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", without_code(text), re.MULTILINE):
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = found[slug] = found.get(slug, -1) + 1
        slugs_found.add(f"{slug}-{count}" if count else slug)
    return slugs_found


def without_code(text: str) -> str:
    """A page with blank lines in the place of its blocks of code."""
    block = re.compile(r"^( *)(```+|~~~+).*?^ *\2", re.MULTILINE | re.DOTALL)
    return block.sub(lambda found: re.sub(r".+", "", found[0]), text)


def links(tree: Tree) -> Iterator[Violation]:
    """Links inside the tree lead to files and headings that are there."""
    for path in tree.files:
        if not (path.endswith(".md") and ("/" not in path or path.startswith("docs/"))):
            continue
        for number, line in enumerate(without_code(tree.text(path)).split("\n"), 1):
            prose = re.sub(r"(`+).+?\1", "", line)
            for target in re.findall(r"\]\(<?([^)\s>]+)", prose) + re.findall(r"^ *\[[^\]]+\]:\s*(\S+)", prose):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                leads_to = (tree.root / path).parent / file if file else tree.root / path
                if not leads_to.exists():
                    yield Violation(path, number, "links", f"{target} leads to no file; mend the link")
                elif anchor and leads_to.suffix == ".md" and anchor not in slugs(leads_to.read_text(encoding="utf-8")):
                    yield Violation(path, number, "links", f"{target} leads to no heading; mend the anchor")


RULES = [layers, impls, headers, width, inline_tests, unsafe, safety, modules, length, declared, names, links]


def stale(tree: Tree, found: list[Violation]) -> tuple[list[Violation], list[Violation]]:
    """Takes away what the exceptions allow; the rest, and the exceptions that allowed nothing or give no reason."""
    bad = []
    for rule, exceptions in tree.settings.get("except", {}).items():
        for exception in exceptions:
            path, what = exception["path"], exception.get("what")
            allowed = [
                one for one in found
                if one.rule == rule and fnmatch.fnmatchcase(one.path, path) and what in (None, one.what)
            ]
            found = [one for one in found if one not in allowed]
            line = tree.line_of_setting(path, f"{rule} = [")
            if not allowed:
                bad.append(Violation(SETTINGS, line, "stale", f"{rule} needs no exception for {path}; take it out"))
            if not exception.get("reason"):
                bad.append(Violation(SETTINGS, line, "stale", f"no reason for the exception of {path}; give one"))
    return found, bad


def check(root: pathlib.Path) -> list[Violation]:
    """All that is against the rules in a tree."""
    tree = Tree(root)
    found = list(dict.fromkeys(violation for rule in RULES for violation in rule(tree)))
    rest, bad = stale(tree, found)
    return sorted(rest + bad)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    violations = check(root)
    for path, line, rule, text, _ in violations:
        print(f"{path}:{line}: {rule}: {text}")
    if violations:
        print(f"tidy: {len(violations)} violations", file=sys.stderr)
        return 1
    print("tidy: all rules are kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())

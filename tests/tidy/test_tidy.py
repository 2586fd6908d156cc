"""Each rule of tidy finds what is planted against it, at its line, and lets pass what only looks so."""

import pathlib
import subprocess
import sys

import pytest
import tidy
from rust import Crate, Source

SETTINGS = """test_files = ["testing.rs"]

[[layers]]
crate = "a"
order = [
    ["low"],
    ["mid", "side"],
    ["high"],
]

[headers]
files = ["crates/*/src/*.rs", "tests/*.py"]
[width]
columns_max = 60
[inline_tests]
lines_max = 5
[length]
lines_max = 20
tests_lines_max = 30
[names]
ignore = ["elsewhere"]

[except]
unsafe = [
    { path = "crates/a/src/low.rs", reason = "maps files" },
]
"""
# A tree that keeps all rules, each of them with something to look at.
CLEAN = {
    "tests/tidy/tidy.toml": SETTINGS,
    "tests/one.py": '#!/usr/bin/env python3\n"""One."""\n',
    "Makefile": "lint: build\n\tcargo clippy\n",
    "Cargo.toml": '[workspace.dependencies]\narrow-array = "59"\n',
    "README.md": "# Read me\n\nSee [the page](docs/page.md#what-it-is) and [this](#read-me).\n",
    "docs/page.md": "# Page\n\n## What *it* is\n\n[up](../README.md), [away](https://example.org/none)\n",
    "ARCHITECTURE.md": "# A\n\n## `crates/a`: what?\n\n`Low` is in `low`, `elsewhere` not; `Low::open`.\n",
    "crates/a/src/lib.rs": """//! A.

mod high;
mod low;
mod mid;
mod side;

pub use low::{Low, open as of};
pub use mid::Mid;
""",
    "crates/a/src/low.rs": """//! Low.

pub struct Low;

impl Low {
    pub fn open(&self) -> u8 {
        // SAFETY: nobody else has it.
        unsafe { *std::ptr::null() }
    }
}
""",
    "crates/a/src/mid/mod.rs": "//! Mid.\n\nmod inner;\n\npub use inner::Mid;\n",
    "crates/a/src/mid/inner.rs": "//! Inner.\n\nuse crate::Low;\n\npub struct Mid(Low);\n",
    "crates/a/src/side.rs": "//! Side.\n\nuse crate::low;\n\npub fn side() -> low::Low {\n    low::Low\n}\n",
    "crates/a/src/high.rs": "//! High.\n\nuse super::{mid::Mid, side::side};\n",
}


def plant(root: pathlib.Path, changes: dict[str, str]) -> list[tidy.Violation]:
    """What tidy finds in the clean tree with some files changed."""
    for path, text in {**CLEAN, **changes}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return tidy.check(root)


def places(root: pathlib.Path, changes: dict[str, str]) -> list[str]:
    """The same as `path:line: rule`."""
    return [f"{one.path}:{one.line}: {one.rule}" for one in plant(root, changes)]


def settings(old: str, new: str) -> dict[str, str]:
    """The settings with one text in the place of another."""
    assert old in SETTINGS
    return {"tests/tidy/tidy.toml": SETTINGS.replace(old, new)}


def run(root: pathlib.Path, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, tidy.__file__, str(root)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_a_clean_tree_passes(tmp_path: pathlib.Path) -> None:
    assert plant(tmp_path, {}) == []
    done = run(tmp_path, cwd=pathlib.Path("/"))
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done


def test_what_it_prints(tmp_path: pathlib.Path) -> None:
    plant(tmp_path, {"tests/one.py": "import sys\n"})
    done = run(tmp_path, cwd=tmp_path / "docs")
    printed = 'tests/one.py:1: headers: does not begin with """; say what the file is for\n'
    assert (done.returncode, done.stdout) == (1, printed), done


# Code of crates/a/src/side.rs (layer 2) behind its header and a blank line; the line and what it imports from above.
UPWARDS = {
    "a use": ("use crate::high::x;", 3, "high (layer 3): crate::high::x"),
    "sideways": ("use crate::mid::x;", 3, "mid (layer 2): crate::mid::x"),
    "by super": ("use super::high::x;", 3, "high (layer 3): crate::high::x"),
    "through re-exports": ("use crate::Mid;", 3, "mid (layer 2): crate::mid::inner::Mid"),
    "through one of a folder": ("use crate::mid::Mid;", 3, "mid (layer 2): crate::mid::inner::Mid"),
    "a tree": ("use crate::{\n    low::Low,\n    mid::{\n        x,\n    },\n};", 6, "mid (layer 2): crate::mid::x"),
    "another name": ("use crate::high as top;", 3, "high (layer 3): crate::high"),
    "a re-export": ("pub(crate) use crate::high::x;", 3, "high (layer 3): crate::high::x"),
    "a glob": ("use crate::high::*;", 3, "high (layer 3): crate::high"),
    "itself of a tree": ("use crate::high::{self};", 3, "high (layer 3): crate::high"),
    "a path": ("fn f() {\n    let a = 1..crate::high::x();\n}", 4, "high (layer 3): crate::high::x"),
    "a path of a macro": ("macro_rules! m {\n    () => { $crate::high::x };\n}", 4, "high (layer 3): crate::high::x"),
    "a use in a function": ("fn f() {\n    use crate::high::x;\n}", 4, "high (layer 3): crate::high::x"),
    "a module inside": ("mod inside {\n    use super::super::high::x;\n}", 4, "high (layer 3): crate::high::x"),
    "an escaped name": ("use crate::high::r#type;", 3, "high (layer 3): crate::high::type"),
    "once": ("use crate::high::X;\nfn f() { X::y() }", 3, "high (layer 3): crate::high::X"),
    "from lib.rs": ("use crate::Own;", 3, "lib.rs (above all layers): crate::Own"),
    "behind tests": ("#[cfg(test)]\nuse crate::high::{a, b};\nuse crate::high::x;", 5, "high (layer 3): crate::high::x"),
    "behind a lifetime": ("fn f<'a>(a: &'a u8) { b = '\"'; crate::high::x() }", 3, "high (layer 3): crate::high::x"),
    "code of some features": ('#[cfg(any(test, feature = "f"))]\nuse crate::high::x;', 4, "high (layer 3): crate::high::x"),
}


@pytest.mark.parametrize("name", UPWARDS)
def test_layers_find_an_import(name: str, tmp_path: pathlib.Path) -> None:
    code, line, imported = UPWARDS[name]
    lib = CLEAN["crates/a/src/lib.rs"] + "\npub struct Own;\n"
    found = plant(tmp_path, {"crates/a/src/side.rs": f"//! Side.\n\n{code}\n", "crates/a/src/lib.rs": lib})
    text = f"side (layer 2) imports {imported}"
    assert [one[:4] for one in found] == [("crates/a/src/side.rs", line, "layers", text)]


NO_IMPORTS = {
    "what is below": "use crate::low::{self, Low};\nuse crate::of;\nuse super::Low as L;",
    "itself": "mod inside { pub struct A; }\nuse self::inside::A;\nuse crate::side::inside;\nfn f() -> inside::A { A }",
    "a module inside": "mod high {}\nmod inside {\n    use super::high::x;\n}",
    "other crates": "use std::high::x;\nuse high::x;\nuse ::high::y;",
    "comments": "// crate::high::x\n/* crate::high::x /* use crate::high; */ use crate::high; */",
    "strings": 'const A: &str = "\\" use crate::high::x;";\nconst B: &str = r#"" use crate::high::x; "#;',
    "tests": "#[cfg(test)]\n#[allow(unused)]\nmod tests {\n    use crate::high::x;\n}",
    "a function of tests": "#[cfg(test)]\nfn f(a: [u8; 2]) {\n    crate::high::x()\n}",
    "a use of tests": "#[cfg(test)]\nuse crate::{high::x, mid::y};",
    "visibility": "pub(in crate::high) struct A;",
    "a name that is no module": "use crate::low::high;\nfn f() { high::x() }",
}


@pytest.mark.parametrize("name", NO_IMPORTS)
def test_layers_let_pass(name: str, tmp_path: pathlib.Path) -> None:
    code = NO_IMPORTS[name]
    assert places(tmp_path, {"crates/a/src/side.rs": f"//! Side.\n\n{code}\n"}) == []
    # What passes is passed over: the same file is looked at.
    changed = {"crates/a/src/side.rs": f"//! Side.\n\n{code}\nuse crate::high::z;\n"}
    assert places(tmp_path, changed) == [f"crates/a/src/side.rs:{3 + code.count(chr(10)) + 1}: layers"]


@pytest.mark.parametrize("path", ["side/tests.rs", "side/tests/more.rs", "testing.rs", "speed.rs"])
def test_layers_pass_over_files_of_tests(path: str, tmp_path: pathlib.Path) -> None:
    lib = CLEAN["crates/a/src/lib.rs"] + "mod testing;\n#[cfg(test)]\nmod speed;\n"
    text = "//! Tests.\n\nuse crate::high::x;\n"
    changes = {f"crates/a/src/{path}": text, "crates/a/src/lib.rs": lib}
    assert places(tmp_path, changes) == []
    # The same file is one of the crate's where nothing says that it is a test.
    changes = {"crates/a/src/low/other.rs": text, "crates/a/src/low/mod.rs": CLEAN["crates/a/src/low.rs"]}
    assert "crates/a/src/low/other.rs:3: layers" in places(tmp_path, changes)


def test_layers_pass_over_a_file_that_says_so(tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {"crates/a/src/side.rs": "//! Side.\n#![cfg(test)]\nuse std::a;\nuse crate::high::x;\n"}) == []


def test_layers_take_a_module_out_of_another(tmp_path: pathlib.Path) -> None:
    inner = {"crates/a/src/mid/inner.rs": "//! Inner.\n\npub struct Mid;\n"}
    side = {"crates/a/src/side.rs": "//! Side.\n\nuse crate::Mid;\nuse crate::mid;\n"}
    below = settings('["low"]', '["low", "mid::inner"]')
    assert places(tmp_path, inner | side | below) == ["crates/a/src/side.rs:4: layers"]
    upwards = {"crates/a/src/mid/inner.rs": "//! Inner.\n\npub struct Mid;\nuse super::x;\n"}
    found = plant(tmp_path, upwards | below)
    assert [one[:4] for one in found] == [
        ("crates/a/src/mid/inner.rs", 4, "layers", "mid::inner (layer 1) imports mid (layer 2): crate::mid::x")
    ]


def test_layers_of_a_folder(tmp_path: pathlib.Path) -> None:
    of_mid = '[[layers]]\ncrate = "a"\nwithin = "mid"\norder = [\n    ["ground"],\n    ["inner"],\n]\n\n[headers]'
    changes = settings("[headers]", of_mid) | {
        "crates/a/src/mid/mod.rs": "//! Mid.\n\nmod ground;\nmod inner;\n\npub use inner::Mid;\npub struct Own;\n",
        "crates/a/src/mid/ground.rs": "//! Ground.\n\nuse crate::low::Low;\nuse crate::mid::Mid;\nuse super::Own;\n",
    }
    found = plant(tmp_path, changes)
    assert [one[:4] for one in found] == [
        ("crates/a/src/mid/ground.rs", 4, "layers", "ground (layer 1) imports inner (layer 2): crate::mid::inner::Mid"),
        ("crates/a/src/mid/ground.rs", 5, "layers", "ground (layer 1) imports mod.rs (above all layers): crate::mid::Own"),
    ]
    more = {"crates/a/src/mid/more.rs": "//! More.\n", "crates/a/src/mid/ground.rs": "//! Ground.\n"}
    assert places(tmp_path, changes | more) == ["crates/a/src/mid/more.rs:1: layers"]
    # Each list has lines of its own in the settings.
    twice = changes | more | settings("[headers]", of_mid.replace('"inner"', '"low", "inner", "more"'))
    assert places(tmp_path, twice) == ["tests/tidy/tidy.toml:16: layers"]


def test_layers_follow_globs(tmp_path: pathlib.Path) -> None:
    lib = CLEAN["crates/a/src/lib.rs"].replace("pub use mid::Mid;", "pub use mid::*;")
    changes = {"crates/a/src/lib.rs": lib, "crates/a/src/side.rs": "//! Side.\n\nuse crate::Mid;\n"}
    found = plant(tmp_path, changes)
    assert [(one.line, one.text) for one in found] == [
        (3, "side (layer 2) imports mid (layer 2): crate::mid::inner::Mid")
    ]


def test_layers_are_complete(tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {"crates/a/src/new.rs": "//! New.\n"}) == ["crates/a/src/new.rs:1: layers"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [('["high"]', '["high"],\n    ["gone"]', 9), ('["low"]', '["low", "mid::gone"]', 6), ('"a"', '"none"', 4)],
)
def test_layers_that_are_not_there(old: str, new: str, line: int, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, settings(old, new)) == [f"tests/tidy/tidy.toml:{line}: layers"]


def test_layers_of_a_program_beside_a_library(tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {"crates/a/src/main.rs": "//! Main.\n\nuse crate::high::x;\n"}) == []


IMPLS = {
    "in another file": ("side.rs", "use crate::low::Low;\n\nimpl Low {}", 5),
    "through re-exports": ("high.rs", "use crate::Mid;\n\nimpl Mid {}", 5),
    "by a path": ("side.rs", "impl crate::low::Low {}", 3),
    "with generics": ("side.rs", "use crate::Low;\n\nimpl<T: Fn(u8) -> u8> Low<T>\nwhere\n    for<'a> T: Send,\n{}", 5),
    "of a type with for": ("side.rs", "impl crate::Low<dyn for<'a> Fn(&'a u8)> {}", 3),
    "behind an attribute": ("side.rs", "use crate::Low;\n#[allow(x)]\nimpl Low {}", 5),
    "in a module inside": ("side.rs", "mod inside {\n    use super::super::Low;\n    impl Low {}\n}", 5),
}


@pytest.mark.parametrize("name", IMPLS)
def test_impls_outside_of_their_folder(name: str, tmp_path: pathlib.Path) -> None:
    path, code, line = IMPLS[name]
    changes = {f"crates/a/src/{path}": f"//! A file.\n\n{code}\n"}
    assert places(tmp_path, changes) == [f"crates/a/src/{path}:{line}: impls"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("side.rs", "use crate::Low;\n\nimpl Clone for Low {}"),
        ("side.rs", "use crate::Low;\n\nimpl<T> From<T> for Low where for<'a> T: Copy {}"),
        ("side.rs", "pub struct Low;\n\nimpl Low {}\nfn f() -> impl Iterator<Item = Low> {}"),
        ("side.rs", "use std::Low;\n\nimpl Low {}"),
        ("side.rs", "use crate::Low;\n\n#[cfg(test)]\nimpl Low {}"),
        ("mid/mod.rs", "mod inner;\n\npub use inner::Mid;\n\nimpl Mid {}"),
        ("mid/beside.rs", "use super::Mid;\n\nimpl Mid {}"),
        ("low/tests.rs", "use super::Low;\n\nimpl Low {}"),
    ],
)
def test_impls_that_may_stand(path: str, code: str, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {f"crates/a/src/{path}": f"//! A file.\n\n{code}\n"}) == []


def test_impls_have_exceptions(tmp_path: pathlib.Path) -> None:
    changes = {"crates/a/src/side.rs": "//! Side.\n\nuse crate::low::Low;\n\nimpl Low {}\n"}
    for what, left in (("Low", []), ("Other", ["crates/a/src/side.rs:5: impls", "tests/tidy/tidy.toml:25: stale"])):
        exception = f'[except]\nimpls = [\n    {{ path = "crates/a/src/side.rs", what = "{what}", reason = "why" }},\n]'
        assert places(tmp_path, changes | settings("[except]", exception)) == left


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("crates/a/src/side.rs", "/// Not of the file.\nfn f() {}\n"),
        ("crates/a/src/side.rs", ""),
        ("tests/one.py", "# A comment.\nx = 1\n"),
    ],
)
def test_headers(path: str, text: str, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {path: text}) == [f"{path}:1: headers"]


WIDE = "wide " * 12


@pytest.mark.parametrize("comment", [f"// {WIDE}", f"/// {WIDE}", f"fn f() {{}} // {WIDE}", f"/*\n {WIDE} */"])
def test_width(comment: str, tmp_path: pathlib.Path) -> None:
    line = 4 + comment.count("\n")
    assert places(tmp_path, {"crates/a/src/side.rs": f"//! Side.\n\n\n{comment}\n"}) == [f"crates/a/src/side.rs:{line}: width"]


@pytest.mark.parametrize(
    "line",
    [
        "// " + "w" * 57,
        f"/// | {WIDE} |",
        f"//! https://example.org/{'w' * 60}",
        f"//! [here]: https://example.org/{'w' * 60}",
        f'const A: &str = "// {WIDE}";',
        f"fn f() {{ {'g(); ' * 12} }}",
    ],
)
def test_width_lets_pass(line: str, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {"crates/a/src/side.rs": f"//! Side.\n\n{line}\n"}) == []


@pytest.mark.parametrize("lines", [5, 6])
def test_inline_tests(lines: int, tmp_path: pathlib.Path) -> None:
    text = "//! Side.\n\n#[cfg(test)]\nmod tests {" + "\n" * (lines - 1) + "}\n"
    found = plant(tmp_path, {"crates/a/src/side.rs": text, "crates/a/src/mid/mod.rs": text})
    expected = ["move it to tests.rs", "move it to side/tests.rs"] if lines > 5 else []
    assert [(one.line, one.rule, one.text.split("; ")[1]) for one in found] == [
        (4, "inline-tests", wanted) for wanted in expected
    ]


def test_unsafe_is_where_it_is_listed(tmp_path: pathlib.Path) -> None:
    text = "//! Side: unsafe.\n\n// SAFETY: unsafe.\nunsafe impl Send for A {}\n"
    assert places(tmp_path, {"crates/a/src/side.rs": text}) == ["crates/a/src/side.rs:4: unsafe"]


LISTED = '//! Low.\n\npub struct Low;\n\nimpl Low {\n    pub fn open() {}\n}\nconst A: &str = "unsafe {";\n'


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("fn f() {\n    unsafe { g() }\n}", 10),
        ("fn f() { unsafe{ g() } }", 9),
        ("unsafe impl Send for Low {}", 9),
        ('unsafe extern "C" {}', 9),
        ("/// What callers keep is not said.\npub unsafe fn g() {}", 10),
        ('pub unsafe extern "C" fn g() {}', 9),
        ("unsafe trait T {}", 9),
        ("// SAFETY: for the first.\nunsafe impl Send for Low {}\nunsafe impl Sync for Low {}", 11),
        ("// SAFETY: too far." + "\n" * 11 + "unsafe impl Send for Low {}", 20),
        ("/// # Safety\n/// Of another.\nfn f() {}\nunsafe fn g() {}", 12),
    ],
)
def test_safety(code: str, line: int, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {"crates/a/src/low.rs": f"{LISTED}{code}\n"}) == [f"crates/a/src/low.rs:{line}: safety"]


@pytest.mark.parametrize(
    "code",
    [
        "// SAFETY: so.\n#[cfg(unix)]\nlet a =\n    unsafe { g() };",
        "unsafe { g() } // SAFETY: so.",
        "match a {\n    // SAFETY: so.\n    8 => unsafe { g() },\n}",
        "/// # Safety\n/// Callers keep it.\n#[inline]\nunsafe fn g() {}",
        "/// # Safety\n/// It is plain.\nunsafe trait T {}",
        'type F = unsafe extern "C" fn() -> u8;\nstruct S(unsafe fn(u8));',
        "// SAFETY: too far, but for one line." + "\n" * 10 + "unsafe impl Send for Low {}",
    ],
)
def test_safety_lets_pass(code: str, tmp_path: pathlib.Path) -> None:
    # The exception is needed, so that the file is known to be looked at.
    assert places(tmp_path, {"crates/a/src/low.rs": f"{LISTED}{code}\n"}) == []


def test_modules(tmp_path: pathlib.Path) -> None:
    changes = {
        "crates/a/src/side/more.rs": "//! More.\n",
        "crates/a/src/high/tests.rs": "//! Tests.\n",
        "crates/a/src/high/tests/more.rs": "//! Tests.\n",
    }
    # `tests.rs` beside `tests/` is no folder either.
    assert places(tmp_path, changes) == ["crates/a/src/high/tests.rs:1: modules", "crates/a/src/side.rs:1: modules"]


@pytest.mark.parametrize(("path", "most"), [("side.rs", 20), ("side/tests.rs", 30), ("mid/tests/more.rs", 30)])
def test_length(path: str, most: int, tmp_path: pathlib.Path) -> None:
    path = f"crates/a/src/{path}"
    assert places(tmp_path, {path: "//! Long." + "\n" * most}) == []
    assert places(tmp_path, {path: "//! Long." + "\n" * (most + 1)}) == [f"{path}:{most + 1}: length"]


NAMES = {
    "crates/a/Cargo.toml": '[package]\nname = "tick-a"\n[dependencies]\nserde = "1"\n',
    "crates/a/src/side.rs": """//! Side.
/// A table.
pub struct Table<'a> { pub rows: u8, old_rows: &'a u8 }
enum Kind { Fast, #[x] Slow(u8) }
trait Wise { fn settle(&self); }
impl<'a> Table<'a> { const MAX: u8 = 1; fn f() { Foreign } }
type Alias = u8;
macro_rules! plain { () => {} }
""",
    "crates/b/src/lib.rs": "//! B.\npub struct Other;\n#[cfg(test)]\nstruct S {\n    only_tested: u8,\n}\n",
    "crates/b/src/b/tests.rs": "//! B.\nstruct S { a_test: u8 }\nfn test() {}\n",
    "crates/b/tests/it/kill.rs": "//! Kill.\n",
    "crates/a/tool.py": '"""Tool."""\nLIMIT = 1\nclass Relation:\n    def rows_of(self): ...\n',
}


def name_page(section: str, name: str) -> dict[str, str]:
    return NAMES | {"ARCHITECTURE.md": f"# A\n\n`elsewhere`\n\n## {section}\n\n```\n`fenced`\n```\n\nIt is `{name}`.\n"}


@pytest.mark.parametrize(
    "name",
    """Table Table::rows side::Table Kind::Fast Slow Wise::settle settle Table::MAX Alias plain mid/ mid/inner inner.rs
    crates/a/src/side.rs mid/{mod,inner}.rs tool Relation rows_of LIMIT serde tick-a -array arrow-array
    src mid/*.rs --old-rows b crate/ SELECT 1,024 /mcp low::Low open() mid::Mid""".replace("crate/", "src/").split(),
)
def test_names_that_are_there(name: str, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, name_page("`crates/a`: what?", name)) == []


@pytest.mark.parametrize(
    "name",
    """Tables Table::gone Gone::rows Kind::rows side::Other gone/ mid/gone gone.rs mid/{mod,gone}.rs serd -arra --gone
    mid/*.py Foreign Other only_tested kill gone() mid::gone""".split(),
)
def test_names_that_are_not(name: str, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, name_page("`crates/a`: what?", name)) == ["ARCHITECTURE.md:11: names"]


def test_names_of_the_whole_tree(tmp_path: pathlib.Path) -> None:
    for name in ("Other", "b::Other", "a::mid", "tests/it/kill", "side", "make lint"):
        assert places(tmp_path, name_page("What is where?", name)) == []
    for name in ("only_tested", "a_test", "test", "a::Other", "fenced", "make lunch"):
        assert places(tmp_path, name_page("What is where?", name)) == ["ARCHITECTURE.md:11: names"]


@pytest.mark.parametrize(
    ("link", "ok"),
    [
        ("[a](docs/gone.md)", False),
        ("[a](docs/page.md#gone)", False),
        ("[a](#gone)", False),
        ("[`a`](<docs/gone.md>)", False),
        ("![a](docs/gone.png)", False),
        ("[a]: docs/gone.md", False),
        ("[a](docs)", True),
        ("`[a](gone)`", True),
        ("[a](mailto:gone)", True),
        ("```\n[a](gone)\n```", True),
        ("[a](docs/page.md#what-it-is)", True),
    ],
)
def test_links(link: str, ok: bool, tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {"README.md": f"# R\n\n{link}\n"}) == ([] if ok else ["README.md:3: links"])


def test_links_of_the_documentation(tmp_path: pathlib.Path) -> None:
    changes = {"docs/more/deep.md": "# Deep\n\n[a](../page.md)\n[b](page.md)\n", "crates/a/READ.md": "[a](gone)\n"}
    assert places(tmp_path, changes) == ["docs/more/deep.md:4: links"]


def test_anchors() -> None:
    page = '# `crates/x`: what?\n## Twice\n## Twice\n## A [link](to) & more_of-it\n```\n# no\n```\n<a id="own"></a>\n'
    assert tidy.slugs(page) == {"cratesx-what", "twice", "twice-1", "a-link--more_of-it", "own"}


def test_exceptions_that_are_not_needed(tmp_path: pathlib.Path) -> None:
    assert places(tmp_path, {"crates/a/src/low.rs": LISTED}) == ["tests/tidy/tidy.toml:25: stale"]
    assert places(tmp_path, settings(', reason = "maps files"', "")) == ["tests/tidy/tidy.toml:25: stale"]
    assert places(tmp_path, settings('["elsewhere"]', '["elsewhere", "Low"]')) == ["tests/tidy/tidy.toml:21: stale"]


def test_code_without_what_is_none() -> None:
    for text, kept in {
        "a // b\nc": "a     \nc",
        "a /* b /* c */ d */ e": "a                   e",
        'f("a\\"b", c)': "f(      , c)",
        'r"\\" + 1': "r    + 1",
        'r##"a"# b"## + 1': "r            + 1",
        "let a: &'a u8 = b'\\'' + '\"' + '\\u{1F}';": "let a: &'a u8 = b     +     +         ;",
        '"a\nb" c': "  \n   c",
    }.items():
        assert Source("a.rs", text).code == kept, text


def test_a_use_in_a_function_names_nothing_outside() -> None:
    one, two = Source("s/a.rs", "pub fn x() {}\nfn f() {\n    use crate::b::x;\n}\n"), Source("s/b.rs", "pub fn x() {}")
    crate = Crate("s", [Source("s/lib.rs", ""), one, two])
    assert crate.resolve((), ("crate", "a", "x")) == (("a",), "x")


def test_modules_that_name_each_other_end() -> None:
    lib = Source("s/lib.rs", "pub use a::A;\npub use a::*;\npub use b::*;\n")
    one = Source("s/a.rs", "pub use crate::b::A;\npub use crate::*;\n")
    crate = Crate("s", [lib, one, Source("s/b.rs", "pub use crate::a::{A, self};")])
    assert crate.resolve((), ("crate", "A")) in {(("a",), "A"), (("b",), "A")}


FACTS = """[[declared]]
files = "crates/a/src/*.rs"
implements = 'impl Node for '
names = '"(\\w+Exec)"'
lines = 5
in = "crates/a/src/low.rs"

[names]
"""


@pytest.mark.parametrize("name, found", [("KnownExec", []), ("NewExec", ["crates/a/src/side.rs:5: declared"])])
def test_declared(name: str, found: list[str], tmp_path: pathlib.Path) -> None:
    low = CLEAN["crates/a/src/low.rs"] + '\npub const NODES: [&str; 1] = ["KnownExec"];\n'
    side = f'//! Side.\n\nuse crate::low;\n\nimpl Node for low::Low {{\n    const NAME: &str = "{name}";\n}}\n'
    files = {"crates/a/src/low.rs": low, "crates/a/src/side.rs": side, "crates/a/src/high.rs": "//! High.\n"}
    assert places(tmp_path, {**settings("[names]\n", FACTS), **files}) == found

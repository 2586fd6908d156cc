"""The licences of all dependencies are allowed by deny.toml, and none of them is banned or from elsewhere than crates.io.

It reads what `cargo metadata` and Cargo.lock say, without network and without cargo-deny, which checks more (`make deny`).
"""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable
from typing import Any

import pytest
from conftest import REPOSITORY

CARGO = os.environ.get("CARGO", "cargo")
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
DENY = tomllib.loads((REPOSITORY / "deny.toml").read_text())
ALLOWED = set(DENY["licenses"]["allow"])
EXCEPTIONS = {one["crate"]: set(one["allow"]) for one in DENY["licenses"]["exceptions"]}


def options(expression: str) -> list[frozenset[str]]:
    """The sets of licences of which each one satisfies an SPDX expression; `A/B` is the older spelling of `A OR B`."""
    tokens = re.findall(r"[()]|[\w.+-]+", expression.replace("/", " OR "))

    def alternatives() -> list[frozenset[str]]:
        found = together()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            found += together()
        return found

    def together() -> list[frozenset[str]]:
        found = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            found = [left | right for right in one() for left in found]
        return found

    def one() -> list[frozenset[str]]:
        name = tokens.pop(0)
        if name == "(":
            inside = alternatives()
            assert tokens.pop(0) == ")", expression
            return inside
        if tokens and tokens[0] == "WITH":
            name = f"{name} {tokens.pop(0)} {tokens.pop(0)}"
        return [frozenset([name])]

    found = alternatives()
    assert not tokens, expression
    return found


def refused(packages: Iterable[dict[str, Any]]) -> list[str]:
    """The packages whose licence is not allowed, each with it."""
    faults = []
    for package in packages:
        allowed = ALLOWED | EXCEPTIONS.get(package["name"], set())
        licence = package["license"]
        if not licence or not any(option <= allowed for option in options(licence)):
            faults.append(f"{package['name']} {package['version']}: {licence}")
    return faults


def banned(locked: Iterable[dict[str, Any]]) -> list[str]:
    """The packages of a lock file that are banned, or that crates.io does not have; Tickstone's own have no source."""
    reasons = {one["crate"]: one["reason"] for one in DENY["bans"]["deny"]}
    faults = [f"{one['name']}: {reasons[one['name']]}" for one in locked if one["name"] in reasons]
    return faults + [f"{one['name']}: {one['source']}" for one in locked if one.get("source", CRATES_IO) != CRATES_IO]


def metadata() -> list[dict[str, Any]]:
    """The packages of all platforms or, where cargo has downloaded no others, of this one."""
    command = [CARGO, "metadata", "--locked", "--offline", "--format-version", "1", "--all-features"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode != 0:
        version = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
        host = version.split("host: ")[1].split("\n")[0]
        command += ["--filter-platform", host]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["packages"]


def test_licences_are_allowed() -> None:
    packages = metadata()
    assert len(packages) > 100
    assert refused(packages) == [], "use another crate, or allow the licence in deny.toml and say why"
    offered = {name for package in packages for option in options(package["license"]) for name in option}
    assert ALLOWED - offered == set(), "no dependency has these licences: take them out of deny.toml"
    needed = {package["name"] for package in packages} & set(EXCEPTIONS)
    assert needed == set(EXCEPTIONS), "these exceptions are for crates that are gone: take them out of deny.toml"


def test_nothing_banned_is_a_dependency() -> None:
    locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    assert banned(locked) == []


@pytest.mark.parametrize(
    ("expression", "is_allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only/MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("MIT AND ISC", True),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", False),
        ("(GPL-3.0-only OR Apache-2.0) AND (Zlib OR GPL-3.0-only)", True),
        ("GPL-3.0-only OR MIT AND ISC", True),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("Apache-2.0 WITH LLVM-exception OR MIT", True),
        ("CC0-1.0", False),
        ("", False),
        (None, False),
    ],
)
def test_a_licence_is_found(expression: str | None, is_allowed: bool) -> None:
    package = {"name": "planted", "version": "1.0.0", "license": expression}
    assert refused([package]) == ([] if is_allowed else [f"planted 1.0.0: {expression}"])


def test_an_exception_is_for_its_crate() -> None:
    licence = {"version": "1.0.0", "license": "CC0-1.0"}
    assert refused([{"name": "tiny-keccak", **licence}]) == []
    assert refused([{"name": "other", **licence}]) == ["other 1.0.0: CC0-1.0"]


def test_what_is_banned_is_found() -> None:
    names = [one["crate"] for one in DENY["bans"]["deny"]]
    assert {"openssl", "openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys"} <= set(names)
    assert len(banned([{"name": name, "source": CRATES_IO} for name in names])) == len(names)
    fork = {"name": "arrow", "source": "git+https://example.org/arrow"}
    assert banned([fork, {"name": "own"}, {"name": "openssl-probe", "source": CRATES_IO}]) == [f"arrow: {fork['source']}"]

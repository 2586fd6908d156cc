#!/usr/bin/env python3
"""How much code each crate makes: its own, and that of others which it makes once more.

    python3 scripts/sizes.py [FOLDER]     # target/release/deps, after a build without link-time optimisation

Generic code, and what drops a value, is made in the crate that uses it: `sqlparser` and `drops` say how much of a
crate's code is of the SQL syntax tree, and how much drops values of any kind. Sizes are of functions, before the linker
leaves out what nobody calls.
"""

import collections
import pathlib
import re
import signal
import subprocess
import sys


def functions(archive: pathlib.Path) -> list[tuple[int, str]]:
    """Bytes and names of the functions that a library defines."""
    listed = subprocess.run(
        ["nm", "--print-size", "--defined-only", "-C", str(archive)], capture_output=True, text=True, errors="replace"
    )
    found = (re.match(r"\S+ (\S+) [tTwW] (.+)", line) for line in listed.stdout.splitlines())
    return [(int(one[1], 16), one[2]) for one in found if one]


def newest(folder: pathlib.Path) -> list[pathlib.Path]:
    """The newest library of each crate."""
    by_crate: dict[str, pathlib.Path] = {}
    for archive in folder.glob("lib*.rlib"):
        crate = archive.stem.rpartition("-")[0].removeprefix("lib")
        if crate not in by_crate or archive.stat().st_mtime > by_crate[crate].stat().st_mtime:
            by_crate[crate] = archive
    return list(by_crate.values())


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/deps")
    rows = []
    for archive in newest(folder):
        crate = archive.stem.rpartition("-")[0].removeprefix("lib")
        total: collections.Counter[str] = collections.Counter()
        for size, name in functions(archive):
            total["all"] += size
            total["functions"] += 1
            if "drop_in_place" in name:
                total["drops"] += size
            if "sqlparser::" in name:
                total["sqlparser"] += size
        if total["all"] >= 500_000:
            rows.append((total["all"], crate, total))
    if not rows:
        sys.exit(f"no libraries in {folder}: cargo build --release -p tickstone makes them")
    print(f"{'crate':<38}{'MB':>8}{'functions':>12}{'drops':>8}{'sqlparser':>11}")
    for size, crate, total in sorted(rows, reverse=True):
        drops, tree = total["drops"] / 1e6, total["sqlparser"] / 1e6
        print(f"{crate:<38}{size / 1e6:>8.1f}{total['functions']:>12,}{drops:>8.1f}{tree:>11.1f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Says which features of crates below DataFusion differ between selections of packages, so that cargo would build
DataFusion once for each: what is missing in crates/pinned/Cargo.toml. Exits with 1 where some differ."""

import os
import subprocess
import sys

CARGO = os.environ.get("CARGO", "cargo")
ALONE = ["tickstone", "tickstone-query", "tickstone-python", "tickstone-server"]


def features(*selection: str) -> dict[tuple[str, str], set[str]]:
    """The features of each crate (name, version) where these arguments select the packages."""
    arguments = ["tree", "--locked", "--edges", "normal,build,dev", "--format", "{p} {f}", "--prefix", "none"]
    run = subprocess.run([CARGO, *arguments, *selection], capture_output=True, text=True, check=True)
    found: dict[tuple[str, str], set[str]] = {}
    for line in run.stdout.splitlines():
        words = [word for word in line.split() if not word.startswith("(")]
        if len(words) >= 2:
            found.setdefault((words[0], words[1]), set()).update(",".join(words[2:]).split(","))
    return found


def main() -> int:
    below = features("--package", "datafusion").keys()
    together = features()
    differ = [
        f"{name} {version}: {sorted(together.get((name, version), set()) ^ of)} (-p {package})"
        for package in ALONE
        for (name, version), of in features("--package", package).items()
        if (name, version) in below and together.get((name, version)) != of
    ]
    for line in differ:
        print(line, file=sys.stderr)
    if differ:
        print("pin these features in crates/pinned/Cargo.toml", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the README's tour and compares what it prints, leaving out times and rates.

In a ```console block a line that begins with `$ ` is a command; what follows is what it prints.
UPDATE_DOCS=1 writes what the program prints into the README instead.
"""

import os
import re
import subprocess
import sys

from conftest import COMMAND_SECONDS, REPOSITORY

README = REPOSITORY / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"\d[\d,.]*\s*(?:[kMG] )?(?:ns|µs|ms|s|MB/s|MiB/s|rows/s)(?![a-zA-Z/])")


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it prints."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output before the first command: {parts[0]}"
    return list(zip(parts[1::2], parts[2::2]))


def unmeasured(text: str) -> list[str]:
    """Lines without times, rates and the spaces at their ends."""
    return [MEASURED.sub("#", line).rstrip() for line in text.strip().splitlines()]


def test_tour(program, tmp_path):
    environment = {**os.environ, "PATH": f"{program.resolve().parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    update = bool(os.environ.get("UPDATE_DOCS"))
    ran = 0

    def run_block(block: re.Match) -> str:
        nonlocal ran
        shown = ""
        for command, expected in steps(block[1]):
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_SECONDS,
            )
            ran += 1
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
            if not update:
                assert unmeasured(done.stdout) == unmeasured(expected), f"$ {command}\n{done.stdout}"
            printed = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
            shown += f"$ {command}\n{printed}\n\n"
        return f"```console\n{shown.rstrip()}\n```"

    page = BLOCK.sub(run_block, README.read_text())
    assert ran >= 5, "the tour is missing"
    if update:
        README.write_text(page)


def test_python(tmp_path):
    """The Python of the README runs as it stands."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        assert done.returncode == 0, f"{block}\n{done.stderr}"

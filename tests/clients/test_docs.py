"""The commands and programs of docs/server run, and print what the pages say."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "server"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", ["README.md", "rest.md"])
def test_the_commands_of_a_page(server: Any, page: str, tmp_path: Path) -> None:
    text = (PAGES / page).read_text()
    commands = re.findall(r"^\$ ((?:curl|printf) .*)\n((?:[^`$\n].*\n)*)", text, re.MULTILINE)
    assert commands
    for command, printed in commands:
        here = command.replace("localhost:9000", f"localhost:{server.ports['http_port']}")
        done = subprocess.run(here, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert done.stdout.strip() == printed.strip(), f"$ {here}\n{done.stderr}"


def test_the_programs_of_rest(server: Any) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", (PAGES / "rest.md").read_text(), re.MULTILINE | re.DOTALL)
    assert programs
    for program in programs:
        exec(compile(program.replace("localhost:9000", f"localhost:{server.ports['http_port']}"), "rest.md", "exec"), {})

"""The commands of docs/server run, and print what the page says."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "server" / "README.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page(server: Any) -> None:
    commands = re.findall(r"^\$ (curl .*)\n((?:[^`$\n].*\n)*)", PAGE.read_text(), re.MULTILINE)
    assert commands
    for command, printed in commands:
        here = command.replace("localhost:9000", f"localhost:{server.ports['http_port']}")
        done = subprocess.run(here, shell=True, capture_output=True, text=True, timeout=30)
        assert done.stdout.strip() == printed.strip(), f"$ {here}\n{done.stderr}"

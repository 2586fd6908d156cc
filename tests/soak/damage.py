"""Files of a database that are removed or damaged, one at a time: a check names each, or nothing that is asked changes."""

import random
import shutil
import subprocess
from pathlib import Path

COMMAND_S = 120


class Copy:
    """A copy of a database that nobody has open."""

    def __init__(self, program: Path, data: Path, at: Path) -> None:
        self.program, self.data, self.at = program, data, at
        shutil.copytree(data, at)

    def run(self, name: str, *words: str) -> tuple[int, str]:
        """What a command says of the copy, and how it ended."""
        command = [str(self.program), name, "--data", str(self.at), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S)
        return done.returncode, done.stdout + done.stderr

    def answers(self, questions: list[str]) -> tuple[int, str]:
        return self.run("sql", "--format", "csv", "-c", ";\n".join(questions))

    def anew(self) -> None:
        shutil.rmtree(self.at)
        shutil.copytree(self.data, self.at)


def damage(path: Path, choose: random.Random) -> str:
    """Damages a file; what was done to it."""
    held = bytearray(path.read_bytes())
    kind = choose.choice(["removed", "cut", "changed"]) if held else "removed"
    if kind == "removed":
        path.unlink()
        return "removed"
    at = choose.randrange(len(held))
    if kind == "cut":
        path.write_bytes(held[:at])
        return f"cut at {at} of {len(held)}"
    held[at] ^= 1 << choose.randrange(8)
    path.write_bytes(held)
    return f"changed at {at} of {len(held)}"


def check_damage(program: Path, data: Path, at: Path, questions: list[str], files: int, choose: random.Random) -> int:
    """Damages so many files of a copy, one after the other; how many of them a check named."""
    copy, named = Copy(program, data, at), 0
    # What opening changes is in the copy before the first file is damaged.
    code, whole = copy.answers(questions)
    assert code == 0, whole
    code, said = copy.run("check", "--quiet")
    assert code == 0, said
    shutil.rmtree(copy.at)
    shutil.copytree(data, copy.at)
    found = sorted(path.relative_to(copy.at) for path in copy.at.rglob("*") if path.is_file())
    for file in choose.sample(found, min(files, len(found))):
        what = damage(copy.at / file, choose)
        code, said = copy.run("check", "--quiet")
        if code != 0:
            assert str(file) in said, f"{file} was {what}, and a check does not name it:\n{said}"
            named += 1
        else:
            code, answered = copy.answers(questions)
            assert code != 0 or answered == whole, f"{file} was {what}, a check passes it over:\n{said}\n{whole}\n{answered}"
        copy.anew()
    return named

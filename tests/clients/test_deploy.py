"""What is deployed, and what docs/server says of it: the unit, the image, the metrics, the code of clients."""

import ast
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
import tomllib
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CLIENTS = Path(__file__).resolve().parent
DOCS = REPOSITORY / "docs" / "server"
DOCKERFILE = REPOSITORY / "deploy" / "Dockerfile"
UNIT = REPOSITORY / "deploy" / "systemd" / "tickstone.service"
# Of 100; below are the rights that a server on the network cannot do without.
EXPOSURE_MAX = 15
HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.fixture(scope="module")
def defaults(program: Path) -> dict[str, str]:
    """Every setting and its default."""
    command = [str(program), "serve", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.split("\nSettings:\n")[1]
    found = re.findall(r"--([\w-]+) <\w+>\s((?:(?!\n\n).)*)", text, re.DOTALL)
    value = re.compile(r"\[default:\s*([^\]]*)\]")
    return {name.replace("-", "_"): shown[1] if (shown := value.search(about)) else "" for name, about in found}


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def of_unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.MULTILINE)


@pytest.fixture
def unit(program: Path, tmp_path: Path) -> Path:
    """The unit with the program under test in it."""
    text = UNIT.read_text()
    assert "ExecStart=/usr/local/bin/tickstone serve " in text
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace("/usr/local/bin/tickstone", str(program)))
    return copy


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="NOT CHECKED: systemd-analyze is not installed")
def test_the_unit_is_one_and_gives_few_rights(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    security = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(unit)]
    done = subprocess.run(security, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_leaves_time_and_files(defaults: dict[str, str]) -> None:
    assert seconds(of_unit("TimeoutStopSec")[0]) >= 3 * seconds(defaults["shutdown_timeout"])
    assert int(of_unit("LimitNOFILE")[0]) >= 2 * int(defaults["connections_max"])
    assert of_unit("KillSignal") == ["SIGTERM"] and of_unit("User") == ["tickstone"]
    assert of_unit("ReadWritePaths") == ["/var/lib/tickstone"]


def test_a_wrong_setting_ends_as_the_unit_expects(program: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TICKSTONE_HTTP_PORT": "many"}
    command = [str(program), "serve", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, timeout=30, env=environment)
    assert [str(done.returncode)] == of_unit("RestartPreventExitStatus")


def instructions() -> list[str]:
    """The instructions of the Dockerfile, each in one line."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line]


def of_image(name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in instructions() if line.startswith(name + " ")]


def test_the_dockerfile_has_no_slips() -> None:
    done = subprocess.run([str(HADOLINT), str(DOCKERFILE)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_image_fits_the_repository(defaults: dict[str, str]) -> None:
    manifest = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
    assert of_image("FROM")[0].startswith(f"rust:{manifest['workspace']['package']['rust-version']}-")
    assert {defaults[port] for port in defaults if port.endswith("_port")} == set(of_image("EXPOSE")[0].split())
    assert of_image("USER")[-1] == "10001:10001"
    assert of_image("ENTRYPOINT") == ['["tickstone"]'] and of_image("CMD") == ['["serve", "--data", "/data"]']


def copy_context(to: Path) -> None:
    """What `COPY . .` has: all that .dockerignore leaves."""
    ignored = (REPOSITORY / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    left_out = [line for line in ignored if line and line[0] not in "#!*"]
    patterns = shutil.ignore_patterns(*(line.removeprefix("**/") for line in ignored if line.startswith("**/")))
    for name in kept:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=patterns)
        else:
            shutil.copy(source, to / name)
    for path in left_out:
        for found in to.glob(path):
            shutil.rmtree(found)


@pytest.mark.skipif(shutil.which("cargo") is None, reason="NOT CHECKED: cargo is not installed")
def test_what_the_image_is_built_from_is_whole(tmp_path: Path) -> None:
    """What .dockerignore leaves is a workspace with all its crates."""
    copy_context(tmp_path)
    command = ["cargo", "metadata", "--offline", "--no-deps", "--format-version=1", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"name":"tickstone"' in done.stdout
    # What the sources include must be among them.
    for source in tmp_path.glob("crates/*/src/**/*.rs"):
        for name in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text()):
            assert (source.parent / name).exists() or "tests" in source.name, f"{source}: {name}"


# What stands for commands of the image's steps. Cargo knows the flags and the package, and has built what it is asked for;
# the others work below $ROOT.
STAND_INS = {
    "cargo": """#!/bin/sh -e
[ "$1" = build ]
shift
profile=debug package=
for word in "$@"; do
    case "$word" in
    -*) "$CARGO" build --help | grep -q -e "$word\\b" || { echo "cargo build has no $word" >&2; exit 1; } ;;
    esac
    [ "$before" = -p ] && package=$word
    [ "$word" = --release ] && profile=release
    before=$word
done
"$CARGO" tree --quiet --locked --offline --depth 0 -p "$package" >&2
mkdir -p "target/$profile"
cp "$PROGRAM" "target/$profile/$package"
""",
    "groupadd": '#!/bin/sh\nexec "$REAL_groupadd" --prefix "$ROOT" "$@"\n',
    "useradd": '#!/bin/sh\nexec "$REAL_useradd" --prefix "$ROOT" "$@"\n',
    # The owner must be one that was made; only root could give him anything.
    "install": """#!/bin/bash -e
words=()
while [ $# -gt 0 ]; do
    case "$1" in
    -o) grep -q "^$2:" "$ROOT/etc/passwd"; shift ;;
    -g) grep -q "^$2:" "$ROOT/etc/group"; shift ;;
    /*) words+=("$ROOT$1") ;;
    *) words+=("$1") ;;
    esac
    shift
done
exec "$REAL_install" "${words[@]}"
""",
}


@pytest.mark.skipif(
    any(shutil.which(name) is None for name in ["cargo", "bash", "useradd"]) or os.geteuid() != 0,
    reason="NOT CHECKED: the image's steps need cargo, bash, and the useradd of root",
)
def test_the_steps_of_the_image_run(program: Path, tmp_path: Path) -> None:
    """Every step in a clean directory: each finds what it names, and leaves what the next one and the entry need."""
    bin, environment = tmp_path / "bin", {**os.environ, "PROGRAM": str(program)}
    bin.mkdir()
    for name, script in STAND_INS.items():
        environment["CARGO" if name == "cargo" else f"REAL_{name}"] = str(shutil.which(name))
        (bin / name).write_text(script)
        (bin / name).chmod(0o755)
    environment["PATH"] = f"{bin}:{environment['PATH']}"
    roots: dict[str, Path] = {}
    at = root = tmp_path
    for instruction in instructions():
        word, said = instruction.split(None, 1)
        if word == "FROM":
            name = said.split(" AS ")[-1]
            at = root = roots[name] = tmp_path / "roots" / name.replace("/", "_")
            for folder in ["etc", "usr/local/bin"]:
                (root / folder).mkdir(parents=True)
            for file in ["passwd", "group", "shadow", "gshadow"]:
                (root / "etc" / file).touch()
        elif word == "WORKDIR":
            at = root / said.lstrip("/")
            at.mkdir(parents=True, exist_ok=True)
        elif said == ". ." and word == "COPY":
            copy_context(at)
        elif word == "COPY":
            stage, source, to = said.split()
            shutil.copy(roots[stage.removeprefix("--from=")] / source.lstrip("/"), root / to.lstrip("/"))
        elif word == "RUN":
            step = re.sub(r"--mount=\S+", "", said)
            done = subprocess.run(
                ["sh", "-ec", step], capture_output=True, text=True, timeout=300, cwd=at, env={**environment, "ROOT": str(root)}
            )
            assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
    user, group = of_image("USER")[-1].split(":")
    assert f":{user}:{group}:" in (root / "etc" / "passwd").read_text()
    assert (root / "data").stat().st_mode & 0o777 == 0o700
    entry = root / "usr/local/bin" / ast.literal_eval(of_image("ENTRYPOINT")[0])[0]
    done = subprocess.run([entry, "--version"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and os.access(entry, os.X_OK), done.stderr
    # What is built runs where it was built: both stages are of one release.
    assert of_image("FROM")[0].split()[0].endswith("-bookworm") and of_image("FROM")[-1] == "debian:bookworm-slim"


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT CHECKED: bash is not installed")
def test_the_health_check_tells_a_server_from_none(server: Any) -> None:
    check = re.search(r'CMD \["bash", "-c", "(.*)"\]', of_image("HEALTHCHECK")[0])
    assert check
    script = check[1].replace("\\\\", "\\").replace("/9000", f"/{server.ports['http_port']}")
    assert subprocess.run(["bash", "-c", script], timeout=30).returncode == 0
    assert server.stop() == 0
    assert subprocess.run(["bash", "-c", script], capture_output=True, timeout=30).returncode != 0


def test_the_environment_of_the_image_needs_a_word(program: Path, defaults: dict[str, str], tmp_path: Path) -> None:
    ports = [setting for setting in defaults if setting.endswith("_port")]
    environment = {**os.environ, **{f"TICKSTONE_{port.upper()}": "0" for port in ports}}
    environment |= dict(word.split("=") for word in of_image("ENV"))
    command = [str(program), "serve", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
    assert done.returncode != 0 and "set insecure = users" in done.stderr
    log = (tmp_path / "log").open("w+")
    environment["TICKSTONE_INSECURE"] = "true"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment)
    try:
        end = time.monotonic() + 20
        while "listens" not in (said := (tmp_path / "log").read_text()):
            assert time.monotonic() < end and process.poll() is None, said
            time.sleep(0.02)
        assert said.count("WARN insecure") == 2
        port = re.search(r"http_port listens address=\S*:(\d+)", said)
        assert port, said
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/health", timeout=10) as answer:
            health = json.load(answer)
        assert health["status"] == "pass"
        assert [(check["name"], check["status"]) for check in health["checks"]] == [("users", "warn"), ("tls", "warn")]
    finally:
        process.terminate()
        assert process.wait(30) == 0


def generated(page: Path, begin: str, make: Callable[[re.Match[str]], str]) -> None:
    """Checks the pieces of a page that are made from elsewhere; with UPDATE_DOCS=1 writes them."""
    text = page.read_text()
    pattern = re.compile(rf"(<!-- {begin} -->\n)(.*?)(<!-- end of \w+ -->)", re.DOTALL)
    assert pattern.search(text), f"{page} has no piece '{begin}'"
    made = pattern.sub(lambda found: found[1] + make(found) + found[len(found.groups())], text)
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(made)
    assert page.read_text() == made, f"{page} is out of date: UPDATE_DOCS=1 writes it"


def test_the_page_has_every_metric(server: Any) -> None:
    def table(_: re.Match[str]) -> str:
        url = f"http://127.0.0.1:{server.ports['http_port']}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
        rows = re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE)
        assert len(rows) > 15
        lines = "".join(f"| `{name}` | {kinds[name]} | {about} |\n" for name, about in rows)
        return f"| metric | kind | what it is |\n|---|---|---|\n{lines}"

    generated(DOCS / "operations.md", "metrics: [^\n]*", table)


def test_the_settings_of_the_page_are_taken(serve: Any, tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", (DOCS / "operations.md").read_text(), re.DOTALL)
    assert found
    (tmp_path / "tickstone.toml").write_text(found[1])
    served = serve("--config", str(tmp_path / "tickstone.toml"))
    assert served.rows("SELECT 1") == [[1]]


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), REPOSITORY / "examples/cryptofeed/README.md"], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), f"{page}: {link}"


def beginning(name: str, function: str, defaults: dict[str, str]) -> str:
    """The beginning of a test as a user would write it: up to what only a test does, with the ports of the defaults."""
    source = (CLIENTS / name).read_text()
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    test = next(node for node in functions if node.name == function)
    body = [node for node in test.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    code = textwrap.dedent("\n".join(source.splitlines()[body[0].lineno - 1 : test.end_lineno]))
    code = re.sub(r"\{server\.ports\[['\"](\w+)['\"]\]\}", lambda port: defaults[port[1]], code)
    code = re.sub(r'server\.ports\["(\w+)"\]', lambda port: defaults[port[1]], code)
    # A text that had nothing but ports in braces is a plain one.
    code = re.sub(r'\bf("(?:[^"\\{]|\\.)*")', r"\1", code)
    kept = list(itertools.takewhile(lambda line: not re.search(r"\b(server|pytest)\b", line), code.splitlines()))
    code = "\n".join(kept).rstrip()
    if isinstance(test, ast.AsyncFunctionDef):
        code = f"async def main() -> None:\n{textwrap.indent(code, '    ')}\n\n\nasyncio.run(main())"
    ast.parse(code)
    imports = filter(None, (used(node, code) for node in tree.body))
    return "\n".join(imports) + "\n\n" + code


def used(node: ast.stmt, code: str) -> str:
    """An import with the names that the code uses; empty where it uses none."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return ""
    node.names = [name for name in node.names if re.search(rf"\b{name.asname or name.name}\b", code)]
    return ast.unparse(node) if node.names else ""


def text_of(name: str, variable: str) -> str:
    """The text that a file has in a variable."""
    for node in ast.walk(ast.parse((CLIENTS / name).read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if [target.id for target in node.targets if isinstance(target, ast.Name)] == [variable]:
                return textwrap.dedent(str(node.value.value)).strip()
    raise AssertionError(f"{name} has no text '{variable}'")


def body_of(name: str, method: str) -> str:
    """The body of a method of Java."""
    found = re.search(rf"^( +)static void {method}\([^\n]*\{{\n(.*?)^\1\}}$", (CLIENTS / name).read_text(), re.M | re.S)
    assert found, f"{name} has no method '{method}'"
    return textwrap.dedent(found[2]).strip()


def test_the_code_of_the_page_is_that_of_the_tests(defaults: dict[str, str]) -> None:
    page = DOCS / "clients.md"
    python = r"code: (\S+) (\w+)"
    generated(page, python, lambda found: f"```python\n{beginning(found[2], found[3], defaults)}\n```\n")
    generated(page, r"text: (\S+) (\w+) (\w+)", lambda found: f"```{found[4]}\n{text_of(found[2], found[3])}\n```\n")
    generated(page, r"java: (\S+) (\w+)", lambda found: f"```java\n{body_of(found[2], found[3])}\n```\n")

#!/bin/sh
# Prepares a machine: checks what a step needs, installs what is missing, says what it does.
# usage: setup.sh compiler | lint | python | package
set -eu

say() { printf '==> %s\n' "$*"; }

# Installs Debian packages where that is possible, else says how.
packages() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $*"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
    else
        echo "missing: $*; install it, for example with: sudo apt-get install $*" >&2
        exit 1
    fi
}

compiler() {
    if ! command -v "${CARGO%% *}" >/dev/null; then
        echo "cargo is missing; install Rust from https://rustup.rs and try again" >&2
        exit 1
    fi
    # Linking, and the C code of zstd, need a C compiler.
    command -v cc >/dev/null || packages build-essential
}

lint() {
    "$CARGO" fmt --version >/dev/null 2>&1 || { say "installing rustfmt"; rustup component add rustfmt; }
    "$CARGO" clippy --version >/dev/null 2>&1 || { say "installing clippy"; rustup component add clippy; }
}

python() {
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        echo "Python 3.11 or later is missing (found: $("$PYTHON" --version 2>&1))" >&2
        exit 1
    }
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || packages python3-venv
    say "making $VENV with the Python packages of bench/requirements.txt and crates/python/requirements-dev.txt"
    "$PYTHON" -m venv "$VENV"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r crates/python/requirements-dev.txt
}

# Lets the virtual environment import the package where it lies, its native module beside it.
package() {
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n' "$(pwd)/crates/python/python" > "$site/tickstone.pth"
}

case "${1:-}" in
    compiler) compiler ;;
    lint) lint ;;
    python) python ;;
    package) package ;;
    *) sed -n '2,3p' "$0" >&2; exit 2 ;;
esac

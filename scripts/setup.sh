#!/bin/sh
# Prepares a machine: checks what a step needs, installs what is missing, says what it does.
# usage: setup.sh compiler | lint | python | package | clients | deny | advisories | sbom
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

# What the tests of clients run beside Python's: psql, pgbench, Java with PostgreSQL's driver, a clock that steps, and a
# browser.
clients() {
    psql --version >/dev/null 2>&1 || packages postgresql-client
    "$VENV/bin/pgbench" --version >/dev/null 2>&1 || pgbench --version >/dev/null 2>&1 || take_pgbench
    command -v javac >/dev/null && command -v mvn >/dev/null || packages default-jdk-headless maven
    ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || (packages faketime) ||
        say "without libfaketime no clock steps back in the tests"
    command -v chromium >/dev/null || (packages --no-install-recommends chromium) || say "without chromium no browser is tested"
    [ -n "$(find "$VENV/jdbc" -name 'postgresql-*.jar' 2>/dev/null)" ] || {
        say "fetching PostgreSQL's JDBC driver"
        mvn -q -B -f tests/clients/jdbc/pom.xml dependency:copy-dependencies \
            -DincludeArtifactIds=postgresql -DoutputDirectory="$(pwd)/$VENV/jdbc"
    }
}

# Debian has pgbench in the package of the server, which would start one: takes the program alone.
take_pgbench() {
    command -v apt-get >/dev/null || { echo "missing: pgbench; install PostgreSQL's, with its server" >&2; exit 1; }
    server=$(apt-cache depends postgresql | sed -n 's/.*Depends: \(postgresql-[0-9]*\)$/\1/p' | head -n 1)
    say "taking pgbench out of the package $server"
    unpacked=$(mktemp -d)
    (cd "$unpacked" && apt-get download -qq "$server" && dpkg-deb -x "$server"_*.deb .)
    install -m 755 "$unpacked"/usr/lib/postgresql/*/bin/pgbench "$VENV/bin/pgbench"
    rm -rf "$unpacked"
}

# Installs a subcommand of cargo in this version, where none is installed.
subcommand() {
    "$CARGO" "$1" --version >/dev/null 2>&1 || {
        say "installing cargo-$1 $2; compiling it takes some ten minutes on 2 cores"
        "$CARGO" install --locked "cargo-$1@$2"
    }
}

deny() { subcommand deny 0.20.2; }

sbom() { subcommand cyclonedx 0.5.9; }

# Fetches the database of advisories. An older copy will do; without one this says so and returns 1.
advisories() {
    copies=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs
    "$CARGO" deny fetch db && return
    if ls -d "$copies"/*/crates >/dev/null 2>&1; then
        say "the advisories could not be fetched: an older copy in $copies is checked" >&2
        return
    fi
    say "ADVISORIES WERE NOT CHECKED: their database could not be fetched, and $copies has no copy of it" >&2
    return 1
}

case "${1:-}" in
    compiler) compiler ;;
    lint) lint ;;
    python) python ;;
    package) package ;;
    clients) clients ;;
    deny) deny ;;
    advisories) advisories ;;
    sbom) sbom ;;
    *) sed -n '2,3p' "$0" >&2; exit 2 ;;
esac

#!/bin/sh
# Makes what is shipped, in build/dist: the program in a tarball, and the Python wheel. Both are stripped.
set -eu

cargo=${CARGO:-cargo}
venv=${VENV:-.venv}
target=${CARGO_TARGET_DIR:-target}
to=build/dist
version=$("$cargo" pkgid --locked -p tickstone | sed 's/.*[@#]//')
host=$(rustc -vV | sed -n 's/^host: //p')
name=tickstone-$version-$host

rm -rf "$to"
mkdir -p "$to/$name"
# Functions of the same code become one, where the compiler's own linker is the default; nothing compares their addresses.
case "$host" in
    x86_64-unknown-linux-gnu) fold="-C link-arg=-Wl,--icf=all" ;;
    *) fold= ;;
esac
# shellcheck disable=SC2086 # words of their own
"$cargo" rustc --locked --profile dist -p tickstone --bin tickstone -- $fold
install -m 755 "$target/dist/tickstone" "$to/$name/tickstone"
cp README.md CHANGELOG.md LICENSE "$to/$name/"
cp -R deploy "$to/$name/deploy"
tar -C "$to" -czf "$to/$name.tar.gz" "$name"
"$venv/bin/maturin" build --locked --profile dist -m crates/python/Cargo.toml --out "$to"

for file in "$to/$name/tickstone" "$to/$name.tar.gz" "$to"/*.whl; do
    printf '%6.1f MB  %s\n' "$(wc -c < "$file" | awk '{ print $1 / 1e6 }')" "$file"
done

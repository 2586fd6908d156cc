#!/bin/sh
# The long form of a test: sh scripts/soak.sh simulator 20000, readers 300, kills 600, followers 1000, views 1000,
# statements 100000
#
# simulator: so many seeds, from where it ended the last time; readers: so many seconds of processes that read beside
# one that writes; kills: so many seconds of a server that is killed under all kinds of load at once, and of files damaged
# (tests/soak); followers: so many seeds of those who follow a table, a tenth of them of subscriptions; views: so many
# of materialized views, a twentieth of them in SQL; statements: so many random ones against DuckDB, and as many whose
# answers inference may not change (after `make python-dev`), with new seeds each time; the last one is in
# build/soak/statement, should it end the process.
#
# What was run is remembered in build/soak, which is in no repository: it begins elsewhere on each machine. A seed
# that failed is where the next run begins.
set -eu

cargo=${CARGO:-cargo}
state=build/soak

# The number in a file; a number of no meaning the first time.
remembered() {
	mkdir -p "$state"
	[ -s "$state/$1" ] || od -An -N4 -tu4 /dev/urandom | tr -d ' ' > "$state/$1"
	cat "$state/$1"
}

simulator() {
	left=$1
	"$cargo" build --locked --release -p tickstone-sim
	program=${CARGO_TARGET_DIR:-target}/release/tickstone-sim
	while [ "$left" -gt 0 ]; do
		first=$(remembered simulator)
		piece=$((left < 1000 ? left : 1000))
		echo "==> seeds $first..$((first + piece)) of the simulator, $left to go"
		if ! "$program" --seeds "$first..$((first + piece))" > "$state/simulator.log"; then
			cat "$state/simulator.log"
			failed=$(sed -n 's/^seed \([0-9]*\) failed.*/\1/p' "$state/simulator.log" | sort -n | sed -n 1p)
			echo "${failed:-$first}" > "$state/simulator"
			return 1
		fi
		tail -n 2 "$state/simulator.log"
		echo $((first + piece)) > "$state/simulator"
		left=$((left - piece))
	done
}

readers() {
	TICKSTONE_BESIDE_SECONDS=$1 "$cargo" test --locked -p tickstone-sim --test it beside -- --nocapture
}

kills() {
	TICKSTONE_SOAK_SECONDS=$1 "${VENV:-.venv}/bin/python" -m pytest -s tests/soak
}

followers() {
	FOLLOW_SEEDS=$1 "$cargo" test --locked -p tickstone-sim --test it follow::
	SUBSCRIBE_SEEDS=$(($1 / 10 + 1)) "$cargo" test --locked -p tickstone-query --test it subscribe::
}

views() {
	VIEW_SEEDS=$1 "$cargo" test --locked -p tickstone-sim --test it views::
	MATERIALIZED_SEEDS=$(($1 / 20 + 1)) "$cargo" test --locked -p tickstone-query --test it materialized::
}

statements() {
	mkdir -p "$state"
	TICKSTONE_LAST="$PWD/$state/statement" TICKSTONE_STATEMENTS=$1 "${VENV:-.venv}/bin/python" -m pytest -s \
		tests/oracle/test_statements.py tests/oracle/test_inference.py
}

case "${1:-}" in
simulator) simulator "${2:-20000}" ;;
readers) readers "${2:-300}" ;;
kills) kills "${2:-600}" ;;
followers) followers "${2:-1000}" ;;
views) views "${2:-1000}" ;;
statements) statements "${2:-100000}" ;;
*)
	echo "usage: sh scripts/soak.sh simulator [SEEDS] | readers [SECONDS] | kills [SECONDS] | followers [SEEDS] | views [SEEDS] | statements [NUMBER]" >&2
	exit 2
	;;
esac

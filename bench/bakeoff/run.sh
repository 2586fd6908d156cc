#!/bin/sh
# The whole bake-off behind docs/decisions/0001-part-format.md, on one core.
#
# usage: run.sh WORK_DIR [SAMPLE_DATA_DIR]
#
# Makes a virtual environment with numpy, pyarrow and vortex-data in WORK_DIR, generates the books, builds the
# example in release, and leaves one JSON file a table in WORK_DIR. Takes about ten minutes and 8 GB of disk.
set -eu
work=$1 sample=${2:-../shared/data}
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
mkdir -p "$work"
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q numpy==2.4.6 pyarrow==26.0.1 vortex-data==0.91.0
python="$work/venv/bin/python"
(cd "$repository" && ${CARGO:-cargo} build --release -p tickstone-engine --example part_bakeoff)
ours="$repository/target/release/examples/part_bakeoff"

table() { # name, table, column, slice sizes
    name=$1 file=$2 column=$3
    shift 3
    taskset -c 1 "$python" "$here/formats.py" "$file" "$work/$name" "$column" > "$work/$name.json"
    for slice_rows in "$@"; do
        taskset -c 1 "$ours" "$file" "$work/$name" "$column" "$slice_rows" reduce >> "$work/$name.json"
    done
}

"$python" "$here/books.py" "$work/books.arrow" 1000000
table books "$work/books.arrow" b1price 1000000
"$python" "$here/books.py" "$work/narrow.arrow" 4000000 2
table narrow "$work/narrow.arrow" b1price 262144 1000000 4000000
if [ -f "$sample/tidy.py" ]; then
    python3 "$sample/tidy.py" "$work/sample"
    "$python" "$here/sample.py" "$work/sample"
    table trades "$work/sample/trades.arrow" price 1000000
    table quotes "$work/sample/quotes.arrow" bid 1000000
else
    echo "no sample data at $sample: trades and quotes are left out"
fi

#!/bin/sh
# Makes fuzz/corpus/<target>/ from the golden files: whole ones, and each frame's payload by its kind.
set -eu
cd "$(dirname "$0")"
golden=../crates/engine/tests/golden
for target in frames change manifest tape_manifest symbols part_types part_shapes part_indexed part_arrays csv fields ndjson ilp qwp stream sql; do mkdir -p "corpus/$target"; done
for db in "$golden"/db-*; do
    name=$(basename "$db")
    for table in "$db"/files/tables/*; do
        [ ! -e "$table/manifest" ] || cp "$table/manifest" "corpus/manifest/$name-$(basename "$table")"
    done
    [ ! -e "$db/files/tape-manifest" ] || cp "$db/files/tape-manifest" "corpus/tape_manifest/$name"
    cp "$db"/files/tables/1/symbols-1 "corpus/symbols/$name"
    for part in "$db"/files/tables/1/*/*.part; do cp "$part" "corpus/part_types/$name-$(basename "$part")"; done
    # Table 2 is shapes, in the database of arrays books.
    second=part_shapes
    [ "$name" = db-4 ] && second=part_arrays
    for part in "$db"/files/tables/2/*/*.part; do cp "$part" "corpus/$second/$name-$(basename "$part")"; done
    # Filters came with the third.
    for part in "$db"/files/tables/5/*/*.part; do
        [ ! -e "$part" ] || cp "$part" "corpus/part_indexed/$name-$(basename "$part")"
    done
    for tape in "$db"/files/tape/*.tape; do tail -c +41 "$tape" > "corpus/frames/$name-$(basename "$tape")"; done
    python3 - "$name" "$db"/files/tape/*.tape <<'PY'
import struct, sys
name, *paths = sys.argv[1:]
for path in paths:
    tape = open(path, "rb").read()
    at = 40
    while tape[at : at + 4] == b"TKF1":
        length, kind = struct.unpack_from("<IH", tape, at + 4)
        with open(f"corpus/change/{name}-{at}", "wb") as out:
            out.write(bytes([kind]) + tape[at + 44 : at + 44 + length])
        at += 48 + length
PY
done
printf 'ts,symbol,px,id,note\n2024-08-08T09:30:00Z,BTC-USD,61500.5,7,"a ""quoted"", text"\n,,,,\n' > corpus/csv/rows
printf '1723161253123;ETH-USD;1e-3;-5;x\r\n' > corpus/csv/semicolons
printf '\0002024-08-08 09:30:00,100,1.5\n2024-08-08T09:30:00Z,"A",.5\n' > corpus/fields/times
printf '\000t,sym=A px=1.5,id=7i 1723161253123\nt,sym=A px=1e3,id=7i\n' > corpus/fields/lines
printf '{"ts":1723161253123,"sym":"BTC","px":"1.5","id":7,"note":"a\\"b\\u20ac\\ud83d\\ude00","up":true,"x":[1,{"y":null}],"bids":[1.5,null],"tags":["a"]}\n' \
    > corpus/ndjson/rows
printf 'trades,symbol=BTC\\ USD,side=buy price=61500.5,id=7i,up=t,note="a \\"b\\"",at=5t,cash=1.50d 1723161253123000000\n# x\nm d==\020AAAAAAAA,l==\016\012\001\001\000\000\000BBBBBBBB,c==\027\002\002\060\071 1t\n' \
    > corpus/ilp/lines
printf '\000\000\000\005\000\001\000\003raw\000\000\000\003\000\002\000\001x\000\000\000\012\000\004\000\001\000\000\000\000\000\000\000\000' \
    > corpus/stream/requests
# Each message that the tests of QWP have from a client.
python3 - <<'PY'
import re
text = open("../crates/wire/src/qwp/tests/recorded.rs").read()
for name, body in re.findall(r'const (\w+): &str =(.*?);', text, re.S):
    with open(f"corpus/qwp/{name.lower()}", "wb") as out:
        out.write(bytes.fromhex("".join(re.findall(r'"([0-9a-f]+)"', body))))
PY
# Each statement of the tests of SQL: what stands between two empty lines, without the words of the test.
cat ../tests/sql/*.slt | awk -v RS= '/^(statement|query)/ { n++; sub(/^[^\n]*\n/, ""); sub(/\n----.*/, ""); print > ("corpus/sql/" n) }'

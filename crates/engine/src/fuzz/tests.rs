//! The fuzz targets on mutated golden files, with a seeded mutator: `TICKSTONE_FUZZ_CASES=1000000` for more.

use super::*;
use crate::tape::segment::SEGMENT_HEADER_BYTES;
use std::time::{Duration, Instant};

const CASES: u64 = 1_500;

fn cases() -> u64 {
    std::env::var("TICKSTONE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A few changes of a kind that decoders dislike: flips, odd numbers, cuts, copies, insertions.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        if bytes.is_empty() {
            bytes.push(random.next() as u8);
        }
        let at = random.below(bytes.len());
        match random.below(9) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 | 3 => {
                let odd =
                    [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, u64::from(u32::MAX), u64::MAX, 1 << 63, 1 << 20];
                let width = [1, 2, 4, 8][random.below(4)];
                let value = odd[random.below(odd.len())].wrapping_add(random.below(3) as u64).wrapping_sub(1);
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            4 => bytes.truncate(at),
            5 => bytes.insert(at, random.next() as u8),
            6 => {
                let length = random.below(64).min(bytes.len() - at);
                bytes.drain(at..at + length);
            }
            _ => {
                let length = random.below(64).min(bytes.len() - at);
                let to = random.below(bytes.len() - length + 1);
                bytes.copy_within(at..at + length, to);
            }
        }
    }
}

fn golden(file: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/db-1/files").join(file);
    #[allow(clippy::disallowed_methods, reason = "reads a test file of the source tree")]
    std::fs::read(path).unwrap()
}

fn check(name: &str, seeds: &[Vec<u8>], target: impl Fn(&[u8])) {
    seeds.iter().for_each(|seed| target(seed));
    for case in 0..cases() {
        let mut random = Random(case);
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &mut random);
        #[allow(clippy::disallowed_methods, reason = "a hang is found by the clock")]
        let started = Instant::now();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target(&bytes)));
        assert!(outcome.is_ok(), "{name}: case {case} panics");
        assert!(
            cfg!(miri) || started.elapsed() < Duration::from_secs(20),
            "{name}: case {case} takes {:?}",
            started.elapsed()
        );
    }
}

fn tape() -> Vec<u8> {
    golden("tape/0000010000000001.tape")
}

/// Kind and payload of each frame of a tape.
fn changes(tape: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut found) = (SEGMENT_HEADER_BYTES, Vec::new());
    while let Ok(frame) = read_frame(tape, at) {
        found.push([&[frame.header.kind as u8], frame.payload].concat());
        at += frame.size();
    }
    assert!(found.len() > 5);
    found
}

/// The part of the golden database of arrays.
const ARRAYS_PART: &str = "../../db-4/files/tables/2/2023-12-09/000001-00000000-6573ae00.part";

#[test]
fn frames_of_any_bytes() {
    check("frames", &[tape()[SEGMENT_HEADER_BYTES..][..6_000].to_vec()], frames);
}

#[test]
fn changes_of_any_bytes() {
    check("change", &changes(&tape()), change);
    let arrays = changes(&golden("../../db-4/files/tape/0000010000000001.tape"));
    check("change of arrays", &arrays, change);
}

#[test]
fn manifests_of_any_bytes() {
    let newer = ["db-2/files/tables/1", "db-2/files/tables/4", "db-3/files/tables/4"];
    let newer = newer.map(|table| golden(&format!("../../{table}/manifest")));
    check("manifest", &[&[golden("tables/1/manifest")], &newer[..]].concat(), manifest);
}

#[test]
fn tape_manifests_of_any_bytes() {
    check("tape manifest", &[golden("../../db-5/files/tape-manifest")], tape_manifest);
}

#[test]
fn files_of_streams_of_any_bytes() {
    let files = some_stream();
    assert_eq!(files.len(), 3);
    let named = |(place, (_, bytes)): (usize, (_, Vec<u8>))| [vec![place as u8], bytes].concat();
    let seeds: Vec<Vec<u8>> = files.into_iter().enumerate().map(named).collect();
    // The first byte stays: it names the file.
    for seed in seeds {
        let which = seed[0];
        check("stream", &[seed], |bytes| stream(&[&[which], bytes.get(1..).unwrap_or_default()].concat()));
    }
}

#[test]
fn symbol_files_of_any_bytes() {
    check("symbols", &[golden("tables/1/symbols-1")], symbols);
}

#[test]
fn parts_of_any_bytes() {
    let later = |file: &str| golden(&format!("../../db-3/files/tables/{file}"));
    let types = [
        golden("tables/1/2023-12-09/000001-00000001.part"),
        later("1/2023-12-09/000001-00000001-6573ae00.part"),
    ];
    check("part types", &types, |bytes| part(&every_type(), bytes));
    let shaped = [
        golden("tables/2/2023-12-09/000001-00000000.part"),
        later("2/2023-12-09/000001-00000000-6573ae00.part"),
    ];
    check("part shapes", &shaped, |bytes| part(&shapes(), bytes));
    check("part arrays", &[golden(ARRAYS_PART)], |bytes| part(&books(), bytes));
    check("part with filters", &[later("5/2023-12-09/000001-0000006d-6573ae00.part")], |bytes| {
        part(&orders(), bytes)
    });
}

//! Parts of every format version that was ever written are read forever.

use super::bloom::indexed;
use super::damage::everything;
use super::table::{Shape, batches, schema};
use super::*;

const VERSIONS: [&[u8]; 3] = [
    include_bytes!("../../../tests/golden/part-v1.bin"),
    include_bytes!("../../../tests/golden/part-v2.bin"),
    include_bytes!("../../../tests/golden/part-v3.bin"),
];

fn shape() -> Shape {
    Shape {
        seed: 2024,
        rows: 1_500,
        batches: 2,
        symbols: 3,
        timestamp: true,
        shuffled: true,
        series: 1,
        nulls: true,
    }
}

/// Writes the golden file of the present version: `cargo test -p tickstone-engine golden -- --ignored`,
/// once, when a version is new.
#[test]
#[ignore = "writes the golden file of a new version"]
fn write_golden() {
    let schema = indexed(&schema(&shape()));
    let bytes = write(&schema, &batches(&shape(), &schema), 1_200, 1);
    #[allow(clippy::disallowed_methods, reason = "writes a test file into the source tree")]
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/part-v3.bin"), bytes).unwrap();
}

#[test]
fn every_version_is_read() {
    for (number, bytes) in VERSIONS.into_iter().enumerate() {
        let plain = schema(&shape());
        // Filters came with version 3.
        let schema = if number < 2 { plain } else { indexed(&plain) };
        let now = write(&schema, &batches(&shape(), &schema), 1_200, 1);
        let written = everything(now, &schema).unwrap();
        assert_eq!(u32::from(bytes[8]), number as u32 + 1, "the file is of the version it stands for");
        let mut golden = everything(bytes.to_vec(), &schema).unwrap();
        // The size may change with better choices of encoding; the rows may not.
        golden.1[0] = written.1[0].clone();
        assert!(golden == written, "the golden part of version {} holds other rows", number + 1);
    }
}

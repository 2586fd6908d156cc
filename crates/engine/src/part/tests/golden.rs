//! Parts of every format version that was ever written are read forever.

use super::bloom::indexed;
use super::damage::everything;
use super::table::{Shape, batches, schema, with_arrays};
use super::*;

const VERSIONS: u32 = 4;

/// The golden file of a version.
fn golden_path(version: u32) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/part-v{version}.bin"))
}

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
    let schema = indexed(&with_arrays(&schema(&shape())));
    let bytes = write(&schema, &batches(&shape(), &schema), 1_200, 1);
    #[allow(clippy::disallowed_methods, reason = "writes a test file into the source tree")]
    std::fs::write(golden_path(VERSIONS), bytes).unwrap();
}

#[test]
fn every_version_is_read() {
    for version in 1..=VERSIONS {
        #[allow(clippy::disallowed_methods, reason = "reads a test file of the source tree")]
        let bytes = std::fs::read(golden_path(version)).unwrap();
        let plain = schema(&shape());
        // Filters came with version 3, arrays with version 4.
        let schema = match version {
            1 | 2 => plain,
            3 => indexed(&plain),
            _ => indexed(&with_arrays(&plain)),
        };
        let now = write(&schema, &batches(&shape(), &schema), 1_200, 1);
        let written = everything(now, &schema).unwrap();
        assert_eq!(u32::from(bytes[8]), version, "the file is of the version it stands for");
        let mut golden = everything(bytes, &schema).unwrap();
        // The size may change with better choices of encoding; the rows may not.
        golden.1[0] = written.1[0].clone();
        assert!(golden == written, "the golden part of version {version} holds other rows");
    }
}

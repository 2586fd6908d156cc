//! A flipped byte is an error, never data.

use crate::ledger::{contents, options, rows, schema};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tickstone_engine::{Engine, EngineOptions};
use tickstone_sim::{CrashDisk, StepClock, Survival};

fn open(disk: &CrashDisk) -> tickstone_engine::Result<Engine> {
    let options = EngineOptions { segment_bytes: 1 << 20, ..options() };
    Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(0)), options)
}

/// Every byte of every file, flipped, one at a time: opening or reading says so, or all is as it was.
#[test]
fn every_flipped_byte_is_found() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.append("trades", &rows(0, 40), None).unwrap();
    engine.seal(None).unwrap();
    engine.append("trades", &rows(40, 10), None).unwrap();
    let expected = contents(&engine);
    drop(engine);
    let image = disk.image(disk.calls(), Survival::Nothing);
    let (mut found, mut harmless) = (0, 0);
    for (path, size) in image.disk().files() {
        for at in 0..size {
            let damaged = image.disk();
            damaged.flip(&path, at, 0x10);
            let Ok(engine) = open(&damaged) else {
                found += 1;
                continue;
            };
            // `contents` panics on an error of reading; it must not return other rows.
            match catch_unwind(AssertUnwindSafe(|| contents(&engine))) {
                Err(_) => found += 1,
                Ok(rows) => {
                    assert_eq!(rows, expected, "{} byte {at}", path.display());
                    harmless += 1;
                }
            }
        }
    }
    assert!(found > 3 * harmless, "{found} flips found, {harmless} harmless");
}

#[test]
fn damage_before_the_end_of_the_tape_names_file_and_offset() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.append("trades", &rows(0, 40), None).unwrap();
    engine.append("trades", &rows(40, 40), None).unwrap();
    let image = disk.image(disk.calls(), Survival::Nothing);
    let damaged = image.disk();
    let (path, _) = damaged.files().into_iter().find(|(path, _)| path.starts_with("tape")).unwrap();
    damaged.flip(&path, 400, 0xFF);
    let error = open(&damaged).unwrap_err().to_string();
    assert!(
        error.contains("tape/") && error.contains("is damaged at byte") && error.contains("check"),
        "{error}"
    );
}

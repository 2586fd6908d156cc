//! `check`: silent on a whole database, and never silent on a damaged one.

use crate::ledger::{contents, options, rows, schema};
use crate::model::{TABLE, batch, random_rows, table};
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_engine::check::{CheckOptions, Report, Severity, check};
use tickstone_engine::disk::Disk;
use tickstone_engine::{Engine, EngineOptions};
use tickstone_model::{AlterTable, Column, ColumnType, TableSchema};
use tickstone_sim::{CrashDisk, Random, StepClock, Survival};

pub(crate) fn open(disk: &CrashDisk) -> tickstone_engine::Result<Engine> {
    let options = EngineOptions { segment_bytes: 4_096, ..options() };
    Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(0)), options)
}

pub(crate) fn look(disk: &CrashDisk) -> Report {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    check(&disk, &CheckOptions::default(), &mut |_| {}).unwrap()
}

/// Rows in parts, in loads and in the tape, of two tables and one that was dropped.
pub(crate) fn database() -> CrashDisk {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    for name in ["trades", "quotes", "gone"] {
        engine.create_table(schema(name)).unwrap();
        engine.append(name, &rows(0, 40), None).unwrap();
    }
    engine.drop_table("gone").unwrap();
    engine.seal(Some("trades")).unwrap();
    let mut load = engine.load("trades").unwrap();
    load.append(&rows(40, 60)).unwrap();
    load.commit(None).unwrap();
    for step in 0..12 {
        let mut transaction = engine.begin();
        transaction.append("trades", &rows(100 + step * 10, 10)).unwrap();
        transaction.append("quotes", &rows(40 + step * 10, 10)).unwrap();
        transaction.commit(None).unwrap();
    }
    engine.seal(Some("quotes")).unwrap();
    engine.append("quotes", &rows(160, 7), None).unwrap();
    drop(engine);
    disk.image(disk.calls(), Survival::Everything).disk()
}

/// A disk of its own with the same files, flipped bytes and all.
pub(crate) fn copy(disk: &CrashDisk) -> CrashDisk {
    let other = CrashDisk::new();
    for (path, _) in disk.files() {
        let mut file = other.create(&path).unwrap();
        file.append(&disk.read(&path).unwrap()).unwrap();
        file.sync().unwrap();
        other.sync_dir(path.parent().unwrap()).unwrap();
    }
    other
}

#[test]
fn symbols_are_asked_for_by_column_not_by_place() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    let table = TableSchema::builder("trades")
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("venue", ColumnType::Symbol);
    engine.create_table(table.timestamp("ts").build().unwrap()).unwrap();
    let text = || Arc::new(StringArray::from(vec!["A", "B"])) as ArrayRef;
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1, 2]));
    let rows = [("ts", times), ("symbol", text()), ("venue", text())];
    engine.append("trades", &RecordBatch::try_from_iter(rows).unwrap(), None).unwrap();
    engine.seal(None).unwrap();
    // The manifest counts the symbols of `venue`; in its place comes another column, which has none.
    engine.alter_table("trades", &AlterTable::DropColumn("venue".to_string())).unwrap();
    let side = Column::new("side", ColumnType::Symbol);
    engine.alter_table("trades", &AlterTable::AddColumn(side)).unwrap();
    let image = disk.image(disk.calls(), Survival::Everything).disk();
    assert_eq!(look(&image).findings, []);
}

#[test]
fn a_whole_database_has_no_findings() {
    let disk = database();
    let report = look(&disk);
    assert_eq!(report.findings, [], "{report}");
    // The rows of the dropped table are still in the tape.
    assert_eq!((report.tables, report.rows), (2, 220 + 167 + 40));
    let bytes: usize = disk.files().iter().map(|(_, size)| size).sum();
    assert_eq!(report.bytes, bytes as u64, "every byte is read once");
    assert_eq!(report.files as usize, disk.files().len());
    assert!(report.to_string().ends_with("all is as it was written"));
}

/// The manifest relies on a dropped column's symbols until the next one is saved: their copy is made anew after a
/// crash, as others are.
#[test]
fn copies_of_what_a_dropped_column_left_are_made_anew() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(table().build().unwrap()).unwrap();
    engine.append(TABLE, &batch(&random_rows(&mut Random::new(1), 0, 40)), None).unwrap();
    engine.seal(None).unwrap();
    engine.alter_table(TABLE, &AlterTable::DropColumn("tag".to_string())).unwrap();
    let crashed = copy(&disk);
    drop(engine);
    let lost = Path::new("tables/1/symbols-4.copy");
    crashed.remove(lost).unwrap();
    drop(open(&crashed).unwrap());
    assert!(crashed.read(lost).is_ok());
    let report = look(&crashed);
    assert!(report.findings.is_empty(), "{report}");
}

/// Flips bytes of every file, one at a time: `check` names the file, and reading gives an error or the rows
/// as they were.
#[test]
fn every_flipped_byte_is_reported_with_its_file() {
    let disk = database();
    let expected = contents(&open(&copy(&disk)).unwrap());
    let (mut flips, mut refused) = (0, 0);
    for (path, size) in disk.files() {
        for at in 0..size {
            // All of small files, a sample of the others: the whole of a part is flipped in the engine's tests.
            if size > 1_500 && at % 5 != 0 {
                continue;
            }
            let mask = [0x01, 0x10, 0x80, 0xff][at % 4];
            disk.flip(&path, at, mask);
            let report = look(&disk);
            let damaged = (at % 11 == 0).then(|| copy(&disk));
            disk.flip(&path, at, mask);
            let named = report.findings.iter().find(|finding| finding.path == path);
            let named = named.unwrap_or_else(|| panic!("{} byte {at}: {report}", path.display()));
            if let (Some(offset), Some(bytes)) = (named.offset, named.bytes) {
                let inside = (offset..offset + bytes).contains(&(at as u64));
                assert!(inside, "{} byte {at}: {named}", path.display());
            }
            flips += 1;
            let Some(damaged) = damaged else { continue };
            match open(&damaged).map(|engine| catch_unwind(AssertUnwindSafe(|| contents(&engine)))) {
                Ok(Ok(rows)) => {
                    let short = path.starts_with("tape") && named.severity == Severity::Note;
                    assert!(rows == expected || short, "{} byte {at}", path.display());
                }
                _ => refused += 1,
            }
        }
    }
    assert!(flips > 5_000 && refused > 300, "{flips} flips, {refused} refused");
}

/// The same with nothing but what follows the flip in the tape to tell it from a torn write.
#[test]
fn a_note_about_a_flip_is_about_bytes_that_nothing_proves() {
    let disk = database();
    let (path, size) = disk.files().into_iter().rfind(|(path, _)| path.starts_with("tape")).unwrap();
    let expected = contents(&open(&copy(&disk)).unwrap());
    let mut notes = 0;
    for at in 0..size {
        for bit in 0..8 {
            disk.flip(&path, at, 1 << bit);
            let report = look(&disk);
            let finding = report.findings.iter().find(|finding| finding.path == path).unwrap();
            if finding.severity == Severity::Note {
                notes += 1;
                assert_eq!(contents(&open(&copy(&disk)).unwrap()), expected);
            }
            disk.flip(&path, at, 1 << bit);
        }
    }
    assert!(notes < 20, "{notes} flips pass for a torn write; only in the close frame can they");
}

#[test]
fn missing_files_and_foreign_files_are_named() {
    let disk = database();
    for (path, _) in disk.files() {
        let damaged = copy(&disk);
        damaged.remove(&path).unwrap();
        let report = look(&damaged);
        assert!(!report.is_clean(), "{} is gone: {report}", path.display());
        let named = |finding: &tickstone_engine::check::Finding| finding.path == path;
        assert!(report.findings.iter().any(named), "{} is gone: {report}", path.display());
    }
    let stray = copy(&disk);
    for path in
        ["notes.txt", "tables/1/manifest.tmp", "tables/1/1970-01-02/000009-00000000.part", "tables/9/x"]
    {
        stray.create(Path::new(path)).unwrap().append(b"what is this").unwrap();
    }
    let report = look(&stray);
    assert!(report.is_clean(), "{report}");
    let found: Vec<_> = report.findings.iter().map(|f| (f.path.clone(), f.severity)).collect();
    let leftover = |path: &str| (PathBuf::from(path), Severity::Leftover);
    assert!(found.contains(&(PathBuf::from("notes.txt"), Severity::Note)), "{found:?}");
    assert!(found.contains(&leftover("tables/1/manifest.tmp")), "{found:?}");
    assert!(found.contains(&leftover("tables/1/1970-01-02/000009-00000000.part")), "{found:?}");
    assert!(found.contains(&leftover("tables/9")), "{found:?}");
}

#[test]
fn a_missing_segment_in_the_middle_is_a_hole() {
    let disk = database();
    let segments: Vec<_> = disk.files().into_iter().filter(|(path, _)| path.starts_with("tape")).collect();
    assert!(segments.len() >= 3, "{segments:?}");
    disk.remove(&segments[1].0).unwrap();
    let report = look(&disk);
    let finding = report.findings.iter().find(|finding| finding.path == segments[1].0).unwrap();
    assert!(finding.to_string().contains("the segment is missing: it held the frames"), "{finding}");
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("the segment is missing: it held the frames"), "{error}");
}

/// What happens to files that have had a bad day; `random` says what.
pub(crate) fn ruin(disk: &CrashDisk, random: &mut Random) {
    let files = disk.files();
    for _ in 0..1 + random.below(3) {
        let (path, size) = &files[random.below(files.len() as u64) as usize];
        if *size == 0 || disk.read(path).is_err() {
            continue;
        }
        let at = random.below(*size as u64) as usize;
        match random.below(8) {
            0 => disk.remove(path).unwrap(),
            1 => disk.truncate(path, at as u64).unwrap(),
            2 => {
                let (other, _) = &files[random.below(files.len() as u64) as usize];
                // A part does not say which table it is of, nor symbols of which column they are.
                let symbols = |path: &Path| path.to_string_lossy().contains("/symbols-");
                if other.extension() == path.extension() || symbols(other) && symbols(path) {
                    continue;
                }
                let bytes = disk.read(path).unwrap();
                disk.remove(other).unwrap();
                disk.create(other).unwrap().append(&bytes).unwrap();
            }
            _ => {
                let now = disk.read(path).map_or(0, |bytes| bytes.len());
                let length = 1 + random.below(600) as usize;
                let zeros = random.one_in(3);
                for at in at..now.min(at + length) {
                    let byte = disk.read(path).unwrap()[at];
                    disk.flip(path, at, if zeros { byte } else { random.below(256) as u8 });
                }
            }
        }
    }
}

#[test]
fn nothing_makes_it_panic_and_what_opens_is_what_check_calls_clean() {
    let disk = database();
    let expected = contents(&open(&copy(&disk)).unwrap());
    let frames = look(&disk).frames;
    let mut damaged_ones = 0;
    for seed in 0..600 {
        let ruined = copy(&disk);
        ruin(&ruined, &mut Random::new(seed));
        let report = look(&ruined);
        if !report.is_clean() {
            damaged_ones += 1;
            continue;
        }
        // Clean: what was there is there, but for what a torn end of the tape takes.
        let engine = open(&ruined).unwrap_or_else(|error| panic!("seed {seed}: {error}; {report}"));
        let found = contents(&engine);
        if report.findings.is_empty() {
            assert!(found == expected || report.frames < frames, "seed {seed}: {report}");
        }
    }
    assert!(damaged_ones > 400, "{damaged_ones}");
}

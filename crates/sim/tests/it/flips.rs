//! Every byte: one that is flipped anywhere in a database is named by a check, and a repair leaves nothing of it.
//!
//! Each run draws seeds of its own; `TICKSTONE_FLIPS=7` is one of them again.

use crate::check::{copy, look, open};
use crate::ledger::{rows, schema};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tickstone_engine::Engine;
use tickstone_engine::check::Severity;
use tickstone_engine::disk::Disk;
use tickstone_engine::repair::{RepairOptions, repair};
use tickstone_model::{AlterTable, Column, ColumnType, TableSchema};
use tickstone_sim::{CrashDisk, Random};

/// Databases of a run, and bytes that are flipped in each.
const DATABASES: u64 = 25;
const FLIPS: usize = 150;

fn keyed(name: &str) -> TableSchema {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64);
    builder.timestamp("ts").dedup(["ts", "symbol"]).indexed(["id"]).build().unwrap()
}

/// Something that happens to a table.
fn act(engine: &Engine, table: &str, first: i64, random: &mut Random) {
    let add = |engine: &Engine| engine.append(table, &rows(first, 1 + first % 20), None).map(|_| ());
    let outcome = match random.below(9) {
        0 => engine.seal(Some(table)),
        1 => engine.compact(Some(table)),
        2 => engine.archive(Some(table)),
        3 => {
            let mut load = engine.load(table).unwrap();
            load.append(&rows(first, 30)).and_then(|()| load.commit(None)).map(|_| ())
        }
        4 if random.one_in(3) => engine.truncate_table(table),
        _ => add(engine),
    };
    outcome.unwrap();
}

/// A database of several tables in whatever state, closed; sometimes a backup of one.
fn some_database(random: &mut Random) -> CrashDisk {
    let (disk, backup) = (CrashDisk::new(), CrashDisk::new());
    let mut engine = open(&disk).unwrap();
    let names: Vec<String> = (0..2 + random.below(3)).map(|number| format!("t{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        engine.create_table(if number == 1 { keyed(name) } else { schema(name) }).unwrap();
    }
    engine.create_table(TableSchema::of_view("newest", "SELECT * FROM t0").unwrap()).unwrap();
    for step in 0..10 + random.below(40) {
        let name = &names[random.below(names.len() as u64) as usize];
        act(&engine, name, step.cast_signed() * 30, random);
        if random.one_in(12) {
            drop(engine);
            engine = open(&disk).unwrap();
        }
    }
    if random.one_in(3) {
        engine.create_table(schema("other")).unwrap();
        engine.append("other", &rows(0, 20), None).unwrap();
        engine.seal(Some("other")).unwrap();
        let column = Column::new("side", ColumnType::Symbol);
        engine.alter_table("other", &AlterTable::AddColumn(column)).unwrap();
        engine.alter_table("other", &AlterTable::DropColumn("id".to_string())).unwrap();
    }
    if random.one_in(4) {
        engine.drop_table(names.last().unwrap()).unwrap();
    }
    if random.one_in(4) {
        let to: Arc<dyn Disk> = Arc::new(backup.clone());
        engine.backup(&to, &mut |_| {}).unwrap();
        return copy(&backup);
    }
    drop(engine);
    copy(&disk)
}

fn is_copy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "copy")
}

/// Repairs what was flipped; all copies are the files again that they are copies of.
fn mend(damaged: &CrashDisk, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(damaged.clone());
    let done = repair(&disk, &RepairOptions::default(), &mut |_| {}).unwrap();
    let report = look(damaged);
    assert!(report.is_clean(), "{what}: after\n{done}\n{}\nstill\n{report}", done.found);
    let files: Vec<PathBuf> = damaged.files().into_iter().map(|(path, _)| path).collect();
    for path in files.iter().filter(|path| is_copy(path) && !path.starts_with("damaged")) {
        let whole = damaged.read(&path.with_extension("")).unwrap();
        assert!(*damaged.read(path).unwrap() == *whole, "{what}: {} is another", path.display());
    }
    open(damaged).unwrap_or_else(|error| panic!("{what}: {error}"));
}

fn flip_some(seed: u64) {
    let mut random = Random::new(seed);
    let disk = some_database(&mut random);
    let whole = look(&disk);
    assert!(whole.is_clean(), "seed {seed}: {whole}");
    let files: Vec<_> = disk.files().into_iter().filter(|(_, size)| *size > 0).collect();
    for flip in 0..FLIPS {
        // Each file in turn, small ones as often as large ones.
        let (path, size) = &files[flip % files.len()];
        let (at, mask) = (random.below(*size as u64) as usize, 1 << random.below(8));
        disk.flip(path, at, mask);
        let damaged = copy(&disk);
        disk.flip(path, at, mask);
        let report = look(&damaged);
        let what = format!("seed {seed}: byte {at} of {} flipped by {mask:#x}", path.display());
        let of_it = |named: &Path| path.starts_with(named);
        let named = report.findings.iter().filter(|finding| of_it(&finding.path));
        let worst = named.map(|finding| finding.severity).max();
        assert!(worst.is_some(), "{what} is not named: {report}");
        // What nobody needs any more is named without being damage.
        let needless = report.findings.iter().any(|finding| {
            of_it(&finding.path) && (finding.severity == Severity::Leftover || finding.what.contains("left"))
        });
        assert!(worst == Some(Severity::Damage) || needless, "{what} is no damage: {report}");
        if is_copy(path) || flip % 5 == 0 {
            mend(&damaged, &what);
        }
    }
}

#[test]
fn every_flipped_byte_is_named_and_repaired() {
    if let Some(seed) = std::env::var("TICKSTONE_FLIPS").ok().and_then(|seed| seed.parse().ok()) {
        return flip_some(seed);
    }
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() * 1_000;
    println!("seeds {first}..{}", first + DATABASES);
    (first..first + DATABASES).for_each(flip_some);
}

/// A copy that is damaged or missing is damage, and the next repair makes it anew.
#[test]
fn copies_that_are_damaged_or_missing_are_named_and_made_anew() {
    let disk = crate::check::database();
    let copies: Vec<_> =
        disk.files().into_iter().map(|(path, _)| path).filter(|path| is_copy(path)).collect();
    assert!(copies.len() >= 4, "{copies:?}");
    for path in copies {
        for missing in [true, false] {
            let damaged = copy(&disk);
            if missing {
                damaged.remove(&path).unwrap();
            } else {
                damaged.flip(&path, 25, 0x01);
            }
            let report = look(&damaged);
            let [finding] = report.findings.as_slice() else { panic!("{}: {report}", path.display()) };
            assert_eq!((&finding.path, finding.severity), (&path, Severity::Damage), "{report}");
            assert!(finding.to_string().contains("a repair writes this copy anew"), "{finding}");
            mend(&damaged, &path.display().to_string());
            assert_eq!(look(&damaged).findings.len(), usize::from(!missing), "what was put aside");
        }
    }
}

//! Repair: what can be read is kept, nothing else appears, `check` is silent afterwards, and power may go
//! at any moment of it.

use crate::check::{copy, database, look, open, ruin};
use crate::ledger::{DAY, rows, schema};
use crate::model::{Row, TABLE, World, batch, delete, random_rows, selected, table, update};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt32Type};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_engine::check::{Remedy, Severity};
use tickstone_engine::disk::Disk;
use tickstone_engine::repair::{RepairOptions, Repaired, repair};
use tickstone_engine::{Engine, EngineOptions, Selection};
use tickstone_model::{AlterTable, ColumnType, Grant, Rights, TableAccess, TableSchema, TimeRange};
use tickstone_sim::{CrashDisk, Random};

const SYMBOLS: [&str; 3] = ["BTC-USD", "ETH-USD", "USDT-USD"];

fn mend(disk: &CrashDisk) -> Repaired {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    repair(&disk, &RepairOptions::default(), &mut |_| {}).unwrap()
}

/// Ids of a table's rows, each of which must be a row that was written; how many have lost their symbol.
fn kept(engine: &Engine, name: &str) -> (BTreeSet<i64>, usize) {
    let snapshot = engine.snapshot();
    let Some(table) = snapshot.table(name) else { return Default::default() };
    let (mut ids, mut placeholders) = (BTreeSet::new(), 0);
    for segment in table.select(&Selection::default()).unwrap() {
        for range in segment.rows() {
            let column = |index| segment.read(index, range.clone()).unwrap();
            let (times, symbols, numbers) = (column(0), column(1), column(2));
            for row in 0..range.len() {
                let id = numbers.as_primitive::<Int64Type>().value(row);
                let time = times.as_primitive::<TimestampNanosecondType>().value(row);
                assert_eq!(time, (3 - id % 3) * DAY + id * 1_000);
                assert!(!symbols.is_null(row));
                let symbol = symbols.as_primitive::<UInt32Type>().value(row);
                let symbol = table.dictionary(1).unwrap().symbol(symbol).unwrap();
                if symbol.starts_with('?') {
                    placeholders += 1;
                } else {
                    assert_eq!(*symbol, *format!("{}{}", SYMBOLS[usize::try_from(id % 3).unwrap()], id / 20));
                }
                assert!(ids.insert(id), "row {id} of {name} is there twice");
            }
        }
    }
    (ids, placeholders)
}

/// The rows of both tables, by table; tables of other names must not be there.
pub(crate) fn all_kept(disk: &CrashDisk) -> (BTreeMap<String, BTreeSet<i64>>, usize) {
    let engine = open(disk).unwrap_or_else(|error| panic!("after a repair: {error}"));
    let mut all = BTreeMap::new();
    let mut placeholders = 0;
    for table in engine.snapshot().tables() {
        let (ids, lost) = kept(&engine, table.schema().name());
        all.insert(table.schema().name().to_string(), ids);
        placeholders += lost;
    }
    (all, placeholders)
}

/// Repairs and checks what must hold whatever was damaged.
fn mended(disk: &CrashDisk, what: &str) -> (Repaired, BTreeMap<String, BTreeSet<i64>>, usize) {
    let done = mend(disk);
    let report = look(disk);
    assert!(report.is_clean(), "{what}: after\n{done}\n{}\nstill\n{report}", done.found);
    let (all, placeholders) = all_kept(&copy(disk));
    // Once more: it stays as it is, and goes on taking rows.
    assert!(!mend(disk).changed, "{what}: a second repair finds something");
    (done, all, placeholders)
}

fn whole() -> BTreeMap<String, BTreeSet<i64>> {
    all_kept(&database()).0
}

fn lost(all: &BTreeMap<String, BTreeSet<i64>>, before: &BTreeMap<String, BTreeSet<i64>>) -> usize {
    for (name, ids) in all {
        let known = before.get(name).unwrap_or_else(|| panic!("there never was a table {name}"));
        assert!(ids.is_subset(known), "rows that nobody wrote: {name}");
    }
    let rows = |all: &BTreeMap<String, BTreeSet<i64>>| all.values().map(BTreeSet::len).sum::<usize>();
    rows(before) - rows(all)
}

#[test]
fn a_whole_database_is_left_alone() {
    let disk = database();
    let files = disk.files();
    let done = mend(&disk);
    assert!(!done.changed && done.aside.is_none(), "{done}");
    assert_eq!(disk.files(), files);
}

/// A flipped byte in any file: manifests and symbol files lose nothing, a part at most its group of blocks or
/// what its footer tells of, the tape at most a frame.
#[test]
fn a_flipped_byte_costs_no_more_than_what_stands_around_it() {
    let before = whole();
    let disk = database();
    let mut random = Random::new(3);
    let mut repairs = 0;
    for (path, size) in disk.files() {
        for _ in 0..25 {
            let damaged = copy(&disk);
            damaged.flip(&path, random.below(size as u64) as usize, 1 << random.below(8));
            let what = path.display().to_string();
            let (done, all, placeholders) = mended(&damaged, &what);
            repairs += usize::from(done.changed);
            let rows = lost(&all, &before);
            if path.starts_with("tape") {
                // A CREATE takes its table with it; else a commit over two tables is the largest frame.
                assert!(
                    rows <= 20 || all.len() < before.len(),
                    "{what}: {rows} rows\n{done}\n{}",
                    done.found
                );
            } else {
                assert_eq!(placeholders, 0, "{what}");
                assert_eq!(rows as u64, done.rows_lost, "{what}\n{}", done.found);
            }
            if !path.starts_with("tables") || path.extension().is_none_or(|e| e != "part") {
                assert_eq!(done.rows_lost, 0, "{what}");
            }
            if let Some(aside) = &done.aside {
                assert!(damaged.read(&aside.join(&path)).is_ok(), "{what} is not among what was put aside");
            }
        }
    }
    assert!(repairs > 300, "{repairs}");
}

/// A part whose footer is whole keeps the rows of the blocks that are.
#[test]
fn whole_blocks_of_a_damaged_part_are_kept() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(schema("trades")).unwrap();
    let mut load = engine.load("trades").unwrap();
    load.append(&rows(0, 3_000)).unwrap();
    load.commit(None).unwrap();
    engine.seal(None).unwrap();
    engine.append("trades", &rows(3_000, 5), None).unwrap();
    drop(engine);
    let parts: Vec<_> = disk.files().into_iter().filter(|(path, _)| path.ends_with_part()).collect();
    assert_eq!(parts.len(), 3);
    disk.flip(&parts[1].0, 40, 0x20);
    let report = look(&disk);
    let finding = &report.findings[0];
    assert_eq!((finding.severity, finding.remedy), (Severity::Damage, Remedy::KeepRows), "{report}");
    let (done, all, _) = mended(&disk, "a part");
    assert_eq!(done.parts_rewritten, 1);
    assert_eq!(done.rows_kept + done.rows_lost, 1_000);
    // Slices are of 8 rows here: one of them has the block.
    assert_eq!((done.rows_lost, report.rows_lost()), (8, 8));
    assert_eq!(all["trades"].len(), 3_005 - 8);
}

/// Rows that later ones replaced do not come back with a part that is written anew, and a filter costs no row.
#[test]
fn replaced_rows_stay_so_in_a_part_written_anew() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    let table = TableSchema::builder("trades")
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64);
    let table = table.timestamp("ts").dedup(["ts", "symbol"]).indexed(["id"]);
    engine.create_table(table.build().unwrap()).unwrap();
    let mut load = engine.load("trades").unwrap();
    load.append(&rows(0, 3_000)).unwrap();
    load.commit(None).unwrap();
    engine.append("trades", &rows(0, 300), None).unwrap();
    engine.seal(None).unwrap();
    drop(engine);
    let parts = disk.files().into_iter().filter(|(path, _)| path.ends_with_part());
    let (part, size) = parts.max_by_key(|(_, size)| *size).unwrap();
    let (mut filters, mut blocks) = (0, 0);
    for at in (16..size).step_by(1_501) {
        let damaged = copy(&disk);
        damaged.flip(&part, at, 0x40);
        let report = look(&damaged);
        let of_filter = report.findings.iter().all(|finding| finding.what.contains("filter"));
        if report.findings.iter().any(|finding| finding.remedy != Remedy::KeepRows) {
            continue;
        }
        // Each row that is left is there once: `mended` sees to that.
        let (done, all, _) = mended(&damaged, "a part with replaced rows");
        assert_eq!(done.parts_rewritten, 1);
        let lost = 3_000 - all["trades"].len();
        if of_filter {
            assert_eq!((lost, done.rows_lost), (0, 0));
            filters += 1;
        } else {
            assert!(lost <= 8 && done.rows_lost <= 8, "{lost} {done}");
            blocks += 1;
        }
    }
    assert!(filters > 0 && blocks > 0, "{filters} {blocks}");
}

trait IsPart {
    fn ends_with_part(&self) -> bool;
}

impl IsPart for PathBuf {
    fn ends_with_part(&self) -> bool {
        self.extension().is_some_and(|extension| extension == "part")
    }
}

#[test]
fn a_part_whose_rows_the_tape_still_has_loses_nothing() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.create_table(schema("quotes")).unwrap();
    // Rows of another table hold the tape back.
    engine.append("quotes", &rows(0, 6), None).unwrap();
    for step in 0..5 {
        engine.append("trades", &rows(step * 20, 20), None).unwrap();
    }
    engine.seal(Some("trades")).unwrap();
    drop(engine);
    let before = all_kept(&copy(&disk)).0;
    for (path, size) in disk.files().into_iter().filter(|(path, _)| path.ends_with_part()) {
        for at in [3, 100, size - 60] {
            let damaged = copy(&disk);
            damaged.flip(&path, at, 0xff);
            assert!(look(&damaged).findings.iter().all(|finding| finding.remedy == Remedy::FromTape));
            let (done, all, _) = mended(&damaged, "a part that is in the tape");
            assert_eq!((lost(&all, &before), done.rows_lost), (0, 0), "{done}");
        }
        let damaged = copy(&disk);
        damaged.remove(&path).unwrap();
        assert_eq!(lost(&mended(&damaged, "a missing part").1, &before), 0);
    }
}

/// Manifest and copy both gone: the parts and the tape tell what the table was.
#[test]
fn a_table_without_manifest_and_copy_is_rebuilt_from_its_parts() {
    let before = whole();
    let disk = database();
    for name in ["manifest", "manifest.copy"] {
        disk.flip(&Path::new("tables/1").join(name), 30, 0x01);
    }
    let (done, all, placeholders) = mended(&disk, "both manifests");
    assert!(done.found.findings[0].to_string().contains("and so is its copy"), "{}", done.found);
    assert_eq!(placeholders, 0);
    let name = done.tables_rewritten.first().unwrap().clone();
    assert!(name == "recovered_1" || name == "trades", "{name}");
    assert_eq!(all[&name], before["trades"]);
    assert_eq!(all["quotes"], before["quotes"]);
}

#[test]
fn symbols_without_file_and_copy_show_as_placeholders() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(schema("trades")).unwrap();
    for step in 0..40 {
        engine.append("trades", &rows(step * 10, 10), None).unwrap();
    }
    // The tape lets go of the frames that brought the symbols.
    engine.seal(None).unwrap();
    engine.append("trades", &rows(400, 30), None).unwrap();
    drop(engine);
    let before = all_kept(&copy(&disk)).0;
    for name in ["symbols-1", "symbols-1.copy"] {
        disk.flip(&Path::new("tables/1").join(name), 20, 0x01);
    }
    let (done, all, placeholders) = mended(&disk, "both symbol files");
    assert_eq!(lost(&all, &before), 0);
    assert!(placeholders > 0 && placeholders < before["trades"].len(), "{placeholders}");
    let words = done.found.to_string();
    assert!(words.contains("the text of ids 0 to"), "{words}");
}

/// Anything may have happened to the files: a repair ends in a database that opens and has only rows that
/// were written.
#[test]
fn any_ruin_is_repaired_to_something_sound() {
    let before = database_rows();
    let disk = database();
    for seed in 0..400 {
        let ruined = copy(&disk);
        ruin(&ruined, &mut Random::new(seed));
        let done = mend(&ruined);
        let report = look(&ruined);
        assert!(report.is_clean(), "seed {seed}: after\n{done}\n{}\nstill\n{report}", done.found);
        let rows = std::panic::catch_unwind(|| all_kept(&ruined).0);
        let rows = rows.unwrap_or_else(|_| panic!("seed {seed}: {done}\n{}", done.found));
        for (name, ids) in rows {
            let known =
                ["trades", "quotes", "gone"].contains(&name.as_str()) || name.starts_with("recovered_");
            assert!(known, "seed {seed}: {name}");
            assert!(ids.is_subset(&before), "seed {seed}: rows that nobody wrote");
        }
    }
}

/// Every id that any table ever had.
fn database_rows() -> BTreeSet<i64> {
    (0..300).collect()
}

/// Power goes at every write and sync of a repair; the next repair ends where an uninterrupted one does.
#[test]
fn a_repair_cut_short_anywhere_loses_nothing_more() {
    let disk = database();
    let damage: [(&str, usize); 4] =
        [("tables/1/manifest", 40), ("tables/2/symbols-1", 30), ("part", 40), ("tape", 300)];
    for combination in [vec![0, 2], vec![1, 3], vec![0, 1, 2, 3]] {
        let damaged = copy(&disk);
        for index in combination {
            let (wanted, at) = damage[index];
            let mut files = damaged.files().into_iter().map(|(path, _)| path);
            let path = files.find(|path| {
                path.to_string_lossy() == wanted
                    || path.starts_with(wanted)
                    || (wanted == "part" && path.ends_with_part())
            });
            damaged.flip(&path.unwrap(), at, 0x04);
        }
        let start = copy(&damaged);
        let first = start.calls();
        let (done, expected, placeholders) = mended(&start, "uninterrupted");
        assert!(done.changed);
        let mut images = 0;
        for image in start.images(first, 2) {
            let again = image.disk();
            mend(&again);
            let report = look(&again);
            assert!(report.is_clean(), "cut after {} ({:?}): {report}", image.calls, image.survival);
            let found = all_kept(&copy(&again));
            assert_eq!(found, (expected.clone(), placeholders), "cut after {}", image.calls);
            // What was damaged is still there to be looked at.
            let asides: Vec<PathBuf> = again.files().into_iter().map(|(path, _)| path).collect();
            for path in &done.files_aside {
                assert!(asides.iter().any(|aside| aside.starts_with("damaged") && aside.ends_with(path)));
            }
            // An engine that opens it meets the same.
            let opened = image.disk();
            if let Ok(engine) = open(&opened) {
                drop(engine);
                let rows = all_kept(&copy(&opened)).0;
                assert!(rows.values().zip(expected.values()).all(|(a, b)| a.is_superset(b)));
            }
            images += 1;
        }
        assert!(images > 60, "{images}");
    }
}

fn mend_with(disk: &CrashDisk, bring_back: bool) -> Repaired {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    repair(&disk, &RepairOptions { bring_back }, &mut |_| {}).unwrap()
}

/// Takes both manifests of a table away, or flips a bit of each.
fn lose_manifests(disk: &CrashDisk, table: u32, removed: bool) {
    for name in ["manifest", "manifest.copy"] {
        let path = Path::new("tables").join(table.to_string()).join(name);
        if removed {
            disk.remove(&path).unwrap();
        } else if disk.read(&path).is_ok() {
            disk.flip(&path, 30, 0x01);
        }
    }
}

/// Rows of all tables but `other`, by number.
fn by_id(engine: &Engine) -> BTreeMap<i64, Row> {
    let snapshot = engine.snapshot();
    let tables = snapshot.tables().filter(|table| table.schema().name() != "other");
    let rows: Vec<Row> = tables.flat_map(|table| selected(table, &Selection::default())).collect();
    let count = rows.len();
    let by_id: BTreeMap<i64, Row> = rows.into_iter().map(|row| (row.id, row)).collect();
    assert_eq!(by_id.len(), count, "a row is there twice");
    by_id
}

/// Rows 0 to 30, of which every third is deleted and every fourth of the others updated, in one partition of one part.
fn edited() -> CrashDisk {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(table().build().unwrap()).unwrap();
    engine.create_table(schema("other")).unwrap();
    engine.append("other", &rows(0, 6), None).unwrap();
    engine.seal(Some("other")).unwrap();
    let mut written = random_rows(&mut Random::new(5), 0, 30);
    written.iter_mut().for_each(|row| (row.ts, row.px) = (row.id * 1_000, Some(1.0)));
    engine.append(TABLE, &batch(&written), None).unwrap();
    assert_eq!(delete(&engine, TimeRange::ALL, |row| row.id % 3 == 0), 10);
    assert_eq!(update(&engine, |row| row.id % 4 == 0, |_| Some(2.0), None), 5);
    drop(engine);
    disk
}

/// What a DELETE removed comes from the tape, where nothing else tells of the table: not without being asked for.
#[test]
fn deleted_rows_come_back_where_they_are_asked_for_alone() {
    let disk = edited();
    lose_manifests(&disk, 1, true);
    let report = look(&disk);
    let words = report.to_string();
    assert!(
        words.contains("up to 10 rows of table 'ticks' that a DELETE removed would come back"),
        "{words}"
    );
    assert!(words.contains("up to 20 rows of table 'ticks' would have the values from before"), "{words}");
    let finding = report.findings.iter().find(|finding| finding.remedy == Remedy::BringBack).unwrap();
    assert_eq!(finding.table.as_deref(), Some(TABLE));
    // Nothing else is wrong: nothing is changed.
    let files = disk.files();
    let done = mend(&disk);
    assert!(!done.changed && done.brought_back.is_empty() && done.left[0].deleted == 10, "{done}");
    assert!(done.to_string().starts_with("table 'ticks' is left damaged: up to 10 rows"), "{done}");
    assert_eq!(disk.files(), files);
    let refused = open(&copy(&disk)).unwrap_err().to_string();
    assert!(refused.contains("tables/1") && refused.contains("which is not there"), "{refused}");
    // All else is repaired.
    disk.flip(Path::new("tables/2/manifest"), 30, 0x01);
    let done = mend(&disk);
    assert!(done.changed && done.tables_rewritten == ["other"] && done.left.len() == 1, "{done}");
    assert!(look(&disk).findings.iter().all(|finding| finding.table.as_deref() != Some("other")));
    assert!(open(&copy(&disk)).is_err());
    assert!(!mend(&disk).changed);
    let done = mend_with(&disk, true);
    assert!(done.left.is_empty() && done.brought_back[0].deleted == 10, "{done}");
    assert!(done.to_string().contains("that a DELETE removed are back"), "{done}");
    assert!(look(&disk).is_clean() && !mend(&disk).changed);
    let rows = by_id(&open(&copy(&disk)).unwrap());
    assert!(rows.len() == 30 && rows.values().all(|row| row.px == Some(1.0)), "{rows:?}");
    // The part that the DELETE left is put aside, not swept.
    assert!(
        done.files_aside.iter().any(|path| path.starts_with("tables/1") && path.ends_with_part()),
        "{done:?}"
    );
}

/// Parts whose manifests cannot be read tell what a DELETE and an UPDATE left, except of a partition that it emptied.
#[test]
fn parts_tell_what_a_delete_left() {
    let disk = edited();
    lose_manifests(&disk, 1, false);
    let done = mend(&disk);
    assert!(done.left.is_empty() && done.positions_lost.is_empty() && done.rows_lost == 0, "{done}");
    let rows = by_id(&open(&copy(&disk)).unwrap());
    assert!(rows.len() == 20 && rows.values().all(|row| row.id % 3 > 0), "{rows:?}");
    assert!(rows.values().all(|row| row.px == Some(if row.id % 4 == 0 { 2.0 } else { 1.0 })), "{rows:?}");
    let disk = edited();
    let engine = open(&disk).unwrap();
    let later = [Row { ts: 5 * DAY, id: 50, ..random_rows(&mut Random::new(5), 50, 1)[0].clone() }];
    engine.append(TABLE, &batch(&later), None).unwrap();
    assert_eq!(delete(&engine, TimeRange::new(0, DAY), |_| true), 20);
    drop(engine);
    lose_manifests(&disk, 1, false);
    let done = mend(&disk);
    assert!(done.left[0].deleted == 30 && done.left[0].changed == 0, "{done}");
    assert_eq!(by_id(&open(&disk_after(&disk)).unwrap()).len(), 31);
}

fn disk_after(disk: &CrashDisk) -> CrashDisk {
    mend_with(disk, true);
    copy(disk)
}

/// A table that was dropped is neither brought back nor named, whatever is missing of it.
#[test]
fn a_dropped_table_is_not_brought_back() {
    let disk = edited();
    let engine = open(&disk).unwrap();
    engine.drop_table(TABLE).unwrap();
    engine.append("other", &rows(6, 6), None).unwrap();
    drop(engine);
    lose_manifests(&disk, 1, true);
    let report = look(&disk);
    assert!(report.is_clean() && !report.to_string().contains("come back"), "{report}");
    disk.flip(Path::new("tables/2/manifest"), 30, 0x01);
    let done = mend_with(&disk, true);
    assert!(done.changed && done.left.is_empty() && done.brought_back.is_empty(), "{done}");
    let engine = open(&disk).unwrap();
    assert_eq!(engine.snapshot().tables().count(), 1);
}

/// Whatever happened to a table, a repair that was not asked to gives no deleted row and no value of before.
#[test]
fn no_repair_undoes_a_change_unasked() {
    let (mut left, mut kept) = (0, 0);
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, table().build().unwrap(), false);
        world.engine().create_table(schema("other")).unwrap();
        world.engine().append("other", &rows(0, 6), None).unwrap();
        (0..8 + random.below(20)).for_each(|_| {
            world.step();
        });
        let dropped = random.one_in(6);
        if dropped {
            world.engine().drop_table(TABLE).unwrap();
            world.rows.clear();
        }
        world.engine = None;
        let disk = copy(&world.disk);
        lose_manifests(&disk, 1, random.one_in(2));
        if disk.read(Path::new("tables/2/manifest")).is_ok() {
            disk.flip(Path::new("tables/2/manifest"), 30, 0x01);
        }
        let expected: BTreeMap<i64, Row> = world.rows.iter().map(|row| (row.id, row.clone())).collect();
        let done = mend(&disk);
        assert!(!dropped || done.left.is_empty(), "seed {seed}: {done}");
        if done.left.is_empty() {
            let report = look(&disk);
            assert!(report.is_clean(), "seed {seed}: {report}");
            let found = by_id(&open(&disk).unwrap());
            let undone: Vec<_> = found.iter().filter(|(id, row)| expected.get(id) != Some(row)).collect();
            assert!(undone.is_empty(), "seed {seed}: {undone:?}\n{done}\n{}", done.found);
            kept += 1;
            continue;
        }
        assert!(open(&copy(&disk)).is_err(), "seed {seed}: {done}");
        assert!(!mend(&disk).changed, "seed {seed}");
        let done = mend_with(&disk, true);
        assert!(look(&disk).is_clean(), "seed {seed}: {done}");
        let found = by_id(&open(&disk).unwrap());
        let back = found.keys().filter(|id| !expected.contains_key(id)).count() as u64;
        let undone =
            found.iter().filter(|(id, row)| expected.get(id).is_some_and(|now| now != *row)).count() as u64;
        let said = &done.brought_back[0];
        let differ: Vec<_> = found.iter().filter(|(id, row)| expected.get(id) != Some(row)).collect();
        assert!(
            back <= said.deleted && back + undone <= said.deleted + said.changed,
            "seed {seed}: {back} {undone} {differ:?}\n{done}\n{}",
            done.found
        );
        left += 1;
    }
    assert!(left > 10 && kept > 10, "{left} {kept}");
}

/// What somebody may do is in manifests by the time that it is acknowledged: whatever is lost of the tape, no user is
/// forgotten, and no right comes back that was revoked.
#[test]
fn no_right_comes_back_with_a_damaged_tape() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    let grant = |to| Grant { to, rights: Rights::SELECT, columns: None, filter: None };
    engine.set_accounts("{\"users\": 1}").unwrap();
    engine.create_table(schema("trades").owned_by(Some(20))).unwrap();
    engine.create_table(TableSchema::of_view("seen", "SELECT 1").unwrap()).unwrap();
    for to in 21..25 {
        engine.append("trades", &rows(i64::from(to) * 10, 10), None).unwrap();
        for name in ["trades", "seen"] {
            let access = TableAccess { owner: Some(20), grants: (21..=to).rev().map(grant).collect() };
            engine.alter_table(name, &AlterTable::SetAccess(access)).unwrap();
        }
        engine.set_accounts(&format!("{{\"users\": {to}}}")).unwrap();
    }
    for (name, owner) in [("trades", 20), ("seen", 22)] {
        let access = TableAccess { owner: Some(owner), grants: vec![grant(24)] };
        engine.alter_table(name, &AlterTable::SetAccess(access)).unwrap();
    }
    engine.set_accounts("{\"users\": 0}").unwrap();
    engine.append("trades", &rows(0, 10), None).unwrap();
    drop(engine);

    let mut random = Random::new(31);
    let tape: Vec<_> = disk.files().into_iter().filter(|(path, _)| path.starts_with("tape")).collect();
    let segments = || tape.iter().filter(|(path, _)| path.extension().is_none_or(|end| end != "copy"));
    let mut lost = 0;
    for round in 0..300 {
        let damaged = copy(&disk);
        if round == 0 {
            segments().for_each(|(path, _)| damaged.remove(path).unwrap());
        }
        for _ in 0..random.below(4) {
            let (path, size) = &tape[random.below(tape.len() as u64) as usize];
            if damaged.read(path).is_err() {
                continue;
            }
            match random.below(6) {
                0 => damaged.remove(path).unwrap(),
                _ => damaged.flip(path, random.below(*size as u64) as usize, 1 << random.below(8)),
            }
        }
        // The text has a third place: both of its manifests may go.
        for path in ["tables/1/manifest", "tables/1/manifest.copy"].map(Path::new) {
            match round % 3 {
                0 => {}
                1 => damaged.flip(path, 50, 1),
                _ => damaged.remove(path).unwrap(),
            }
        }
        lost += usize::from(mend(&damaged).changed);
        drop(open(&damaged).unwrap_or_else(|error| panic!("round {round}: {error}")));
        let engine = open(&damaged).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let snapshot = engine.snapshot();
        let accounts = snapshot.accounts().expect("there are users").view().map(str::to_string);
        assert_eq!(accounts.as_deref(), Some("{\"users\": 0}"), "round {round}");
        for (name, owner) in [("trades", 20), ("seen", 22)] {
            let table = snapshot.table(name).unwrap_or_else(|| panic!("round {round}: {name} is gone"));
            let expected = TableAccess { owner: Some(owner), grants: vec![grant(24)] };
            assert_eq!(*table.schema().access(), expected, "round {round}");
        }
    }
    assert!(lost > 100, "{lost}");
}

/// Where the table of users is lost and its copy is damaged, nobody opens the database: everybody could do everything.
#[test]
fn without_its_users_a_database_stays_closed() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.set_accounts("{\"users\": 1}").unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.append("trades", &rows(0, 10), None).unwrap();
    engine.seal(None).unwrap();
    drop(engine);
    let text = |engine: &Engine| engine.snapshot().accounts().and_then(|of| of.view().map(str::to_string));
    let segments = disk.files().into_iter().filter(|(path, _)| path.starts_with("tape"));
    let segments: Vec<PathBuf> = segments.map(|(path, _)| path).collect();
    let lose_table = |disk: &CrashDisk| {
        let files = ["tables/1/manifest", "tables/1/manifest.copy", "tape-manifest", "tape-manifest.copy"];
        files.map(Path::new).iter().for_each(|path| disk.remove(path).unwrap());
        segments.iter().for_each(|path| disk.remove(path).unwrap());
        mend(disk);
    };
    // The copy alone is enough, and is written anew where it alone is damaged.
    let lost = copy(&disk);
    lose_table(&lost);
    assert!(Engine::open_read_only_on(Arc::new(lost.clone()), EngineOptions::default()).is_err());
    assert_eq!(text(&open(&lost).unwrap()).as_deref(), Some("{\"users\": 1}"));
    let damaged = copy(&disk);
    damaged.flip(Path::new("accounts"), 20, 1);
    assert_eq!(look(&damaged).findings.len(), 1, "{}", look(&damaged));
    assert_eq!(text(&open(&damaged).unwrap()).as_deref(), Some("{\"users\": 1}"));
    assert!(look(&damaged).findings.is_empty(), "{}", look(&damaged));
    // Both.
    let closed = copy(&disk);
    closed.flip(Path::new("accounts"), 20, 1);
    lose_table(&closed);
    for _ in 0..2 {
        let error = open(&closed).expect_err("its users are lost").to_string();
        assert!(error.contains("restore a backup"), "{error}");
        assert!(Engine::open_read_only_on(Arc::new(closed.clone()), EngineOptions::default()).is_err());
        mend(&closed);
    }
    closed.remove(Path::new("accounts")).unwrap();
    closed.remove(Path::new("accounts.due")).unwrap();
    assert_eq!(text(&open(&closed).unwrap()), None, "whoever has the files says so");
    // A backup has it too.
    let engine = open(&disk).unwrap();
    let backup = CrashDisk::new();
    engine.backup(&(Arc::new(backup.clone()) as Arc<dyn Disk>), &mut |_| {}).unwrap();
    assert_eq!(
        backup.read(Path::new("accounts")).unwrap().to_vec(),
        disk.read(Path::new("accounts")).unwrap().to_vec()
    );
}

/// A table whose name is lost takes none that another has.
#[test]
fn a_lost_name_is_not_another_s() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    for name in ["trades", "recovered_1", "RECOVERED_1_"] {
        engine.create_table(schema(name)).unwrap();
        engine.append(name, &rows(0, 10), None).unwrap();
    }
    engine.seal(None).unwrap();
    drop(engine);
    for path in ["tables/1/manifest", "tables/1/manifest.copy"] {
        disk.flip(Path::new(path), 50, 1);
    }
    for path in ["tape-manifest", "tape-manifest.copy"] {
        disk.remove(Path::new(path)).unwrap();
    }
    let segments: Vec<PathBuf> = disk.files().into_iter().map(|(path, _)| path).collect();
    segments.iter().filter(|path| path.starts_with("tape")).for_each(|path| disk.remove(path).unwrap());
    mend(&disk);
    let engine = open(&disk).unwrap();
    let snapshot = engine.snapshot();
    let names: BTreeSet<String> = snapshot.tables().map(|table| table.schema().name().to_string()).collect();
    let expected = ["RECOVERED_1_", "recovered_1", "recovered_1__"].map(str::to_string);
    assert_eq!(names, BTreeSet::from(expected));
    assert_eq!(snapshot.tables().count(), 3);
}

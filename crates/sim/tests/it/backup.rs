//! Backups: one state each, whatever is written meanwhile and whenever power goes.

use crate::check::{copy, look, open};
use crate::ledger::{Contents, contents, options, rows, schema};
use std::sync::Arc;
use tickstone_engine::backup::{BackupSummary, restore};
use tickstone_engine::disk::Disk;
use tickstone_engine::{Engine, EngineError, EngineOptions};
use tickstone_model::TableSchema;
use tickstone_sim::CrashDisk;

fn shared(disk: &CrashDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn back_up(engine: &Engine, to: &CrashDisk) -> BackupSummary {
    engine.backup(&shared(to), &mut |_| {}).unwrap()
}

/// What a directory holds when it is opened read-only, as a user of the backup would.
fn read(disk: &CrashDisk) -> Contents {
    contents(&Engine::open_read_only_on(shared(disk), options()).unwrap())
}

/// Files that are not the same on both disks.
fn filled(engine: &Engine) {
    engine.create_table(schema("trades")).unwrap();
    engine.create_table(schema("quotes")).unwrap();
    for step in 0..6 {
        engine.append("trades", &rows(step * 10, 10), None).unwrap();
        engine.append("quotes", &rows(step * 5, 5), None).unwrap();
    }
    engine.seal(Some("trades")).unwrap();
}

#[test]
fn a_view_is_no_table() {
    let (disk, to) = (CrashDisk::new(), CrashDisk::new());
    let engine = open(&disk).unwrap();
    filled(&engine);
    engine.create_table(TableSchema::of_view("newest", "SELECT * FROM trades").unwrap()).unwrap();
    assert_eq!(back_up(&engine, &to).tables, 2);
    assert_eq!(look(&to).tables, 2);
}

#[test]
fn a_backup_is_a_database_and_the_next_one_copies_what_is_new() {
    let (disk, to) = (CrashDisk::new(), CrashDisk::new());
    let engine = open(&disk).unwrap();
    filled(&engine);
    let first = back_up(&engine, &to);
    assert_eq!((first.tables, first.rows), (2, 90));
    assert_eq!((first.parts, first.parts_copied), (3, 3));
    let state = contents(&engine);
    engine.append("trades", &rows(60, 10), None).unwrap();
    assert_eq!(read(&to), state, "what comes later is not in it");
    assert!(look(&to).findings.is_empty(), "{}", look(&to));
    let again = back_up(&engine, &to);
    assert_eq!((again.parts, again.parts_copied), (3, 0));
    assert_eq!(read(&to), contents(&engine));
    // Truncated and dropped tables, new parts: the old files go.
    engine.truncate_table("trades").unwrap();
    engine.drop_table("quotes").unwrap();
    engine.append("trades", &rows(200, 30), None).unwrap();
    engine.seal(None).unwrap();
    let last = back_up(&engine, &to);
    assert_eq!((last.parts, last.parts_copied, last.parts_removed), (3, 3, 3));
    assert_eq!(read(&to), contents(&engine));
    assert!(look(&to).findings.is_empty(), "{}", look(&to));
    // It opens for writing as well, and goes on.
    let writing = open(&copy(&to)).unwrap();
    writing.append("trades", &rows(230, 5), None).unwrap();
    assert_eq!(contents(&writing)["trades"].len(), 35);
}

#[test]
fn a_backup_while_others_write_is_one_state() {
    let disk = CrashDisk::new();
    let options = EngineOptions { background: true, segment_bytes: 4_096, ..options() };
    let engine = Engine::open_on(shared(&disk), Arc::new(tickstone_sim::StepClock::new(0)), options).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.create_table(schema("quotes")).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for step in 0..300 {
                let mut transaction = engine.begin();
                transaction.append("trades", &rows(step * 4, 4)).unwrap();
                transaction.append("quotes", &rows(step * 4, 4)).unwrap();
                transaction.commit(None).unwrap();
                if step % 40 == 39 {
                    engine.seal(Some("trades")).unwrap();
                }
            }
        });
        let to = CrashDisk::new();
        let mut backups = 0;
        while !writer.is_finished() || backups < 3 {
            back_up(&engine, &to);
            let found = read(&to);
            // Every commit is whole, in both tables, and none is missing before another.
            assert_eq!(found["trades"], found["quotes"]);
            assert!(found["trades"].iter().copied().eq(0..found["trades"].len() as i64));
            assert_eq!(found["trades"].len() % 4, 0);
            backups += 1;
        }
        back_up(&engine, &to);
        assert_eq!(read(&to)["trades"].len(), 1_200);
    });
}

#[test]
fn a_backup_cut_short_anywhere_leaves_one_whole_state() {
    let (disk, to) = (CrashDisk::new(), CrashDisk::new());
    let engine = open(&disk).unwrap();
    filled(&engine);
    back_up(&engine, &to);
    let before = contents(&engine);
    engine.append("trades", &rows(60, 40), None).unwrap();
    engine.drop_table("quotes").unwrap();
    engine.seal(None).unwrap();
    engine.append("trades", &rows(100, 7), None).unwrap();
    let after = contents(&engine);
    let first = to.calls();
    back_up(&engine, &to);
    let (mut old, mut new) = (0, 0);
    for image in to.images(first, 3) {
        let left = image.disk();
        let found = read(&left);
        assert!(found == before || found == after, "cut after {} ({:?})", image.calls, image.survival);
        if found == before {
            old += 1
        } else {
            new += 1
        }
        let report = look(&left);
        assert!(report.is_clean(), "cut after {}: {report}", image.calls);
        // The next backup ends where this one would have.
        back_up(&engine, &left);
        assert_eq!(read(&left), after);
        assert!(look(&left).findings.is_empty());
    }
    assert!(old > 20 && new > 20, "{old} {new}");
}

#[test]
fn a_restore_brings_everything_back_and_can_be_begun_again() {
    let (disk, kept) = (CrashDisk::new(), CrashDisk::new());
    let engine = open(&disk).unwrap();
    filled(&engine);
    back_up(&engine, &kept);
    let state = contents(&engine);
    let to = CrashDisk::new();
    let summary = restore(&shared(&kept), &shared(&to), &mut |_| {}).unwrap();
    assert_eq!((summary.tables, summary.rows, summary.parts_copied), (2, 90, 3));
    assert_eq!(contents(&open(&copy(&to)).unwrap()), state);
    assert!(look(&to).findings.is_empty());
    let again = restore(&shared(&kept), &shared(&to), &mut |_| {}).unwrap_err();
    assert!(matches!(again, EngineError::NotEmpty { .. }), "{again}");
    let onto = engine.backup(&shared(&to), &mut |_| {}).unwrap_err();
    assert!(matches!(onto, EngineError::NotABackup { .. }), "{onto}");
    for image in to.images(0, 2) {
        let left = image.disk();
        let files = left.files();
        let done = !files.is_empty() && files.iter().all(|(path, _)| !path.starts_with("RESTORE"));
        // Its last step was under way: whoever opens it finishes that.
        if done {
            assert_eq!(read(&left), state);
            continue;
        }
        // Until then it is no database, unless its last step is finished by who opens it.
        if files.iter().any(|(path, _)| path.starts_with("RESTORE")) {
            match open(&copy(&left)) {
                Ok(engine) => assert_eq!(contents(&engine), state),
                Err(error) => assert!(matches!(error, EngineError::RestoreUnfinished), "{error}"),
            }
        }
        restore(&shared(&kept), &shared(&left), &mut |_| {}).unwrap();
        assert_eq!(read(&left), state, "cut after {}", image.calls);
    }
}

#[test]
fn what_is_no_database_is_not_restored() {
    let (from, to) = (CrashDisk::new(), CrashDisk::new());
    let error = restore(&shared(&from), &shared(&to), &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "the source is empty, and no backup or database");
    shared(&from).create(std::path::Path::new("trades.csv")).unwrap();
    let error = restore(&shared(&from), &shared(&to), &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "the source holds trades.csv, and no backup or database");
    assert!(to.files().is_empty());
}

#[test]
fn damage_is_neither_backed_up_nor_restored() {
    let (disk, kept) = (CrashDisk::new(), CrashDisk::new());
    let engine = open(&disk).unwrap();
    filled(&engine);
    back_up(&engine, &kept);
    let part = |disk: &CrashDisk| {
        let mut files = disk.files().into_iter().map(|(path, _)| path);
        files.find(|path| path.extension().is_some_and(|e| e == "part")).unwrap()
    };
    kept.flip(&part(&kept), 50, 1);
    let error = restore(&shared(&kept), &shared(&CrashDisk::new()), &mut |_| {}).unwrap_err();
    assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
    disk.flip(&part(&disk), 50, 1);
    let error = engine.backup(&shared(&CrashDisk::new()), &mut |_| {}).unwrap_err();
    assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
}

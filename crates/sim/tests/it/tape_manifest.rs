//! A tape that is missing, in whole or in part: named by check and by every opening, and left behind by a repair alone.

use crate::check::{copy, database, look, open};
use crate::ledger::{Contents, contents, options, rows, schema};
use crate::repair::all_kept;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_engine::Engine;
use tickstone_engine::check::Severity;
use tickstone_engine::disk::Disk;
use tickstone_engine::repair::{RepairOptions, Repaired, repair};
use tickstone_model::SyncPolicy;
use tickstone_sim::{CrashDisk, Survival};

const NAMES: [&str; 2] = ["tape-manifest", "tape-manifest.copy"];

fn shared(disk: &CrashDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn segments(disk: &CrashDisk) -> Vec<(PathBuf, usize)> {
    disk.files().into_iter().filter(|(path, _)| path.starts_with("tape")).collect()
}

fn open_to_read(disk: &CrashDisk) -> tickstone_engine::Result<Engine> {
    Engine::open_read_only_on(shared(disk), options())
}

/// Both openings and the check say so, of the same file.
fn is_refused(disk: &CrashDisk, named: &Path, what: &str) {
    let report = look(disk);
    let finding = report.findings.iter().find(|finding| finding.path == named);
    assert!(finding.is_some_and(|found| found.severity == Severity::Damage), "{what}: {report}");
    let named = named.display().to_string();
    for error in [open(&copy(disk)).unwrap_err(), open_to_read(disk).unwrap_err()] {
        let words = error.to_string();
        assert!(words.contains(&named) && words.contains("check"), "{what}: {words}");
    }
}

/// A repair goes on with what is there: rows that were written, and no others.
fn goes_on(disk: &CrashDisk, before: &Contents, what: &str) -> (Repaired, usize) {
    let done = repair(&shared(disk), &RepairOptions::default(), &mut |_| {}).unwrap();
    let report = look(disk);
    assert!(report.is_clean(), "{what}: after\n{done}\n{}\nstill\n{report}", done.found);
    assert!(
        !repair(&shared(disk), &RepairOptions::default(), &mut |_| {}).unwrap().changed,
        "{what}: a second repair finds something"
    );
    // Symbols that the lost frames brought show as placeholders.
    let (after, _) = all_kept(&copy(disk));
    for (name, ids) in &after {
        let known = before.get(name);
        assert!(known.is_some_and(|known| ids.iter().all(|id| known.contains(id))), "{what}: {name}");
    }
    let engine = open(&copy(disk)).unwrap_or_else(|error| panic!("{what}: {error}"));
    engine.create_table(schema("later")).unwrap();
    engine.append("later", &rows(0, 3), None).unwrap();
    let before = before.values().map(Vec::len).sum::<usize>();
    (done, before - after.values().map(BTreeSet::len).sum::<usize>())
}

#[test]
fn each_segment_is_missed() {
    let disk = database();
    let before = contents(&open(&copy(&disk)).unwrap());
    let all = segments(&disk);
    assert!(all.len() >= 3);
    let mut lost = 0;
    for (path, _) in &all {
        let what = path.display().to_string();
        let damaged = copy(&disk);
        damaged.remove(path).unwrap();
        is_refused(&damaged, path, &what);
        let words = look(&damaged).to_string();
        assert!(words.contains("the segment is missing: it held the frames from position 0x"), "{words}");
        assert!(words.contains("received between 20") || words.contains("received between 19"), "{words}");
        let (done, rows) = goes_on(&damaged, &before, &what);
        assert!(!done.positions_lost.is_empty(), "{what}: {done}");
        lost += rows;
    }
    assert!(lost > 0);
}

#[test]
fn all_of_the_tape_is_missed() {
    let disk = database();
    let before = contents(&open(&copy(&disk)).unwrap());
    let all = segments(&disk);
    for with_names in [false, true] {
        let damaged = copy(&disk);
        damaged.remove(Path::new("tape")).unwrap();
        if with_names {
            NAMES.iter().for_each(|name| damaged.remove(Path::new(name)).unwrap());
            assert!(!look(&damaged).is_clean());
            assert!(open(&copy(&damaged)).is_err() && open_to_read(&damaged).is_err());
        } else {
            is_refused(&damaged, &all[0].0, "no tape");
            let named = look(&damaged).findings.iter().filter(|f| f.path.starts_with("tape")).count();
            assert_eq!(named, all.len());
        }
        // What is in parts stays.
        let (_, rows) = goes_on(&damaged, &before, "no tape");
        assert!(rows > 0);
    }
}

#[test]
fn a_tape_manifest_that_is_damaged_or_missing_is_named_and_made_anew() {
    let disk = database();
    let before = contents(&open(&copy(&disk)).unwrap());
    for (name, missing) in [(0, true), (0, false), (1, true), (1, false)] {
        let path = Path::new(NAMES[name]);
        let damaged = copy(&disk);
        if missing {
            damaged.remove(path).unwrap();
        } else {
            damaged.flip(path, 20, 0x04);
        }
        let what = format!("{}, missing: {missing}", path.display());
        if name == 0 {
            is_refused(&damaged, path, &what);
        } else {
            // Nothing relies on the copy.
            assert_eq!(contents(&open(&copy(&damaged)).unwrap()), before);
            assert!(!look(&damaged).is_clean(), "{what}");
        }
        let (_, rows) = goes_on(&damaged, &before, &what);
        assert_eq!(rows, 0, "{what}");
    }
    // Both at once: what is there is taken for all there was.
    let damaged = copy(&disk);
    NAMES.iter().for_each(|name| damaged.remove(Path::new(name)).unwrap());
    is_refused(&damaged, Path::new(NAMES[0]), "both");
    assert_eq!(goes_on(&damaged, &before, "both").1, 0);
}

#[test]
fn a_newest_segment_cut_anywhere_after_a_clean_close_is_damage() {
    let disk = database();
    let before = contents(&open(&copy(&disk)).unwrap());
    let (path, size) = segments(&disk).pop().unwrap();
    for bytes in 0..size {
        let damaged = copy(&disk);
        damaged.truncate(&path, bytes as u64).unwrap();
        let what = format!("{bytes} of {size} bytes");
        is_refused(&damaged, &path, &what);
        if bytes % 7 == 0 {
            goes_on(&damaged, &before, &what);
        }
    }
}

/// Without a close a shorter tape is a torn end, as far as nothing else says that there was more.
#[test]
fn a_newest_segment_cut_anywhere_after_a_kill_is_torn() {
    for seals in [false, true] {
        let disk = CrashDisk::new();
        let engine = open(&disk).unwrap();
        engine.create_table(schema("trades")).unwrap();
        for step in 0..8 {
            let sync = if step % 2 == 0 { SyncPolicy::Always } else { SyncPolicy::None };
            engine.append("trades", &rows(step * 5, 5), Some(sync)).unwrap();
            if seals && step == 5 {
                engine.seal(None).unwrap();
            }
        }
        let killed = disk.image(disk.calls(), Survival::Everything).disk();
        let whole = contents(&engine)["trades"].clone();
        let (path, size) = segments(&killed).pop().unwrap();
        let (mut opened, mut refused) = (0, 0);
        for bytes in 40..size {
            let cut = copy(&killed);
            cut.truncate(&path, bytes as u64).unwrap();
            let clean = look(&cut).is_clean();
            match open(&copy(&cut)) {
                Ok(engine) => {
                    assert!(clean, "{bytes} of {size}");
                    let found = contents(&engine).remove("trades").unwrap_or_default();
                    assert!(whole.starts_with(&found), "{bytes} of {size}: {found:?}");
                    assert!(!seals || found.len() >= 30, "what is sealed is not torn: {found:?}");
                    opened += 1;
                }
                Err(error) => {
                    assert!(!clean && error.to_string().contains("frames are missing"), "{bytes}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(opened > 50 && (refused > 50) == seals, "{opened} opened, {refused} refused");
        // Without its header nothing was in it; but it has a name, which it got after the header.
        killed.truncate(&path, 39).unwrap();
        is_refused(&killed, &path, "no header");
    }
}

/// A segment that the tape has let go of is passed over, also where a crash left it: a table whose DROP went with
/// another one must not come back.
#[test]
fn a_segment_that_was_let_go_of_is_passed_over() {
    let disk = CrashDisk::new();
    let engine = open(&disk).unwrap();
    engine.create_table(schema("gone")).unwrap();
    engine.append("gone", &rows(0, 100), None).unwrap();
    let early = disk.image(disk.calls(), Survival::Everything).disk();
    engine.create_table(schema("trades")).unwrap();
    engine.drop_table("gone").unwrap();
    for step in 0..20 {
        engine.append("trades", &rows(step * 30, 30), None).unwrap();
    }
    engine.seal(None).unwrap();
    engine.append("trades", &rows(600, 3), None).unwrap();
    drop(engine);
    let left = copy(&disk);
    let (path, _) = segments(&early).remove(0);
    assert!(left.read(&path).is_err());
    left.create(&path).unwrap().append(&early.read(&path).unwrap()).unwrap();
    let report = look(&left);
    let [finding] = report.findings.as_slice() else { panic!("{report}") };
    assert_eq!((&finding.path, finding.severity), (&path, Severity::Leftover));
    let expected = contents(&open(&copy(&disk)).unwrap());
    assert_eq!(contents(&open_to_read(&left).unwrap()), expected);
    assert_eq!(contents(&open(&left).unwrap()), expected);
    assert!(left.read(&path).is_err(), "the opening has removed it");
}

#[test]
fn a_backup_knows_its_tape() {
    let disk = database();
    let engine = open(&disk).unwrap();
    engine.append("trades", &rows(400, 10), None).unwrap();
    let to = CrashDisk::new();
    engine.backup(&shared(&to), &mut |_| {}).unwrap();
    let before = contents(&engine);
    assert_eq!(look(&to).findings, []);
    for (path, size) in segments(&to) {
        let damaged = copy(&to);
        damaged.remove(&path).unwrap();
        is_refused(&damaged, &path, "a segment of a backup");
        goes_on(&damaged, &before, "a segment of a backup");
        let damaged = copy(&to);
        damaged.truncate(&path, size as u64 - 1).unwrap();
        is_refused(&damaged, &path, "the end of a backup's tape");
    }
}

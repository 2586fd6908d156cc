//! A full disk: what was acknowledged stays, reads go on, and what was refused says why.

use crate::ledger::{contents, options, rows, schema};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tickstone_engine::disk::{AppendFile, DirEntry, Disk, FileBytes, MemoryDisk};
use tickstone_engine::{Engine, EngineOptions, ErrorKind};
use tickstone_sim::{FaultyDisk, Random, StepClock};

/// A disk that takes so many more bytes.
#[derive(Debug, Clone)]
pub(crate) struct SmallDisk {
    pub(crate) memory: MemoryDisk,
    pub(crate) room: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SmallFile(Box<dyn AppendFile>, Arc<AtomicU64>);

impl AppendFile for SmallFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.1.load(Ordering::SeqCst);
        let fits = bytes.len().min(usize::try_from(room).unwrap());
        self.1.store(room - fits as u64, Ordering::SeqCst);
        // As a real one does: what fits is written before the error comes.
        self.0.append(&bytes[..fits])?;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

impl Disk for SmallDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.memory.read(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(SmallFile(self.memory.create(path)?, Arc::clone(&self.room))))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.memory.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.memory.sync_dir(dir)
    }
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.memory.truncate(path, len)
    }
}

fn full_at(room: u64) -> SmallDisk {
    SmallDisk { memory: MemoryDisk::new(), room: Arc::new(AtomicU64::new(room)) }
}

fn open(disk: &SmallDisk) -> tickstone_engine::Result<Engine> {
    let options = EngineOptions { segment_bytes: 4_096, ..options() };
    Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(0)), options)
}

/// The disk fills up at any byte of a load of commits, seals and bulk loads; space is freed and the
/// database opened again: every acknowledged commit is there, once, and it goes on.
#[test]
fn what_was_acknowledged_before_the_disk_was_full_stays() {
    let mut refused = 0;
    for room in (2_000..60_000).step_by(611) {
        let disk = full_at(room);
        let engine = open(&disk).unwrap();
        engine.create_table(schema("trades")).unwrap();
        let mut acknowledged = Vec::new();
        let mut failed = None;
        for step in 0..60 {
            let first = step * 12;
            let outcome = if step % 10 == 9 {
                engine.load("trades").and_then(|mut load| {
                    load.append(&rows(first, 12))?;
                    load.commit(None)
                })
            } else {
                engine.append("trades", &rows(first, 12), None)
            };
            match outcome {
                Ok(_) => acknowledged.extend(first..first + 12),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            // A seal that fails leaves the rows where they are.
            if step % 7 == 6 {
                let _ = engine.seal(None);
            }
        }
        let Some(error) = failed else { continue };
        refused += 1;
        let words = error.to_string();
        assert!(words.contains("space") || words.contains("full") || words.contains("storage"), "{words}");
        assert_eq!(contents(&engine)["trades"], acknowledged, "reads go on; room {room}");
        disk.room.store(1 << 30, Ordering::SeqCst);
        drop(engine);
        let engine = open(&disk).unwrap_or_else(|error| panic!("room {room}: {error}"));
        assert_eq!(contents(&engine)["trades"], acknowledged, "room {room}");
        engine.append("trades", &rows(5_000, 3), None).unwrap();
        engine.seal(None).unwrap();
        assert_eq!(contents(&engine)["trades"].len(), acknowledged.len() + 3);
    }
    assert!(refused > 40, "{refused}");
}

/// Sealing and loading on a full disk fail by themselves; once there is room they go on without reopening.
#[test]
fn a_seal_goes_on_when_space_is_freed() {
    let disk = full_at(1 << 30);
    let engine = open(&disk).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.append("trades", &rows(0, 200), None).unwrap();
    let before = contents(&engine);
    for room in [0, 10, 700, 2_500, 4_000] {
        disk.room.store(room, Ordering::SeqCst);
        let sealed = engine.seal(None);
        assert!(sealed.is_err(), "room {room}");
        assert_eq!(contents(&engine), before);
        let mut load = engine.load("trades").unwrap();
        let loaded = load.append(&rows(1_000, 300)).and_then(|()| load.commit(None));
        assert!(loaded.is_err(), "room {room}");
        assert_eq!(contents(&engine), before);
    }
    disk.room.store(1 << 30, Ordering::SeqCst);
    engine.seal(None).unwrap();
    assert_eq!(contents(&engine), before);
    engine.append("trades", &rows(200, 5), None).unwrap();
    assert_eq!(contents(&engine)["trades"].len(), 205);
}

/// The disk fills up while rows with new symbols are written, and is freed, time and again: what is refused says
/// so, what was acknowledged is there all the time, and writing goes on without reopening.
#[test]
fn freeing_space_resumes_writing() {
    let mut refused = 0;
    for seed in 0..30 {
        let (mut random, clock) = (Random::new(seed), Arc::new(StepClock::new(0)));
        let disk = FaultyDisk::new(seed, Arc::clone(&clock));
        let options = EngineOptions { segment_bytes: 2_000, compaction_parts_min: 2, ..options() };
        let open = || Engine::open_on(Arc::new(disk.clone()), Arc::clone(&clock) as Arc<_>, options.clone());
        let engine = open().unwrap();
        engine.create_table(schema("trades")).unwrap();
        let (mut acknowledged, mut next) = (Vec::new(), 0);
        for _ in 0..8 {
            disk.set_bytes_max(Some(disk.used_bytes() + random.below(6_000)));
            let mut errors = Vec::new();
            while errors.len() < 3 {
                let outcome = if random.one_in(4) {
                    engine.load("trades").and_then(|mut load| {
                        load.append(&rows(next, 12))?;
                        load.commit(None)
                    })
                } else {
                    engine.append("trades", &rows(next, 12), None)
                };
                match outcome {
                    Ok(_) => acknowledged.extend(next..next + 12),
                    Err(error) => errors.push(error),
                }
                // Rows that were refused are not sent again: their symbols must not be missed.
                next += 12;
                if random.one_in(9) {
                    // What cannot be sealed stays where it is.
                    let _ = engine.seal(None);
                }
            }
            for error in &errors {
                assert_eq!(error.kind(), ErrorKind::FreeSpace, "{error}");
                assert!(error.to_string().contains("space"), "{error}");
            }
            refused += errors.len();
            assert_eq!(contents(&engine)["trades"], acknowledged, "reads go on; seed {seed}");
            disk.set_bytes_max(None);
            engine.append("trades", &rows(next, 5), None).unwrap();
            acknowledged.extend(next..next + 5);
            next += 5;
            assert_eq!(contents(&engine)["trades"], acknowledged, "seed {seed}");
            if random.one_in(3) {
                engine.seal(None).unwrap();
            }
        }
        engine.create_table(schema("quotes")).unwrap();
        engine.drop_table("quotes").unwrap();
        assert_eq!(engine.maintenance_stats().last_failure, None);
        drop(engine);
        let engine = open().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(contents(&engine)["trades"], acknowledged, "seed {seed}");
        let files = disk.files();
        let parts = files.iter().filter(|(path, _)| path.extension().is_some_and(|name| name == "part"));
        let named: usize =
            engine.snapshot().table("trades").unwrap().partitions().iter().map(|p| p.parts()).sum();
        assert_eq!(parts.count(), named, "what was refused leaves no files: {files:?}");
    }
    assert!(refused > 500, "{refused}");
}

/// A database whose sealing failed for want of space, and the id after its last row; `None` where sealing was done before
/// the disk was full.
fn failed_to_seal() -> Option<(FaultyDisk, Engine, i64)> {
    let clock = Arc::new(StepClock::new(0));
    let disk = FaultyDisk::new(1, Arc::clone(&clock));
    let options = EngineOptions { memory_budget_bytes: 100_000, ..EngineOptions::default() };
    let engine = Engine::open_on(Arc::new(disk.clone()), clock, options).unwrap();
    engine.create_table(schema("trades")).unwrap();
    let mut next = 0;
    while engine.snapshot().recent_bytes() < 48_000 {
        engine.append("trades", &rows(next, 100), None).unwrap();
        next += 100;
    }
    disk.set_bytes_max(Some(disk.used_bytes() + 9_000));
    while engine.append("trades", &rows(next, 20), None).is_ok() {
        next += 20;
    }
    let failed = || engine.maintenance_stats().last_failure.is_some_and(|what| what.contains("space"));
    let failed = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        failed()
    });
    failed.then_some((disk, engine, next))
}

/// Sealing that fails for want of space is tried again by itself, and says meanwhile what is wrong.
#[test]
fn maintenance_goes_on_by_itself_when_space_is_freed() {
    let (disk, engine, next) = (0..10).find_map(|_| failed_to_seal()).expect("sealing fails once");
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let found = (0..1_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            holds()
        });
        assert!(found, "{what}: {:?}", engine.maintenance_stats());
    };
    disk.set_bytes_max(None);
    until("sealed", &|| engine.snapshot().recent_bytes() < 50_000);
    until("no failure", &|| engine.maintenance_stats().last_failure.is_none());
    assert_eq!(contents(&engine)["trades"], (0..next).collect::<Vec<_>>());
}

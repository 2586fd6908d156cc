//! A full disk: what is kept of the tape for those who follow goes before anything is refused, and what is refused
//! leaves nothing behind.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tickstone_engine::disk::{AppendFile, DirEntry, Disk, FileBytes, MemoryDisk};
use tickstone_engine::{Clock, Engine, EngineOptions, ErrorKind, Selection, SystemClock};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema};

const BLOCK_BYTES: u64 = 4096;

/// A disk of so many blocks, a file in whole blocks.
#[derive(Debug, Clone)]
struct SmallDisk {
    files: MemoryDisk,
    blocks: Arc<AtomicU64>,
}

impl SmallDisk {
    fn boundless() -> Self {
        Self { files: MemoryDisk::new(), blocks: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    fn used(&self, below: &Path) -> u64 {
        let entries = self.files.list(below).unwrap();
        let of = |entry: &DirEntry| match entry.is_dir {
            true => self.used(&below.join(&entry.name)),
            false => entry.len.div_ceil(BLOCK_BYTES).max(1),
        };
        entries.iter().map(of).sum()
    }

    /// Leaves so many blocks.
    fn leave(&self, blocks: u64) {
        self.blocks.store(self.used(Path::new("")) + blocks, Ordering::Relaxed);
    }

    fn left(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed).saturating_sub(self.used(Path::new("")))
    }
}

#[derive(Debug)]
struct SmallFile(Box<dyn AppendFile>, u64, SmallDisk);

impl AppendFile for SmallFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (disk, filled) = (&self.2, self.1 % BLOCK_BYTES);
        let in_block = if self.1 == 0 { BLOCK_BYTES } else { (BLOCK_BYTES - filled) % BLOCK_BYTES };
        let room = disk.left().saturating_mul(BLOCK_BYTES).saturating_add(in_block);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.0.append(&bytes[..fits])?;
        self.1 += fits as u64;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

impl Disk for SmallDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.files.read(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        if self.left() == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Box::new(SmallFile(self.files.create(path)?, 0, self.clone())))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.files.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.files.truncate(path, len)
    }
}

fn open(disk: &SmallDisk) -> Engine {
    let options = EngineOptions {
        threads: 1,
        memory_budget_bytes: 1 << 20,
        segment_bytes: 16 << 10,
        background: false,
        ..EngineOptions::default()
    };
    Engine::open_on(Arc::new(disk.clone()), Arc::new(SystemClock), options).unwrap()
}

fn schema(name: &str) -> TableSchema {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("id", ColumnType::Int64)
        .column("text", ColumnType::Varchar);
    builder.timestamp("ts").build().unwrap()
}

/// Rows of some 100 bytes each that no codec makes small.
fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let times = ids.clone().map(|id| (id % 2) * 86_400_000_000_000 + id);
    let text = |id: i64| {
        let mut word = id as u64 ^ 0x9e37_79b9_7f4a_7c15;
        let mut next = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:016x}", word ^ word >> 29)
        };
        (0..5).map(|_| next()).collect::<String>()
    };
    RecordBatch::try_from_iter_with_nullable([
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times)) as ArrayRef, true),
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone())), true),
        ("text", Arc::new(StringArray::from_iter_values(ids.map(text))), true),
    ])
    .unwrap()
}

/// The ids in a table, in order; `None` where there is no such table.
fn ids(engine: &Engine, table: &str) -> Option<Vec<i64>> {
    let snapshot = engine.snapshot();
    let table = snapshot.table(table)?;
    let mut ids = Vec::new();
    for segment in table.select(&Selection::default()).unwrap() {
        let values = segment.read_ranges(1, segment.rows()).unwrap();
        ids.extend_from_slice(values.as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    Some(ids)
}

/// A database with some 40 closed segments that nobody needs, and how many blocks they take.
fn with_kept_tape(disk: &SmallDisk) -> (Engine, u64) {
    let engine = open(disk);
    engine.create_table(schema("trades")).unwrap();
    for round in 0..64 {
        engine.append("trades", &rows(round * 100..(round + 1) * 100), None).unwrap();
    }
    engine.seal(None).unwrap();
    let kept = disk.used(Path::new("tape"));
    assert!(kept > 100, "{kept} blocks are kept");
    (engine, kept)
}

type Act = fn(&Engine);

#[test]
fn what_is_kept_of_the_tape_goes_before_a_write_is_refused() {
    let kinds: [(&str, Act); 6] = [
        ("append", |engine| engine.append("trades", &rows(10_000..12_000), None).map(drop).unwrap()),
        ("create", |engine| (0..200).for_each(|n| engine.create_table(schema(&format!("t{n}"))).unwrap())),
        ("truncate", |engine| engine.truncate_table("trades").unwrap()),
        ("drop", |engine| engine.drop_table("trades").unwrap()),
        ("compact", |engine| {
            engine.append("trades", &rows(10_000..11_000), None).unwrap();
            engine.seal(None).unwrap();
            engine.compact(None).unwrap();
        }),
        ("load", |engine| {
            let mut load = engine.load("trades").unwrap();
            load.append(&rows(10_000..12_000)).unwrap();
            load.commit(None).unwrap();
        }),
    ];
    for (name, act) in kinds {
        for blocks in 0..4 {
            let disk = SmallDisk::boundless();
            let (engine, kept) = with_kept_tape(&disk);
            disk.leave(blocks);
            act(&engine);
            let expected: Option<Vec<Vec<i64>>> =
                ["trades", "t8"].map(|name| ids(&engine, name)).into_iter().collect();
            if !["truncate", "drop"].contains(&name) {
                assert!(disk.used(Path::new("tape")) < kept, "{name} beside {blocks} blocks");
            }
            drop(engine);
            let engine = open(&disk);
            let found: Option<Vec<Vec<i64>>> =
                ["trades", "t8"].map(|name| ids(&engine, name)).into_iter().collect();
            assert_eq!(found, expected, "{name} beside {blocks} blocks");
        }
    }
}

#[test]
fn a_disk_full_again_and_again_loses_nothing_and_keeps_nothing_that_was_refused() {
    let seed = SystemClock.now_ns();
    println!("seed {seed}");
    let mut state = seed as u64 | 1;
    let mut pick = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let disk = SmallDisk::boundless();
    let mut engine = open(&disk);
    let tables = ["a", "b"];
    let mut held: [Option<Vec<i64>>; 2] = [None, None];
    let (mut next, mut refused, mut done) = (0_i64, 0, 0);
    for step in 0..1_500 {
        match pick(12) {
            0 => disk.leave(pick(30)),
            1 => disk.blocks.store(disk.used(Path::new("")) + 60 + pick(400), Ordering::Relaxed),
            _ => {}
        }
        let place = pick(2) as usize;
        let (name, before) = (tables[place], held[place].clone());
        let fresh = next..next + 1 + pick(400) as i64;
        let policy = [None, Some(SyncPolicy::None), Some(SyncPolicy::Always)][pick(3) as usize];
        let outcome = match (pick(10), &mut held[place]) {
            (_, held @ None) => engine.create_table(schema(name)).map(|()| *held = Some(Vec::new())),
            (0, held) => engine.drop_table(name).map(|()| *held = None),
            (1, Some(held)) => engine.truncate_table(name).map(|()| held.clear()),
            (2, _) => engine.seal(Some(name)),
            (3, _) => engine.compact(Some(name)).map(drop),
            (4, Some(held)) => {
                let load = engine.load(name).and_then(|mut load| {
                    load.append(&rows(fresh.clone()))?;
                    load.commit(None)
                });
                load.map(|_| held.extend(fresh.clone()))
            }
            (5, _) => {
                drop(engine);
                engine = open(&disk);
                Ok(())
            }
            (_, Some(held)) => {
                engine.append(name, &rows(fresh.clone()), policy).map(|_| held.extend(fresh.clone()))
            }
        };
        next = fresh.end;
        match outcome {
            Ok(()) => done += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::FreeSpace, "step {step}: {error}");
                held[place] = before;
                refused += 1;
            }
        }
        for (name, held) in tables.iter().zip(&held) {
            assert_eq!(&ids(&engine, name), held, "seed {seed}, step {step}, table {name}");
        }
    }
    println!("{done} done, {refused} refused");
    assert!(done > 300 && refused > 10, "{done} done, {refused} refused");
}

//! An engine opened for reading beside one that writes.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_engine::disk::{Disk, MemoryDisk};
use tickstone_engine::{Clock, Engine, EngineError, EngineOptions, ErrorKind, Selection, Snapshot};
use tickstone_model::{AlterTable, Column, ColumnType, TableSchema};

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> i64 {
        0
    }
}

fn options() -> EngineOptions {
    let compaction_parts_min = 0;
    EngineOptions {
        background: false,
        threads: 1,
        compaction_parts_min,
        tape_keep_bytes: 0,
        ..EngineOptions::default()
    }
}

fn writer(disk: &MemoryDisk) -> Engine {
    Engine::open_on(Arc::new(disk.clone()), Arc::new(Still), options()).unwrap()
}

fn reader(disk: &MemoryDisk) -> Engine {
    Engine::open_read_only_on(Arc::new(disk.clone()), options()).unwrap()
}

fn schema(name: &str) -> TableSchema {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64);
    builder.timestamp("ts").build().unwrap()
}

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(ids.clone())) as ArrayRef, true),
        ("symbol", Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("S{id}")))), true),
        ("id", Arc::new(Int64Array::from_iter_values(ids)), true),
    ])
    .unwrap()
}

fn append(engine: &Engine, ids: std::ops::Range<i64>) {
    engine.append("t", &rows(ids), None).unwrap();
}

fn ids_of(snapshot: &Snapshot, table: &str) -> tickstone_engine::Result<Vec<i64>> {
    let Some(table) = snapshot.table(table) else { return Ok(Vec::new()) };
    let mut ids = Vec::new();
    for segment in table.select(&Selection::default())? {
        let values = segment.read_ranges(2, segment.rows())?;
        ids.extend_from_slice(values.as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    Ok(ids)
}

/// What the reader sees now.
fn seen(engine: &Engine) -> Vec<i64> {
    engine.read(|snapshot| ids_of(snapshot, "t")).unwrap()
}

fn upto(count: i64) -> Vec<i64> {
    (0..count).collect()
}

#[test]
fn what_is_written_is_seen_at_the_next_look() {
    let disk = MemoryDisk::new();
    let writer = writer(&disk);
    let reader = reader(&disk);
    assert!(seen(&reader).is_empty());
    writer.create_table(schema("t")).unwrap();
    append(&writer, 0..3);
    let before = reader.snapshot();
    assert!(before.table("t").is_none(), "a snapshot is as of the last refresh");
    assert_eq!(seen(&reader), upto(3));
    let same = reader.snapshot();
    reader.refresh().unwrap();
    assert!(Arc::ptr_eq(&same, &reader.snapshot()), "nothing was written");
    append(&writer, 3..5);
    writer.seal(None).unwrap();
    append(&writer, 5..7);
    assert_eq!(seen(&reader), upto(7));
    assert_eq!(ids_of(&same, "t").unwrap(), upto(3), "a snapshot does not change");
}

#[test]
fn parts_that_were_merged_are_gone_and_then_read_anew() {
    let disk = MemoryDisk::new();
    let writer = writer(&disk);
    writer.create_table(schema("t")).unwrap();
    for at in 0..4 {
        append(&writer, at * 10..at * 10 + 10);
        writer.seal(None).unwrap();
    }
    let (late, early) = (reader(&disk), reader(&disk));
    let (late_state, early_state) = (late.snapshot(), early.snapshot());
    let held = early_state.table("t").unwrap().select(&Selection::default()).unwrap();
    writer.compact(None).unwrap();
    let error = ids_of(&late_state, "t").unwrap_err();
    assert!(matches!(error, EngineError::PartGone { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert_eq!(ids_of(&early_state, "t").unwrap(), upto(40), "what was opened stays");
    assert_eq!(held.iter().map(|segment| segment.row_count()).sum::<usize>(), 40);
    assert_eq!(seen(&late), upto(40));
    let mut rewrite = writer.rewrite("t").unwrap();
    let table = Arc::clone(rewrite.table());
    for segment in table.select(&Selection::default()).unwrap() {
        rewrite.delete(&segment, &[0, 1]).unwrap();
    }
    rewrite.commit().unwrap();
    // The frame names a part that this reader never heard of.
    assert_eq!(seen(&early).len(), 38);
    assert_eq!(seen(&late).len(), 38);
}

#[test]
fn rows_that_the_writer_let_go_of_leave_the_readers_memory() {
    let disk = MemoryDisk::new();
    let writer = Engine::open_on(
        Arc::new(disk.clone()),
        Arc::new(Still),
        EngineOptions { segment_bytes: 2_000, ..options() },
    );
    let writer = writer.unwrap();
    writer.create_table(schema("t")).unwrap();
    let reader = reader(&disk);
    let mut most = 0;
    for at in 0..50 {
        append(&writer, at * 20..at * 20 + 20);
        assert_eq!(seen(&reader), upto(at * 20 + 20));
        most = most.max(reader.memory_bytes());
        if at % 5 == 4 {
            writer.seal(None).unwrap();
        }
    }
    append(&writer, 1_000..1_001);
    assert_eq!(seen(&reader), upto(1_001));
    assert!(reader.memory_bytes() < 20_000 && most < 20_000, "{} now, {most} at most", reader.memory_bytes());
}

#[test]
fn a_table_made_anew_is_another_one() {
    let disk = MemoryDisk::new();
    let writer = writer(&disk);
    let reader = reader(&disk);
    let mut versions = vec![reader.catalog_version()];
    for round in 0..4 {
        writer.create_table(schema("t")).unwrap();
        append(&writer, 0..round + 1);
        let column = Column::new("more", ColumnType::Float64);
        writer.alter_table("t", &AlterTable::AddColumn(column)).unwrap();
        if round % 2 == 0 {
            writer.seal(None).unwrap();
        }
        assert_eq!(seen(&reader), upto(round + 1));
        versions.push(reader.catalog_version());
        writer.drop_table("t").unwrap();
        if round == 1 {
            reader.reread(&[]).unwrap();
        }
        assert!(seen(&reader).is_empty());
        versions.push(reader.catalog_version());
    }
    assert!(versions.is_sorted_by(|a, b| a < b), "plans are kept by these numbers: {versions:?}");
}

#[test]
fn a_writer_may_come_and_go() {
    let disk = MemoryDisk::new();
    {
        let writer = writer(&disk);
        writer.create_table(schema("t")).unwrap();
        append(&writer, 0..2);
    }
    let reader = reader(&disk);
    for round in 1..5 {
        let writer = writer(&disk);
        assert_eq!(seen(&reader), upto(round * 2));
        append(&writer, round * 2..round * 2 + 2);
        assert_eq!(seen(&reader), upto(round * 2 + 2));
        if round == 3 {
            writer.seal(None).unwrap();
        }
        drop(writer);
        assert_eq!(seen(&reader), upto(round * 2 + 2));
    }
}

// ---- tapes as a reader may find them ----

fn copy_of(disk: &MemoryDisk) -> MemoryDisk {
    fn copy(from: &MemoryDisk, to: &MemoryDisk, dir: &Path) {
        for entry in from.list(dir).unwrap() {
            let path = dir.join(&entry.name);
            match entry.is_dir {
                true => copy(from, to, &path),
                false => to.create(&path).unwrap().append(&from.read(&path).unwrap()).unwrap(),
            }
        }
    }
    let to = MemoryDisk::new();
    copy(disk, &to, Path::new(""));
    to
}

fn newest_segment(disk: &MemoryDisk) -> PathBuf {
    Path::new("tape").join(&disk.list(Path::new("tape")).unwrap().last().unwrap().name)
}

fn put(disk: &MemoryDisk, path: &Path, bytes: &[u8]) {
    disk.remove(path).unwrap();
    disk.create(path).unwrap().append(bytes).unwrap();
}

#[test]
fn a_frame_that_is_being_written_is_not_there_yet() {
    let disk = MemoryDisk::new();
    let writer = writer(&disk);
    writer.create_table(schema("t")).unwrap();
    append(&writer, 0..3);
    let path = newest_segment(&disk);
    let before = disk.read(&path).unwrap().to_vec();
    append(&writer, 3..6);
    let after = disk.read(&path).unwrap().to_vec();
    let seen_disk = copy_of(&disk);
    put(&seen_disk, &path, &before);
    let follower = reader(&seen_disk);
    for end in before.len()..after.len() {
        put(&seen_disk, &path, &after[..end]);
        assert_eq!(seen(&follower), upto(3), "{end} bytes");
        if end % 7 == 0 {
            assert_eq!(seen(&reader(&seen_disk)), upto(3), "{end} bytes");
        }
    }
    put(&seen_disk, &path, &after);
    assert_eq!(seen(&follower), upto(6));
}

#[test]
fn a_frame_that_was_cut_off_gives_way_to_the_one_in_its_place() {
    let disk = MemoryDisk::new();
    {
        let writer = writer(&disk);
        writer.create_table(schema("t")).unwrap();
        append(&writer, 0..3);
    }
    let path = |disk: &MemoryDisk| newest_segment(disk);
    let (refused, kept) = (copy_of(&disk), copy_of(&disk));
    let _writers = [(&refused, 20..23), (&kept, 30..33)].map(|(disk, ids)| {
        let writer = writer(disk);
        append(&writer, 3..6);
        append(&writer, ids);
        writer
    });
    let (first, second) = (refused.read(&path(&refused)).unwrap(), kept.read(&path(&kept)).unwrap());
    assert_eq!((path(&refused), first.len()), (path(&kept), second.len()), "both look alike");
    let disk = copy_of(&refused);
    let follower = reader(&disk);
    assert_eq!(seen(&follower), [0, 1, 2, 3, 4, 5, 20, 21, 22]);
    put(&disk, &path(&kept), &second);
    assert_eq!(seen(&follower), [0, 1, 2, 3, 4, 5, 30, 31, 32]);
}

#[test]
fn damage_is_damage_however_it_is_come_upon() {
    let disk = MemoryDisk::new();
    let writer = writer(&disk);
    writer.create_table(schema("t")).unwrap();
    append(&writer, 0..300);
    let path = newest_segment(&disk);
    let before = disk.read(&path).unwrap().len();
    let follower = reader(&disk);
    append(&writer, 300..600);
    let end = disk.read(&path).unwrap().len();
    append(&writer, 600..900);
    let seen_disk = copy_of(&disk);
    let mut bytes = disk.read(&path).unwrap().to_vec();
    bytes[(before + end) / 2] ^= 1;
    put(&seen_disk, &path, &bytes);
    put(&disk, &path, &bytes);
    for outcome in [follower.refresh(), Engine::open_read_only_on(Arc::new(seen_disk), options()).map(|_| ())]
    {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, EngineError::Damaged { path: of, .. } if *of == path), "{error}");
    }
    assert_eq!(ids_of(&follower.snapshot(), "t").unwrap(), upto(300), "the state before stays");
}

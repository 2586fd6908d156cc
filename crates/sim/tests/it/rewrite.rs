//! DELETE and UPDATE are there whole or not at all, and nobody sees half of one.

use crate::crash_images;
use crate::ledger::{options, rows, schema};
use crate::model::{Row, TABLE, World, batch, delete, random_rows, rows_of, table, update};
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tickstone_engine::{Engine, EngineError, Selection};
use tickstone_model::TimeRange;
use tickstone_sim::{CrashDisk, Random};

/// Deletes rows of `trades` by id.
fn delete_ids(engine: &Engine, goes: impl Fn(i64) -> bool) {
    let mut rewrite = engine.rewrite("trades").unwrap();
    let table = Arc::clone(rewrite.table());
    for segment in table.select(&Selection::default()).unwrap() {
        let ids = segment.read_ranges(2, segment.rows()).unwrap();
        let ids = ids.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
        let numbers = segment.rows().iter().cloned().flatten().zip(ids);
        let numbers: Vec<usize> = numbers.filter(|(_, id)| goes(*id)).map(|(number, _)| number).collect();
        rewrite.delete(&segment, &numbers).unwrap();
    }
    rewrite.commit().unwrap();
}

#[test]
fn deletes_survive() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let seal = |engine: &Engine| engine.seal(None).unwrap();
    let some = |engine: &Engine| delete_ids(engine, |id| id % 5 == 1);
    // A whole partition, with a part that nothing is left of.
    let day = |engine: &Engine| delete_ids(engine, |id| id % 3 == 0);
    let none = |engine: &Engine| delete_ids(engine, |_| false);
    let abandoned = |engine: &Engine| {
        let mut rewrite = engine.rewrite("trades").unwrap();
        let table = Arc::clone(rewrite.table());
        for segment in table.select(&Selection::default()).unwrap() {
            rewrite.delete(&segment, &[segment.rows()[0].start]).unwrap();
        }
    };
    let all = |engine: &Engine| delete_ids(engine, |_| true);
    let append = crash_images::append;
    crash_images::check(
        &options(),
        &[
            &create,
            &append("trades", 0, 30),
            &seal,
            &append("trades", 30, 20),
            &some,
            &append("trades", 50, 4),
            &day,
            &abandoned,
            &append("trades", 54, 4),
            &none,
            &all,
            &append("trades", 58, 6),
        ],
    );
}

/// Every state passed through, by price and tag, is what a power cut leaves.
#[test]
fn updates_survive() {
    let disk = CrashDisk::new();
    let engine = crash_images::open(&disk, options()).unwrap();
    engine.create_table(table().build().unwrap()).unwrap();
    let mut random = Random::new(7);
    let contents = |engine: &Engine| {
        let snapshot = engine.snapshot();
        let table = snapshot.table(TABLE).unwrap();
        let segments = table.select(&Selection::default()).unwrap();
        let mut found: Vec<Row> =
            segments.iter().flat_map(|segment| rows_of(table, segment)).map(|(_, row)| row).collect();
        found.sort_by_key(|row| row.id);
        found
    };
    engine.append(TABLE, &batch(&random_rows(&mut random, 0, 40)), None).unwrap();
    engine.seal(None).unwrap();
    engine.append(TABLE, &batch(&random_rows(&mut random, 40, 10)), None).unwrap();
    let first = disk.calls();
    let mut states = vec![(first, contents(&engine))];
    update(&engine, |row| row.id % 3 == 0, |_| Some(-1.0), Some("new"));
    states.push((disk.calls(), contents(&engine)));
    update(&engine, |row| row.id % 4 == 0, |row| row.px, Some("newer"));
    states.push((disk.calls(), contents(&engine)));
    drop(engine);
    for image in disk.images(first, 6) {
        let engine = crash_images::open(&image.disk(), options()).unwrap();
        let found = contents(&engine);
        let acknowledged = states.iter().rposition(|(calls, _)| *calls <= image.calls).unwrap();
        let allowed = &states[acknowledged..states.len().min(acknowledged + 2)];
        assert!(allowed.iter().any(|(_, state)| *state == found), "after call {}", image.calls);
    }
}

#[test]
fn only_touched_parts_are_written() {
    let disk = CrashDisk::new();
    let engine = crash_images::open(&disk, options()).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.append("trades", &rows(0, 30), None).unwrap();
    engine.seal(None).unwrap();
    let files = |engine: &Engine| {
        let snapshot = engine.snapshot();
        let partitions = snapshot.table("trades").unwrap().partitions().clone();
        partitions.iter().flat_map(|p| p.part_files().cloned().collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let (before, held) = (files(&engine), engine.snapshot());
    delete_ids(&engine, |id| id == 4);
    let after = files(&engine);
    assert_eq!(before.iter().filter(|file| after.contains(file)).count(), 2);
    assert_eq!(crate::ledger::ids(&held, "trades").unwrap().len(), 30, "older snapshots keep their rows");
    let on_disk =
        || disk.files().iter().filter(|(path, _)| path.extension() == Some("part".as_ref())).count();
    assert_eq!(on_disk(), 4);
    drop(held);
    engine.append("trades", &rows(30, 1), None).unwrap();
    engine.seal(None).unwrap();
    assert_eq!(on_disk(), 4, "the old part went with the manifest that no longer names it");
}

#[test]
fn a_rewrite_has_the_table_for_itself() {
    let disk = CrashDisk::new();
    let engine = crash_images::open(&disk, options()).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.append("trades", &rows(0, 30), None).unwrap();
    let rewrite = engine.rewrite("trades").unwrap();
    let appended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, appended) = (&engine, &appended);
        scope.spawn(move || {
            engine.append("trades", &rows(30, 5), None).unwrap();
            appended.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!appended.load(Ordering::SeqCst), "the commit waits");
        assert_eq!(rewrite.table().rows(), 30);
        drop(rewrite);
    });
    assert_eq!(engine.snapshot().table("trades").unwrap().rows(), 35);
}

#[test]
fn what_cannot_be_done_is_refused() {
    let mut world = World::new(1, table().build().unwrap(), false);
    let mut random = Random::new(3);
    world.engine().append(TABLE, &batch(&random_rows(&mut random, 0, 50)), None).unwrap();
    let mut rewrite = world.engine().rewrite(TABLE).unwrap();
    let segments = rewrite.table().select(&Selection::default()).unwrap();
    let (segment, row) = (&segments[0], segments[0].rows()[0].start);
    let price: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["A"]));
    for (column, values) in [(0, &price), (1, &text)] {
        let error = rewrite.update(segment, &[row], column, values).unwrap_err();
        assert!(matches!(error, EngineError::KeyColumn { .. }), "{error}");
        assert!(error.to_string().contains("cannot be updated"), "{error}");
    }
    for (column, values) in [(3, &text), (4, &price), (9, &price)] {
        assert!(matches!(rewrite.update(segment, &[row], column, values), Err(EngineError::Model(_))));
    }
    assert!(matches!(rewrite.update(segment, &[row, row + 1], 3, &price), Err(EngineError::Model(_))));
    assert!(matches!(rewrite.delete(segment, &[row, row]), Err(EngineError::OtherRows { .. })));
    assert!(matches!(rewrite.delete(segment, &[1 << 40]), Err(EngineError::OtherRows { .. })));
    assert_eq!(rewrite.commit().unwrap().position, 0, "nothing of that was noted");
    delete(world.engine(), TimeRange::ALL, |row| row.id == 0);
    let mut rewrite = world.engine().rewrite(TABLE).unwrap();
    assert!(matches!(rewrite.delete(segment, &[row]), Err(EngineError::OtherRows { .. })), "another state's");
    drop(rewrite);
    world.engine = None;
}

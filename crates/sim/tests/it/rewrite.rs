//! DELETE and UPDATE are there whole or not at all, and nobody sees half of one.

use crate::crash_images;
use crate::ledger::{options, rows, schema};
use crate::model::{Row, TABLE, World, batch, check_table, delete, random_rows, rows_of, table, update};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tickstone_engine::{Engine, EngineError, EngineOptions, Selection};
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

/// A rewrite of rows in any order, some again and again, of which memory holds only a part, beside the same rows in
/// a list. `budget` is the memory of the whole database.
fn rewrite_in_disorder(seed: u64, budget: usize, dedup: bool) {
    let disk = CrashDisk::new();
    let options = EngineOptions { memory_budget_bytes: budget, slice_rows: 32, ..options() };
    let engine = crash_images::open(&disk, options.clone()).unwrap();
    let schema = if dedup { table().dedup(["ts", "symbol"]) } else { table() };
    engine.create_table(schema.build().unwrap()).unwrap();
    let mut random = Random::new(seed);
    for first in [0, 150, 300] {
        engine.append(TABLE, &batch(&random_rows(&mut random, first, 150)), None).unwrap();
        engine.seal(None).unwrap();
    }
    let mut rewrite = engine.rewrite(TABLE).unwrap();
    let state = Arc::clone(rewrite.table());
    let segments = state.select(&Selection::default()).unwrap();
    let found: Vec<Vec<(usize, Row)>> = segments.iter().map(|segment| rows_of(&state, segment)).collect();
    let mut expected: Vec<Row> = found.iter().flatten().map(|(_, row)| row.clone()).collect();
    let (mut deleted, mut changed) = (BTreeSet::<i64>::new(), BTreeSet::<i64>::new());
    for step in 0..60 {
        let place = random.below(segments.len() as u64) as usize;
        let one_in = [1, 2, 5, 20][random.below(4) as usize];
        let rows: Vec<&(usize, Row)> = found[place].iter().filter(|_| random.one_in(one_in)).collect();
        let numbers: Vec<usize> = rows.iter().map(|(number, _)| *number).collect();
        let ids: BTreeSet<i64> = rows.iter().map(|(_, row)| row.id).collect();
        changed.extend(&ids);
        if random.one_in(6) {
            rewrite.delete(&segments[place], &numbers).unwrap();
            deleted.extend(&ids);
            continue;
        }
        let (price, tag) = (f64::from(step), format!("step {step}"));
        let prices: ArrayRef = Arc::new(Float64Array::from(vec![price; 10_000]));
        let tags: ArrayRef = Arc::new(StringArray::from(vec![tag.as_str(); rows.len()]));
        rewrite.update(&segments[place], &numbers, 3, &prices.slice(5_000, rows.len())).unwrap();
        rewrite.update(&segments[place], &numbers, 4, &tags).unwrap();
        for row in expected.iter_mut().filter(|row| ids.contains(&row.id)) {
            (row.px, row.tag) = (Some(price), Some(tag.clone()));
        }
    }
    expected.retain(|row| !deleted.contains(&row.id));
    let done = rewrite.commit().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(done.rows, changed.len() as u64, "seed {seed}");
    assert_eq!(done.position > 0, !changed.is_empty());
    drop(segments);
    let check = |engine: &Engine| {
        let snapshot = engine.snapshot();
        let table = snapshot.table(TABLE).unwrap();
        assert_eq!(table.rows(), expected.len() as u64, "seed {seed}");
        check_table(table, &expected, &mut Random::new(seed));
    };
    check(&engine);
    drop(state);
    engine.seal(None).unwrap();
    drop(engine);
    let parts = |disk: &CrashDisk| {
        disk.files().iter().filter(|(path, _)| path.extension() == Some("part".as_ref())).count()
    };
    let engine = crash_images::open(&disk, options).unwrap();
    check(&engine);
    let named =
        engine.snapshot().table(TABLE).unwrap().partitions().iter().map(|of| of.parts()).sum::<usize>();
    assert_eq!(parts(&disk), named, "seed {seed}: parts written on the way are gone");
}

/// What a rewrite holds in memory has no say in what it does.
#[test]
fn changes_past_memory_are_made_in_any_order() {
    // New ones each time: the message names the one that fails.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seeds = (0..12).chain((0..12).map(|n| u64::from(now.subsec_nanos()) + n));
    for (number, seed) in seeds.enumerate() {
        // Room for nothing, for one part, for a few, for all of them.
        let budget = [2_000, 12_000, 60_000, 1 << 30][number % 4];
        rewrite_in_disorder(seed, budget, number % 3 == 0);
    }
}

/// Values that are a small piece of a large batch count as what they are.
#[test]
fn small_pieces_of_large_batches_are_small() {
    let disk = CrashDisk::new();
    let options = EngineOptions { memory_budget_bytes: 200_000, ..options() };
    let engine = crash_images::open(&disk, options).unwrap();
    engine.create_table(table().build().unwrap()).unwrap();
    let mut random = Random::new(5);
    engine.append(TABLE, &batch(&random_rows(&mut random, 0, 400)), None).unwrap();
    let mut rewrite = engine.rewrite(TABLE).unwrap();
    let state = Arc::clone(rewrite.table());
    let all: ArrayRef = Arc::new(Float64Array::from(vec![7.0; 100_000]));
    for segment in state.select(&Selection::default()).unwrap() {
        for (number, _) in rows_of(&state, &segment) {
            rewrite.update(&segment, &[number], 3, &all.slice(number, 1)).unwrap();
        }
    }
    let parts = state.partitions().iter().map(|of| of.parts() as u64).sum::<u64>();
    let done = rewrite.commit().unwrap();
    assert_eq!((done.rows, done.parts as u64), (400, parts));
    let size: u64 = state.partitions().iter().map(|of| of.disk_bytes()).sum();
    assert!(
        done.bytes < 2 * size,
        "{} bytes written for {size}: parts were written more than once",
        done.bytes
    );
}

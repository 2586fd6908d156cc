//! Many loads and transactions at once stay within the memory budget.

use crate::model::{TABLE, batch, random_rows, table};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tickstone_engine::disk::MemoryDisk;
use tickstone_engine::{Engine, EngineOptions};
use tickstone_model::TableSchema;
use tickstone_sim::{Random, StepClock};

#[test]
fn loads_and_transactions_stay_within_the_budget() {
    const BUDGET: usize = 2_000_000;
    let options = EngineOptions {
        memory_budget_bytes: BUDGET,
        threads: 1,
        compaction_parts_min: 2,
        ..EngineOptions::default()
    };
    let engine = Engine::open_on(Arc::new(MemoryDisk::new()), Arc::new(StepClock::new(0)), options).unwrap();
    engine.create_table(table().build().unwrap()).unwrap();
    let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (engine, done, most) = (&engine, &done, &most);
        let watch = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // Rows that are sealed between the looks at rows and buffers would count beside what came after them.
                let rows = || engine.snapshot().recent_bytes();
                let (before, all) = (rows(), engine.memory_bytes());
                if rows() == before {
                    most.fetch_max(all, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        });
        let workers: Vec<_> = (0..6_u64)
            .map(|worker| {
                scope.spawn(move || {
                    let mut random = Random::new(worker);
                    let mut next = || batch(&random_rows(&mut random, 0, 500));
                    if worker % 2 == 0 {
                        let mut load = engine.load(TABLE).unwrap();
                        (0..240).for_each(|_| load.append(&next()).unwrap());
                        load.commit(None).unwrap();
                    } else {
                        for _ in 0..240 {
                            engine.append(TABLE, &next(), None).unwrap();
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().is_ok()).collect();
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap();
        assert_eq!(ended, [true; 6]);
    });
    assert_eq!(engine.snapshot().table(TABLE).unwrap().rows(), 6 * 240 * 500);
    let most = most.load(Ordering::Relaxed);
    // When the limit is reached a commit of each producer may be on its way, and a merge come beside rows that are
    // still to be sealed.
    assert!(most > BUDGET / 4 && most < BUDGET + BUDGET / 4, "{most} bytes at most");
    let stats = engine.maintenance_stats();
    assert_eq!(stats.last_failure, None);
    assert!(stats.compactions > 0, "{stats:?}");
}

#[test]
fn the_fullest_partition_is_sealed_first() {
    let options =
        EngineOptions { memory_budget_bytes: 60_000, background: false, ..EngineOptions::default() };
    let engine = Engine::open_on(Arc::new(MemoryDisk::new()), Arc::new(StepClock::new(0)), options).unwrap();
    let named = |name: &str| {
        let builder = TableSchema::builder(name).column("ts", tickstone_model::ColumnType::Timestamp);
        builder.timestamp("ts").build().unwrap()
    };
    let rows = |count: i64| {
        let times = arrow_array::TimestampNanosecondArray::from_iter_values(0..count);
        arrow_array::RecordBatch::try_from_iter([("ts", Arc::new(times) as arrow_array::ArrayRef)]).unwrap()
    };
    for name in ["small", "large"] {
        engine.create_table(named(name)).unwrap();
    }
    engine.append("small", &rows(1_000), None).unwrap();
    engine.append("large", &rows(2_500), None).unwrap();
    engine.append("large", &rows(1_000), None).unwrap();
    let snapshot = engine.snapshot();
    let parts = |name: &str| snapshot.table(name).unwrap().partitions()[0].parts();
    assert_eq!((parts("small"), parts("large")), (0, 1));
    assert_eq!(snapshot.recent_bytes(), 8_000);
}

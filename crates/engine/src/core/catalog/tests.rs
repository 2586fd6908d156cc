use super::*;
use crate::disk::{Disk, MemoryDisk};
use std::time::Duration;
use tickstone_model::ColumnType;

fn lock_of_table() -> TableLock {
    let schema = TableSchema::builder("t").column("x", ColumnType::Int64).build().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    TableLock::new(TableWriter::new(&TableSnapshot::new(1, schema, 1, &disk)))
}

#[test]
fn rewrites_take_turns_in_the_order_they_come() {
    let table = lock_of_table();
    let order = Mutex::new(Vec::new());
    let first = table.begin_rewrite().unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (table, order) = (&table, &order);
            scope.spawn(move || {
                let turn = table.begin_rewrite().unwrap();
                lock(order).push(number);
                table.end_rewrite(turn);
            });
            while lock(&table.turns).open.len() < number + 2 {
                std::thread::yield_now();
            }
        }
        table.end_rewrite(first);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_rewrite_gets_the_table_though_commits_never_pause() {
    let table = lock_of_table();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (table, over) = (&table, &over);
            scope.spawn(move || {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _writer = lock_writer(table);
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
        }
        for _ in 0..20 {
            let turn = table.begin_rewrite().unwrap();
            assert!(lock(&table.writer).rewriting);
            table.end_rewrite(turn);
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_dropped_table_is_rewritten_by_nobody() {
    let table = lock_of_table();
    lock_writer(&table).dropped = true;
    assert!(matches!(table.begin_rewrite(), Err(EngineError::TableGone { .. })));
    assert!(lock_writer(&table).dropped);
}

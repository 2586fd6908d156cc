use super::*;
use crate::disk::{Disk, MemoryDisk};
use std::time::Duration;
use tickstone_model::ColumnType;

fn lock_of_table() -> TableLock {
    let schema = TableSchema::builder("t").column("x", ColumnType::Int64).build().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    TableLock::new(TableWriter::new(&TableSnapshot::new(1, schema, 1, &disk)))
}

/// Lets the thread that was started last come to where it waits.
fn settle() {
    std::thread::sleep(Duration::from_millis(30));
}

#[test]
fn rewrites_and_commits_take_turns_in_the_order_they_come() {
    let table = lock_of_table();
    let order = Mutex::new(Vec::new());
    let first = table.begin_rewrite().unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (table, order) = (&table, &order);
            scope.spawn(move || {
                if number % 2 == 0 {
                    let _writer = lock_writer(table);
                    lock(order).push(number);
                } else {
                    let turn = table.begin_rewrite().unwrap();
                    lock(order).push(number);
                    settle();
                    table.end_rewrite(turn);
                }
            });
            settle();
        }
        table.end_rewrite(first);
    });
    let order = order.into_inner().unwrap();
    let place = |number: i32| order.iter().position(|found| *found == number).unwrap();
    // A commit that waited before the second rewrite came is not behind the third one.
    assert!(place(0) < place(3) && place(1) < place(2) && place(1) < place(3), "{order:?}");
    assert!(place(3) < place(4) && place(2) < place(5) && place(3) < place(5), "{order:?}");
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
    assert!(matches!(table.begin_rewrite(), Err(EngineError::NoSuchTable { .. })));
    assert!(lock_writer(&table).dropped);
}

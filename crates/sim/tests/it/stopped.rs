//! After the tape has stopped nothing is acknowledged, also where there is nothing to be written.

use crate::ledger::{options, rows, schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError, EngineOptions, Result, TableSnapshot};
use tickstone_model::{AlterTable, Column, ColumnType, SyncPolicy, TableSchema, TimeRange, Ttl};
use tickstone_sim::{FaultRates, FaultyDisk, Kept, StepClock};

/// What somebody does with a table, by its name.
type Statement = (&'static str, fn(&Engine, &str) -> Result<()>);

/// Everything that is acknowledged as stable; each does something, or nothing, as the table is.
const STATEMENTS: [Statement; 22] = [
    ("create", |engine, _| engine.create_table(schema("other"))),
    ("create what there is", |engine, name| engine.create_table(schema(name))),
    ("drop", |engine, name| engine.drop_table(name)),
    ("drop what there was", |engine, _| engine.drop_table("other")),
    ("truncate", |engine, name| engine.truncate_table(name)),
    ("drop all partitions", |engine, name| engine.drop_partitions(name, TimeRange::ALL).map(drop)),
    ("rename", |engine, name| engine.alter_table(name, &AlterTable::RenameTable("renamed".to_string()))),
    ("rename back", |engine, name| engine.alter_table(name, &AlterTable::RenameTable("trades".to_string()))),
    ("add a column", |engine, name| {
        engine.alter_table(name, &AlterTable::AddColumn(Column::new("px", ColumnType::Float64)))
    }),
    ("drop a column", |engine, name| engine.alter_table(name, &AlterTable::DropColumn("id".to_string()))),
    ("rename a column", |engine, name| engine.alter_table(name, &rename_column("id", "number"))),
    ("rename a column back", |engine, name| engine.alter_table(name, &rename_column("number", "id"))),
    ("index", |engine, name| engine.alter_table(name, &AlterTable::AddIndex("id".to_string()))),
    ("index no more", |engine, name| engine.alter_table(name, &AlterTable::DropIndex("id".to_string()))),
    ("keep for a day", |engine, name| {
        engine.alter_table(name, &AlterTable::SetTtl(Some(Ttl::parse("9 years").unwrap())))
    }),
    ("keep for ever", |engine, name| engine.alter_table(name, &AlterTable::SetTtl(None))),
    ("no rows", |engine, _| engine.begin().commit(Some(SyncPolicy::Always)).map(drop)),
    ("an empty load", |engine, name| engine.load(name)?.commit(None).map(drop)),
    ("a rewrite of nothing", |engine, name| engine.rewrite(name)?.commit().map(drop)),
    ("seal", |engine, _| engine.seal(None)),
    ("compact", |engine, _| engine.compact(None)),
    ("hold", |engine, _| engine.hold().map(drop)),
];

fn rename_column(from: &str, to: &str) -> AlterTable {
    AlterTable::RenameColumn { from: from.to_string(), to: to.to_string() }
}

fn open(disk: &FaultyDisk) -> Engine {
    let options = EngineOptions { segment_bytes: 1 << 20, ..options() };
    Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(0)), options).unwrap()
}

/// Schema and number of rows of each table.
fn contents(engine: &Engine) -> BTreeMap<String, (TableSchema, u64)> {
    let snapshot = engine.snapshot();
    let of = |table: &Arc<TableSnapshot>| (TableSchema::clone(table.schema()), table.rows());
    snapshot.tables().map(|table| (table.schema().name().to_string(), of(table))).collect()
}

#[test]
fn a_stopped_tape_acknowledges_nothing() {
    let stops =
        [FaultRates { sync: 1, ..FaultRates::default() }, FaultRates { append: 1, ..FaultRates::default() }];
    for (first, stop) in STATEMENTS.iter().flat_map(|first| stops.map(|stop| (first, stop))) {
        for (second, run) in &STATEMENTS {
            let what = format!("{second} after {} with {stop:?}", first.0);
            let disk = FaultyDisk::new(7, Arc::new(StepClock::new(0)));
            let engine = open(&disk);
            engine.create_table(schema("trades")).unwrap();
            let before = contents(&engine);
            disk.set_rates(stop);
            if !matches!(first.1(&engine, "trades"), Err(EngineError::TapeStopped { .. })) {
                // It writes nothing, or no tape.
                break;
            }
            disk.set_rates(FaultRates::default());
            // What was published may be seen, under its new name, though it was not acknowledged.
            let shown = contents(&engine);
            let name = shown.keys().find(|name| *name != "other").map_or("trades", String::as_str);
            let stopped = match run(&engine, name) {
                Ok(()) => panic!("{what} was acknowledged"),
                Err(error) => error,
            };
            let gone = !shown.contains_key(name)
                && matches!(stopped, EngineError::NoSuchTable { .. } | EngineError::TableGone { .. });
            assert!(gone || matches!(stopped, EngineError::TapeStopped { .. }), "{what}: {stopped}");
            let after = disk.power_cut(Kept::Nothing);
            drop(engine);
            assert_eq!(contents(&open(&after)), before, "{what}");
        }
    }
}

/// Of rows that nobody synced CHECKPOINT makes all stable, also where no row of them is left to be sealed.
#[test]
fn a_checkpoint_makes_everything_stable() {
    for compacts in [false, true] {
        let disk = FaultyDisk::new(7, Arc::new(StepClock::new(0)));
        let engine = open(&disk);
        engine.create_table(schema("trades")).unwrap();
        engine.append("trades", &rows(0, 30), Some(SyncPolicy::None)).unwrap();
        if compacts {
            engine.compact(None).unwrap()
        } else {
            engine.seal(None).unwrap()
        }
        let expected = contents(&engine);
        let after = disk.power_cut(Kept::Nothing);
        drop(engine);
        assert_eq!(contents(&open(&after)), expected);
    }
}

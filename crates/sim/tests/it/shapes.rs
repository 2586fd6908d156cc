//! Tables that change their shape, against plain vectors: random sequences of appends, loads, seals, ALTERs,
//! dropped partitions, times to live and reopenings must leave exactly the rows, and the NULLs, of a model;
//! a power cut at any call leaves one of the states passed through.

use crate::ledger::{DAY, options};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tickstone_engine::check::{CheckOptions, check};
use tickstone_engine::disk::Disk;
use tickstone_engine::part::StatValue;
use tickstone_engine::{
    ColumnBound, Engine, EngineError, EngineOptions, ErrorKind, Selection, Snapshot, TableSnapshot,
};
use tickstone_model::{AlterTable, Column, ColumnType, TableSchema, TimeRange, Ttl};
use tickstone_sim::{CrashDisk, Random, StepClock, Survival};

/// What the clock says throughout, but for microseconds: rows may be older and newer.
const NOW: i64 = 40 * DAY;
const TYPES: [ColumnType; 5] =
    [ColumnType::Int64, ColumnType::Float64, ColumnType::Varchar, ColumnType::Symbol, ColumnType::Boolean];

fn open(disk: &CrashDisk) -> tickstone_engine::Result<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Engine::open_on(disk, Arc::new(StepClock::new(NOW)), options())
}

fn first_schema() -> TableSchema {
    let builder = TableSchema::builder("t0")
        .column("ts", ColumnType::Timestamp)
        .column("sym", ColumnType::Symbol)
        .column("n", ColumnType::Int64)
        .column("extra", ColumnType::Symbol);
    builder.timestamp("ts").series(["sym"]).build().unwrap()
}

/// The value that row `n` was given in a column, by the column's id: a column of the same name later on has
/// other values.
fn value(n: i64, id: u32, column_type: ColumnType) -> Option<String> {
    let mixed = n * 7 + i64::from(id) * 13;
    (id < 3 || mixed % 5 != 0).then(|| match column_type {
        ColumnType::Timestamp => unreachable!("the model keeps times"),
        ColumnType::Int64 if id == 2 => n.to_string(),
        ColumnType::Int64 => mixed.to_string(),
        ColumnType::Float64 => (mixed as f64 / 8.0).to_string(),
        ColumnType::Boolean => (mixed % 2 == 0).to_string(),
        ColumnType::Symbol => format!("s{}-{id}", n % 4),
        _ => format!("text {mixed}"),
    })
}

/// Values of a column for rows, as a caller hands them in.
fn array(rows: &[(i64, i64)], id: u32, column_type: ColumnType) -> ArrayRef {
    let texts = rows.iter().map(|(n, _)| value(*n, id, column_type));
    match column_type {
        ColumnType::Int64 => Arc::new(texts.map(|t| t?.parse().ok()).collect::<Int64Array>()),
        ColumnType::Float64 => Arc::new(texts.map(|t| t?.parse().ok()).collect::<Float64Array>()),
        ColumnType::Boolean => Arc::new(texts.map(|t| t?.parse().ok()).collect::<BooleanArray>()),
        _ => Arc::new(texts.collect::<StringArray>()),
    }
}

fn batch(schema: &TableSchema, rows: &[(i64, i64)]) -> RecordBatch {
    let columns = schema.columns().iter().enumerate().map(|(index, column)| {
        let values: ArrayRef = if index == 0 {
            Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|(_, ts)| *ts)))
        } else {
            array(rows, schema.column_id(index), column.column_type)
        };
        (column.name.clone(), values)
    });
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A row as the model keeps it: its number, its time, and the ids of the columns there were when it came.
#[derive(Debug, Clone)]
struct Row {
    n: i64,
    ts: i64,
    columns: Arc<BTreeSet<u32>>,
}

/// What must be there.
#[derive(Debug, Clone)]
struct Model {
    schema: TableSchema,
    rows: Vec<Row>,
    next: i64,
}

/// The table's shape, then its rows in order of `n`.
type State = Vec<String>;

impl Model {
    fn state(&self) -> State {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| row.n);
        let line = |row: &&Row| {
            let cells = self.schema.columns().iter().enumerate().map(|(index, column)| {
                let id = self.schema.column_id(index);
                match index {
                    0 => row.ts.to_string(),
                    _ => self.cell(row, id, column.column_type).unwrap_or_else(|| "NULL".to_string()),
                }
            });
            cells.collect::<Vec<_>>().join(",")
        };
        std::iter::once(shape(&self.schema)).chain(rows.iter().map(line)).collect()
    }

    fn cell(&self, row: &Row, id: u32, column_type: ColumnType) -> Option<String> {
        row.columns.contains(&id).then(|| value(row.n, id, column_type)).flatten()
    }

    fn day(ts: i64) -> TimeRange {
        TimeRange::new(ts.div_euclid(DAY) * DAY, (ts.div_euclid(DAY) + 1) * DAY)
    }

    fn add(&mut self, rows: &[(i64, i64)]) {
        let ids = (0..self.schema.columns().len()).map(|column| self.schema.column_id(column));
        let columns: Arc<BTreeSet<u32>> = Arc::new(ids.collect());
        self.rows.extend(rows.iter().map(|(n, ts)| Row { n: *n, ts: *ts, columns: Arc::clone(&columns) }));
        let newest = self.rows.iter().map(|row| row.ts).max();
        if let (Some(ttl), Some(newest)) = (self.schema.ttl(), newest) {
            let horizon = ttl.before(newest.min(NOW + 1));
            self.rows.retain(|row| Self::day(row.ts).to > horizon);
        }
    }

    fn new_rows(&mut self, random: &mut Random, count: u64) -> Vec<(i64, i64)> {
        let first = self.next;
        self.next += count as i64;
        // Mostly around one day, so that partitions gather several commits, with some far off.
        let about = 30 + random.below(15) as i64;
        let times = (first..self.next).map(|n| {
            let day = if random.one_in(6) { random.below(50) as i64 } else { about };
            (n, day * DAY + random.below(DAY as u64) as i64)
        });
        times.collect()
    }
}

fn shape(schema: &TableSchema) -> String {
    let columns = schema.columns().iter().enumerate();
    let columns = columns.map(|(i, c)| format!("{}:{}#{}", c.name, c.column_type, schema.column_id(i)));
    let ttl = schema.ttl().map(|ttl| ttl.to_string());
    format!("{} {:?} {ttl:?}", schema.name(), columns.collect::<Vec<_>>())
}

/// Cells of a column as texts.
fn texts(table: &TableSnapshot, column: usize, values: &ArrayRef) -> Vec<String> {
    assert_eq!(*values.data_type(), table.schema().columns()[column].column_type.stored_type());
    let text = |row: usize| match table.schema().columns()[column].column_type {
        _ if values.is_null(row) => "NULL".to_string(),
        ColumnType::Timestamp => values.as_primitive::<TimestampNanosecondType>().value(row).to_string(),
        ColumnType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
        ColumnType::Float64 => values.as_primitive::<Float64Type>().value(row).to_string(),
        ColumnType::Boolean => values.as_boolean().value(row).to_string(),
        ColumnType::Symbol => {
            let id = values.as_primitive::<UInt32Type>().value(row);
            table.dictionary(column).unwrap().symbol(id).unwrap().to_string()
        }
        _ => values.as_string::<i32>().value(row).to_string(),
    };
    (0..values.len()).map(text).collect()
}

/// What is there; each way of reading must agree.
fn state(snapshot: &Snapshot) -> State {
    let Some(table) = snapshot.tables().next() else { return Vec::new() };
    assert_eq!(snapshot.tables().count(), 1);
    assert!(snapshot.table(table.schema().name()).is_some());
    let width = table.schema().columns().len();
    let mut rows = BTreeMap::new();
    for segment in table.select(&Selection::default()).unwrap() {
        let columns: Vec<Vec<String>> = (0..width)
            .map(|column| {
                let values = segment.read_ranges(column, segment.rows()).unwrap();
                let numbers: Vec<usize> = segment.rows().iter().cloned().flatten().collect();
                let taken = segment.take(column, &numbers).unwrap();
                let found = texts(table, column, &values);
                assert_eq!(found, texts(table, column, &taken), "read and take differ");
                found
            })
            .collect();
        for row in 0..segment.row_count() {
            let line = columns.iter().map(|column| column[row].clone()).collect::<Vec<_>>().join(",");
            let n: i64 = columns[2][row].parse().unwrap();
            assert!(rows.insert(n, line).is_none(), "row {n} is there twice");
        }
    }
    std::iter::once(shape(table.schema())).chain(rows.into_values()).collect()
}

/// Statistics, pruning and the series index, against the model.
fn check_paths(snapshot: &Snapshot, model: &Model) {
    let table = snapshot.table(model.schema.name()).unwrap();
    assert_eq!(table.rows(), model.rows.len() as u64);
    for (index, column) in model.schema.columns().iter().enumerate().skip(1) {
        let id = model.schema.column_id(index);
        let cells: Vec<_> = model.rows.iter().map(|row| model.cell(row, id, column.column_type)).collect();
        let nulls = cells.iter().filter(|cell| cell.is_none()).count() as u64;
        let stats = table.column_stats(index).unwrap();
        assert_eq!((stats.rows, stats.nulls), (cells.len() as u64, nulls), "{}", column.name);
        if column.column_type != ColumnType::Int64 {
            continue;
        }
        let numbers: Vec<i128> = cells.iter().flatten().map(|cell| cell.parse().unwrap()).collect();
        let int = |value: Option<i128>| value.map(StatValue::Int);
        let (min, max) = (numbers.iter().min().copied(), numbers.iter().max().copied());
        assert_eq!((stats.min, stats.max), (int(min), int(max)), "{}", column.name);
        // A table without rows has no statistics at all.
        let sum = (!cells.is_empty()).then(|| numbers.iter().sum());
        assert_eq!(stats.sum, int(sum), "{}", column.name);
        let middle = min.zip(max).map(|(min, max)| StatValue::Int((min + max) / 2));
        let bound = ColumnBound { column: index, min: middle, max: None };
        let selection = Selection { bounds: vec![bound], ..Selection::default() };
        let wanted = |text: &str| {
            text.parse().is_ok_and(|n: i128| middle.is_none_or(|m| !StatValue::Int(n).is_below(&m)))
        };
        let mut found = 0;
        for segment in table.select(&selection).unwrap() {
            let values = segment.read_ranges(index, segment.rows()).unwrap();
            found += texts(table, index, &values).iter().filter(|text| wanted(text)).count();
            let all = segment.rows().first().unwrap().start..segment.rows().last().unwrap().end;
            for block in segment.blocks(index, all).unwrap().unwrap_or_default() {
                let held = segment.read(index, block.rows.clone()).unwrap();
                assert_eq!(
                    (block.stats.rows, block.stats.nulls),
                    (held.len() as u64, held.null_count() as u64)
                );
            }
        }
        assert_eq!(found, cells.iter().flatten().filter(|cell| wanted(cell)).count(), "{}", column.name);
    }
    let symbols = table.dictionary(1).unwrap();
    for symbol in 0..4 {
        let wanted = model.rows.iter().filter(|row| row.n % 4 == symbol).count();
        let id = symbols.id(&format!("s{symbol}-1"));
        let series = vec![(1, id.into_iter().collect())];
        let time = TimeRange::new(i64::MIN, i64::MAX);
        let found = table.select(&Selection { time, series, ..Selection::default() }).unwrap();
        assert_eq!(found.iter().map(tickstone_engine::Segment::row_count).sum::<usize>(), wanted);
    }
}

/// Does one random step to both.
fn step(engine: &Engine, model: &mut Model, random: &mut Random) {
    let name = model.schema.name().to_string();
    let any_column = |random: &mut Random, model: &Model| {
        let columns = model.schema.columns();
        columns[random.below(columns.len() as u64) as usize].name.clone()
    };
    match random.below(20) {
        0..=6 => {
            let count = 1 + random.below(12);
            let rows = model.new_rows(random, count);
            engine.append(&name, &batch(&model.schema, &rows), None).unwrap();
            model.add(&rows);
        }
        7 => {
            let rows = model.new_rows(random, 20);
            let mut load = engine.load(&name).unwrap();
            load.append(&batch(&model.schema, &rows)).unwrap();
            load.commit(None).unwrap();
            model.add(&rows);
        }
        8..=10 => engine.seal(None).unwrap(),
        11 | 12 => {
            // Few names, so that they come again.
            let column_type = TYPES[random.below(5) as usize];
            let name = format!("c{}", random.below(4));
            alter(engine, model, AlterTable::AddColumn(Column::new(name, column_type)));
        }
        13 | 14 => {
            let column = any_column(random, model);
            if column != "n" {
                alter(engine, model, AlterTable::DropColumn(column));
            }
        }
        15 => {
            let from = any_column(random, model);
            if from != "n" {
                let to = format!("C{}", random.below(6));
                alter(engine, model, AlterTable::RenameColumn { from, to });
            }
        }
        16 => alter(engine, model, AlterTable::RenameTable(format!("t{}", random.below(3)))),
        17 => {
            let ttl = Ttl::parse(&format!("{}d", 1 + random.below(20))).unwrap();
            alter(engine, model, AlterTable::SetTtl((!random.one_in(3)).then_some(ttl)));
        }
        18 => {
            let from = (25 + random.below(20) as i64) * DAY - random.below(2) as i64;
            let range = TimeRange::new(from, from + 3 * DAY);
            let gone = |row: &Row| range.covers(&Model::day(row.ts));
            let days: BTreeSet<_> =
                model.rows.iter().filter(|row| gone(row)).map(|row| Model::day(row.ts)).collect();
            let rows = model.rows.iter().filter(|row| gone(row)).count() as u64;
            let dropped = engine.drop_partitions(&name, range).unwrap();
            assert_eq!((dropped.partitions, dropped.rows), (days.len() as u64, rows));
            model.rows.retain(|row| !gone(row));
        }
        _ => {
            if random.one_in(4) {
                engine.truncate_table(&name).unwrap();
                model.rows.clear();
            }
        }
    }
}

/// Both agree on whether a change can be made, and then make it.
fn alter(engine: &Engine, model: &mut Model, change: AlterTable) {
    let version = engine.catalog_version();
    let done = engine.alter_table(model.schema.name(), &change);
    match model.schema.altered(&change) {
        Ok(schema) => {
            done.unwrap();
            assert!(schema == model.schema || engine.catalog_version() != version, "{change:?}");
            model.schema = schema;
        }
        Err(rule) => assert_eq!(done.unwrap_err().to_string(), rule.to_string()),
    }
}

fn started(disk: &CrashDisk) -> (Engine, Model) {
    let engine = open(disk).unwrap();
    engine.create_table(first_schema()).unwrap();
    (engine, Model { schema: first_schema(), rows: Vec::new(), next: 0 })
}

#[test]
fn any_sequence_leaves_what_the_model_has() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut disk = CrashDisk::new();
        let (mut engine, mut model) = started(&disk);
        let mut held = Vec::new();
        for number in 0..40 {
            step(&engine, &mut model, &mut random);
            assert_eq!(state(&engine.snapshot()), model.state(), "seed {seed}, step {number}");
            check_paths(&engine.snapshot(), &model);
            if random.one_in(8) {
                held.push((engine.snapshot(), model.state()));
            }
            if random.one_in(6) {
                if random.one_in(2) {
                    drop(engine);
                } else {
                    // A crash: the engine goes without a word, and so do its snapshots.
                    held.clear();
                    disk = disk.image(disk.calls(), Survival::Nothing).disk();
                    drop(engine);
                }
                engine = open(&disk).unwrap_or_else(|error| panic!("seed {seed}, step {number}: {error}"));
                assert_eq!(state(&engine.snapshot()), model.state(), "seed {seed}, reopened after {number}");
                check_paths(&engine.snapshot(), &model);
            }
        }
        for (snapshot, expected) in held {
            assert_eq!(state(&snapshot), expected, "seed {seed}: a snapshot changed");
        }
    }
}

#[test]
fn a_power_cut_at_any_call_leaves_a_state_passed_through() {
    let mut images = 0;
    for seed in 100..112 {
        let mut random = Random::new(seed);
        let disk = CrashDisk::new();
        let (engine, mut model) = started(&disk);
        let mut states = vec![(0, Vec::new()), (disk.calls(), model.state())];
        for _ in 0..14 {
            step(&engine, &mut model, &mut random);
            states.push((disk.calls(), model.state()));
        }
        drop(engine);
        for image in disk.images(0, 2) {
            let after = image.disk();
            let what = format!("seed {seed}, call {} ({:?})", image.calls, image.survival);
            let engine = open(&after).unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = state(&engine.snapshot());
            let acknowledged = states.iter().rposition(|(calls, _)| *calls <= image.calls).unwrap();
            let allowed = &states[acknowledged..(acknowledged + 2).min(states.len())];
            assert!(
                allowed.iter().any(|(_, state)| *state == found),
                "{what}: {found:?}, allowed {allowed:?}"
            );
            // What goes on from there survives the next crash, with all the rest.
            let Some(table) = engine.snapshot().tables().next().map(Arc::clone) else { continue };
            let rows = [(1_000_000, NOW - 7)];
            engine.append(table.schema().name(), &batch(table.schema(), &rows), None).unwrap();
            engine.seal(None).unwrap();
            let expected = state(&engine.snapshot());
            let again = open(&after.image(after.calls(), Survival::Nothing).disk()).unwrap();
            assert_eq!(state(&again.snapshot()), expected, "{what}: second crash");
            images += 1;
        }
    }
    assert!(images > 2_000, "too few to mean anything: {images} images");
}

#[test]
fn rows_for_columns_that_went_are_refused_and_can_be_tried_again() {
    let disk = CrashDisk::new();
    let (engine, mut model) = started(&disk);
    let old = batch(&model.schema, &[(0, DAY)]);
    let mut transaction = engine.begin();
    transaction.append("t0", &old).unwrap();
    let mut both = engine.begin();
    both.append("t0", &old).unwrap();
    let mut load = engine.load("t0").unwrap();
    load.append(&old).unwrap();
    alter(&engine, &mut model, AlterTable::AddColumn(Column::new("late", ColumnType::Symbol)));
    let refused = |error: EngineError| {
        assert_eq!(error.kind(), ErrorKind::Retry);
        assert!(error.to_string().contains("columns of 't0' were changed"), "{error}");
    };
    refused(transaction.commit(None).unwrap_err());
    refused(both.append("t0", &old).unwrap_err());
    refused(load.commit(None).unwrap_err());
    assert_eq!(engine.snapshot().table("t0").unwrap().rows(), 0);
    // Another name for a column or the table, or a time to live, takes nothing from rows under way.
    let mut transaction = engine.begin();
    transaction.append("t0", &batch(&model.schema, &[(1, DAY)])).unwrap();
    model.add(&[(1, DAY)]);
    alter(&engine, &mut model, AlterTable::RenameColumn { from: "late".into(), to: "later".into() });
    alter(&engine, &mut model, AlterTable::RenameTable("t9".into()));
    transaction.commit(None).unwrap();
    assert_eq!(state(&engine.snapshot()), model.state());
    drop(engine);
    assert_eq!(state(&open(&disk).unwrap().snapshot()), model.state());
}

#[test]
fn a_table_takes_no_name_that_is_taken() {
    let (engine, _) = started(&CrashDisk::new());
    let other = TableSchema::builder("other").column("x", ColumnType::Int64).build().unwrap();
    engine.create_table(other).unwrap();
    let error = engine.alter_table("t0", &AlterTable::RenameTable("OTHER".into())).unwrap_err();
    assert_eq!(error.to_string(), "table 'other' already exists");
    engine.alter_table("t0", &AlterTable::RenameTable("T0".into())).unwrap();
    assert_eq!(engine.snapshot().table("t0").unwrap().schema().name(), "T0");
    assert!(engine.alter_table("none", &AlterTable::SetTtl(None)).is_err());
}

#[test]
fn a_table_that_is_replaced_is_there_at_every_moment() {
    const TIMES: i64 = 60;
    let disk = CrashDisk::new();
    let (engine, model) = started(&disk);
    let next = |number: i64| {
        let builder = TableSchema::builder("next").column("x", ColumnType::Int64);
        engine.create_table(builder.build().unwrap()).unwrap();
        let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..number));
        engine.append("next", &RecordBatch::try_from_iter([("x", rows)]).unwrap(), None).unwrap();
        engine.replace_table("T0", "next").unwrap();
    };
    engine.append("t0", &batch(&model.schema, &[(1, DAY)]), None).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let snapshot = engine.snapshot();
                let rows = snapshot.table("t0").expect("it is there").rows();
                assert!(rows >= seen && rows > 0, "{rows} rows after {seen}");
                seen = rows;
            }
        });
        (1..=TIMES).for_each(next);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
    for (name, with) in [("t0", "next"), ("none", "t0")] {
        assert!(matches!(engine.replace_table(name, with), Err(EngineError::NoSuchTable { .. })));
    }
    engine.replace_table("t0", "t0").unwrap();
    let names = |engine: &Engine| {
        engine.snapshot().tables().map(|t| (t.schema().name().to_string(), t.rows())).collect::<Vec<_>>()
    };
    assert_eq!(names(&engine), [("t0".to_string(), TIMES.cast_unsigned())]);
    drop(engine);
    assert_eq!(names(&open(&disk).unwrap()), [("t0".to_string(), TIMES.cast_unsigned())]);
}

/// The tape still has the frame that replaced a table when another has its number.
#[test]
fn a_table_with_the_number_of_a_replaced_one_is_not_replaced() {
    let disk = CrashDisk::new();
    let files: Arc<dyn Disk> = Arc::new(disk.clone());
    let (engine, model) = started(&disk);
    let row = batch(&model.schema, &[(1, DAY)]);
    let table = |name: &str| model.schema.altered(&AlterTable::RenameTable(name.into())).unwrap();
    engine.create_table(table("old")).unwrap();
    engine.append("old", &row, None).unwrap();
    drop(engine);
    let engine = open(&disk).unwrap();
    // The segment with its CREATE goes.
    engine.append("old", &row, None).unwrap();
    engine.seal(None).unwrap();
    let number = |name: &str| engine.snapshot().table(name).unwrap().id();
    let replaced = number("old");
    engine.replace_table("old", "t0").unwrap();
    drop(engine);
    let engine = open(&disk).unwrap();
    engine.create_table(table("new")).unwrap();
    assert_eq!(engine.snapshot().table("new").unwrap().id(), replaced);
    // Its manifest relies on symbols that no frame brought.
    let mut uncommitted = engine.begin();
    uncommitted.append("new", &row).unwrap();
    engine.drop_partitions("new", TimeRange::new(0, 1)).unwrap();
    drop(uncommitted);
    drop(engine);
    let report = check(&files, &CheckOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report}");
    assert!(open(&disk).unwrap().snapshot().table("new").is_some());
}

#[test]
fn files_of_partitions_that_left_go_with_the_last_snapshot() {
    let disk = CrashDisk::new();
    let (engine, mut model) = started(&disk);
    let rows: Vec<_> = (0..30).map(|n| (n, n * DAY)).collect();
    engine.append("t0", &batch(&model.schema, &rows), None).unwrap();
    engine.seal(None).unwrap();
    let parts =
        || disk.files().iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "part")).count();
    assert_eq!(parts(), 30);
    let dropped = engine.drop_partitions("t0", TimeRange::new(1, 10 * DAY)).unwrap();
    assert_eq!((dropped.partitions, dropped.rows), (9, 9));
    assert_eq!(parts(), 21);
    let held = engine.snapshot();
    alter(&engine, &mut model, AlterTable::SetTtl(Some(Ttl::parse("5d").unwrap())));
    assert_eq!(engine.snapshot().table("t0").unwrap().rows(), 21);
    // The newest row decides, not the clock; a late one is acknowledged and leaves at once.
    engine.append("t0", &batch(&model.schema, &[(30, 30 * DAY), (31, DAY)]), None).unwrap();
    assert_eq!(engine.snapshot().table("t0").unwrap().rows(), 6);
    assert_eq!(parts(), 21);
    drop(held);
    assert_eq!(parts(), 5);
    // A row from the far future takes no more than what the clock lets it.
    engine.append("t0", &batch(&model.schema, &[(32, 30_000 * DAY)]), None).unwrap();
    assert_eq!(engine.snapshot().table("t0").unwrap().rows(), 1);
    engine.append("t0", &batch(&model.schema, &[(33, NOW - 4 * DAY)]), None).unwrap();
    let table = Arc::clone(engine.snapshot().table("t0").unwrap());
    assert_eq!(table.rows(), 2);
    let listed: Vec<_> =
        table.partitions().iter().map(|p| (p.range().from, p.rows(), p.parts(), p.disk_bytes())).collect();
    assert_eq!(listed, [(NOW - 4 * DAY, 1, 0, 0), (30_000 * DAY, 1, 0, 0)]);
}

#[test]
fn writers_beside_changes_of_shape_store_whole_commits_or_none() {
    let options = EngineOptions { segment_bytes: 1 << 16, ..EngineOptions::default() };
    let disk = CrashDisk::new();
    let open = || Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(NOW)), options.clone());
    let engine = open().unwrap();
    engine.create_table(first_schema()).unwrap();
    let (mut stored, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_i64)
            .map(|writer| {
                let engine = engine.clone();
                scope.spawn(move || {
                    let (mut stored, mut refused) = (0_u64, 0_u64);
                    for commit in 0..200_i64 {
                        let rows = [(writer * 100_000 + commit, commit % 30 * DAY)];
                        let schema = Arc::clone(engine.snapshot().table("t0").unwrap().schema());
                        let mut transaction = engine.begin();
                        transaction.append("t0", &batch(&first_schema(), &rows)).unwrap();
                        match transaction.commit(None) {
                            Ok(_) => stored += 1,
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                                assert!(
                                    engine.snapshot().table("t0").unwrap().schema().version()
                                        > schema.version()
                                );
                                refused += 1;
                            }
                        }
                    }
                    (stored, refused)
                })
            })
            .collect();
        for round in 0..40 {
            let name = format!("c{round}");
            engine.alter_table("t0", &AlterTable::AddColumn(Column::new(&name, ColumnType::Symbol))).unwrap();
            engine.seal(None).unwrap();
            engine.alter_table("t0", &AlterTable::DropColumn(name)).unwrap();
        }
        for writer in writers {
            let (here, not) = writer.join().unwrap();
            stored += here;
            refused += not;
        }
    });
    assert_eq!(stored + refused, 600);
    let found = state(&engine.snapshot());
    assert_eq!(found.len() as u64, stored + 1);
    drop(engine);
    assert_eq!(state(&open().unwrap().snapshot()), found);
}

#[test]
fn what_a_crash_left_goes_beside_the_work() {
    let disk = CrashDisk::new();
    let (engine, model) = started(&disk);
    engine.append("t0", &batch(&model.schema, &[(0, DAY)]), None).unwrap();
    engine.seal(None).unwrap();
    let left = disk.image(disk.calls(), Survival::Everything).disk();
    let orphan = std::path::Path::new("tables/1/1970-01-04/000000-00000009.part");
    left.create(orphan).unwrap().sync().unwrap();
    let background = EngineOptions { background: true, ..options() };
    let engine = Engine::open_on(Arc::new(left.clone()), Arc::new(StepClock::new(NOW)), background).unwrap();
    let is_there = || left.files().iter().any(|(path, _)| path == orphan);
    for _ in 0..1_000 {
        if !is_there() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!is_there());
    assert_eq!(engine.snapshot().table("t0").unwrap().rows(), 1);
    assert_eq!(state(&engine.snapshot()).len(), 2);
}

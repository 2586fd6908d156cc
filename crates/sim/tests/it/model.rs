//! Random sequences of what can happen to a table, against a plain list of its rows.

use crate::ledger::{DAY, options};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tickstone_engine::part::StatValue;
use tickstone_engine::{Dictionary, Engine, EngineOptions, Segment, Selection, TableSnapshot};
use tickstone_model::{ColumnType, TableSchema, TimeRange};
use tickstone_sim::{CrashDisk, Random, StepClock, Survival};

const SYMBOLS: [&str; 4] = ["A", "B", "C", "D"];
pub(crate) const TABLE: &str = "ticks";
const COLUMNS: [usize; 5] = [0, 1, 2, 3, 4];

/// A row; `id` is its number in order of arrival.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) ts: i64,
    pub(crate) symbol: Option<&'static str>,
    pub(crate) id: i64,
    pub(crate) px: Option<f64>,
    pub(crate) tag: Option<String>,
}

pub(crate) fn table() -> tickstone_model::TableSchemaBuilder {
    TableSchema::builder(TABLE)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64)
        .column("px", ColumnType::Float64)
        .column("tag", ColumnType::Symbol)
        .timestamp("ts")
        .series(["symbol"])
}

pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    let times = rows.iter().map(|row| row.ts);
    let symbols = rows.iter().map(|row| row.symbol);
    let columns: [(&str, ArrayRef); 5] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
        ("symbol", Arc::new(symbols.collect::<StringArray>())),
        ("id", Arc::new(rows.iter().map(|row| row.id).collect::<Int64Array>())),
        ("px", Arc::new(rows.iter().map(|row| row.px).collect::<Float64Array>())),
        ("tag", Arc::new(rows.iter().map(|row| row.tag.as_deref()).collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Some rows in places of a day or three, some of them late, some at the same instants.
pub(crate) fn random_rows(random: &mut Random, first: i64, count: u64) -> Vec<Row> {
    let row = |random: &mut Random, id: i64| Row {
        ts: if random.one_in(3) { random.below(3) as i64 * DAY } else { 0 } + random.below(60) as i64 * 1_000,
        symbol: (!random.one_in(9)).then(|| SYMBOLS[random.below(4) as usize]),
        id,
        px: (!random.one_in(7)).then(|| random.below(1_000) as f64 / 4.0),
        tag: (!random.one_in(5)).then(|| format!("t{}", random.below(20))),
    };
    (0..count as i64).map(|n| row(random, first + n)).collect()
}

/// The rows of a segment, with their numbers.
pub(crate) fn rows_of(table: &TableSnapshot, segment: &Segment) -> Vec<(usize, Row)> {
    let numbers = segment.rows().iter().cloned().flatten();
    let columns = COLUMNS.map(|column| segment.read_ranges(column, segment.rows()).unwrap());
    numbers.zip(rows_of_columns(&columns, |column| table.dictionary(column).unwrap())).collect()
}

/// The rows of columns in stored types.
pub(crate) fn rows_of_columns<'a>(
    columns: &[ArrayRef],
    dictionary: impl Fn(usize) -> &'a Arc<Dictionary>,
) -> Vec<Row> {
    let [times, symbols, ids, prices, tags] = columns else { panic!("five columns") };
    let text = |column: usize, array: &ArrayRef, row: usize| {
        let ids = array.as_primitive::<UInt32Type>();
        ids.is_valid(row).then(|| dictionary(column).symbol(ids.value(row)).unwrap())
    };
    let known = |symbol: Arc<str>| *SYMBOLS.iter().find(|known| ***known == *symbol).unwrap();
    let prices = prices.as_primitive::<Float64Type>();
    let row = |at: usize| Row {
        ts: times.as_primitive::<TimestampNanosecondType>().value(at),
        symbol: text(1, symbols, at).map(known),
        id: ids.as_primitive::<Int64Type>().value(at),
        px: prices.is_valid(at).then(|| prices.value(at)),
        tag: text(4, tags, at).map(|tag| tag.to_string()),
    };
    (0..times.len()).map(row).collect()
}

pub(crate) fn selected(table: &TableSnapshot, selection: &Selection) -> Vec<Row> {
    let segments = table.select(selection).unwrap();
    segments.iter().flat_map(|segment| rows_of(table, segment)).map(|(_, row)| row).collect()
}

/// Names the rows that differ.
pub(crate) fn assert_same(found: Vec<Row>, expected: Vec<Row>) {
    let keyed = |rows: Vec<Row>| rows.into_iter().map(|row| (row.id, row)).collect::<BTreeMap<_, _>>();
    let rows = found.len();
    let (found, expected) = (keyed(found), keyed(expected));
    assert_eq!(rows, found.len(), "a row is there twice");
    let other = |a: &BTreeMap<i64, Row>, b: &BTreeMap<i64, Row>| {
        a.iter().filter(|(id, row)| b.get(id) != Some(row)).map(|(_, row)| row.clone()).collect::<Vec<_>>()
    };
    let (wrong, missing) = (other(&found, &expected), other(&expected, &found));
    assert!(wrong.is_empty() && missing.is_empty(), "wrong: {wrong:?}, missing: {missing:?}");
}

/// Everything that can be asked of a table gives what the list says.
pub(crate) fn check_table(table: &TableSnapshot, expected: &[Row], random: &mut Random) {
    let found = selected(table, &Selection::default());
    let mut last: HashMap<(Option<&str>, i64), i64> = HashMap::new();
    for row in &found {
        // Rows of one series and instant stand in the order in which they arrived.
        if let Some(before) = last.insert((row.symbol, row.ts), row.id) {
            assert!(before < row.id, "row {} stands before {}", before, row.id);
        }
    }
    assert_same(found, expected.to_vec());
    assert_eq!(table.rows(), expected.len() as u64);
    for segment in table.select(&Selection::default()).unwrap() {
        check_segment(table, &segment);
    }
    let time = TimeRange::new(random.below(40) as i64 * 1_000, DAY + random.below(60) as i64 * 1_000);
    let mut ids: Vec<u32> = SYMBOLS[..2].iter().filter_map(|s| table.dictionary(1).unwrap().id(s)).collect();
    ids.sort_unstable();
    let selection = Selection { time, series: vec![(1, ids)], ..Selection::default() };
    let wanted = |row: &&Row| time.contains(row.ts) && matches!(row.symbol, Some("A" | "B"));
    let expected_here: Vec<Row> = expected.iter().filter(wanted).cloned().collect();
    if !table.schema().series().is_empty() {
        assert_same(selected(table, &selection), expected_here);
    }
    check_stats(table, expected);
}

/// Within a range of a part series are constant and times ascend; a run's times ascend.
fn check_segment(table: &TableSnapshot, segment: &Segment) {
    let rows = rows_of(table, segment);
    let times: Vec<i64> = rows.iter().map(|(_, row)| row.ts).collect();
    assert!(segment.is_part() || times.is_sorted());
    let mut at = 0;
    for range in segment.rows() {
        let here = &rows[at..at + range.len()];
        at += range.len();
        assert!(here.is_sorted_by_key(|(_, row)| row.ts));
        let by_series = segment.is_part() && !table.schema().series().is_empty();
        assert!(!by_series || here.windows(2).all(|pair| pair[0].1.symbol == pair[1].1.symbol));
    }
}

/// Statistics that speak of all rows and no others are right.
fn check_stats(table: &TableSnapshot, expected: &[Row]) {
    let stats = table.column_stats(3).unwrap();
    assert!(stats.rows >= table.rows());
    if stats.rows != table.rows() {
        return;
    }
    let prices: Vec<f64> = expected.iter().filter_map(|row| row.px).collect();
    assert_eq!(stats.nulls, (expected.len() - prices.len()) as u64);
    let value = |found: Option<StatValue>| match found {
        Some(StatValue::Float(value)) => Some(value),
        _ => None,
    };
    assert_eq!(value(stats.max), prices.iter().copied().reduce(f64::max));
    assert_eq!(value(stats.min), prices.iter().copied().reduce(f64::min));
    assert_eq!(value(stats.sum).unwrap_or(0.0), prices.iter().sum::<f64>());
}

pub(crate) fn open(disk: &CrashDisk, options: &EngineOptions) -> Engine {
    Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(0)), options.clone()).unwrap()
}

/// Deletes the rows that pass; how many.
pub(crate) fn delete(engine: &Engine, time: TimeRange, passes: impl Fn(&Row) -> bool) -> u64 {
    let mut rewrite = engine.rewrite(TABLE).unwrap();
    let table = Arc::clone(rewrite.table());
    for segment in table.select(&Selection { time, ..Selection::default() }).unwrap() {
        let rows = rows_of(&table, &segment).into_iter().filter(|(_, row)| passes(row));
        rewrite.delete(&segment, &rows.map(|(number, _)| number).collect::<Vec<_>>()).unwrap();
    }
    rewrite.commit().unwrap().rows
}

/// Gives the rows that pass another price and tag; how many.
pub(crate) fn update(
    engine: &Engine,
    passes: impl Fn(&Row) -> bool,
    px: impl Fn(&Row) -> Option<f64>,
    tag: Option<&str>,
) -> u64 {
    let mut rewrite = engine.rewrite(TABLE).unwrap();
    let table = Arc::clone(rewrite.table());
    for segment in table.select(&Selection::default()).unwrap() {
        let rows: Vec<_> = rows_of(&table, &segment).into_iter().filter(|(_, row)| passes(row)).collect();
        let numbers: Vec<usize> = rows.iter().map(|(number, _)| *number).collect();
        let prices: ArrayRef = Arc::new(rows.iter().map(|(_, row)| px(row)).collect::<Float64Array>());
        let tags: ArrayRef = Arc::new(rows.iter().map(|_| tag).collect::<StringArray>());
        rewrite.update(&segment, &numbers, 3, &prices).unwrap();
        rewrite.update(&segment, &numbers, 4, &tags).unwrap();
    }
    rewrite.commit().unwrap().rows
}

/// What happened, and what must be there.
pub(crate) struct World {
    pub(crate) disk: CrashDisk,
    pub(crate) options: EngineOptions,
    pub(crate) engine: Option<Engine>,
    pub(crate) rows: Vec<Row>,
    next_id: i64,
    random: Random,
    /// Rows of equal time and symbol replace each other.
    dedup: bool,
}

impl World {
    pub(crate) fn new(seed: u64, schema: TableSchema, dedup: bool) -> Self {
        let mut random = Random::new(seed);
        let options = EngineOptions {
            compaction_parts_min: [0, 2, 4][random.below(3) as usize],
            slice_rows: [4, 16, 1_000][random.below(3) as usize],
            memory_budget_bytes: [2_000, 1 << 30][random.below(2) as usize],
            tape_keep_bytes: [0, 3_000, 1 << 20][random.below(3) as usize],
            follow_memory_bytes: [0, 2_000, 1 << 20][random.below(3) as usize],
            ..options()
        };
        let disk = CrashDisk::new();
        let engine = open(&disk, &options);
        engine.create_table(schema).unwrap();
        Self { disk, options, engine: Some(engine), rows: Vec::new(), next_id: 0, random, dedup }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn fresh_rows(&mut self, most: u64) -> Vec<Row> {
        let count = 1 + self.random.below(most);
        let rows = random_rows(&mut self.random, self.next_id, count);
        self.next_id += count as i64;
        rows
    }

    fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            if self.dedup {
                self.rows.retain(|old| (old.ts, old.symbol) != (row.ts, row.symbol));
            }
            self.rows.push(row);
        }
    }

    /// Does one random thing; its name.
    pub(crate) fn step(&mut self) -> &'static str {
        let which = self.random.below(12);
        self.go(which)
    }

    /// Opens the database anew, or does anything else.
    pub(crate) fn step_where(&mut self, reopens: bool) -> &'static str {
        let which = if reopens { 10 + self.random.below(2) } else { self.random.below(10) };
        self.go(which)
    }

    fn go(&mut self, which: u64) -> &'static str {
        match which {
            0..=3 => {
                let rows = self.fresh_rows(40);
                self.engine().append(TABLE, &batch(&rows), None).unwrap();
                self.add(rows);
                "append"
            }
            4 => {
                let mut load = self.engine().load(TABLE).unwrap();
                for _ in 0..1 + self.random.below(3) {
                    let rows = self.fresh_rows(30);
                    load.append(&batch(&rows)).unwrap();
                    self.add(rows);
                }
                load.commit(None).unwrap();
                "load"
            }
            5 | 6 => {
                self.engine().seal(None).unwrap();
                "seal"
            }
            7 => {
                self.engine().compact(None).unwrap();
                "compact"
            }
            8 => {
                let (of, rest) = (2 + self.random.below(4) as i64, 0);
                let time = TimeRange::new(self.random.below(50) as i64 * 1_000, i64::MAX);
                let all = self.random.one_in(6);
                let goes = |row: &Row| time.contains(row.ts) && (all || row.id % of == rest);
                let deleted = delete(self.engine(), time, goes);
                let before = self.rows.len();
                self.rows.retain(|row| !goes(row));
                assert_eq!(deleted, (before - self.rows.len()) as u64);
                "delete"
            }
            9 => {
                let of = 1 + self.random.below(5) as i64;
                let tag = format!("u{}", self.random.below(50));
                let tag = (!self.random.one_in(4)).then_some(tag.as_str());
                let passes = |row: &Row| row.id % of == 0;
                let px = |row: &Row| row.px.map(|px| px + 1.0);
                let updated = update(self.engine(), passes, px, tag);
                let rows = self.rows.iter_mut().filter(|row| passes(row));
                let mut count = 0;
                for row in rows {
                    (row.px, row.tag) = (px(row), tag.map(str::to_string));
                    count += 1;
                }
                assert_eq!(updated, count);
                "update"
            }
            10 => {
                self.engine = None;
                self.engine = Some(open(&self.disk, &self.options));
                "reopen"
            }
            _ => {
                // The power goes; what was acknowledged was synced.
                let disk = self.disk.image(self.disk.calls(), Survival::Nothing).disk();
                self.engine = Some(open(&disk, &self.options));
                self.disk = disk;
                "power cut"
            }
        }
    }

    pub(crate) fn check(&mut self) {
        let snapshot = self.engine().snapshot();
        check_table(snapshot.table(TABLE).unwrap(), &self.rows, &mut self.random);
    }
}

/// Runs a seed; the steps it took are in the message of what fails.
pub(crate) fn run(seed: u64, schema: TableSchema, dedup: bool, steps: usize) {
    let mut world = World::new(seed, schema, dedup);
    let mut done = Vec::new();
    for _ in 0..steps {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let name = world.step();
            done.push(name);
            world.check();
        }));
        if let Err(panic) = outcome {
            eprintln!("seed {seed}, after {done:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn a_table_is_its_list_of_rows() {
    (0..120).for_each(|seed| run(seed, table().build().unwrap(), false, 40));
}

#[test]
fn a_table_without_series_is_its_list_of_rows() {
    (500..520).for_each(|seed| run(seed, table().series::<&str>([]).build().unwrap(), false, 30));
}

#[test]
fn rows_replace_each_other() {
    let schema = table().dedup(["ts", "symbol"]).build().unwrap();
    (1_000..1_120).for_each(|seed| run(seed, schema.clone(), true, 40));
}

//! What is known of a materialized view, at every moment and after every crash, makes its stored rows and those worked
//! out anew the rows of its query.

use crate::crash_images;
use crate::ledger::{DAY, options};
use crate::model::{Row, TABLE, World, batch, random_rows, selected, table};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tickstone_engine::{Engine, EngineError, Selection, Snapshot, TableSnapshot};
use tickstone_model::{AlterTable, ColumnType, MaterializedView, PartitionBy, TableSchema, TimeRange, Ttl};
use tickstone_sim::{CrashDisk, Random, StepClock};

/// Bars by bucket and symbol: how many rows, and the sum of their ids.
type Bars = BTreeMap<(i64, Option<String>), (i64, i64)>;

const BARS: &str = "bars";
const WIDE: &str = "wide";

fn view(name: &str, base: &str, bucket_ns: i64) -> TableSchema {
    let (query, base, buckets) = ("a query".to_string(), base.to_string(), "of some length".to_string());
    let of = MaterializedView { query, base, buckets, bucket_ns, origin_ns: Some(0) };
    TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("rows", ColumnType::Int64)
        .column("ids", ColumnType::Int64)
        .timestamp("ts")
        .series(["symbol"])
        .dedup(["ts", "symbol"])
        .materialized(Some(of))
        .build()
        .unwrap()
}

fn bars_of_rows(rows: &[Row], bucket_ns: i64) -> Bars {
    let mut bars = Bars::new();
    for row in rows {
        let ts = row.ts.div_euclid(bucket_ns) * bucket_ns;
        let bar = bars.entry((ts, row.symbol.map(str::to_string))).or_default();
        *bar = (bar.0 + 1, bar.1 + row.id);
    }
    bars
}

fn bars_of_bars(bars: &Bars, bucket_ns: i64) -> Bars {
    let mut wide = Bars::new();
    for ((ts, symbol), (rows, ids)) in bars {
        let bar = wide.entry((ts.div_euclid(bucket_ns) * bucket_ns, symbol.clone())).or_default();
        *bar = (bar.0 + rows, bar.1 + ids);
    }
    wide
}

/// The rows that a view stores, in a stretch of time.
fn stored(table: &TableSnapshot, time: TimeRange) -> Bars {
    let mut bars = Bars::new();
    for segment in table.select(&Selection { time, ..Selection::default() }).unwrap() {
        let columns = [0, 1, 2, 3].map(|column| segment.read_ranges(column, segment.rows()).unwrap());
        let [times, symbols, rows, ids] = &columns;
        for at in 0..times.len() {
            let symbol = symbols.as_primitive::<UInt32Type>();
            let symbol =
                symbol.is_valid(at).then(|| table.dictionary(1).unwrap().symbol(symbol.value(at)).unwrap());
            let key =
                (times.as_primitive::<TimestampNanosecondType>().value(at), symbol.map(|s| s.to_string()));
            let bar = (rows.as_primitive::<Int64Type>().value(at), ids.as_primitive::<Int64Type>().value(at));
            assert_eq!(bars.insert(key, bar), None, "a bar is there twice");
        }
    }
    bars
}

/// The rows of a view as a query of the snapshot has them.
fn queried(snapshot: &Snapshot, name: &str) -> Bars {
    let table = snapshot.table(name).unwrap();
    let of = table.schema().materialized().unwrap();
    let stale: Vec<TimeRange> =
        table.staleness().stale().iter().map(|stretch| of.buckets_of(stretch.range)).collect();
    let anew = match of.base.as_str() {
        TABLE => bars_of_rows(&selected(snapshot.table(TABLE).unwrap(), &Selection::default()), of.bucket_ns),
        other => bars_of_bars(&queried(snapshot, other), of.bucket_ns),
    };
    let is_stale = |ts: i64| stale.iter().any(|stretch| stretch.contains(ts));
    let mut bars = stored(table, TimeRange::ALL);
    bars.retain(|(ts, _), _| !is_stale(*ts));
    bars.extend(anew.into_iter().filter(|((ts, _), _)| is_stale(*ts)));
    bars
}

fn batch_of(bars: &Bars) -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(bars.keys().map(|key| key.0)))),
        ("symbol", Arc::new(bars.keys().map(|key| key.1.as_deref()).collect::<StringArray>())),
        ("rows", Arc::new(bars.values().map(|bar| bar.0).collect::<Int64Array>())),
        ("ids", Arc::new(bars.values().map(|bar| bar.1).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Stores the bars of a stretch, in whole buckets, as of a snapshot.
fn refresh(engine: &Engine, name: &str, of: &Snapshot, range: TimeRange, ends: bool) {
    let mut bars = queried(of, name);
    bars.retain(|(ts, _), _| range.contains(*ts));
    let table = Arc::clone(engine.snapshot().table(name).unwrap());
    if stored(&table, range).keys().any(|key| !bars.contains_key(key)) {
        let mut rewrite = engine.rewrite_view(name).unwrap();
        let table = Arc::clone(rewrite.table());
        for segment in table.select(&Selection { time: range, ..Selection::default() }).unwrap() {
            let rows: Vec<usize> = segment.rows().iter().cloned().flatten().collect();
            rewrite.delete(&segment, &rows).unwrap();
        }
        rewrite.commit().unwrap();
    }
    let id = engine.snapshot().table(name).unwrap().id();
    let mut commit = engine.begin_of_views();
    if !bars.is_empty() {
        commit.append(name, &batch_of(&bars)).unwrap();
    }
    commit.commit(None).unwrap();
    if ends {
        engine.refresh_view(id, of.position(), vec![range], Vec::new()).unwrap();
    }
}

/// Refreshes some stretch of what is stale, perhaps while the table changes, and perhaps not to the end.
fn refresh_some(world: &mut World, random: &mut Random, name: &str) {
    let before = world.engine().snapshot();
    let table = before.table(name).unwrap();
    let of = table.schema().materialized().unwrap().clone();
    let stale = table.staleness().stale();
    let Some(stretch) = stale.get(random.below(stale.len().max(1) as u64) as usize) else { return };
    let mut range = of.buckets_of(stretch.range);
    // A view that was never refreshed is refreshed day by day.
    if range.to.saturating_sub(range.from) > 3 * DAY {
        let day = random.below(3) as i64 * DAY;
        range = range.intersect(&TimeRange::new(day, day + DAY));
        range = if random.one_in(3) { of.buckets_of(stretch.range) } else { of.buckets_of(range) };
    }
    if random.one_in(3) {
        world.step_where(false);
    }
    refresh(world.engine(), name, &before, range, !random.one_in(5));
}

fn check(world: &World) {
    let snapshot = world.engine().snapshot();
    let bars = bars_of_rows(&world.rows, 10_000);
    assert_eq!(queried(&snapshot, BARS), bars, "{:?}", snapshot.table(BARS).unwrap().staleness());
    assert_eq!(queried(&snapshot, WIDE), bars_of_bars(&bars, 30_000));
    for name in [BARS, WIDE] {
        assert_eq!(snapshot.table(name).unwrap().staleness().frozen(), []);
    }
}

fn run(seed: u64, schema: TableSchema, dedup: bool, steps: usize) -> usize {
    let mut world = World::new(seed, schema, dedup);
    let mut random = Random::new(seed ^ 0x71);
    world.engine().create_table(view(BARS, TABLE, 10_000)).unwrap();
    world.engine().create_table(view(WIDE, BARS, 30_000)).unwrap();
    let mut settled = 0;
    for _ in 0..steps {
        match random.below(3) {
            0 => {
                world.step();
            }
            1 => refresh_some(&mut world, &mut random, BARS),
            _ => refresh_some(&mut world, &mut random, WIDE),
        }
        if random.one_in(60) {
            world.engine().truncate_table(TABLE).unwrap();
            world.rows.clear();
        }
        check(&world);
        let snapshot = world.engine().snapshot();
        settled += usize::from(snapshot.table(BARS).unwrap().staleness().stale().is_empty());
    }
    settled
}

/// `VIEW_SEEDS` for more.
#[test]
fn views_have_the_rows_of_their_queries() {
    let seeds = std::env::var("VIEW_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mut settled = 0;
    for seed in first..first + seeds {
        let dedup = seed % 3 == 0;
        let schema = if dedup { table().dedup(["ts", "symbol"]) } else { table() }.build().unwrap();
        let outcome = std::panic::catch_unwind(|| run(seed, schema, dedup, 60));
        settled += outcome.unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic)
        });
    }
    assert!(settled > 0, "no view was ever settled");
}

fn row(ts: i64, id: i64) -> Row {
    Row { ts, symbol: Some("A"), id, px: None, tag: None }
}

fn append(engine: &Engine, rows: &[Row]) -> Result<(), EngineError> {
    engine.append(TABLE, &batch(rows), None).map(|_| ())
}

fn refresh_all(engine: &Engine, name: &str) {
    let snapshot = engine.snapshot();
    let stale: Vec<_> = snapshot.table(name).unwrap().staleness().stale().to_vec();
    stale.iter().for_each(|stretch| refresh(engine, name, &snapshot, stretch.range, true));
}

/// When rows of the first days are past a time to live of one.
fn open(disk: &CrashDisk) -> Engine {
    Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(10 * DAY)), options()).unwrap()
}

/// Rows go only when the view has them, and late ones are refused by name; a crash at any moment leaves that.
#[test]
fn bars_of_rows_that_were_dropped_are_kept() {
    let disk = CrashDisk::new();
    let engine = open(&disk);
    engine.create_table(table().ttl(Some(Ttl::parse("1d").unwrap())).build().unwrap()).unwrap();
    engine.create_table(view(BARS, TABLE, 10_000)).unwrap();
    append(&engine, &[row(5, 1), row(10_005, 2)]).unwrap();
    append(&engine, &[row(3 * DAY, 3)]).unwrap();
    let rows = |engine: &Engine| engine.snapshot().table(TABLE).unwrap().rows();
    assert_eq!(rows(&engine), 3, "the view does not have them yet");
    let whole = TimeRange::new(0, DAY);
    let refused = engine.drop_partitions(TABLE, whole);
    assert!(matches!(refused, Err(EngineError::NotTakenIn { .. })), "{refused:?}");
    refresh_all(&engine, BARS);
    append(&engine, &[row(3 * DAY + 1, 4)]).unwrap();
    assert_eq!(rows(&engine), 2, "the day is past its time to live");
    let expected = bars_of_rows(&[row(5, 1), row(10_005, 2), row(3 * DAY, 3), row(3 * DAY + 1, 4)], 10_000);
    let check = |engine: &Engine| {
        assert_eq!(queried(&engine.snapshot(), BARS), expected);
        let late = append(engine, &[row(3 * DAY + 2, 5), row(7, 6)]);
        assert!(
            matches!(&late, Err(EngineError::Frozen { table, view, .. }) if table == TABLE && view == BARS)
        );
        let mut load = engine.load(TABLE).unwrap();
        load.append(&batch(&[row(7, 6)])).unwrap();
        assert!(matches!(load.commit(None), Err(EngineError::Frozen { .. })));
        // Also one that asks for all to be stale.
        let position = engine.snapshot().position();
        let bars = engine.snapshot().table(BARS).unwrap().id();
        engine.refresh_view(bars, position, Vec::new(), vec![TimeRange::ALL]).unwrap();
        assert_eq!(queried(&engine.snapshot(), BARS), expected);
        refresh_all(engine, BARS);
    };
    check(&engine);
    drop(engine);
    let engine = open(&disk);
    check(&engine);
    // A partition that is dropped by a statement.
    refresh_all(&engine, BARS);
    engine.append(TABLE, &batch(&[row(5 * DAY, 7)]), None).unwrap();
    refresh_all(&engine, BARS);
    engine.drop_partitions(TABLE, TimeRange::new(3 * DAY, 4 * DAY)).unwrap();
    assert!(matches!(append(&engine, &[row(3 * DAY, 8)]), Err(EngineError::Frozen { .. })));
    drop(engine);
    let engine = open(&disk);
    assert!(matches!(append(&engine, &[row(3 * DAY, 8)]), Err(EngineError::Frozen { .. })));
    assert_eq!(queried(&engine.snapshot(), BARS).len(), 4);
    engine.truncate_table(TABLE).unwrap();
    assert_eq!(queried(&engine.snapshot(), BARS), Bars::new(), "TRUNCATE takes those, too");
    append(&engine, &[row(7, 6)]).unwrap();
}

#[test]
fn what_a_view_reads_keeps_its_name() {
    let engine = crash_images::open(&CrashDisk::new(), options()).unwrap();
    let nothing = engine.create_table(view(BARS, TABLE, 10));
    assert!(matches!(nothing, Err(EngineError::NoSuchTable { .. })));
    engine.create_table(table().build().unwrap()).unwrap();
    engine
        .create_table(TableSchema::builder("other").column("x", ColumnType::Int64).build().unwrap())
        .unwrap();
    engine.create_table(view(BARS, TABLE, 10)).unwrap();
    engine.create_table(view(WIDE, BARS, 20)).unwrap();
    let renamed = AlterTable::RenameTable("elsewhere".to_string());
    for refused in [
        engine.drop_table(TABLE),
        engine.drop_table(BARS),
        engine.alter_table(TABLE, &renamed),
        engine.alter_table(BARS, &renamed),
        engine.replace_table(TABLE, "other"),
        engine.replace_table("other", TABLE),
    ] {
        assert!(matches!(refused, Err(EngineError::HasViews { .. })), "{refused:?}");
    }
    // Users write no rows of views, nor change their columns.
    assert!(engine.append(BARS, &batch_of(&Bars::new()), None).is_err());
    assert!(engine.load(BARS).is_err() && engine.rewrite(BARS).is_err());
    assert!(engine.alter_table(BARS, &AlterTable::DropColumn("ids".to_string())).is_err());
    assert!(engine.rewrite_view(TABLE).is_err());
    let mut commit = engine.begin_of_views();
    let rows = random_rows(&mut Random::new(1), 0, 3);
    assert!(commit.append(TABLE, &batch(&rows)).is_err());
    engine.drop_table(WIDE).unwrap();
    engine.alter_table(BARS, &renamed).unwrap();
    engine.drop_table("elsewhere").unwrap();
    engine.drop_table(TABLE).unwrap();
}

/// Buckets longer than partitions: what is dropped is whole buckets, or none.
#[test]
fn buckets_longer_than_partitions() {
    let engine = crash_images::open(&CrashDisk::new(), options()).unwrap();
    engine.create_table(table().partition_by(PartitionBy::Day).build().unwrap()).unwrap();
    engine.create_table(view(BARS, TABLE, 2 * DAY)).unwrap();
    append(&engine, &[row(1, 1), row(DAY, 2), row(2 * DAY, 3), row(3 * DAY, 4), row(4 * DAY, 5)]).unwrap();
    refresh_all(&engine, BARS);
    let newest = engine.drop_partitions(TABLE, TimeRange::new(4 * DAY, 5 * DAY));
    assert!(matches!(newest, Err(EngineError::NotTakenIn { .. })), "the feed would be refused: {newest:?}");
    engine.drop_partitions(TABLE, TimeRange::new(0, DAY)).unwrap();
    let frozen = engine.snapshot().table(BARS).unwrap().staleness().frozen().to_vec();
    assert_eq!(frozen, [TimeRange::new(0, 2 * DAY)]);
    assert!(append(&engine, &[row(DAY + 1, 6)]).is_err());
    append(&engine, &[row(4 * DAY + 1, 6)]).unwrap();
}

/// A repair may lose rows; views do not go on with what was made of them.
#[test]
fn after_a_repair_views_are_those_of_the_rows_that_are_left() {
    let whole = CrashDisk::new();
    let engine = crash_images::open(&whole, options()).unwrap();
    engine.create_table(table().build().unwrap()).unwrap();
    engine.create_table(view(BARS, TABLE, 10_000)).unwrap();
    let mut random = Random::new(3);
    for step in 0..12 {
        append(&engine, &random_rows(&mut random, step * 40, 40)).unwrap();
        if step % 4 == 0 {
            engine.seal(Some(TABLE)).unwrap();
            refresh_all(&engine, BARS);
            engine.seal(Some(BARS)).unwrap();
        }
    }
    drop(engine);
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mut lost = 0;
    for seed in first..first + 150 {
        let disk = crate::check::copy(&whole);
        crate::check::ruin(&disk, &mut Random::new(seed));
        let files: Arc<dyn tickstone_engine::disk::Disk> = Arc::new(disk.clone());
        let done = tickstone_engine::repair::repair(
            &files,
            &tickstone_engine::repair::RepairOptions::default(),
            &mut |_| {},
        )
        .unwrap();
        let engine = crash_images::open(&disk, options()).unwrap();
        let snapshot = engine.snapshot();
        if let (Some(table), Some(_)) = (snapshot.table(TABLE), snapshot.table(BARS)) {
            // Names of symbols may be lost, too.
            let named =
                |id: u32| table.dictionary(1).unwrap().symbol(id).is_none_or(|of| !of.starts_with('?'));
            if !(0..4).all(named) {
                continue;
            }
            let caught = |read: &dyn Fn() -> Vec<Row>| {
                let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
                read.unwrap_or_else(|_| panic!("seed {seed}: {done}"))
            };
            let rows = caught(&|| selected(table, &Selection::default()));
            lost += usize::from(rows.len() < 480);
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queried(&snapshot, BARS)));
            let found = found.unwrap_or_else(|_| panic!("seed {seed}: {done}"));
            assert_eq!(found, bars_of_rows(&rows, 10_000), "seed {seed}: {done}");
        }
    }
    assert!(lost > 0, "no repair lost a row");
}

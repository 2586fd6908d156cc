//! Tables and rows by chance: late rows, ties, NULLs, odd numbers, few and many symbols.

use crate::Random;
use crate::shape::{Cell, ModelTable, Row, TableSpec};
use std::sync::Arc;
use tickstone_model::{
    AlterTable, Column, ColumnType, ElementType, Grant, PartitionBy, Rights, SyncPolicy, TableAccess,
    TimeRange, Ttl, TtlUnit,
};

const DAY: i64 = 86_400_000_000_000;
pub(crate) const HOUR: i64 = 3_600_000_000_000;

const DOUBLES: ColumnType = ColumnType::Array(ElementType::Float64);

/// A table of one of `names` names.
pub(crate) fn some_spec(random: &mut Random, names: u64) -> TableSpec {
    let mut columns = vec![
        ("ts".to_string(), ColumnType::Timestamp),
        ("symbol".to_string(), ColumnType::Symbol),
        ("id".to_string(), ColumnType::Int64),
    ];
    let others = [
        ("px", ColumnType::Float64),
        ("sz", ColumnType::Int32),
        ("note", ColumnType::Varchar),
        ("up", ColumnType::Boolean),
        ("venue", ColumnType::Symbol),
        ("amount", ColumnType::Decimal { precision: 38, scale: 4 }),
        ("bids", DOUBLES),
    ];
    for (name, column_type) in others {
        if random.one_in(2) {
            columns.push((name.to_string(), column_type));
        }
    }
    let timed = !random.one_in(5);
    let venue = columns.iter().position(|(name, _)| name == "venue").filter(|_| random.one_in(2));
    let mut series = vec![1];
    series.extend(venue);
    if random.one_in(6) {
        series.clear();
    }
    let keyed = timed && random.one_in(3);
    let ids: Vec<u32> = (0..columns.len() as u32).collect();
    let units =
        [PartitionBy::Day, PartitionBy::Hour, PartitionBy::Week, PartitionBy::Month, PartitionBy::Year];
    TableSpec {
        name: some_name(random, names),
        next_id: ids.len() as u32,
        version: 0,
        dedup: if keyed { some_keys(&columns, &series, random) } else { Vec::new() },
        indexed: (0..columns.len())
            .filter(|place| !columns[*place].1.is_array() && random.one_in(3))
            .collect(),
        ttl: if timed && random.one_in(4) { some_ttl(random) } else { None },
        columns,
        ids,
        timestamp: timed.then_some(0),
        series,
        partition_by: if timed { units[random.below(5) as usize] } else { PartitionBy::None },
        sync: [SyncPolicy::Always, SyncPolicy::Always, SyncPolicy::Interval, SyncPolicy::None]
            [random.below(4) as usize],
        access: TableAccess::default(),
    }
}

/// DEDUP UPSERT KEYS: the timestamp, the series key, and perhaps others.
fn some_keys(columns: &[(String, ColumnType)], series: &[usize], random: &mut Random) -> Vec<usize> {
    let mut keys = vec![0];
    keys.extend(series);
    for (place, (name, column_type)) in columns.iter().enumerate() {
        let has_keys = *column_type != ColumnType::Float64 && !column_type.is_array();
        let fits = name != "id" && has_keys && !keys.contains(&place);
        if fits && random.one_in(4) {
            keys.push(place);
        }
    }
    keys
}

/// A time to live, or none.
pub(crate) fn some_ttl(random: &mut Random) -> Option<Ttl> {
    let choices = [
        (1, TtlUnit::Hour),
        (12, TtlUnit::Hour),
        (1, TtlUnit::Day),
        (3, TtlUnit::Day),
        (1, TtlUnit::Week),
        (1, TtlUnit::Month),
    ];
    let (count, unit) = choices[random.below(choices.len() as u64) as usize];
    Ttl::new(count, unit).ok()
}

/// Names that columns come and go under, each always of its type.
const SPARE_COLUMNS: [(&str, ColumnType); 6] = [
    ("px", ColumnType::Float64),
    ("note", ColumnType::Varchar),
    ("venue", ColumnType::Symbol),
    ("flag", ColumnType::Boolean),
    ("lot", ColumnType::Int32),
    ("bids", DOUBLES),
];

/// Some change of a table's shape that its rules let through, but for the name of another table.
pub(crate) fn some_alter(spec: &TableSpec, names: u64, random: &mut Random) -> AlterTable {
    let droppable = |place: &usize| !spec.is_key(*place) && spec.columns[*place].0 != "id";
    let droppable: Vec<usize> = (0..spec.columns.len()).filter(droppable).collect();
    let (spare, spare_type) = SPARE_COLUMNS[random.below(SPARE_COLUMNS.len() as u64) as usize];
    match random.below(8) {
        0 | 1 if spec.column(spare).is_none() => AlterTable::AddColumn(Column::new(spare, spare_type)),
        0..=2 if !droppable.is_empty() => {
            let place = droppable[random.below(droppable.len() as u64) as usize];
            AlterTable::DropColumn(spec.columns[place].0.clone())
        }
        3 if spec.columns.len() > 1 => {
            // Not the one by which rows are told apart.
            let others: Vec<usize> = (0..spec.columns.len()).filter(|p| spec.columns[*p].0 != "id").collect();
            let place = others[random.below(others.len() as u64) as usize];
            let free = |name: &String| spec.column(name).is_none();
            let to = (0..).map(|number| format!("column{number}")).find(free).unwrap_or_default();
            AlterTable::RenameColumn { from: spec.columns[place].0.clone(), to }
        }
        4 if spec.timestamp.is_some() => {
            AlterTable::SetTtl(if random.one_in(3) { None } else { some_ttl(random) })
        }
        5 => {
            let scalars: Vec<usize> =
                (0..spec.columns.len()).filter(|place| !spec.columns[*place].1.is_array()).collect();
            let name = spec.columns[scalars[random.below(scalars.len() as u64) as usize]].0.clone();
            if random.one_in(3) { AlterTable::DropIndex(name) } else { AlterTable::AddIndex(name) }
        }
        6 => AlterTable::SetAccess(some_access(spec, random)),
        _ => AlterTable::RenameTable(some_name(random, names)),
    }
}

fn some_access(spec: &TableSpec, random: &mut Random) -> TableAccess {
    let grant = |random: &mut Random| Grant {
        to: random.below(4) as u32,
        rights: Rights::from_bits(random.below(1 << 9) as u32).unwrap_or_default(),
        columns: random.one_in(2).then(|| spec.ids.clone()),
        filter: random.one_in(2).then(|| "id > 7".to_string()),
    };
    let grants = (0..random.below(3)).map(|_| grant(random)).collect();
    TableAccess { owner: random.one_in(2).then_some(5), grants }
}

fn some_name(random: &mut Random, names: u64) -> String {
    ["trades", "quotes", "books", "bars"][random.below(names.min(4)) as usize].to_string()
}

/// Some rows with ids from `first_id`, around `now` (ns since the Unix epoch).
pub(crate) fn batch_of(spec: &TableSpec, first_id: i64, now: i64, random: &mut Random) -> Vec<Row> {
    let count = match random.below(12) {
        0 => 100 + random.below(200),
        1..=3 => 1,
        _ => 1 + random.below(30),
    };
    let symbols = [1, 3, 12, 200][random.below(4) as usize];
    // Few instants, so that keys meet again.
    let grid = if spec.dedup.is_empty() { 1 } else { [1_000_000_000, HOUR, DAY][random.below(3) as usize] };
    // Mostly rows of one commit are near each other; some come days late, some at the ends of time.
    let late = if random.one_in(3) { random.below(10) as i64 * DAY } else { 0 };
    let spread = [1, 1_000, 3_600_000_000_000, 3 * DAY as u64][random.below(4) as usize];
    let mut ts = now - late;
    (0..count as i64)
        .map(|index| {
            if !random.one_in(4) {
                ts = now - late + random.below(spread) as i64;
            }
            let time = if random.one_in(500) { some_edge(random) } else { ts - ts.rem_euclid(grid) };
            row(spec, first_id + index, time, symbols, random)
        })
        .collect()
}

/// A range of time that begins and ends at partitions of rows, or next to them.
pub(crate) fn some_range(table: &ModelTable, random: &mut Random) -> TimeRange {
    if random.one_in(8) || table.rows.is_empty() {
        return TimeRange::ALL;
    }
    let mut edge = || {
        let row = &table.rows[random.below(table.rows.len() as u64) as usize];
        let partition = table.spec.partition_by.partition_of(table.spec.time_of(row).unwrap_or_default());
        let nudge = if random.one_in(4) { random.below(3) as i64 - 1 } else { 0 };
        (partition.from.saturating_add(nudge), partition.to.saturating_add(nudge))
    };
    let (a, b) = (edge(), edge());
    TimeRange::new(a.0.min(b.0), a.1.max(b.1))
}

fn some_edge(random: &mut Random) -> i64 {
    [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 2, i64::MAX - 1][random.below(6) as usize]
}

fn row(spec: &TableSpec, id: i64, ts: i64, symbols: u64, random: &mut Random) -> Row {
    let cells = spec.columns.iter().enumerate().map(|(index, (name, column_type))| {
        if name == "id" {
            return Cell::Int(id);
        }
        if spec.timestamp == Some(index) || name == "ts" {
            return Cell::Int(ts);
        }
        some_cell(name, *column_type, symbols, random)
    });
    cells.collect()
}

/// A value for a column, of at most so many symbols.
pub(crate) fn some_cell(name: &str, column_type: ColumnType, symbols: u64, random: &mut Random) -> Cell {
    if random.one_in(12) {
        return Cell::Null;
    }
    match column_type {
        ColumnType::Boolean => Cell::Bool(random.one_in(2)),
        ColumnType::Float64 => Cell::Float(some_double(random).to_bits()),
        ColumnType::Symbol => Cell::Text(format!("{name}-{}", random.below(symbols)).into()),
        ColumnType::Varchar => Cell::Text(some_text(random)),
        ColumnType::Decimal { .. } => Cell::Wide(some_decimal(random)),
        ColumnType::Array(_) => {
            let length = if random.one_in(300) { random.below(2_000) } else { random.below(8) };
            Cell::List((0..length).map(|_| some_element(random)).collect())
        }
        ColumnType::Int32 => Cell::Int(i64::from(random.next_u64() as i32 >> random.below(31))),
        _ => Cell::Int(random.next_u64() as i64 >> random.below(63)),
    }
}

fn some_element(random: &mut Random) -> Cell {
    if random.one_in(9) { Cell::Null } else { Cell::Float(some_double(random).to_bits()) }
}

fn some_double(random: &mut Random) -> f64 {
    match random.below(20) {
        // Of all NaNs the one that rows have.
        0 => Some(f64::from_bits(random.next_u64())).filter(|value| !value.is_nan()).unwrap_or(f64::NAN),
        1 => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0][random.below(5) as usize],
        _ => (random.below(100_000) as f64) / 100.0,
    }
}

fn some_decimal(random: &mut Random) -> i128 {
    let value = i128::from(random.next_u64() as i64 >> random.below(60));
    // Up to 38 digits, mostly within 64 bits.
    if random.one_in(300) { value * 1_000_000_000_000_000_000 } else { value }
}

fn some_text(random: &mut Random) -> Arc<str> {
    match random.below(10) {
        0 => "".into(),
        // Zeros make sectors that look as if they had not been written.
        1 => "\0".repeat(random.below(1_500) as usize).into(),
        2 => "ß€".repeat(random.below(300) as usize).into(),
        _ => format!("note {}", random.below(50)).into(),
    }
}

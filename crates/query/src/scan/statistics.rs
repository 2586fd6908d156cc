//! What is known of a scan's rows without reading them.
//!
//! Invariant: a number given as exact is exact; `max(x)` and `count(*)` are answered from it.
//!
//! The least and the largest value of a column are told to the rule that answers `max(x)` by them ([`of_columns_too`]),
//! and to nobody else: with them DataFusion 55.2 works out what a condition leaves of a column, and goes through casts as
//! if nothing was lost. Of `CAST(u AS DATE) >= DATE '2024-03-20' AND a > 1` it finds that more rows are left than there
//! were, and refuses the plan.

use super::selected::Selected;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use std::cell::Cell;
use tickstone_engine::part::{ColumnStats, StatValue};
use tickstone_model::{Column, ColumnType};

thread_local! {
    /// Whether whoever asks on this thread is told of columns.
    static COLUMNS: Cell<bool> = const { Cell::new(false) };
}

/// What `ask` gives when scans tell it of columns too.
pub(crate) fn of_columns_too<T>(ask: impl FnOnce() -> T) -> T {
    /// Sets it back, also when `ask` panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            COLUMNS.set(self.0);
        }
    }
    let _before = Before(COLUMNS.replace(true));
    ask()
}

/// Whether whoever asks is told of columns.
pub(super) fn are_of_columns() -> bool {
    COLUMNS.get()
}

/// Statistics of the columns `projection` where all of `selected` is read.
pub(super) fn of_selected(selected: &Selected, projection: &[usize]) -> Statistics {
    let everything = selected.is_everything();
    let columns = projection.iter().map(|&column| {
        if everything { of_column(selected, column) } else { ColumnStatistics::new_unknown() }
    });
    Statistics {
        num_rows: Precision::Exact(usize_of(selected.rows)),
        total_byte_size: Precision::Absent,
        column_statistics: columns.collect(),
    }
}

/// Statistics where `rows` of a scan's rows are read, no matter which.
pub(super) fn of_rows(rows: u64, columns: usize) -> Statistics {
    Statistics {
        num_rows: Precision::Exact(usize_of(rows)),
        total_byte_size: Precision::Absent,
        column_statistics: vec![ColumnStatistics::new_unknown(); columns],
    }
}

fn of_column(selected: &Selected, index: usize) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    // The numbers of rows are no column of the table.
    let Some(column) = selected.table.schema().columns().get(index) else { return statistics };
    // A file that cannot be read fails the scan itself; statistics are only passed over.
    let Ok(stats) = selected.table.column_stats(index) else { return statistics };
    if stats.rows != selected.rows {
        return statistics;
    }
    statistics.null_count = Precision::Exact(usize_of(stats.nulls));
    if !stats.has_nan {
        statistics.min_value = bound(column, &stats, stats.min);
        statistics.max_value = bound(column, &stats, stats.max);
    }
    statistics
}

fn bound(column: &Column, stats: &ColumnStats, value: Option<StatValue>) -> Precision<ScalarValue> {
    let scalar = match value {
        Some(value) => scalar_of(column.column_type, value),
        None if stats.nulls == stats.rows => ScalarValue::try_from(&column.column_type.edge_type()).ok(),
        None => None,
    };
    scalar.map_or(Precision::Absent, Precision::Exact)
}

/// A statistic as a value of the column's edge type; `None` where it says nothing there (the least
/// id of a SYMBOL is not its least string).
fn scalar_of(column_type: ColumnType, value: StatValue) -> Option<ScalarValue> {
    match value {
        StatValue::Float(value) => match column_type {
            // Narrowing is exact: the value came from a FLOAT.
            ColumnType::Float32 => Some(ScalarValue::Float32(Some(value as f32))),
            ColumnType::Float64 => Some(ScalarValue::Float64(Some(value))),
            _ => None,
        },
        StatValue::Int(value) => integer_of(column_type, value),
    }
}

fn integer_of(column_type: ColumnType, value: i128) -> Option<ScalarValue> {
    Some(match column_type {
        ColumnType::Boolean => ScalarValue::Boolean(Some(value != 0)),
        ColumnType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        ColumnType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        ColumnType::Int32 => ScalarValue::Int32(Some(value.try_into().ok()?)),
        ColumnType::Int64 => ScalarValue::Int64(Some(value.try_into().ok()?)),
        ColumnType::UInt8 => ScalarValue::UInt8(Some(value.try_into().ok()?)),
        ColumnType::UInt16 => ScalarValue::UInt16(Some(value.try_into().ok()?)),
        ColumnType::UInt32 => ScalarValue::UInt32(Some(value.try_into().ok()?)),
        ColumnType::UInt64 => ScalarValue::UInt64(Some(value.try_into().ok()?)),
        ColumnType::Date => ScalarValue::Date32(Some(value.try_into().ok()?)),
        ColumnType::Time => ScalarValue::Time64Nanosecond(Some(value.try_into().ok()?)),
        ColumnType::Timestamp => ScalarValue::TimestampNanosecond(Some(value.try_into().ok()?), None),
        ColumnType::Decimal { precision, scale } => match column_type.edge_type() {
            DataType::Decimal128(_, _) => ScalarValue::Decimal128(Some(value), precision, scale),
            _ => return None,
        },
        _ => return None,
    })
}

fn usize_of(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

//! What a filter leaves of a table, as far as time, series and block statistics can say it.
//!
//! Invariant: a [`Constraint`] never excludes a row for which its filter is true; where it is
//! `exact` it keeps no other row either, and the filter need not be evaluated.

use super::values::with_values;
use crate::lists::{self, Values, same};
use datafusion::arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, StringArray, UInt32Array, new_empty_array,
};
use datafusion::arrow::compute::{cast, filter, is_not_null, max, min};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, Operator, TryCast, expr::InList};
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_engine::part::{ColumnPoints, StatValue};
use tickstone_engine::{ColumnBound, Selection, TableSnapshot};
use tickstone_model::{ColumnType, SymbolId, TimeRange};

/// Column, least and greatest value (both inclusive).
pub(crate) type Bound = (usize, Option<StatValue>, Option<StatValue>);

/// The rows a filter leaves: all conditions hold together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constraint {
    /// Designated timestamps.
    pub(crate) time: TimeRange,
    /// Ids by series column (index in the table), sorted, each once.
    pub(crate) series: BTreeMap<usize, Vec<SymbolId>>,
    /// Values outside of which a block may be skipped.
    pub(crate) bounds: Vec<Bound>,
    /// Values looked up in indexed columns: groups of blocks that have none of them may be skipped.
    pub(crate) points: Vec<ColumnPoints>,
    /// Whether the rows left are those of the filter and no more.
    pub(crate) exact: bool,
}

impl Constraint {
    /// Every row.
    pub(crate) fn any() -> Self {
        Self {
            time: TimeRange::ALL,
            series: BTreeMap::new(),
            bounds: Vec::new(),
            points: Vec::new(),
            exact: true,
        }
    }

    /// What all filters together leave; those that say nothing are passed over.
    pub(crate) fn all<'a>(table: &TableSnapshot, filters: impl Iterator<Item = &'a Expr>) -> Self {
        let constraints = filters.filter_map(|filter| Self::of(table, filter));
        constraints.fold(Self::any(), Self::and)
    }

    /// What a filter with placeholders leaves whatever their values are: its `exact` is that of values of
    /// the placeholders' types, to be checked again with those that come.
    pub(crate) fn of_template(table: &TableSnapshot, filter: &Expr) -> Option<Self> {
        Self::of(table, &with_values(filter, &|_, data_type| Some(vec![some_value(data_type)?]))?)
    }

    /// What one filter leaves, `None` where it cannot be used at all.
    pub(crate) fn of(table: &TableSnapshot, filter: &Expr) -> Option<Self> {
        match filter {
            Expr::Alias(alias) => Self::of(table, &alias.expr),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                match (Self::of(table, left), Self::of(table, right)) {
                    (Some(left), Some(right)) => Some(left.and(right)),
                    (Some(one), None) | (None, Some(one)) => Some(Self { exact: false, ..one }),
                    (None, None) => None,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                Self::of(table, left)?.or(Self::of(table, right)?)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                match (column_of(table, left), literal_of(right)) {
                    (Some(column), Some(value)) => Self::comparison(table, column, *op, &value),
                    _ => {
                        let (column, value) = (column_of(table, right)?, literal_of(left)?);
                        Self::comparison(table, column, op.swap()?, &value)
                    }
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                let column = column_of(table, expr)?;
                let low = Self::comparison(table, column, Operator::GtEq, &literal_of(low)?)?;
                Some(low.and(Self::comparison(table, column, Operator::LtEq, &literal_of(high)?)?))
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let column = column_of(table, expr)?;
                if table.schema().series().contains(&column) {
                    return Self::symbols(table, column, list);
                }
                let values = list.iter().map(literal_of).collect::<Option<Vec<_>>>()?;
                if table.schema().timestamp() != Some(column) {
                    return Self::one_of(table, column, &values);
                }
                let mut each =
                    values.iter().map(|value| Self::comparison(table, column, Operator::Eq, value));
                let first = each.next()??;
                each.try_fold(first, |all, one| all.or(one?))
            }
            other => {
                let (tested, values) = lists::tested(other)?;
                Self::of_long_list(table, column_of(table, tested)?, values)
            }
        }
    }

    /// One of the values of a long list.
    fn of_long_list(table: &TableSnapshot, column: usize, values: &Values) -> Option<Self> {
        let schema = table.schema();
        let column_type = schema.columns()[column].column_type;
        let is_indexed = schema.indexed().contains(&column);
        let (bounds, array): (Vec<Bound>, ArrayRef) = match (values, table.dictionary(column)) {
            (Values::Texts(texts), Some(dictionary)) => {
                let ids = texts.iter().filter_map(|text| dictionary.id(text));
                if schema.series().contains(&column) {
                    return Some(Self::of_symbols(column, ids));
                }
                (Vec::new(), Arc::new(UInt32Array::from_iter_values(ids)))
            }
            (Values::Texts(texts), None) if is_indexed => {
                (Vec::new(), Arc::new(StringArray::from_iter_values(texts)))
            }
            (Values::Texts(_), None) => return None,
            (Values::Numbers(numbers), _) => {
                let all: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.iter().copied()));
                // No row has what is no value of the column's type.
                let all = cast(&all, &column_type.edge_type()).ok()?;
                let all = filter(&all, &is_not_null(&all).ok()?).ok()?;
                let numbers = cast(&all, &DataType::Int64).ok()?;
                let numbers = numbers.as_primitive::<Int64Type>();
                let ends = [min(numbers)?, max(numbers)?].map(|end| StatValue::Int(end.into()));
                (vec![(column, Some(ends[0]), Some(ends[1]))], all)
            }
            (Values::Doubles(doubles), _) => {
                let all = Float64Array::from_iter_values(doubles.iter().map(|bits| f64::from_bits(*bits)));
                let ends = [min(&all)?, max(&all)?].map(StatValue::Float);
                (vec![(column, Some(ends[0]), Some(ends[1]))], Arc::new(all))
            }
            (Values::Decimals(decimals), _) => {
                let ColumnType::Decimal { precision, scale } = column_type else { return None };
                let all = Decimal128Array::from_iter_values(decimals.iter().copied());
                let ends = [min(&all)?, max(&all)?].map(StatValue::Int);
                let all = all.with_precision_and_scale(precision, scale).ok()?;
                (vec![(column, Some(ends[0]), Some(ends[1]))], Arc::new(all))
            }
        };
        let points = is_indexed.then(|| ColumnPoints::new(column, column_type, &array).ok()).flatten();
        let points: Vec<ColumnPoints> = points.into_iter().collect();
        let says_nothing = points.is_empty() && bounds.is_empty();
        (!says_nothing).then(|| Self { bounds, points, exact: false, ..Self::any() })
    }

    /// One of several symbols, which may be many.
    fn symbols(table: &TableSnapshot, column: usize, list: &[Expr]) -> Option<Self> {
        let dictionary = table.dictionary(column)?;
        let id = |value: &Expr| Some(dictionary.id(text_of(&literal_of(value)?)?));
        let ids = list.iter().map(id).collect::<Option<Vec<Option<SymbolId>>>>()?;
        Some(Self::of_symbols(column, ids.into_iter().flatten()))
    }

    /// The symbols of these ids in a column of the series key.
    fn of_symbols(column: usize, ids: impl Iterator<Item = SymbolId>) -> Self {
        let mut ids: Vec<SymbolId> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        Self { series: BTreeMap::from([(column, ids)]), ..Self::any() }
    }

    fn comparison(table: &TableSnapshot, column: usize, op: Operator, value: &ScalarValue) -> Option<Self> {
        let schema = table.schema();
        if value.is_null() {
            return None;
        }
        if schema.timestamp() == Some(column) {
            let time = time_range(op, timestamp_nanos(value)?)?;
            return Some(Self { time, ..Self::any() });
        }
        if schema.series().contains(&column) {
            return match op {
                Operator::Eq => {
                    let symbol = text_of(value)?;
                    let id = table.dictionary(column)?.id(symbol);
                    let series = BTreeMap::from([(column, id.into_iter().collect())]);
                    Some(Self { series, ..Self::any() })
                }
                _ => None,
            };
        }
        if op == Operator::Eq {
            return Self::one_of(table, column, std::slice::from_ref(value));
        }
        let bound = column_bound(schema.columns()[column].column_type, column, op, value)?;
        Some(Self { bounds: vec![bound], exact: false, ..Self::any() })
    }

    /// Rows with one of some values in a column that is neither the designated timestamp nor of the series key. A NULL
    /// among them matches nothing.
    fn one_of(table: &TableSnapshot, column: usize, values: &[ScalarValue]) -> Option<Self> {
        let schema = table.schema();
        let column_type = schema.columns()[column].column_type;
        let values: Vec<&ScalarValue> = values.iter().filter(|value| !value.is_null()).collect();
        let points =
            if schema.indexed().contains(&column) { points_of(table, column, &values) } else { None };
        let bound = range_of(column_type, column, &values);
        let (points, bounds): (Vec<_>, Vec<_>) = (points.into_iter().collect(), bound.into_iter().collect());
        let says_nothing = points.is_empty() && bounds.is_empty();
        (!says_nothing).then(|| Self { bounds, points, exact: false, ..Self::any() })
    }

    /// Rows in both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.time = self.time.intersect(&other.time);
        for (column, ids) in other.series {
            match self.series.get_mut(&column) {
                Some(mine) => mine.retain(|id| ids.binary_search(id).is_ok()),
                None => {
                    self.series.insert(column, ids);
                }
            }
        }
        self.bounds.extend(other.bounds);
        self.points.extend(other.points);
        self.exact &= other.exact;
        self
    }

    /// Rows in either, where that can be said: ids of one series column, or stretches of time
    /// (the gap between them makes it inexact).
    fn or(self, other: Self) -> Option<Self> {
        let exact = self.exact && other.exact;
        let by_series = |of: &Self| of.bounds.is_empty() && of.points.is_empty();
        if !(by_series(&self) && by_series(&other)) {
            return None;
        }
        if self.series.is_empty() && other.series.is_empty() {
            let touching = self.time.from <= other.time.to && other.time.from <= self.time.to;
            let (from, to) = (self.time.from.min(other.time.from), self.time.to.max(other.time.to));
            return Some(Self { time: TimeRange::new(from, to), exact: exact && touching, ..Self::any() });
        }
        let same =
            self.time == other.time && self.series.len() == 1 && self.series.keys().eq(other.series.keys());
        if !same {
            return None;
        }
        let mut series = self.series;
        for (column, ids) in other.series {
            let mine = series.entry(column).or_default();
            mine.extend(ids);
            mine.sort_unstable();
            mine.dedup();
        }
        Some(Self { series, exact, ..self })
    }

    /// Whether no row can be left.
    pub(crate) fn is_empty(&self) -> bool {
        self.time.is_empty() || self.series.values().any(Vec::is_empty)
    }

    /// As the engine wants it.
    pub(crate) fn into_selection(self) -> Selection {
        let bounds = self.bounds.into_iter().map(|(column, min, max)| ColumnBound { column, min, max });
        Selection {
            time: self.time,
            series: self.series.into_iter().collect(),
            bounds: bounds.collect(),
            points: self.points,
        }
    }
}

/// A value of a type, `None` for types without one.
fn some_value(data_type: &DataType) -> Option<ScalarValue> {
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, None) => {
            Some(ScalarValue::TimestampNanosecond(Some(0), None))
        }
        DataType::Utf8 => Some(ScalarValue::Utf8(Some(String::new()))),
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => some_value(values),
        other => ScalarValue::new_default(other).ok(),
    }
}

/// The column an expression stands for: itself, or behind a cast that keeps its order and value.
fn column_of(table: &TableSnapshot, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => table.schema().column_index(&column.name),
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            let column = column_of(table, expr)?;
            keeps_value(table.schema().columns()[column].column_type, field.data_type()).then_some(column)
        }
        other => column_of(table, same(other)?),
    }
}

/// Whether a comparison after the cast is the one before it: a symbol as text, or an instant that
/// only gains the zone it is counted in.
fn keeps_value(column: ColumnType, to: &DataType) -> bool {
    match (column, to) {
        (ColumnType::Symbol, to) => is_text(to),
        (ColumnType::Timestamp, DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
            zone.as_deref().is_none_or(|zone| ["UTC", "+00:00", "Z"].contains(&zone))
        }
        _ => false,
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// The constant an expression stands for, casts of constants carried out.
fn literal_of(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(Cast { expr, field }) => literal_of(expr)?.cast_to(field.data_type()).ok(),
        _ => None,
    }
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_deref()
        }
        ScalarValue::Dictionary(_, value) => text_of(value),
        _ => None,
    }
}

/// A literal as nanoseconds since the epoch, where it is an instant or the text of one.
fn timestamp_nanos(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampNanosecond(nanos, _) => *nanos,
        ScalarValue::TimestampMicrosecond(_, _)
        | ScalarValue::TimestampMillisecond(_, _)
        | ScalarValue::TimestampSecond(_, _)
        | ScalarValue::Date32(_)
        | ScalarValue::Date64(_) => cast_nanos(value),
        ScalarValue::Dictionary(_, value) => timestamp_nanos(value),
        other => {
            text_of(other)?;
            cast_nanos(other)
        }
    }
}

fn cast_nanos(value: &ScalarValue) -> Option<i64> {
    match value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, None)).ok()? {
        ScalarValue::TimestampNanosecond(nanos, _) => nanos,
        _ => None,
    }
}

fn time_range(op: Operator, nanos: i64) -> Option<TimeRange> {
    let after = nanos.saturating_add(1);
    Some(match op {
        Operator::Eq => TimeRange::new(nanos, after),
        Operator::GtEq => TimeRange::new(nanos, i64::MAX),
        Operator::Gt => TimeRange::new(after, i64::MAX),
        Operator::Lt => TimeRange::new(i64::MIN, nanos),
        Operator::LtEq => TimeRange::new(i64::MIN, after),
        _ => return None,
    })
}

fn column_bound(column_type: ColumnType, column: usize, op: Operator, value: &ScalarValue) -> Option<Bound> {
    if value.data_type() != column_type.edge_type() {
        return None;
    }
    let value = stat_value(value)?;
    let (min, max) = match op {
        Operator::Eq => (Some(value), Some(value)),
        Operator::Gt | Operator::GtEq => (Some(value), None),
        Operator::Lt | Operator::LtEq => (None, Some(value)),
        _ => return None,
    };
    // NaN sorts past every number in comparisons, and statistics pass over it: a one-sided bound
    // on floats could skip a block whose NaN the filter keeps.
    if matches!(value, StatValue::Float(_)) && (min.is_none() || max.is_none()) {
        return None;
    }
    Some((column, min, max))
}

/// The least and the greatest of values, none of which is NULL; `None` where statistics do not know such values.
fn range_of(column_type: ColumnType, column: usize, values: &[&ScalarValue]) -> Option<Bound> {
    let edges = values.iter().map(|value| column_bound(column_type, column, Operator::Eq, value)?.1);
    let edges = edges.collect::<Option<Vec<StatValue>>>()?;
    let below = |a: &StatValue, b: &StatValue| match (a, b) {
        (StatValue::Int(a), StatValue::Int(b)) => a < b,
        (StatValue::Float(a), StatValue::Float(b)) => a < b,
        _ => false,
    };
    let least = edges.iter().copied().reduce(|a, b| if below(&b, &a) { b } else { a })?;
    let most = edges.iter().copied().reduce(|a, b| if below(&a, &b) { b } else { a })?;
    Some((column, Some(least), Some(most)))
}

/// Values, none of which is NULL, as they are looked up in an indexed column; `None` for other types. A symbol that
/// the column never had is in no row.
fn points_of(table: &TableSnapshot, column: usize, values: &[&ScalarValue]) -> Option<ColumnPoints> {
    let column_type = table.schema().columns()[column].column_type;
    let array: ArrayRef = match table.dictionary(column) {
        Some(dictionary) => {
            let ids = values.iter().map(|value| Some(dictionary.id(text_of(value)?)));
            Arc::new(UInt32Array::from(ids.collect::<Option<Vec<Option<SymbolId>>>>()?))
        }
        None if values.is_empty() => new_empty_array(&column_type.stored_type()),
        None => ScalarValue::iter_to_array(values.iter().map(|value| (*value).clone())).ok()?,
    };
    ColumnPoints::new(column, column_type, &array).ok()
}

/// A literal as statistics hold such a value; `None` for NaN and for types without statistics.
pub(super) fn stat_value(value: &ScalarValue) -> Option<StatValue> {
    let int = |value: Option<i128>| value.map(StatValue::Int);
    let float = |value: f64| (!value.is_nan()).then_some(StatValue::Float(value));
    match value {
        ScalarValue::Boolean(v) => int(v.map(i128::from)),
        ScalarValue::Int8(v) => int(v.map(i128::from)),
        ScalarValue::Int16(v) => int(v.map(i128::from)),
        ScalarValue::Int32(v) | ScalarValue::Date32(v) => int(v.map(i128::from)),
        ScalarValue::Int64(v) | ScalarValue::TimestampNanosecond(v, _) => int(v.map(i128::from)),
        ScalarValue::UInt8(v) => int(v.map(i128::from)),
        ScalarValue::UInt16(v) => int(v.map(i128::from)),
        ScalarValue::UInt32(v) => int(v.map(i128::from)),
        ScalarValue::UInt64(v) => int(v.map(i128::from)),
        ScalarValue::Decimal128(v, _, _) => int(*v),
        ScalarValue::Float32(v) => float(f64::from((*v)?)),
        ScalarValue::Float64(v) => float((*v)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

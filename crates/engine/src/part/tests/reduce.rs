//! Sums, ranges and selections equal those of a plain loop over the values read.

use super::table::{Random, Shape, batches, schema, with_later};
use super::*;
use crate::part::ColumnBound;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use std::ops::Range;
use tickstone_model::{ColumnType, TableSchema};

/// The values of a column, `None` where the type has no order.
fn values(array: &ArrayRef, column_type: ColumnType) -> Option<Vec<Option<StatValue>>> {
    macro_rules! of {
        ($arrow:ty, $kind:ident as $wide:ty) => {{
            let value = |value| StatValue::$kind(<$wide>::from(value));
            Some(array.as_primitive::<$arrow>().iter().map(|v| v.map(value)).collect())
        }};
    }
    match column_type {
        ColumnType::Int8 => of!(Int8Type, Int as i128),
        ColumnType::Int16 => of!(Int16Type, Int as i128),
        ColumnType::Int32 => of!(Int32Type, Int as i128),
        ColumnType::Date => of!(Date32Type, Int as i128),
        ColumnType::Int64 => of!(Int64Type, Int as i128),
        ColumnType::Time => of!(Time64NanosecondType, Int as i128),
        ColumnType::Timestamp => of!(TimestampNanosecondType, Int as i128),
        ColumnType::UInt8 => of!(UInt8Type, Int as i128),
        ColumnType::UInt16 => of!(UInt16Type, Int as i128),
        ColumnType::UInt32 | ColumnType::Symbol => of!(UInt32Type, Int as i128),
        ColumnType::UInt64 => of!(UInt64Type, Int as i128),
        ColumnType::Float32 => of!(Float32Type, Float as f64),
        ColumnType::Float64 => of!(Float64Type, Float as f64),
        ColumnType::Decimal { .. } => of!(Decimal128Type, Int as i128),
        ColumnType::Boolean
        | ColumnType::Uuid
        | ColumnType::Varchar
        | ColumnType::Binary
        | ColumnType::Array(_) => None,
    }
}

/// In the order of SQL: NaN above every number.
fn is_below(a: StatValue, b: StatValue) -> bool {
    match (a, b) {
        (StatValue::Int(a), StatValue::Int(b)) => a < b,
        (StatValue::Float(a), StatValue::Float(b)) => a < b || (b.is_nan() && !a.is_nan()),
        _ => panic!("values of two kinds"),
    }
}

fn check_stats(found: &ColumnStats, values: &[Option<StatValue>], column_type: ColumnType) {
    let known: Vec<StatValue> = values.iter().flatten().copied().collect();
    assert_eq!((found.rows, found.nulls), (values.len() as u64, (values.len() - known.len()) as u64));
    let is_nan = |value: &StatValue| matches!(value, StatValue::Float(value) if value.is_nan());
    assert_eq!(found.has_nan, known.iter().any(is_nan));
    let numbers: Vec<StatValue> = known.iter().copied().filter(|value| !is_nan(value)).collect();
    let least = numbers.iter().copied().reduce(|a, b| if is_below(b, a) { b } else { a });
    let most = numbers.iter().copied().reduce(|a, b| if is_below(a, b) { b } else { a });
    let ranged = column_type != ColumnType::Symbol;
    let wide = matches!(least.zip(most), Some((StatValue::Int(a), StatValue::Int(b)))
        if i64::try_from(a).is_err() || i64::try_from(b).is_err())
        && matches!(column_type, ColumnType::Decimal { .. });
    if ranged && !wide {
        assert_eq!((found.min, found.max), (least, most));
    }
    match found.sum {
        Some(StatValue::Int(sum)) => {
            let int = |value: &StatValue| if let StatValue::Int(value) = value { *value } else { 0 };
            assert_eq!(sum, known.iter().map(int).sum::<i128>());
        }
        Some(StatValue::Float(sum)) => {
            let real = |value: &StatValue| if let StatValue::Float(value) = value { *value } else { 0.0 };
            let (wanted, size) =
                known.iter().map(real).fold((0.0, 0.0), |(sum, size), v| (sum + v, size + v.abs()));
            let close = (sum - wanted).abs() <= size * 1e-12;
            assert!(close || !wanted.is_finite() || !size.is_finite(), "{sum} for {wanted}");
            assert_eq!(sum.is_nan(), wanted.is_nan());
        }
        None => {}
    }
}

fn check_column(part: &Part, column: usize, random: &mut Random) {
    let column_type = part.schema().columns()[column].column_type;
    let rows = part.summary().rows as usize;
    let all = part.read(column, 0..rows).unwrap();
    let Some(all) = values(&all, column_type) else {
        assert!(part.reduce(column, &[]).is_err() && part.sum(column, &[]).is_err());
        return;
    };
    for _ in 0..6 {
        let mut edges: Vec<usize> = (0..4).map(|_| random.below(rows as u64 + 1) as usize).collect();
        if random.below(3) == 0 {
            edges = vec![0, rows, rows, rows];
        }
        edges.sort_unstable();
        let ranges: Vec<Range<usize>> = vec![edges[0]..edges[1], edges[2]..edges[3]];
        let wanted: Vec<_> = ranges.iter().flat_map(|rows| all[rows.clone()].to_vec()).collect();
        let found = part.reduce(column, &ranges).unwrap();
        check_stats(&found, &wanted, column_type);
        let sum = part.sum(column, &ranges).unwrap();
        assert_eq!((sum.rows, sum.nulls, sum.min), (found.rows, found.nulls, None));
        let known: Vec<StatValue> = all.iter().flatten().copied().collect();
        let mut edge = || match random.below(4) {
            0 => None,
            1 if !known.is_empty() => match known[random.below(known.len() as u64) as usize] {
                StatValue::Float(value) => Some(StatValue::Float(value + 0.003)),
                StatValue::Int(value) => Some(StatValue::Int(value + 1)),
            },
            _ if known.is_empty() => None,
            _ => Some(known[random.below(known.len() as u64) as usize]),
        };
        let bound = ColumnBound { column, min: edge(), max: edge() };
        let found = part.filter(&bound, ranges[0].clone()).unwrap();
        assert_eq!(found.len(), ranges[0].len());
        for (row, value) in all[ranges[0].clone()].iter().enumerate() {
            let inside = value.is_some_and(|value| {
                !bound.min.is_some_and(|min| is_below(value, min))
                    && !bound.max.is_some_and(|max| is_below(max, value))
            });
            assert_eq!(found.value(row), inside, "{column_type:?} row {row}: {value:?} in {bound:?}");
        }
    }
}

fn check(part: &Part, seed: u64) {
    let mut random = Random(seed);
    (0..part.schema().columns().len()).for_each(|column| check_column(part, column, &mut random));
}

#[test]
fn of_any_table() {
    for seed in 0..24 {
        let shape = Shape {
            seed,
            rows: 1 + (seed as usize * 1_217) % 6_000,
            batches: 2,
            symbols: 3,
            timestamp: seed % 5 != 0,
            shuffled: seed % 2 == 0,
            series: 1,
            nulls: seed % 3 == 0,
        };
        let schema = with_later(&schema(&shape));
        let density = if seed % 2 == 0 { Density::Fast } else { Density::Dense };
        let part = open(write_as(density, &schema, &batches(&shape, &schema), 2_500, 1), &schema).unwrap();
        check(&part, seed);
    }
}

/// Prices of every size of step and number of digits, some of them with NaN, NULL, -0.0 and reals between.
#[test]
fn of_prices() {
    let names: Vec<String> = (0..40).map(|column| format!("p{column}")).collect();
    let builder =
        names.iter().fold(TableSchema::builder("t").column("ts", ColumnType::Timestamp), |b, name| {
            b.column(name, ColumnType::Float64)
        });
    let schema = Arc::new(builder.timestamp("ts").build().unwrap());
    let rows = 3_300;
    let mut random = Random(7);
    let mut columns: Vec<ArrayRef> = vec![Arc::new(TimestampNanosecondArray::from_iter_values(0..rows))];
    for column in 0..names.len() as u64 {
        let (digits, span) = (10_f64.powi((column % 5) as i32), 1 << (1 + column));
        let middle = random.below(1 << 20) as i64 - (1 << 19);
        let odd = [0.0, f64::NAN, -0.0, 1.0 / 3.0, f64::INFINITY, 1e300][column as usize % 6];
        let value = |_| {
            let cents = middle + random.below(span) as i64 - span as i64 / 2;
            let odd = if column >= 20 && random.below(400) == 0 { Some(odd) } else { None };
            let null = column % 7 == 0 && random.below(90) == 0;
            (!null).then(|| odd.unwrap_or(cents as f64 / digits))
        };
        columns.push(Arc::new((0..rows).map(value).collect::<Float64Array>()));
    }
    let batch = RowBatch::new(Arc::clone(&schema), columns).unwrap();
    for density in [Density::Fast, Density::Dense] {
        let part =
            open(write_as(density, &schema, std::slice::from_ref(&batch), 1 << 20, 1), &schema).unwrap();
        check(&part, 3);
    }
}

#[test]
fn bounds_of_another_type_are_refused() {
    let shape = Shape {
        seed: 1,
        rows: 10,
        batches: 1,
        symbols: 2,
        timestamp: true,
        shuffled: false,
        series: 1,
        nulls: false,
    };
    let schema = schema(&shape);
    let part = open(write(&schema, &batches(&shape, &schema), 100, 1), &schema).unwrap();
    let bound = ColumnBound { column: 0, min: Some(StatValue::Float(1.0)), max: None };
    assert!(part.filter(&bound, 0..10).is_err());
    assert!(part.filter(&ColumnBound { column: 0, min: None, max: None }, 0..11).is_err());
}

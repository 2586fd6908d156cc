//! Functions of arrays.

use super::Rowwise;
use crate::functions::decimals;
use crate::functions::whole::{finished, mean};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, ListArray};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type, i256,
};
use datafusion::error::Result;
use std::sync::Arc;

const SUM: &str = "array_sum";

pub(super) const ALL: &[Rowwise] = &[
    ADDED,
    AVERAGED,
    Rowwise { name: "list_sum", usage: "list_sum(array)", ..ADDED },
    Rowwise { name: "list_avg", usage: "list_avg(array)", ..AVERAGED },
];

const AVERAGED: Rowwise = Rowwise {
    name: "array_avg",
    usage: "array_avg(array)",
    about: "the DOUBLE nearest to the average of an array's numbers; NULL of none",
    takes: |types| match (ADDED.takes)(types)?.as_slice() {
        [DataType::List(item)] if item.data_type().is_decimal() => {
            Some(vec![DataType::new_list(DataType::Float64, true)])
        }
        [of] => Some(vec![of.clone()]),
        _ => None,
    },
    gives: |_| DataType::Float64,
    value: |args| {
        let lists = args[0].as_list::<i32>();
        let means: Float64Array = match lists.value_type() {
            DataType::Float64 => {
                let mean = |values: ArrayRef| {
                    let values = values.as_primitive::<Float64Type>();
                    let count = values.len() - values.null_count();
                    (count > 0).then(|| values.iter().flatten().sum::<f64>() / count as f64)
                };
                rows(lists).map(|values| values.and_then(mean)).collect()
            }
            of => {
                let sums = rows(lists).map(|values| values.map_or((0, 0), |values| total_of(&values, &of)));
                sums.map(|(sum, count)| (count > 0).then(|| mean(sum, count))).collect()
            }
        };
        Ok(Arc::new(means))
    },
};

const ADDED: Rowwise = Rowwise {
    name: SUM,
    usage: "array_sum(array)",
    about: "the sum of an array's numbers, in their type; NULL of none",
    takes: |types| match types {
        [DataType::Null] => Some(vec![DataType::new_list(DataType::Float64, true)]),
        [DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)] => {
            Some(vec![DataType::new_list(added_as(item.data_type())?, true)])
        }
        _ => None,
    },
    gives: |types| match types {
        [DataType::List(item)] => match item.data_type() {
            DataType::Decimal128(_, scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
            of => of.clone(),
        },
        _ => DataType::Float64,
    },
    value: |args| {
        let lists = args[0].as_list::<i32>();
        Ok(match lists.value_type() {
            DataType::Float64 => {
                let sums = rows(lists).map(|values| {
                    let values = values?;
                    let values = values.as_primitive::<Float64Type>();
                    (values.null_count() < values.len()).then(|| values.iter().flatten().sum::<f64>())
                });
                Arc::new(sums.collect::<Float64Array>())
            }
            DataType::Decimal128(_, scale) => sums_of_decimals(lists, scale)?,
            of => {
                let sums = rows(lists).map(|values| values.map_or((0, 0), |values| total_of(&values, &of)));
                finished(SUM, sums, &of)?
            }
        })
    },
};

/// The type that numbers are added up in.
fn added_as(of: &DataType) -> Option<DataType> {
    Some(match of {
        of if of.is_signed_integer() => DataType::Int64,
        of if of.is_unsigned_integer() => DataType::UInt64,
        DataType::Decimal128(..) => of.clone(),
        of if of.is_numeric() || of.is_null() => DataType::Float64,
        _ => return None,
    })
}

fn rows(lists: &ListArray) -> impl Iterator<Item = Option<ArrayRef>> {
    lists.iter()
}

/// The sum of whole numbers, and how many they are.
fn total_of(values: &ArrayRef, of: &DataType) -> (i128, i64) {
    let sum = match of {
        DataType::UInt64 => values.as_primitive::<UInt64Type>().iter().flatten().map(i128::from).sum(),
        _ => values.as_primitive::<Int64Type>().iter().flatten().map(i128::from).sum(),
    };
    (sum, (values.len() - values.null_count()) as i64)
}

fn sums_of_decimals(lists: &ListArray, scale: i8) -> Result<ArrayRef> {
    let result = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale);
    let sums = rows(lists).map(|values| {
        let Some(values) = values else { return Ok(None) };
        let values = values.as_primitive::<Decimal128Type>();
        if values.null_count() == values.len() {
            return Ok(None);
        }
        // An array has fewer elements than 256 bits have room for.
        let sum =
            values.iter().flatten().fold(i256::ZERO, |sum, value| sum.wrapping_add(i256::from_i128(value)));
        match decimals::narrowed(sum, DECIMAL128_MAX_PRECISION) {
            Some(sum) => Ok(Some(sum)),
            None => Err(decimals::past(SUM, &result, Some(&decimals::written(sum, &result)))),
        }
    });
    let sums = sums.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(sums.with_data_type(result)))
}

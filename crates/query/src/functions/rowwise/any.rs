//! Functions of values of any type.

use super::{Rowwise, is_text};
use crate::error::type_name;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::sync::Arc;

pub(super) const ALL: &[Rowwise] = &[
    Rowwise {
        name: "typeof",
        usage: "typeof(x)",
        about: "the SQL type of a value",
        takes: |types| match types {
            [of] => Some(vec![of.clone()]),
            _ => None,
        },
        gives: |_| DataType::Utf8,
        value: |args| {
            let name = type_name(args[0].data_type());
            Ok(Arc::new(StringArray::from(vec![name.as_str(); args[0].len()])))
        },
    },
    Rowwise {
        name: LEN,
        usage: "len(x)",
        about: "how many characters a text, or elements a list has",
        takes: |types| match types {
            [of] if is_text(of) => Some(vec![DataType::Utf8]),
            [of @ (DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))] => {
                Some(vec![of.clone()])
            }
            _ => None,
        },
        gives: |_| DataType::Int64,
        value: length,
    },
];

const LEN: &str = "len";

/// The call that counts the elements of an array.
pub(crate) fn elements(array: Expr) -> Expr {
    let of = ALL.iter().find(|of| of.name == LEN).expect("it is in the table");
    ScalarUDF::from(super::Function::new(of)).call(vec![array])
}

fn length(args: &[ArrayRef]) -> Result<ArrayRef> {
    let array = &args[0];
    let of = |row: usize| match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value_length(row) as i64,
        DataType::LargeList(_) => array.as_list::<i64>().value_length(row),
        DataType::FixedSizeList(_, length) => i64::from(*length),
        _ => array.as_string::<i32>().value(row).chars().count() as i64,
    };
    let lengths = (0..array.len()).map(|row| array.is_valid(row).then(|| of(row)));
    Ok(Arc::new(lengths.collect::<Int64Array>()))
}

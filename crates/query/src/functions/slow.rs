//! Functions that can take long over the rows of one batch, where its texts or lists are long: they are given some of
//! the rows at a time, and look between whether their statement is wanted.
//!
//! A call over one row is not interrupted: `levenshtein` of two texts takes as long as the product of their lengths.

use super::growth::array_bytes;
use super::handed_on::handed_on;
use crate::wanted;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// Bytes of arguments between two looks: a regular expression goes over them in a millisecond or two.
const LINEAR_BYTES: u64 = 1 << 17;

/// The same where the work is a product of lengths: of two texts of 500 characters 2 million steps.
const SQUARE_BYTES: u64 = 1 << 13;

const SLOW: [(&str, u64); 21] = [
    ("levenshtein", SQUARE_BYTES),
    ("array_distinct", LINEAR_BYTES),
    ("array_except", LINEAR_BYTES),
    ("array_has_all", SQUARE_BYTES),
    ("array_has_any", SQUARE_BYTES),
    ("array_intersect", LINEAR_BYTES),
    ("array_position", LINEAR_BYTES),
    ("array_positions", LINEAR_BYTES),
    ("array_remove", LINEAR_BYTES),
    ("array_remove_all", LINEAR_BYTES),
    ("array_sort", LINEAR_BYTES),
    ("array_union", LINEAR_BYTES),
    ("md5", LINEAR_BYTES),
    ("regexp_count", LINEAR_BYTES),
    ("regexp_instr", LINEAR_BYTES),
    ("regexp_like", LINEAR_BYTES),
    ("regexp_match", LINEAR_BYTES),
    ("regexp_replace", LINEAR_BYTES),
    ("sha256", LINEAR_BYTES),
    ("sha512", LINEAR_BYTES),
    ("strpos", LINEAR_BYTES),
];

/// The functions as they are, slow ones with their looks.
pub(super) fn looking(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let looking = |function: Arc<ScalarUDF>| match SLOW.iter().find(|(name, _)| *name == function.name()) {
        Some((_, bytes)) => Arc::new(ScalarUDF::from(Slow { inner: function, bytes: *bytes })),
        None => function,
    };
    functions.into_iter().map(looking).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Slow {
    inner: Arc<ScalarUDF>,
    /// Of arguments that it takes at once.
    bytes: u64,
}

impl Slow {
    /// How many rows of these arguments it takes at once.
    fn rows_at_once(&self, args: &ScalarFunctionArgs) -> usize {
        let bytes = |arg: &ColumnarValue| match arg {
            ColumnarValue::Array(array) if !array.data_type().is_primitive() => array_bytes(array),
            _ => 0,
        };
        let all: u64 = args.args.iter().map(bytes).sum();
        let fit = u128::from(self.bytes) * args.number_rows as u128 / u128::from(all.max(1));
        usize::try_from(fit).unwrap_or(usize::MAX).max(1)
    }
}

/// The same call over some of its rows.
fn piece(args: &ScalarFunctionArgs, from: usize, rows: usize) -> ScalarFunctionArgs {
    let cut = |arg: &ColumnarValue| match arg {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, rows)),
        constant => constant.clone(),
    };
    ScalarFunctionArgs {
        args: args.args.iter().map(cut).collect(),
        arg_fields: args.arg_fields.clone(),
        number_rows: rows,
        return_field: Arc::clone(&args.return_field),
        config_options: Arc::clone(&args.config_options),
    }
}

impl ScalarUDFImpl for Slow {
    handed_on!(
        inner: name, aliases, signature, coerce_types, return_type, return_field_from_args, is_strict,
        simplify, properties, documentation
    );

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        wanted::look()?;
        let at_once = self.rows_at_once(&args);
        let constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        if constant || at_once >= args.number_rows {
            return self.inner.invoke_with_args(args);
        }
        let mut pieces: Vec<ArrayRef> = Vec::with_capacity(args.number_rows.div_ceil(at_once));
        for from in (0..args.number_rows).step_by(at_once) {
            wanted::look()?;
            let rows = at_once.min(args.number_rows - from);
            pieces.push(self.inner.invoke_with_args(piece(&args, from, rows))?.into_array(rows)?);
        }
        let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
        Ok(ColumnarValue::Array(concat(&pieces)?))
    }
}

#[cfg(test)]
mod tests;

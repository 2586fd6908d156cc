//! Functions of one row that need no kernel of their own: what their arguments become, and a function over arrays.
//!
//! | file | functions |
//! |---|---|
//! | [`numbers`] | `sign`, `isinf`, `isfinite`, `bit_count`, `log`, `width_bucket`, `__times` (a number by an INTERVAL) |
//! | [`any`] | `typeof`, `len` |
//! | [`lists`] | `array_sum`, `array_avg` |
//! | [`texts`] | `regexp_extract`, `regexp_extract_all`, `regexp_split_to_array`, `string_split` |
//! | [`times`] | `date_diff`, `date_sub`, `make_timestamp`, `make_time`, `epoch_ms`, `epoch_us`, `epoch_ns`, `to_utc`, `__trunc_long` |
//! | [`formats`] | `strftime`, `strptime`, `try_strptime`, `to_char`, and `to_date` and `to_timestamp` with a format |
//! | [`printf`] | `printf`, `format` |
//! | [`json`] | `json_extract`, `json_extract_string`, `json_array_length`, `json_keys`, `json_type`, `json_valid`, `json_exists` |
//!
//! Constant arguments are worked out once. NULL in any argument gives NULL, but of `typeof`.

mod any;
mod formats;
mod json;
mod lists;
mod numbers;
mod patterns;
mod percent;
mod printf;
mod texts;
mod times;

pub(crate) use any::elements;
pub(crate) use formats::{TO_DATE_BY, TO_TIMESTAMP_BY};
pub(crate) use numbers::times as times_interval;
pub(crate) use times::{TRUNC_LONG, is_long};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What such a function is.
#[derive(Debug)]
struct Rowwise {
    name: &'static str,
    /// How it is called, where something in square brackets may be left out.
    usage: &'static str,
    /// What it gives, in a line.
    about: &'static str,
    /// The types that arguments of some types are made to have; `None` where it does not take them.
    takes: fn(&[DataType]) -> Option<Vec<DataType>>,
    /// The type of its value.
    gives: fn(&[DataType]) -> DataType,
    /// The values of some rows.
    value: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let tables: [&'static [Rowwise]; 8] =
        [numbers::ALL, any::ALL, lists::ALL, texts::ALL, times::ALL, formats::ALL, printf::ALL, json::ALL];
    tables.into_iter().flatten().map(|of| Arc::new(ScalarUDF::from(Function::new(of))))
}

/// One of them in a plan.
#[derive(Debug)]
struct Function {
    of: &'static Rowwise,
    signature: Signature,
    documentation: Documentation,
}

impl Function {
    fn new(of: &'static Rowwise) -> Self {
        let arguments = of.usage.trim_start_matches(of.name).trim_matches(['(', ')']);
        let documentation = Documentation::builder(DocSection::default(), of.about, of.usage);
        let names = arguments.split(", ").filter(|name| !name.is_empty());
        let documentation =
            names.fold(documentation, |made, name| made.with_argument(name, "see the function")).build();
        Self { of, signature: Signature::user_defined(Volatility::Immutable), documentation }
    }
}

// The name says all.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.of.name == other.of.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.of.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let refused = || {
            let types: Vec<String> = types.iter().map(ToString::to_string).collect();
            plan_datafusion_err!(
                "{} does not take ({}): write {}",
                self.of.name,
                types.join(", "),
                self.of.usage
            )
        };
        (self.of.takes)(types).ok_or_else(refused)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.of.gives)(types))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays: Vec<ArrayRef> =
            args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<_>>()?;
        let made = (self.of.value)(&arrays)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

/// Whether values are texts, as written or by symbols.
fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

/// The rows in which all arguments have a value.
fn valid_rows(arguments: &[ArrayRef]) -> impl Iterator<Item = Option<usize>> {
    let rows = arguments.first().map_or(0, |argument| argument.len());
    (0..rows).map(|row| arguments.iter().all(|argument| argument.is_valid(row)).then_some(row))
}

#[cfg(test)]
mod tests;

//! `coalesce`, `greatest` and `least` of dates, times, BOOLEANs, INTERVALs and UUIDs beside texts: `coalesce(tm, '12:00')`.
//!
//! Such texts are read as what they stand beside ([`crate::rules::literals`]). Planning asks for the type of the call
//! before that, which DataFusion has none for; everything else is DataFusion's.

use super::handed_on::handed_on;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::error::Result;
use datafusion::functions::core::{coalesce, greatest, least};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// Bytes of a UUID.
const UUID_BYTES: i32 = 16;

/// A function that gives one of its arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OneOf {
    theirs: Arc<ScalarUDF>,
    aliases: Vec<String>,
}

impl OneOf {
    pub(super) fn all() -> [Self; 3] {
        // DataFusion's own nvl makes a FLOAT of BIGINT and BIGINT UNSIGNED, and texts of numbers and times.
        let aliases = vec!["nvl".to_string(), "ifnull".to_string()];
        let plain = |theirs| Self { theirs, aliases: Vec::new() };
        [Self { theirs: coalesce(), aliases }, plain(greatest()), plain(least())]
    }
}

/// The type of a call with these arguments, where it is that of what stands beside its texts and is read from one.
fn beside_texts(types: &[DataType]) -> Option<DataType> {
    let is_read = |of: &&DataType| {
        matches!(
            of,
            DataType::Boolean
                | DataType::Date32
                | DataType::Interval(IntervalUnit::MonthDayNano)
                | DataType::Time64(TimeUnit::Nanosecond)
                | DataType::Timestamp(TimeUnit::Nanosecond, None)
                | DataType::FixedSizeBinary(UUID_BYTES)
        )
    };
    let read = types.iter().find(is_read)?;
    types.iter().all(|of| of == read || of.is_null() || of.is_string()).then(|| read.clone())
}

impl ScalarUDFImpl for OneOf {
    handed_on!(theirs: name, signature, return_type, return_field_from_args, simplify, documentation);

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.theirs.invoke_with_args(args)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.theirs.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.theirs.short_circuits()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match beside_texts(types) {
            Some(read) => Ok(vec![read; types.len()]),
            None => self.theirs.coerce_types(types),
        }
    }
}

//! Calling a function: rows with NULLs are kept from it, and what it gives is checked.

use super::signature::is_text;
use super::{Body, Function, FunctionError, FunctionResult, NullHandling};
use crate::error::{QueryError, type_name};
use arrow_cast::cast;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, new_empty_array, new_null_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{concat, filter, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use std::ops::Range;
use std::sync::Arc;

/// A function of one group as one of several.
pub(super) fn group_by_group(
    function: impl Fn(&[ArrayRef]) -> FunctionResult<ArrayRef>,
) -> impl Fn(&[ArrayRef], &[Range<usize>]) -> FunctionResult<ArrayRef> {
    move |arguments, groups| {
        let values = groups.iter().map(|rows| {
            let of_group: Vec<ArrayRef> =
                arguments.iter().map(|array| array.slice(rows.start, rows.len())).collect();
            let value = function(&of_group)?;
            match value.len() {
                1 => Ok(value),
                other => Err(format!("it gave {other} values for one group").into()),
            }
        });
        let values = values.collect::<FunctionResult<Vec<ArrayRef>>>()?;
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        Ok(concat(&values)?)
    }
}

impl Function {
    /// The value of each row, by a scalar or window function.
    pub(super) fn over_rows(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let (Body::Scalar(function) | Body::Window(function)) = &self.body else {
            return internal_err!("{} is an aggregate", self.name);
        };
        let returns = self.signature.returns();
        if rows == 0 {
            return Ok(new_empty_array(returns));
        }
        let Some(counted) = self.counted(arguments) else {
            return self.checked(function(arguments), rows);
        };
        let kept = rows - counted.null_count();
        if kept == 0 {
            return Ok(new_null_array(returns, rows));
        }
        let keep = BooleanArray::new(counted.inner().clone(), None);
        let arguments: std::result::Result<Vec<ArrayRef>, _> =
            arguments.iter().map(|array| filter(array, &keep)).collect();
        let values = self.checked(function(&arguments?), kept)?;
        let mut next = 0..;
        let places = counted.iter().map(|counts| if counts { next.next() } else { None });
        Ok(take(&values, &places.collect::<UInt64Array>(), None)?)
    }

    /// The value of each group, whose rows are these ranges, by an aggregate.
    pub(super) fn over_groups(&self, arguments: &[ArrayRef], groups: &[Range<usize>]) -> Result<ArrayRef> {
        let returns = self.signature.returns();
        let (called, places): (Vec<Range<usize>>, Option<UInt64Array>) = match self.nulls {
            NullHandling::Special => (groups.to_vec(), None),
            NullHandling::Default => {
                let mut next = 0..;
                let places = groups.iter().map(|rows| if rows.is_empty() { None } else { next.next() });
                let places = places.collect::<UInt64Array>();
                let called = groups.iter().filter(|rows| !rows.is_empty()).cloned().collect();
                (called, Some(places).filter(|places| places.null_count() > 0))
            }
        };
        if called.is_empty() {
            return Ok(new_null_array(returns, groups.len()));
        }
        let values = match &self.body {
            Body::Groups(function) => function(arguments, &called),
            Body::State(_, begin) => group_by_group(|rows| {
                let mut state = begin();
                state.update(rows)?;
                state.finish()
            })(arguments, &called),
            Body::Scalar(_) | Body::Window(_) => return internal_err!("{} is no aggregate", self.name),
        };
        let values = self.checked(values, called.len())?;
        match places {
            Some(places) => Ok(take(&values, &places, None)?),
            None => Ok(values),
        }
    }

    /// The rows that the function sees: those where nothing is NULL; `None` where it sees all.
    pub(super) fn counted(&self, arguments: &[ArrayRef]) -> Option<NullBuffer> {
        let missing = |array: &ArrayRef| array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let nulls = arguments.iter().filter_map(missing).reduce(|a, b| {
            // Both are there, so their union is.
            NullBuffer::union(Some(&a), Some(&b)).unwrap_or(a)
        });
        nulls.filter(|_| self.nulls == NullHandling::Default)
    }

    /// What the function gave for so many rows or groups, where it is that.
    pub(super) fn checked(&self, given: FunctionResult<ArrayRef>, count: usize) -> Result<ArrayRef> {
        let array = given.map_err(|source| self.failed(source))?;
        let wanted = self.signature.returns();
        if array.len() != count {
            let message =
                format!("function '{}' gave {} values where {count} were asked for", self.name, array.len());
            return Err(raised(QueryError::request(message).hint(match self.body {
                Body::Scalar(_) | Body::Window(_) => "it gives a value for each row that it gets",
                Body::Groups(_) | Body::State(..) => "it gives a value for each group",
            })));
        }
        match array.data_type() {
            found if found == wanted => Ok(array),
            // The same values in another encoding, or none at all.
            found if (is_text(found) && is_text(wanted)) || *found == DataType::Null => {
                Ok(cast(&array, wanted)?)
            }
            found => {
                let message =
                    format!("function '{}' gave {}, not {}", self.name, type_name(found), type_name(wanted));
                Err(raised(
                    QueryError::request(message).hint("cast the result, or declare the type it gives"),
                ))
            }
        }
    }

    /// The error of a statement whose function failed.
    pub(super) fn failed(&self, source: FunctionError) -> DataFusionError {
        let message = format!("function '{}' failed: {source}", self.name);
        raised(QueryError::request(message).caused_by(Arc::from(source)))
    }
}

fn raised(error: QueryError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

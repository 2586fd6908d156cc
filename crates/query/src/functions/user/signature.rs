//! The types of a function: what SQL calls them, and what is taken for them.

use crate::error::{QueryError, Result, type_name};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use std::fmt;
use tickstone_model::ColumnType;

/// The types that a function takes and the one it gives, as Arrow has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSignature {
    parameters: Vec<DataType>,
    returns: DataType,
}

impl FunctionSignature {
    /// Of Arrow types. Text that it gives is `Utf8` in the results, however it is encoded.
    pub fn new(parameters: Vec<DataType>, returns: DataType) -> Self {
        let returns = if is_text(&returns) { DataType::Utf8 } else { returns };
        Self { parameters, returns }
    }

    /// Of types as CREATE TABLE names them, in any case.
    ///
    /// # Errors
    /// Where one is no type of a column.
    pub fn parse(parameters: &[&str], returns: &str) -> Result<Self> {
        let parameters = parameters.iter().map(|name| Self::data_type(name)).collect::<Result<_>>()?;
        Ok(Self::new(parameters, Self::data_type(returns)?))
    }

    /// The Arrow type in which a function gets or gives the values of a SQL type: text for SYMBOL, as it is stored
    /// for the others.
    ///
    /// # Errors
    /// Where it is no type of a column.
    pub fn data_type(name: &str) -> Result<DataType> {
        let found = ColumnType::parse(name).map_err(|error| {
            QueryError::from(error)
                .hint("types are those of CREATE TABLE: DOUBLE, BIGINT, VARCHAR, TIMESTAMP, …")
        })?;
        Ok(match found {
            ColumnType::Symbol => DataType::Utf8,
            other => other.edge_type(),
        })
    }

    /// The types of its arguments.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The type of what it gives.
    pub fn returns(&self) -> &DataType {
        &self.returns
    }

    /// Its parameters in SQL, in brackets.
    pub fn parameter_names(&self) -> String {
        let names: Vec<String> = self.parameters.iter().map(type_name).collect();
        format!("({})", names.join(", "))
    }

    /// What arguments of these types are cast to.
    pub(super) fn coerced(&self, given: &[DataType]) -> datafusion::error::Result<Vec<DataType>> {
        let fits = given.len() == self.parameters.len()
            && given.iter().zip(&self.parameters).all(|(given, wanted)| becomes(given, wanted));
        match fits {
            true => Ok(self.parameters.clone()),
            false => plan_err!("it takes {}", self.parameter_names()),
        }
    }
}

impl fmt::Display for FunctionSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.parameter_names(), type_name(&self.returns))
    }
}

/// Whether this is text, in whatever encoding.
pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Whether values of one type are handed to a function that takes another: where none of them is lost but integers
/// out of range, which are an error, and where text is read as a time.
fn becomes(given: &DataType, wanted: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Date32, Date64, LargeBinary, List, Null, Timestamp, Utf8};
    if given == wanted || *given == Null || (is_text(given) && is_text(wanted)) {
        return true;
    }
    match (given, wanted) {
        (Utf8 | Timestamp(..) | Date32 | Date64, Timestamp(..)) | (Utf8, Date32 | Date64) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (List(given), List(wanted)) => becomes(given.data_type(), wanted.data_type()),
        _ if given.is_integer() => wanted.is_numeric(),
        _ if given.is_floating() => wanted.is_floating(),
        _ if given.is_decimal() => wanted.is_decimal() || wanted.is_floating(),
        _ => false,
    }
}

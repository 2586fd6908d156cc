//! What the `key=value` folders of files say of their rows, as columns.

use super::{DataFile, Result};
use crate::error::QueryError;
use tickstone_model::ColumnType;

/// What stands in a path where a key is NULL.
pub(crate) const NULL_KEY: &str = "__HIVE_DEFAULT_PARTITION__";

/// A column whose values paths give.
#[derive(Debug, Clone)]
pub(crate) struct KeyColumn {
    /// The key.
    pub(crate) name: String,
    /// The narrowest of BIGINT, DATE and SYMBOL that holds all values.
    pub(crate) column_type: ColumnType,
    /// The value of each file.
    pub(crate) values: Vec<Option<String>>,
}

/// The columns of the keys that all of these files have, outermost first; none where they have different ones and nobody
/// `asked` for them.
///
/// # Errors
/// Where they were asked for, and files have different ones.
pub(crate) fn key_columns(files: &[DataFile], asked: bool) -> Result<Vec<KeyColumn>> {
    let Some(first) = files.first() else { return Ok(Vec::new()) };
    let same = |file: &&DataFile| {
        file.keys.len() == first.keys.len()
            && file.keys.iter().zip(&first.keys).all(|((key, _), (of_first, _))| key == of_first)
    };
    match files.iter().find(|file| !same(file)) {
        Some(other) if asked => {
            let (first, other) = (first.path.display(), other.path.display());
            return Err(QueryError::request(format!("{other} is in other key=value folders than {first}"))
                .hint("hive_partitioning => false reads files without what their folders say"));
        }
        Some(_) => return Ok(Vec::new()),
        None => {}
    }
    let column = |(place, (name, _)): (usize, &(String, Option<String>))| {
        let values: Vec<Option<String>> = files.iter().map(|file| file.keys[place].1.clone()).collect();
        KeyColumn { name: name.clone(), column_type: type_of(&values), values }
    };
    Ok(first.keys.iter().enumerate().map(column).collect())
}

fn type_of(values: &[Option<String>]) -> ColumnType {
    let all = |is_one: &dyn Fn(&str) -> bool| {
        let mut known = values.iter().flatten().peekable();
        known.peek().is_some() && known.all(|value| is_one(value))
    };
    // A number that is not written so is a text: 000001 and 1 are two.
    if all(&|value| value.parse::<i64>().is_ok_and(|number| number.to_string() == value)) {
        ColumnType::Int64
    } else if all(&|value| value.len() == 10 && chrono::NaiveDate::parse_from_str(value, "%Y-%m-%d").is_ok())
    {
        ColumnType::Date
    } else {
        ColumnType::Symbol
    }
}

//! The options of `read_parquet('…', name => value)` and its kin.

use crate::dialect::{FileCall, OptionValue};
use crate::error::{QueryError, Result};
use crate::import::{BadRows, ImportRequest};
use crate::paths::{Compression, FileFormat};
use tickstone_model::ColumnType;

/// The name that a table's schema takes while columns of text are inferred.
const ROWS: &str = "rows";

/// How files are read.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// Whether `key=value` folders are columns; `None`: where all files have the same keys.
    pub(super) hive: Option<bool>,
    /// Whether there is a column of the files' names.
    pub(super) filename: bool,
    /// Whether a file may lack columns that others have.
    pub(super) union_by_name: bool,
    /// The designated timestamp.
    pub(super) timestamp: Option<String>,
    /// The series key.
    pub(super) series: Vec<String>,
    /// What text files are packed with; `None`: by each file's name.
    pub(super) compression: Option<Compression>,
    /// What is said of text: types, header, delimiter; and of all files: other names for columns.
    pub(super) text: ImportRequest,
    /// Whether every column of text that has no type given is VARCHAR.
    pub(super) all_varchar: bool,
}

impl Options {
    /// Reads the options of a call for files of a format.
    pub(super) fn of(call: &FileCall, format: FileFormat) -> Result<Self> {
        let mut options = Self {
            hive: None,
            filename: false,
            union_by_name: false,
            timestamp: None,
            series: Vec::new(),
            compression: None,
            text: ImportRequest { untimed: true, ..ImportRequest::new(ROWS, Vec::<String>::new()) },
            all_varchar: false,
        };
        for (name, value) in &call.options {
            options.set(name, value, format)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &OptionValue, format: FileFormat) -> Result<()> {
        let is_text = matches!(format, FileFormat::Csv | FileFormat::Ndjson);
        match name {
            "hive_partitioning" => self.hive = Some(truth(name, value)?),
            "filename" => self.filename = truth(name, value)?,
            "union_by_name" => self.union_by_name = truth(name, value)?,
            "timestamp" => self.timestamp = Some(one(name, value)?.to_string()),
            "series" => self.series = list(name, value)?,
            "compression" if is_text => {
                self.compression = match one(name, value)?.to_ascii_lowercase().as_str() {
                    "auto" | "auto_detect" => None,
                    "none" | "uncompressed" => Some(Compression::None),
                    "gzip" | "gz" => Some(Compression::Gzip),
                    "zstd" | "zst" => Some(Compression::Zstd),
                    _ => return Err(wrong(name, "auto, none, gzip or zstd")),
                };
            }
            "types" | "dtypes" | "column_types" if is_text => self.types(name, value)?,
            "columns" if format == FileFormat::Ndjson => self.types(name, value)?,
            "columns" if format == FileFormat::Csv => {
                // The names and types of all columns, in order: the file's own names are not needed.
                if let OptionValue::Pairs(pairs) = value {
                    self.text.columns = pairs.iter().map(|(column, _)| column.clone()).collect();
                }
                self.types(name, value)?;
            }
            "names" if format == FileFormat::Csv => self.text.columns = list(name, value)?,
            "all_varchar" if format == FileFormat::Csv => self.all_varchar = truth(name, value)?,
            "rename" => {
                let OptionValue::Pairs(pairs) = value else {
                    return Err(wrong(name, "columns with other names: {'E': 'event_time'}"));
                };
                self.text.renames.extend(pairs.iter().cloned());
            }
            "ignore_errors" if is_text => {
                self.text.on_bad_row = if truth(name, value)? { BadRows::Skip } else { BadRows::Fail };
            }
            "delim" | "delimiter" | "sep" | "header" if format == FileFormat::Csv => {
                self.text.set_option(name, one(name, value)?)?;
            }
            _ => {
                let known = match format {
                    FileFormat::Csv => {
                        "delim, header, names, types, columns, all_varchar, ignore_errors, compression, "
                    }
                    FileFormat::Ndjson => "types, ignore_errors, compression, ",
                    FileFormat::Parquet | FileFormat::Arrow => "",
                };
                return Err(QueryError::request(format!("'{name}' is no option of reading {format} files"))
                    .hint(format!(
                        "there are {known}rename, timestamp, series, hive_partitioning, union_by_name and filename"
                    )));
            }
        }
        Ok(())
    }

    fn types(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        let OptionValue::Pairs(pairs) = value else {
            return Err(wrong(name, "columns with their types: {'price': 'DOUBLE'}"));
        };
        for (column, of) in pairs {
            let column_type =
                ColumnType::parse(of).map_err(|error| QueryError::request(error.to_string()))?;
            self.text.types.retain(|(known, _)| !known.eq_ignore_ascii_case(column));
            self.text.types.push((column.clone(), column_type));
        }
        Ok(())
    }
}

fn wrong(name: &str, wanted: &str) -> QueryError {
    QueryError::request(format!("option '{name}' takes {wanted}"))
}

fn one<'a>(name: &str, value: &'a OptionValue) -> Result<&'a str> {
    match value {
        OptionValue::One(value) => Ok(value),
        _ => Err(wrong(name, "one value")),
    }
}

fn truth(name: &str, value: &OptionValue) -> Result<bool> {
    match one(name, value)?.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(wrong(name, "true or false")),
    }
}

fn list(name: &str, value: &OptionValue) -> Result<Vec<String>> {
    match value {
        OptionValue::List(values) => Ok(values.clone()),
        OptionValue::One(value) => Ok(vec![value.clone()]),
        OptionValue::Pairs(_) => Err(wrong(name, "a list: ['a', 'b']")),
    }
}

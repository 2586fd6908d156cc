//! Which column of a file fills which column of the table, and what a new table looks like.

use super::columnar::cast_column;
use super::{ColumnReport, ImportError, ImportRequest, Result};
use crate::paths::KeyColumn;
use arrow_array::{ArrayRef, StringArray, UInt32Array};
use arrow_select::take::take;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema};
use tickstone_wire::infer::{ColumnSample, Inferred, conclude, is_time_name, timestamp_rank};
use tickstone_wire::{ColumnPlan, Plan, TimeFormat};

/// A column of a file, as its sample shows it.
#[derive(Debug, Clone)]
pub(crate) struct FileField {
    /// The name that the table has for it.
    pub(crate) name: String,
    /// The name that the file has for it.
    pub(crate) source: String,
    pub(crate) inferred: Inferred,
    /// How its values are written, should the column be a TIMESTAMP.
    pub(crate) time: TimeFormat,
    /// What the file itself says of it (exports of a Tickstone table do).
    pub(crate) role: Role,
}

/// What a file says a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Plain,
    /// The designated timestamp.
    Timestamp,
    /// This place in the series key, from 0.
    Series(usize),
}

/// The fields of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileFields {
    pub(crate) fields: Vec<FileField>,
    /// Whether their names are the file's own; else they are `column1`, `column2`, ….
    pub(crate) named: bool,
}

impl FileFields {
    /// Fields by their samples, under the names that a request has for them.
    pub(crate) fn of_samples(
        mut samples: Vec<ColumnSample>,
        named: bool,
        request: &ImportRequest,
        path: &Path,
    ) -> Result<Self> {
        let sources: Vec<String> = samples.iter().map(|sample| sample.name().to_string()).collect();
        let names = column_names(&sources, request, path)?;
        samples.iter_mut().zip(&names).for_each(|(sample, name)| sample.set_name(name));
        let fields = samples.iter().zip(conclude(&samples)).zip(names.into_iter().zip(sources));
        let field = |((sample, inferred), (name, source)): ((&ColumnSample, Inferred), (String, String))| {
            FileField { name, source, inferred, time: sample.time_format(), role: Role::Plain }
        };
        Ok(Self { fields: fields.map(field).collect(), named })
    }
}

/// The names that a request has for the columns of a file.
pub(crate) fn column_names(sources: &[String], request: &ImportRequest, path: &Path) -> Result<Vec<String>> {
    let mut names = sources.to_vec();
    for (source, name) in &request.renames {
        match sources.iter().position(|known| known == source) {
            Some(place) => names[place].clone_from(name),
            None => return Err(no_such_column("--rename", source, sources, path)),
        }
    }
    Ok(names)
}

fn no_such_column(clause: &'static str, column: &str, known: &[String], path: &Path) -> ImportError {
    let (path, column) = (path.to_path_buf(), column.to_string());
    ImportError::NoSuchColumn { path, clause, column, known: known.join(", ") }
}

/// A table's schema and where in the file each of its columns stands.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) table: Arc<TableSchema>,
    /// For each table column the file's field, `None` where the file has none: NULL.
    pub(crate) sources: Vec<Option<usize>>,
    /// For each table column how its timestamps are written.
    pub(crate) times: Vec<TimeFormat>,
    /// For each table column its name in the file.
    names: Vec<String>,
    /// For each table column whether its type was inferred, so that only what prints as it is written is a value of it.
    pub(crate) inferred: Vec<bool>,
    field_count: usize,
    /// For each table column the value that its file's path gives it, as one row.
    constants: Vec<Option<ArrayRef>>,
}

/// What the path of a file says of its rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys<'a> {
    /// Columns and their values for the file.
    pub(crate) keys: Vec<(&'a KeyColumn, Option<&'a str>)>,
    /// Whether they were asked for, so that a table must have a place for each.
    pub(crate) asked: bool,
}

impl Shape {
    /// As [`Self::of`], of a file whose path says more of its rows. A column that the file has itself counts before that.
    pub(crate) fn with_keys(
        file: &FileFields,
        keys: &Keys<'_>,
        existing: Option<&TableSchema>,
        request: &ImportRequest,
        path: &Path,
    ) -> Result<Self> {
        let has_place =
            |name: &str| existing.is_none_or(|table| keys.asked || table.column_index(name).is_some());
        let wanted =
            |(key, _): &&(&KeyColumn, Option<&str>)| find(file, &key.name).is_none() && has_place(&key.name);
        let keys: Vec<_> = keys.keys.iter().filter(wanted).collect();
        if keys.is_empty() {
            return Self::of(file, existing, request, path);
        }
        let own = file.fields.len();
        let mut all = FileFields { fields: file.fields.clone(), named: true };
        for (key, _) in &keys {
            let inferred = Inferred {
                column_type: key.column_type,
                time: TimeFormat::Iso,
                seen: true,
                mostly_time: false,
                unread_date: None,
            };
            all.fields.push(FileField {
                name: key.name.clone(),
                source: key.name.clone(),
                inferred,
                time: TimeFormat::Iso,
                role: Role::Plain,
            });
        }
        let mut shape = Self::of(&all, existing, request, path)?;
        shape.field_count = own;
        for (index, source) in shape.sources.iter_mut().enumerate() {
            let Some(place) = source.and_then(|source| source.checked_sub(own)) else { continue };
            *source = None;
            let column = &shape.table.columns()[index];
            let text: ArrayRef = Arc::new(StringArray::from(vec![keys[place].1]));
            let value = cast_column(&text, column.column_type, TimeFormat::Iso).map_err(|error| {
                ImportError::Cast {
                    path: path.to_path_buf(),
                    column: column.name.clone(),
                    wanted: column.column_type,
                    reason: error.to_string(),
                }
            })?;
            shape.constants[index] = Some(value);
        }
        Ok(shape)
    }

    /// The columns of some rows, those that the path says in their places.
    pub(crate) fn with_constants(&self, mut columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        for (column, constant) in columns.iter_mut().zip(&self.constants) {
            if let Some(value) = constant {
                *column = take(value, &UInt32Array::from(vec![0; column.len()]), None)?;
            }
        }
        Ok(columns)
    }

    /// Matches the fields of a file with the table, or makes the table from them.
    pub(crate) fn of(
        file: &FileFields,
        existing: Option<&TableSchema>,
        request: &ImportRequest,
        path: &Path,
    ) -> Result<Self> {
        let named = request.types.iter().map(|(name, _)| ("--type", name));
        let units = request.time_units.iter().map(|(name, _)| ("--type", name));
        let timestamp = request.timestamp.iter().map(|name| ("--timestamp", name));
        let series = request.series.iter().flatten().map(|name| ("--series", name));
        for (clause, name) in named.chain(units).chain(timestamp).chain(series) {
            if find(file, name).is_none() {
                let known: Vec<String> = file.fields.iter().map(|field| field.name.clone()).collect();
                return Err(no_such_column(clause, name, &known, path));
            }
        }
        if let Some((column, other)) = twice(file) {
            return Err(ImportError::SameName { path: path.to_path_buf(), column, other });
        }
        match existing {
            Some(table) => Self::matched(file, table, request, path),
            None => Self::made(file, request, path),
        }
    }

    fn matched(file: &FileFields, table: &TableSchema, request: &ImportRequest, path: &Path) -> Result<Self> {
        check_wishes(table, request)?;
        let width = table.columns().len();
        let mut sources = vec![None; width];
        if !file.named && file.fields.len() != width {
            return Err(ImportError::ColumnCount {
                path: path.to_path_buf(),
                table: table.name().to_string(),
                expected: width,
                found: file.fields.len(),
            });
        }
        for (index, field) in file.fields.iter().enumerate() {
            let place = if file.named { table.column_index(&field.name) } else { Some(index) };
            let Some(place) = place else {
                let known: Vec<_> = table.columns().iter().map(|column| column.name.as_str()).collect();
                return Err(ImportError::UnknownColumn {
                    path: path.to_path_buf(),
                    column: field.name.clone(),
                    table: table.name().to_string(),
                    known: known.join(", "),
                });
            };
            sources[place] = Some(index);
        }
        if let Some(timestamp) = table.timestamp().filter(|timestamp| sources[*timestamp].is_none()) {
            return Err(ImportError::NoTimestamp {
                path: path.to_path_buf(),
                column: table.columns()[timestamp].name.clone(),
                table: table.name().to_string(),
            });
        }
        let inferred = vec![false; width];
        Ok(Self::new(file, Arc::new(table.clone()), sources, inferred, request))
    }

    fn made(file: &FileFields, request: &ImportRequest, path: &Path) -> Result<Self> {
        let known = |field: &FileField| field.inferred.seen || given_type(request, &field.name).is_some();
        if !file.fields.iter().any(known) {
            return Err(ImportError::NoRows { path: path.to_path_buf() });
        }
        let timestamp = designated_timestamp(file, request);
        if timestamp.is_none() && !request.untimed {
            let unread = |field: &FileField| Some((field.name.clone(), field.inferred.unread_date.clone()?));
            let unread = file.fields.iter().find_map(unread);
            return Err(ImportError::Untimed { path: path.to_path_buf(), unread });
        }
        let series = series_key(file, request);
        let mut builder = TableSchema::builder(&request.table);
        let mut inferred = Vec::with_capacity(file.fields.len());
        for (index, field) in file.fields.iter().enumerate() {
            let given = given_type(request, &field.name);
            let is_series = series.iter().flatten().any(|name| name.eq_ignore_ascii_case(&field.name));
            let column_type = match given {
                Some(given) => given,
                None if timestamp == Some(index) => ColumnType::Timestamp,
                None if is_series => ColumnType::Symbol,
                None => field.inferred.column_type,
            };
            inferred.push(given.is_none());
            builder = builder.column(&field.name, column_type);
        }
        if let Some(timestamp) = timestamp {
            builder = builder.timestamp(&file.fields[timestamp].name);
        }
        if let Some(series) = series {
            builder = builder.series(series);
        }
        if let Some(unit) = request.partition_by {
            builder = builder.partition_by(unit);
        }
        let table = Arc::new(builder.build()?);
        let sources = (0..file.fields.len()).map(Some).collect();
        Ok(Self::new(file, table, sources, inferred, request))
    }

    fn new(
        file: &FileFields,
        table: Arc<TableSchema>,
        sources: Vec<Option<usize>>,
        inferred: Vec<bool>,
        request: &ImportRequest,
    ) -> Self {
        let field = |source: &Option<usize>| source.and_then(|source| file.fields.get(source));
        let time = |source: &Option<usize>| {
            let Some(field) = field(source) else { return TimeFormat::Iso };
            let given = request.time_units.iter().find(|(name, _)| name.eq_ignore_ascii_case(&field.name));
            given.map_or(field.time, |(_, unit)| TimeFormat::Epoch(*unit))
        };
        let name = |(column, source): (&tickstone_model::Column, &Option<usize>)| {
            field(source).map_or_else(|| column.name.clone(), |field| field.source.clone())
        };
        Self {
            times: sources.iter().map(time).collect(),
            names: table.columns().iter().zip(&sources).map(name).collect(),
            field_count: file.fields.len(),
            constants: vec![None; table.columns().len()],
            table,
            sources,
            inferred,
        }
    }

    /// The plan for a text parser.
    pub(crate) fn plan(&self) -> Plan {
        self.plan_of(&(0..self.sources.len()).collect::<Vec<_>>(), true)
    }

    /// The plan for a text parser of some columns alone; whether a row without a time is a bad one.
    pub(crate) fn plan_of(&self, columns: &[usize], timed: bool) -> Plan {
        let mut fields = vec![None; self.field_count];
        for (place, column) in columns.iter().enumerate() {
            if let Some(field) = self.sources[*column].and_then(|source| fields.get_mut(source)) {
                *field = Some(place);
            }
        }
        let plan = |&index: &usize| ColumnPlan {
            source: self.names[index].clone(),
            column_type: self.table.columns()[index].column_type,
            time: self.times[index],
            required: timed && self.table.timestamp() == Some(index),
            inferred: self.inferred[index],
        };
        Plan { columns: columns.iter().map(plan).collect(), fields }
    }

    /// What each column was taken as.
    pub(crate) fn columns_report(&self) -> Vec<ColumnReport> {
        let report = |(index, column): (usize, &tickstone_model::Column)| {
            let is_time = column.column_type == ColumnType::Timestamp && self.sources[index].is_some();
            ColumnReport {
                name: column.name.clone(),
                column_type: column.column_type,
                time: is_time.then_some(self.times[index]),
                inferred: self.inferred[index],
            }
        };
        self.table.columns().iter().enumerate().map(report).collect()
    }

    pub(crate) fn timestamp_name(&self) -> Option<String> {
        self.table.timestamp().map(|timestamp| self.table.columns()[timestamp].name.clone())
    }

    pub(crate) fn series_names(&self) -> Vec<String> {
        self.table.series().iter().map(|series| self.table.columns()[*series].name.clone()).collect()
    }
}

fn find(file: &FileFields, name: &str) -> Option<usize> {
    file.fields.iter().position(|field| field.name.eq_ignore_ascii_case(name))
}

/// Two fields whose names a table does not tell apart: the second one's name and the first one's, as the file has them.
fn twice(file: &FileFields) -> Option<(String, String)> {
    let mut seen: HashMap<String, &FileField> = HashMap::new();
    file.fields.iter().find_map(|field| {
        let before = seen.insert(field.name.to_lowercase(), field)?;
        Some((field.source.clone(), before.source.clone()))
    })
}

fn given_type(request: &ImportRequest, name: &str) -> Option<ColumnType> {
    request.types.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, given)| *given)
}

/// The designated timestamp of a new table: the one asked for; the one the file names; of those of type
/// TIMESTAMP the likeliest name, then any time's name, then the first; where no column is all times, one
/// that mostly is and has a time's name, so that the others are told of as bad rows.
fn designated_timestamp(file: &FileFields, request: &ImportRequest) -> Option<usize> {
    if let Some(name) = &request.timestamp {
        return find(file, name);
    }
    if let Some(marked) = file.fields.iter().position(|field| field.role == Role::Timestamp) {
        return Some(marked);
    }
    let is_timestamp = |field: &FileField| {
        given_type(request, &field.name).unwrap_or(field.inferred.column_type) == ColumnType::Timestamp
    };
    let rank = |name: &str| timestamp_rank(name).unwrap_or(usize::MAX - usize::from(is_time_name(name)));
    let candidates = file.fields.iter().enumerate().filter(|(_, field)| is_timestamp(field));
    let best = candidates.min_by_key(|(index, field)| (rank(&field.name), *index)).map(|(index, _)| index);
    let is_mostly_time = |field: &FileField| {
        field.inferred.mostly_time && is_time_name(&field.name) && given_type(request, &field.name).is_none()
    };
    best.or_else(|| file.fields.iter().position(is_mostly_time))
}

/// The series key of a new table, `None` for the default.
fn series_key(file: &FileFields, request: &ImportRequest) -> Option<Vec<String>> {
    if request.series.is_some() {
        return request.series.clone();
    }
    let mut marked: Vec<(usize, String)> = Vec::new();
    for field in &file.fields {
        if let Role::Series(ordinal) = field.role {
            marked.push((ordinal, field.name.clone()));
        }
    }
    marked.sort();
    (!marked.is_empty()).then(|| marked.into_iter().map(|(_, name)| name).collect())
}

/// Refuses what a request says of a new table where the table is there and differs.
fn check_wishes(table: &TableSchema, request: &ImportRequest) -> Result<()> {
    let other = |what: String, found: String, wanted: String| {
        Err(ImportError::OtherShape { table: table.name().to_string(), what, found, wanted })
    };
    let name_of = |index: usize| table.columns()[index].name.as_str();
    if let Some(wanted) = &request.timestamp {
        let found = table.timestamp().map_or("none", name_of);
        if !found.eq_ignore_ascii_case(wanted) {
            return other("designated timestamp".to_string(), found.to_string(), wanted.clone());
        }
    }
    if let Some(wanted) = &request.series {
        let found: Vec<_> = table.series().iter().map(|index| name_of(*index)).collect();
        let same =
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| a.eq_ignore_ascii_case(b));
        if !same {
            return other("series key".to_string(), found.join(", "), wanted.join(", "));
        }
    }
    if let Some(wanted) = request.partition_by.filter(|wanted| *wanted != table.partition_by()) {
        return other("partition length".to_string(), table.partition_by().to_string(), wanted.to_string());
    }
    for (name, wanted) in &request.types {
        let found = table.column_index(name).map(|index| table.columns()[index].column_type);
        if let Some(found) = found.filter(|found| found != wanted) {
            return other(format!("type of '{name}'"), found.to_string(), wanted.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The error a user sees: what, then detail, then hint, and where in the text.

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, Diagnostic, SchemaError};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tickstone_engine::EngineError;
use tickstone_model::ColumnType;

pub use tickstone_engine::ErrorKind;

pub(crate) mod dates;
mod sql;
mod sqlstate;
mod words;

pub(crate) use words::SEVERAL_ROWS;

pub use sql::{Position, SqlError};
pub use sqlstate::SqlState;

const SHOW_TABLES: &str = "SHOW TABLES lists the tables";

/// The result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, QueryError>;

/// A statement that failed. Unless it says otherwise, nothing of the statement was stored.
#[derive(Debug, Clone)]
pub struct QueryError {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// What went wrong, in one sentence.
    pub message: String,
    /// More about it, where there is more.
    pub detail: Option<String>,
    /// What to do or write instead, where that is known.
    pub hint: Option<String>,
    /// Where in the statement's text, where that is known.
    pub position: Option<Position>,
    state: Option<SqlState>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl QueryError {
    /// An error of this kind. Types in its texts, outside of quotes, become those of SQL: `Int64` is BIGINT.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = words::our_types(&message.into());
        Self { kind, message, detail: None, hint: None, position: None, state: None, source: None }
    }

    /// A request that is wrong and will fail again.
    pub fn request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::FixRequest, message)
    }

    /// Something the dialect reads and the database does not do yet.
    pub fn not_supported(what: &str) -> Self {
        Self::request(format!("{what} is not supported yet")).state(SqlState::NotSupported)
    }

    /// Adds what to do or write instead.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(words::our_types(&hint.into())), ..self }
    }

    /// Adds more about it.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(words::our_types(&detail.into())), ..self }
    }

    /// Adds where in the text.
    #[must_use]
    pub fn at(self, position: Position) -> Self {
        Self { position: Some(position), ..self }
    }

    /// With another name in the place of one.
    #[must_use]
    pub fn naming(self, from: &str, to: &str) -> Self {
        let named = |text: String| text.replace(from, to);
        let (detail, hint) = (self.detail.map(named), self.hint.map(named));
        Self { message: named(self.message), detail, hint, ..self }
    }

    /// What a panic says.
    pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_string()
    }

    /// The error of a panic that was caught, of the kind "report".
    pub fn of_panic(panic: &(dyn Any + Send)) -> Self {
        Self::of_defect(&Self::said(panic), None)
    }

    /// The error of a panic of the reader of a file: it checks less than it relies on.
    pub(crate) fn of_damaged_file(file: &str, panic: &(dyn Any + Send)) -> Self {
        let said = Self::said(panic);
        let error = Self::request(format!("{file} is damaged: what it holds cannot be decoded ({said})"));
        error.hint("where other programs read the file, please report it")
    }

    /// With as much of the statement as anybody reads.
    pub(crate) fn of_defect(said: &str, statement: Option<&str>) -> Self {
        const CHARS_MAX: usize = 2_000;
        if let Some(error) = words::past_offsets(said) {
            return error;
        }
        let error = Self::new(ErrorKind::Report, format!("the statement met a defect: {said}"))
            .hint("please report it with the statement; the database goes on");
        match statement {
            Some(text) => {
                error.detail(format!("statement: {}", text.chars().take(CHARS_MAX).collect::<String>()))
            }
            None => error,
        }
    }

    /// The table whose part was removed by another process before it was opened, where that is what happened.
    pub(crate) fn table_of_part_gone(&self) -> Option<u32> {
        match self.source.as_deref()?.downcast_ref::<EngineError>()? {
            EngineError::PartGone { table, .. } => Some(*table),
            _ => None,
        }
    }

    /// Adds what it came of.
    #[must_use]
    pub(crate) fn caused_by(self, source: Arc<dyn std::error::Error + Send + Sync>) -> Self {
        Self { source: Some(source), ..self }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, " at line {line}, column {column}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, "\n{detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<SqlError> for QueryError {
    fn from(error: SqlError) -> Self {
        let position = Position { line: error.line, column: error.column };
        let state = sqlstate::of_text(&error.message);
        let made = Self::request(error.message).at(position).state(state);
        Self { hint: error.hint, ..made }
    }
}

impl From<tickstone_model::ModelError> for QueryError {
    fn from(error: tickstone_model::ModelError) -> Self {
        let (state, made) = (sqlstate::of_model(&error), Self::request(error.to_string()));
        Self { state, source: Some(Arc::new(error)), ..made }
    }
}

impl From<EngineError> for QueryError {
    fn from(error: EngineError) -> Self {
        let hint = match &error {
            EngineError::NoSuchTable { .. } => Some(SHOW_TABLES.to_string()),
            EngineError::NoSuchStream { .. } => Some("SHOW STREAMS lists them".to_string()),
            _ => None,
        };
        let state = sqlstate::of_engine(&error);
        let message = match &error {
            EngineError::Io { .. } if state == Some(SqlState::DiskFull) => {
                format!("the disk is full ({error}); free space, then try again")
            }
            _ => error.to_string(),
        };
        let made = Self::new(error.kind(), message);
        Self { hint, state, source: Some(Arc::new(error)), ..made }
    }
}

impl From<ArrowError> for QueryError {
    fn from(error: ArrowError) -> Self {
        DataFusionError::from(error).into()
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let (error, diagnostic) = unwrap(error);
        let mut made = of_root(error);
        if let Some(diagnostic) = diagnostic {
            describe(&mut made, *diagnostic);
        }
        made
    }
}

/// Takes off what only wraps: contexts, sharing, and the diagnostic, which is kept.
fn unwrap(mut error: DataFusionError) -> (DataFusionError, Option<Box<Diagnostic>>) {
    let mut diagnostic = None;
    loop {
        error = match error {
            DataFusionError::Diagnostic(found, inner) => {
                diagnostic = Some(found);
                *inner
            }
            DataFusionError::Context(_, inner) => *inner,
            DataFusionError::Collection(mut errors) if !errors.is_empty() => errors.swap_remove(0),
            DataFusionError::ArrowError(inner, text) => match *inner {
                ArrowError::ExternalError(inner) => match inner.downcast::<DataFusionError>() {
                    Ok(inner) => *inner,
                    Err(inner) => return (DataFusionError::External(inner), diagnostic),
                },
                other => return (DataFusionError::ArrowError(Box::new(other), text), diagnostic),
            },
            DataFusionError::External(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => *inner,
                Err(inner) => return (DataFusionError::External(inner), diagnostic),
            },
            DataFusionError::Shared(shared) => match Arc::try_unwrap(shared) {
                Ok(inner) => inner,
                Err(shared) => return (DataFusionError::Shared(shared), diagnostic),
            },
            other => return (other, diagnostic),
        }
    }
}

fn of_root(error: DataFusionError) -> QueryError {
    // Of temporary files, by whatever way it came.
    if matches!(
        error,
        DataFusionError::IoError(_) | DataFusionError::ArrowError(..) | DataFusionError::Shared(_)
    ) && let Some(made) = out_of_temporary_disk(&error.to_string())
    {
        return made;
    }
    match error {
        DataFusionError::External(inner) => of_external(inner),
        DataFusionError::SchemaError(error, _) => of_schema(*error),
        DataFusionError::Internal(message) => of_internal(&clean(&message)),
        DataFusionError::IoError(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            let what = format!("rows that memory has no room for: {error}");
            QueryError::new(ErrorKind::FreeSpace, what).state(SqlState::DiskFull)
        }
        DataFusionError::ResourcesExhausted(message) => out_of_memory(&message),
        DataFusionError::Plan(message) => of_plan(&clean(&message)),
        DataFusionError::NotImplemented(message)
        | DataFusionError::Configuration(message)
        | DataFusionError::Execution(message) => words::reworded(&clean(&message)),
        DataFusionError::SQL(error, _) => QueryError::request(clean(&error.to_string())),
        DataFusionError::ArrowError(error, _) => of_arrow(&error),
        DataFusionError::Shared(error) => match error.find_root() {
            DataFusionError::External(inner) if inner.is::<EngineError>() => {
                let kind = inner.downcast_ref::<EngineError>().map_or(ErrorKind::Report, EngineError::kind);
                QueryError::new(kind, inner.to_string())
            }
            DataFusionError::External(inner) if inner.is::<QueryError>() => {
                let unknown = || QueryError::new(ErrorKind::Report, inner.to_string());
                inner.downcast_ref::<QueryError>().map_or_else(unknown, Clone::clone)
            }
            DataFusionError::ArrowError(error, _) => of_arrow(error),
            DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
            DataFusionError::Internal(message) => of_internal(&clean(message)),
            other => words::reworded(&clean(&other.strip_backtrace())),
        },
        other => QueryError::new(ErrorKind::Report, clean(&other.strip_backtrace())),
    }
}

/// What DataFusion takes for its own defect: many of its functions say so of values and types they cannot take.
fn of_internal(message: &str) -> QueryError {
    const OF_VALUES: [&str; 20] = [
        "Cannot run range queries",
        "nsupported data type",
        "Unexpected data type",
        "nexpected datatype",
        "nexpected type",
        "nexpected argument type",
        "Unexpected scalar type",
        "Invalid argument type",
        "Unsupported data types",
        "does not support",
        "is not implemented for",
        "failed to convert size",
        "output size overflow",
        "got invalid stride",
        "indices are 1 based",
        "Unable to cast",
        "Failed to coerce types",
        "could not cast",
        "not implemented for type",
        "is never called",
    ];
    let message = message.split("\nThis issue was likely caused by a bug").next().unwrap_or(message);
    match OF_VALUES.iter().any(|words| message.contains(words)) {
        true => words::reworded(message.trim_end_matches('.')),
        false => QueryError::new(ErrorKind::Report, message),
    }
}

/// What ends a statement whose temporary files take more than they may, as DataFusion says it: "… exceeded the allowable
/// limit of 1024.0 KB. Please …".
fn out_of_temporary_disk(message: &str) -> Option<QueryError> {
    let (_, rest) = message.split_once("exceeded the allowable limit of ")?;
    let most = rest.split(". ").next()?;
    let what = format!("the rows that memory has no room for take more temporary disk than {most}");
    let made = QueryError::new(ErrorKind::FreeSpace, what);
    Some(made.hint("an admin raises the limit: ALTER USER … SET temp_disk; or select fewer rows or columns"))
}

fn out_of_memory(message: &str) -> QueryError {
    // Of the pool itself: `Failed to allocate additional 1 MB for X[0] with … already allocated …`.
    let asked = message.strip_prefix("Failed to allocate additional ");
    let asked = asked.and_then(|rest| rest.split_once(" for ")).and_then(|(more, rest)| {
        let who = rest.split(" with ").next()?;
        Some((more, who.split('[').next().unwrap_or(who)))
    });
    let what = match asked {
        Some((more, who)) => format!("{who} needs {more} more than there is room for (query_memory)"),
        None => clean(message),
    };
    QueryError::new(ErrorKind::FreeSpace, what).hint("raise query_memory, or select fewer rows or columns")
}

/// Says what planning found wrong in our words where it has only its own.
fn of_plan(message: &str) -> QueryError {
    let table = message.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
    match table {
        Some(table) => {
            let table = table.rsplit('.').next().unwrap_or(table);
            let made = QueryError::request(format!("table '{table}' does not exist")).hint(SHOW_TABLES);
            made.state(SqlState::UndefinedTable)
        }
        None => words::reworded(message),
    }
}

fn of_external(error: Box<dyn std::error::Error + Send + Sync>) -> QueryError {
    let error = match error.downcast::<EngineError>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    let error = match error.downcast::<SqlError>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    match error.downcast::<QueryError>() {
        Ok(error) => *error,
        // Of another library, which was given a value of the statement's: a regular expression, a date, a number.
        Err(error) => words::reworded(&error.to_string()),
    }
}

fn of_arrow(error: &ArrowError) -> QueryError {
    let made = words::reworded(&said_by_arrow(error));
    match error {
        ArrowError::DivideByZero => made.state(SqlState::DivisionByZero),
        ArrowError::ArithmeticOverflow(_) => made.state(SqlState::OutOfRange),
        ArrowError::CastError(_) | ArrowError::ParseError(_) => made.state(SqlState::InvalidText),
        _ => made,
    }
}

fn said_by_arrow(error: &ArrowError) -> String {
    match error {
        ArrowError::CastError(message)
        | ArrowError::ParseError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message) => message.clone(),
        ArrowError::DivideByZero => "division by zero".to_string(),
        other => other.to_string(),
    }
}

fn of_schema(error: SchemaError) -> QueryError {
    match error {
        // A name that planning itself gave.
        SchemaError::FieldNotFound { field, .. } if field.name.starts_with("__") => {
            words::reworded(&format!("'{}'", field.name))
        }
        SchemaError::FieldNotFound { field, valid_fields } => {
            let mut made = QueryError::request(format!("column '{}' does not exist", field.name))
                .state(SqlState::UndefinedColumn);
            if let Some(span) = field.spans().first() {
                made = made.at(Position { line: span.start.line, column: span.start.column });
            }
            let hint = match nearest(&field.name, valid_fields.iter().map(|column| column.name.as_str())) {
                Some(name) => Some(format!("did you mean '{name}'?")),
                None if valid_fields.is_empty() => None,
                None if field.relation.is_some() => Some(format!("columns are {}", listed(&valid_fields))),
                None => Some(format!(
                    "columns are {}; a text stands in single quotes: '{}'",
                    listed(&valid_fields),
                    field.name
                )),
            };
            QueryError { hint, ..made }
        }
        SchemaError::AmbiguousReference { field } => {
            let name = &field.name;
            let made = match field.relation {
                // It says its table already.
                Some(_) => {
                    QueryError::request(format!("'{name}' is a column and an item of the list beside it"))
                        .hint(format!("give the item another name: … AS other_{name}"))
                }
                None => QueryError::request(format!("column '{name}' is in more than one table"))
                    .hint(format!("write which table's: t.{name}")),
            };
            made.state(SqlState::AmbiguousColumn)
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => QueryError::request(format!(
            "two columns of the result are named '{qualifier}.{name}'"
        ))
        .hint(
            "rename one of them with AS; a table that is joined with itself needs two aliases: t a JOIN t b",
        ),
        SchemaError::DuplicateUnqualifiedField { name } => {
            QueryError::request(format!("two columns of the result are named '{name}'"))
                .hint("rename one of them with AS")
        }
    }
}

fn listed(columns: &[Column]) -> String {
    const MOST: usize = 12;
    let mut names: Vec<&str> = columns.iter().take(MOST).map(|column| column.name.as_str()).collect();
    if columns.len() > MOST {
        names.push("…");
    }
    names.join(", ")
}

/// The name most like one that is none, where one is like enough.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded = name.to_lowercase();
    let (edits, nearest) = names.map(|other| (edits(&folded, &other.to_lowercase()), other)).min()?;
    (edits <= 1 + name.chars().count() / 4).then_some(nearest)
}

/// Insertions, removals and exchanges, also of neighbours with one another, that turn one text into the other: the
/// restricted distance of Damerau and Levenshtein.
pub(crate) fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let exchanged = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = exchanged.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

/// Adds what a diagnostic knows and the error does not.
fn describe(error: &mut QueryError, diagnostic: Diagnostic) {
    if let Some(span) = diagnostic.span.filter(|_| error.position.is_none()) {
        error.position = Some(Position { line: span.start.line, column: span.start.column });
    }
    let joined = |texts: Vec<String>| if texts.is_empty() { None } else { Some(texts.join("; ")) };
    if error.detail.is_none() {
        let notes = diagnostic.notes.into_iter().map(|note| words::our_types(&note.message));
        error.detail = joined(notes.filter(|note| !note.starts_with("Possible function")).collect());
    }
    if error.hint.is_none() {
        error.hint = joined(diagnostic.helps.into_iter().map(|help| help.message).collect());
    }
}

/// A message without the words its library puts before it and the trace it puts after it.
fn clean(message: &str) -> String {
    let message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    let mut rest = message.trim();
    for prefix in
        ["Error during planning: ", "Execution error: ", "SQL error: ", "This feature is not implemented: "]
    {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    rest.trim_end_matches('.').to_string()
}

/// What SQL calls a type, or what Arrow does where SQL has no name for it.
pub fn type_name(data_type: &DataType) -> String {
    let ours = ColumnType::from_arrow(data_type).map(|column_type| column_type.to_string());
    ours.unwrap_or_else(|| words::our_types(&data_type.to_string()))
}

impl QueryError {
    /// The name that is no function, where this is what it says.
    pub(crate) fn unknown_function(&self) -> Option<&str> {
        self.message.strip_prefix("function '")?.strip_suffix("' does not exist")
    }

    /// The name that is no table, where this is what it says.
    pub(crate) fn unknown_table(&self) -> Option<&str> {
        self.message.strip_prefix("table '")?.strip_suffix("' does not exist")
    }

    /// The same, where the name is that of a window function after all.
    #[must_use]
    pub(crate) fn over_window(self) -> Self {
        let made = self.unknown_function().map(words::over_window);
        match made {
            Some(made) => Self { position: self.position, ..made },
            None => self,
        }
    }
}

/// An engine error on its way through DataFusion; [`QueryError`] finds it again.
pub(crate) fn external(error: EngineError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An Arrow error on its way through DataFusion.
pub(crate) fn from_arrow(error: ArrowError) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(error), None)
}

#[cfg(test)]
mod tests;

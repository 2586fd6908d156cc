//! Files in the place of tables: `FROM 'data/*.parquet'`, `FROM read_csv('x.txt', delim => '|')`.
//!
//! Each becomes a table whose name is the whole call in one spelling, which whoever binds the statement knows the file by,
//! under an alias that its columns can be qualified with: the file's name without its endings, or the function's where
//! several files are named.

use super::SqlError;
use super::cursor::Result;
use super::marker::place;
use crate::paths::{FileFormat, is_pattern};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, TableAlias,
    TableFactor, TableFunctionArgs, UnaryOperator, Value, VisitorMut,
};
use std::fmt;
use std::ops::ControlFlow;

/// The functions that read files, and the format that they read; `None`: by each file's name.
const FUNCTIONS: [(&str, Option<FileFormat>); 11] = [
    ("read_file", None),
    ("read_parquet", Some(FileFormat::Parquet)),
    ("parquet_scan", Some(FileFormat::Parquet)),
    ("read_csv", Some(FileFormat::Csv)),
    ("read_csv_auto", Some(FileFormat::Csv)),
    ("read_json", Some(FileFormat::Ndjson)),
    ("read_json_auto", Some(FileFormat::Ndjson)),
    ("read_ndjson", Some(FileFormat::Ndjson)),
    ("read_ndjson_auto", Some(FileFormat::Ndjson)),
    ("read_arrow", Some(FileFormat::Arrow)),
    ("arrow_scan", Some(FileFormat::Arrow)),
];

/// Files that a statement reads where a table could stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileCall {
    /// The format; `None`: by each file's name.
    pub(crate) format: Option<FileFormat>,
    /// Paths, patterns and folders.
    pub(crate) patterns: Vec<String>,
    /// Options by name, in lower case.
    pub(crate) options: Vec<(String, OptionValue)>,
}

/// What an option is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptionValue {
    /// A text, number or truth value, as a text.
    One(String),
    /// `['a', 'b']`.
    List(Vec<String>),
    /// `{'a': 'x', 'b': 'y'}`.
    Pairs(Vec<(String, String)>),
}

impl fmt::Display for FileCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let list = |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
        let function =
            FUNCTIONS.iter().find(|(_, format)| *format == self.format).map_or("", |(name, _)| name);
        match self.patterns.as_slice() {
            [only] => write!(f, "{function}({}", quoted(only))?,
            several => write!(f, "{function}([{}]", list(several))?,
        }
        for (name, value) in &self.options {
            match value {
                OptionValue::One(value) => write!(f, ", {name} => {}", quoted(value))?,
                OptionValue::List(values) => write!(f, ", {name} => [{}]", list(values))?,
                OptionValue::Pairs(pairs) => {
                    let pairs: Vec<String> = pairs
                        .iter()
                        .map(|(key, value)| format!("{}: {}", quoted(key), quoted(value)))
                        .collect();
                    write!(f, ", {name} => {{{}}}", pairs.join(", "))?;
                }
            }
        }
        f.write_str(")")
    }
}

/// Opens the files of a call.
pub(crate) type OpenFiles<'a> = dyn FnMut(&FileCall) -> std::result::Result<(), crate::QueryError> + 'a;

/// Puts tables in the places of the files that a statement reads; each call is opened on the way. What `is_table` by its
/// name stays one.
///
/// # Errors
/// [`crate::QueryError`] where arguments are wrong, with the place, and those of `open`.
pub(crate) fn place_files(
    statement: &mut super::Statement,
    is_table: &dyn Fn(&str) -> bool,
    open: &mut OpenFiles<'_>,
) -> std::result::Result<(), crate::QueryError> {
    let mut files = Files { is_table, open, aliases: Vec::new() };
    match statement.walk_queries_mut(&mut files) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Files<'a, 'b> {
    is_table: &'a dyn Fn(&str) -> bool,
    open: &'a mut OpenFiles<'b>,
    /// The aliases given so far.
    aliases: Vec<String>,
}

impl VisitorMut for Files<'_, '_> {
    type Break = Box<crate::QueryError>;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        match self.place(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

impl Files<'_, '_> {
    fn place(&mut self, factor: &mut TableFactor) -> std::result::Result<(), crate::QueryError> {
        let TableFactor::Table { name, alias, args, .. } = factor else { return Ok(()) };
        let Some((call, stem)) = call_of(name, args.as_ref())? else { return Ok(()) };
        if args.is_none() && (self.is_table)(&call.patterns[0]) {
            return Ok(());
        }
        (self.open)(&call)?;
        let span = name
            .0
            .first()
            .and_then(ObjectNamePart::as_ident)
            .map_or_else(sqlparser::tokenizer::Span::empty, |i| i.span);
        let ident = |value: String| Ident { value, quote_style: Some('"'), span };
        if alias.is_none() {
            let name = self.alias(stem);
            *alias = Some(TableAlias { explicit: true, name: ident(name), columns: Vec::new(), at: None });
        }
        *name = ObjectName(vec![ObjectNamePart::Identifier(ident(call.to_string()))]);
        *args = None;
        Ok(())
    }

    /// An alias that none of the statement's files has.
    fn alias(&mut self, stem: String) -> String {
        let mut alias = stem.clone();
        let mut number = 1;
        while self.aliases.contains(&alias) {
            number += 1;
            alias = format!("{stem}_{number}");
        }
        self.aliases.push(alias.clone());
        alias
    }
}

/// Whether a text in the place of a table's name is that of files.
pub(super) fn is_file(text: &str) -> bool {
    text.contains(['.', '/']) || is_pattern(text)
}

/// The files that stand in the place of a table, and what they are called there.
fn call_of(name: &ObjectName, args: Option<&TableFunctionArgs>) -> Result<Option<(FileCall, String)>> {
    let [part] = name.0.as_slice() else { return Ok(None) };
    let Some(ident) = part.as_ident() else { return Ok(None) };
    let Some(TableFunctionArgs { args, .. }) = args else {
        let is_file = ident.quote_style == Some('\'') && is_file(&ident.value);
        let call = || FileCall { format: None, patterns: vec![ident.value.clone()], options: Vec::new() };
        return Ok(is_file.then(|| (call(), stem(&ident.value, "files"))));
    };
    let function = ident.value.to_ascii_lowercase();
    let Some((_, format)) = FUNCTIONS.iter().find(|(known, _)| *known == function) else { return Ok(None) };
    let at = place(name);
    let wrong = |what: &str| {
        SqlError::new(format!("{function} {what}"), at).hint(format!(
            "write {function}('data/*.csv'), or {function}(['a.csv', 'b.csv'], option => value)"
        ))
    };
    let mut call = FileCall { format: *format, patterns: Vec::new(), options: Vec::new() };
    for (index, arg) in args.iter().enumerate() {
        let (name, value) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op, right })) if index > 0 => {
                let named = matches!(op, sqlparser::ast::BinaryOperator::Eq).then_some(left.as_ref());
                let Some(Expr::Identifier(name)) = named else { return Err(wrong("takes options by name")) };
                (Some(name.value.to_ascii_lowercase()), right.as_ref())
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (None, value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                (Some(name.value.to_ascii_lowercase()), value)
            }
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (Some(name.value.to_ascii_lowercase()), value),
            _ => return Err(wrong("takes names of files and options")),
        };
        let value = value_of(value)
            .ok_or_else(|| wrong("takes texts, numbers, lists and pairs of them, written out"))?;
        match (name, index, value) {
            (Some(name), _, value) => call.options.push((name, value)),
            (None, 0, OptionValue::One(path)) => call.patterns.push(path),
            (None, 0, OptionValue::List(paths)) if !paths.is_empty() => call.patterns = paths,
            _ => return Err(wrong("takes a name of files, or a list of them, and options by name")),
        }
    }
    match call.patterns.as_slice() {
        [] => Err(wrong("takes the name of a file first")),
        [only] => {
            let stem = stem(only, &function);
            Ok(Some((call, stem)))
        }
        _ => Ok(Some((call, function))),
    }
}

/// What a file's rows are called: its name up to its first point; `several` where it is none's.
fn stem(path: &str, several: &str) -> String {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or_default();
    if stem.is_empty() || is_pattern(stem) { several.to_string() } else { stem.to_string() }
}

/// A value written out.
fn value_of(expr: &Expr) -> Option<OptionValue> {
    let list = |exprs: &[Expr]| exprs.iter().map(text_of).collect::<Option<Vec<_>>>().map(OptionValue::List);
    match expr {
        Expr::Array(array) => list(&array.elem),
        Expr::Nested(inner) => value_of(inner),
        Expr::Dictionary(fields) => {
            let pair = |field: &sqlparser::ast::DictionaryField| {
                Some((field.key.value.clone(), text_of(&field.value)?))
            };
            fields.iter().map(pair).collect::<Option<Vec<_>>>().map(OptionValue::Pairs)
        }
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("make_array") => {
            let FunctionArguments::List(arguments) = &function.args else { return None };
            let text = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => text_of(expr),
                _ => None,
            };
            arguments.args.iter().map(text).collect::<Option<Vec<_>>>().map(OptionValue::List)
        }
        one => text_of(one).map(OptionValue::One),
    }
}

/// A text, number or truth value, as a text.
fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Boolean(truth) => Some(truth.to_string()),
            Value::Number(number, _) => Some(number.to_string()),
            text => text.clone().into_string(),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(format!("-{}", text_of(expr)?)),
        // A bare word: header = true, types => BIGINT.
        Expr::Identifier(word) => Some(word.value.clone()),
        Expr::Nested(inner) => text_of(inner),
        _ => None,
    }
}

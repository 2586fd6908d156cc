//! What an error says beyond what planning knew: the name that was meant, and what a function was called. What EXPLAIN does
//! not say: how many rows there are that its user may not read.

use super::Session;
use crate::aside::listed;
use crate::dialect::{read_by_right, without_rightful};
use crate::error::{QueryError, Result, SqlState, nearest};
use crate::functions::DEFINED;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::format::ExplainFormat;
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;
use tickstone_model::is_same_name;

impl Session {
    /// The tables whose rows EXPLAIN must not count: those that a statement reads by the rights of a view's owner, or in
    /// part.
    ///
    /// # Errors
    /// Where it asks for a form that counts them everywhere.
    pub(super) fn veiled(&self, statement: &ast::Statement) -> Result<BTreeSet<String>> {
        let ast::Statement::Explain { verbose, format, .. } = statement else { return Ok(BTreeSet::new()) };
        let veiled = read_by_right(&statement.to_string());
        let set = &self.state().config_options().explain;
        let counts =
            *verbose || format.is_some() || set.format != ExplainFormat::Indent || set.show_statistics;
        match veiled.first().filter(|_| counts) {
            None => Ok(veiled),
            Some(table) => {
                let what = format!("this EXPLAIN would count rows of '{table}' that you may not read");
                Err(QueryError::request(what)
                    .hint("write EXPLAIN or EXPLAIN ANALYZE, without VERBOSE, FORMAT and explain.format"))
            }
        }
    }

    /// The error, said better where it is about a name that is not there.
    pub(crate) fn explained(&self, error: QueryError) -> QueryError {
        let mut error = self.as_called(self.states.functions.explained(error));
        error.message = self.as_named(error.message);
        error.detail = error.detail.map(|detail| self.as_named(detail));
        error.hint = error.hint.map(|hint| self.as_named(hint));
        if error.unknown_table().is_some_and(|name| self.pinned.is_audit_log(name)) {
            // Queries find it: this was another statement.
            error.message = "'audit' is the audit log, which is only read".to_string();
            return error.state(SqlState::Denied).hint(
                "others read it by a view of an admin's: CREATE VIEW audit_log AS SELECT … FROM audit; its rows go by the setting audit_ttl",
            );
        }
        let hinted = error.hint.as_deref().is_some_and(|hint| hint.starts_with("write "));
        let function =
            error.unknown_function().filter(|_| !hinted).and_then(|name| self.nearest_function(name));
        let meant = function.or_else(|| error.unknown_table().and_then(|name| self.nearest_table(name)));
        match meant {
            Some(name) => error.hint(format!("did you mean '{name}'?")),
            None => error,
        }
    }

    /// A text with tables' names as statements have them.
    fn as_named(&self, text: String) -> String {
        without_rightful(self.temporaries.with_names(text))
    }

    /// The error about arguments of a function by the name that the statement has for it, which may be another than
    /// planning has: `quantile(x, 0.5)`, `x[1:2]`.
    fn as_called(&self, mut error: QueryError) -> QueryError {
        let Some((name, given)) = error.message.split_once(" does not take (") else { return error };
        let Some(running) = &self.running else { return error };
        let called = called_in(running.text());
        if called.iter().any(|other| other == name) {
            return error;
        }
        if let "array_slice" | "array_element" = name
            && running.text().contains('[')
        {
            let of = given.split([',', ')']).next().unwrap_or_default();
            let written = if name == "array_slice" { "x[from:to]" } else { "x[place]" };
            error.message = format!("{written} is not of a {of}");
            return error.hint("it is of a list or a text");
        }
        let state = self.state();
        let is_it = |other: &&String| {
            let of_scalars = state.scalar_functions().get(*other).map(|of| of.name());
            let of_aggregates = state.aggregate_functions().get(*other).map(|of| of.name());
            let of_windows = state.window_functions().get(*other).map(|of| of.name());
            let is_extract = name == "date_part" && *other == "extract";
            is_extract || [of_scalars, of_aggregates, of_windows].contains(&Some(name))
        };
        if let Some(other) = called.iter().find(is_it) {
            let renamed = |text: &str| text.replace(&format!("{name}("), &format!("{other}("));
            error.hint = error.hint.as_deref().map(renamed);
            error.message = format!("{other} does not take ({given}");
        }
        error
    }

    fn nearest_function(&self, name: &str) -> Option<String> {
        let state = self.state();
        let scalars = state.scalar_functions().keys().chain(state.higher_order_functions().keys());
        let others = state.aggregate_functions().keys().chain(state.window_functions().keys());
        let built_in = scalars.chain(others).map(String::as_str);
        let names = built_in.chain(DEFINED.iter().map(|of| of.name)).filter(|name| !name.starts_with("__"));
        nearest(name, names).map(str::to_string)
    }

    fn nearest_table(&self, name: &str) -> Option<String> {
        let snapshot = self.snapshot();
        let tables = listed(&snapshot).map(|table| table.schema().name());
        let frames = self.pinned.frame_names();
        let own = frames.iter().map(String::as_str).chain(self.temporaries.names());
        // One of the very name is not what was meant: it is no table, or is dropped by now.
        let others = tables.chain(own).filter(|other| !is_same_name(other, name));
        nearest(name, others).map(str::to_string)
    }
}

/// The names that are called in a text, in small letters.
fn called_in(text: &str) -> Vec<String> {
    let mut called = Vec::new();
    for before in text.split('(') {
        let word = before.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
        called.extend(word.filter(|word| !word.is_empty()).map(str::to_lowercase));
    }
    called
}

/// What EXPLAIN gave, names as tables have them, without counts of the rows of these tables: those of their scans, and of
/// what stands above a scan up to the filter that leaves the rows that may be read.
pub(super) fn veil(batch: &RecordBatch, tables: &BTreeSet<String>) -> Result<RecordBatch> {
    let column = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8 => {
                let texts = column.as_string::<i32>().iter();
                Arc::new(
                    texts.map(|text| text.map(|text| veiled_text(text, tables))).collect::<StringArray>(),
                )
            }
            _ => Arc::clone(column),
        }
    };
    Ok(RecordBatch::try_new(batch.schema(), batch.columns().iter().map(column).collect())?)
}

fn veiled_text(text: &str, tables: &BTreeSet<String>) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines: Vec<String> = text.split('\n').map(str::to_string).collect();
    let scans = tables.iter().map(|table| format!("ScanExec: table={table}, "));
    let scans: Vec<String> = scans.collect();
    for place in 0..lines.len() {
        if !scans.iter().any(|scan| lines[place].trim_start().starts_with(scan)) {
            continue;
        }
        // Which symbols there are, in which order rows lie, and how many there are.
        if let Some(columns) = lines[place].find(", columns=[") {
            let end = lines[place][columns..].find(']').map_or(lines[place].len(), |end| columns + end + 1);
            lines[place].truncate(end);
        }
        // From the scan up.
        let mut depth = usize::MAX;
        for line in lines[..=place].iter_mut().rev().filter(|line| !line.trim().is_empty()) {
            if indent(line) >= depth {
                continue;
            }
            depth = indent(line);
            if let Some(metrics) = line.find(", metrics=[") {
                line.truncate(metrics);
            }
            if line.trim_start().starts_with("FilterExec") {
                break;
            }
        }
    }
    without_rightful(lines.join("\n"))
}

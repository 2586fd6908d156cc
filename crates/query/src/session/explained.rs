//! What an error says beyond what planning knew: the name that was meant, and what a function was called.

use super::Session;
use crate::aside::listed;
use crate::error::{QueryError, nearest};
use crate::functions::DEFINED;

impl Session {
    /// The error, said better where it is about a name that is not there.
    pub(crate) fn explained(&self, error: QueryError) -> QueryError {
        let mut error = self.as_called(self.states.functions.explained(error));
        error.message = self.temporaries.with_names(error.message);
        error.detail = error.detail.map(|detail| self.temporaries.with_names(detail));
        error.hint = error.hint.map(|hint| self.temporaries.with_names(hint));
        let hinted = error.hint.as_deref().is_some_and(|hint| hint.starts_with("write "));
        let function =
            error.unknown_function().filter(|_| !hinted).and_then(|name| self.nearest_function(name));
        let meant = function.or_else(|| error.unknown_table().and_then(|name| self.nearest_table(name)));
        match meant {
            Some(name) => error.hint(format!("did you mean '{name}'?")),
            None => error,
        }
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
        nearest(name, tables.chain(own)).map(str::to_string)
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

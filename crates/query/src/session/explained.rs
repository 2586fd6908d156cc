//! What an error says beyond what planning knew: the name that was meant.

use super::Session;
use crate::aside::listed;
use crate::error::{QueryError, nearest};
use crate::functions::DEFINED;

impl Session {
    /// The error, said better where it is about a name that is not there.
    pub(crate) fn explained(&self, error: QueryError) -> QueryError {
        let mut error = self.states.functions.explained(error);
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

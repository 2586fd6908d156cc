//! Tables of one session: CREATE TEMP TABLE.
//!
//! Each is a table of the database under a name of [`Aside`], which goes with it. The session's name for it is put into
//! each of its statements before anything looks a table up ([`crate::dialect::name_temporaries`]), and back into errors.

use crate::aside::{Aside, aside_name_in};
use std::sync::Arc;

/// Tables that one session alone has.
#[derive(Debug, Default)]
pub(crate) struct Temporaries(Vec<(String, Arc<Aside>)>);

impl Temporaries {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The session's names of them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The database's names of them.
    pub(crate) fn stored(&self) -> Vec<String> {
        self.0.iter().map(|(_, table)| table.name().to_string()).collect()
    }

    /// The database's name for a table of the session, whose name is found in any case.
    pub(crate) fn stored_as(&self, name: &str) -> Option<&str> {
        let exact = self.0.iter().find(|(own, _)| own == name);
        let found = exact.or_else(|| self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)));
        found.map(|(_, table)| table.name())
    }

    /// The session's name for a table of the database.
    pub(crate) fn name_of(&self, stored: &str) -> Option<&str> {
        self.0.iter().find(|(_, table)| table.name() == stored).map(|(name, _)| name.as_str())
    }

    /// Has a name stand for a table, in the place of one that had it.
    pub(crate) fn add(&mut self, name: String, table: Arc<Aside>) {
        self.0.retain(|(own, _)| !own.eq_ignore_ascii_case(&name));
        self.0.push((name, table));
    }

    /// Forgets tables by the database's names for them.
    pub(crate) fn forget(&mut self, stored: &[String]) {
        self.0.retain(|(_, table)| !stored.iter().any(|name| table.name() == name));
    }

    /// A text with the session's names in the places of the database's.
    pub(crate) fn with_names(&self, text: String) -> String {
        if self.is_empty() {
            return text;
        }
        let mut told = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(found) = aside_name_in(rest) {
            told.push_str(&rest[..found.start]);
            let stored = &rest[found.clone()];
            told.push_str(self.name_of(stored).unwrap_or(stored));
            rest = &rest[found.end..];
        }
        told.push_str(rest);
        told
    }
}

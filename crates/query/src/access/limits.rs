//! How much of what all share one user may take.

use crate::error::{QueryError, Result};
use std::time::Duration;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// Connections that are open.
    Connections,
    /// Milliseconds of a statement.
    StatementTimeout,
    /// Bytes of memory of all its statements.
    QueryMemory,
    /// Bytes of temporary files of all its statements.
    TempDisk,
    /// Rows that a statement gives.
    Rows,
    /// Rows that are added in a second.
    IngestRows,
    /// Share of the processors, of [`WEIGHT_MAX`].
    Weight,
}

/// The weight of users that have none of their own.
pub(crate) const WEIGHT_MAX: u64 = 100;

impl Limit {
    /// Each limit and its name in SQL.
    pub(crate) const ALL: [(Limit, &'static str); 7] = [
        (Limit::Connections, "max_connections"),
        (Limit::StatementTimeout, "statement_timeout"),
        (Limit::QueryMemory, "query_memory"),
        (Limit::TempDisk, "temp_disk"),
        (Limit::Rows, "max_rows"),
        (Limit::IngestRows, "ingest_rows_per_second"),
        (Limit::Weight, "weight"),
    ];

    /// The limit of a name.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        found.map(|(limit, _)| *limit).ok_or_else(|| {
            let names = Self::ALL.map(|(_, name)| name).join(", ");
            QueryError::request(format!("there is no limit '{name}'")).hint(format!("there are {names}"))
        })
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A value as it is shown, and read again.
    pub(crate) fn shown(self, value: u64) -> String {
        match self {
            Limit::StatementTimeout => format!("{value}ms"),
            _ => value.to_string(),
        }
    }
}

/// The limits of a user or role; none where it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits([Option<u64>; Limit::ALL.len()]);

impl Limits {
    pub(crate) fn get(&self, limit: Limit) -> Option<u64> {
        self.0[limit as usize]
    }

    pub(crate) fn set(&mut self, limit: Limit, value: Option<u64>) {
        self.0[limit as usize] = value;
    }

    /// Those that are set.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        Limit::ALL.iter().filter_map(|(limit, _)| Some((*limit, self.get(*limit)?)))
    }

    /// Its own, and where it has none the most generous of its roles.
    pub(crate) fn over<'a>(&self, roles: impl Iterator<Item = &'a Limits> + Clone) -> Limits {
        let mut all = self.clone();
        for (limit, _) in Limit::ALL {
            let of_roles = || roles.clone().filter_map(|role| role.get(limit)).max();
            all.set(limit, self.get(limit).or_else(of_roles));
        }
        all
    }

    /// Most connections at once.
    pub fn connections(&self) -> Option<u64> {
        self.get(Limit::Connections)
    }

    /// The longest that a statement runs.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.get(Limit::StatementTimeout).map(Duration::from_millis)
    }

    /// Most rows that a statement gives.
    pub fn rows(&self) -> Option<u64> {
        self.get(Limit::Rows)
    }

    /// Most rows added in a second.
    pub(crate) fn ingest_rows(&self) -> Option<u64> {
        self.get(Limit::IngestRows)
    }

    /// Most bytes of memory of all its statements.
    pub(crate) fn query_memory(&self) -> Option<usize> {
        self.get(Limit::QueryMemory).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Most bytes of temporary files of all its statements.
    pub(crate) fn temp_disk(&self) -> Option<u64> {
        self.get(Limit::TempDisk)
    }

    /// Its share of the processors.
    pub(crate) fn weight(&self) -> u64 {
        self.get(Limit::Weight).unwrap_or(WEIGHT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_limit_comes_before_those_of_roles() {
        let of = |rows| {
            let mut limits = Limits::default();
            limits.set(Limit::Rows, rows);
            limits
        };
        let roles = [of(Some(5)), of(None), of(Some(9))];
        assert_eq!(of(Some(1)).over(roles.iter()).rows(), Some(1));
        assert_eq!(of(None).over(roles.iter()).rows(), Some(9));
        assert_eq!(of(None).over([].iter()).rows(), None);
    }
}

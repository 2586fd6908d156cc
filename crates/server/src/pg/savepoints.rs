//! Savepoints of a transaction. It holds INSERTs, which cannot be taken back one by one: ROLLBACK TO ends what failed since
//! the savepoint, where nothing was inserted since. Drivers set savepoints around what may fail.

use super::connection::{Connection, Status, Stop};
use super::error::Fault;

/// A statement about savepoints, with the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Savepoint {
    /// SAVEPOINT name.
    Set(String),
    /// RELEASE [SAVEPOINT] name.
    Release(String),
    /// ROLLBACK [WORK | TRANSACTION] TO [SAVEPOINT] name.
    RollBack(String),
}

impl Savepoint {
    /// The one that a text is.
    pub(super) fn parse(sql: &str) -> Option<Self> {
        let mut words = sql.trim().trim_end_matches(';').split_whitespace();
        let first = words.next()?.to_ascii_uppercase();
        let mut rest: Vec<&str> = words.collect();
        let mut eat = |word: &str| {
            let found = rest.first().is_some_and(|next| next.eq_ignore_ascii_case(word));
            if found {
                rest.remove(0);
            }
            found
        };
        let made: fn(String) -> Self = match first.as_str() {
            "SAVEPOINT" => Savepoint::Set,
            "RELEASE" => {
                eat("SAVEPOINT");
                Savepoint::Release
            }
            "ROLLBACK" => {
                let _ = eat("WORK") || eat("TRANSACTION");
                if !eat("TO") {
                    return None;
                }
                eat("SAVEPOINT");
                Savepoint::RollBack
            }
            _ => return None,
        };
        match rest.as_slice() {
            [name] => Some(made(name.trim_matches('"').to_string())),
            _ => None,
        }
    }
}

impl Connection {
    /// Carries one out; its tag.
    ///
    /// # Errors
    /// Where no transaction is open, there is no such savepoint, or rows were inserted since.
    pub(super) fn savepoint(&mut self, savepoint: &Savepoint) -> Result<&'static str, Stop> {
        if matches!(self.status, Status::Idle | Status::Implicit) {
            return Err(Fault::new("25P01", "a savepoint is of a transaction, and none is open").into());
        }
        let failed = self.status == Status::Failed;
        let rows = self.inserted;
        let place = |name: &str, all: &[(String, u64)]| {
            let missing = || Fault::new("3B001", format!("there is no savepoint {name}"));
            all.iter().rposition(|(known, _)| known == name).ok_or_else(missing)
        };
        match savepoint {
            Savepoint::Set(_) | Savepoint::Release(_) if failed => Err(Fault::new(
                "25P02",
                "a statement of this transaction has failed: nothing is done until it ends",
            )
            .into()),
            Savepoint::Set(name) => {
                self.savepoints.push((name.clone(), rows));
                Ok("SAVEPOINT")
            }
            Savepoint::Release(name) => {
                let at = place(name, &self.savepoints)?;
                self.savepoints.truncate(at);
                Ok("RELEASE")
            }
            Savepoint::RollBack(name) => {
                let at = place(name, &self.savepoints)?;
                if self.savepoints[at].1 != rows {
                    let what =
                        format!("rows were inserted since savepoint {name}, and cannot be taken back alone");
                    return Err(Fault::new("0A000", what)
                        .hint("ROLLBACK takes the whole transaction back")
                        .into());
                }
                self.savepoints.truncate(at + 1);
                self.status = Status::Open;
                Ok("ROLLBACK")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Savepoint;

    #[test]
    fn statements_about_savepoints() {
        for (sql, wanted) in [
            ("SAVEPOINT \"_pg3_1\"", Some(Savepoint::Set("_pg3_1".into()))),
            ("release savepoint a;", Some(Savepoint::Release("a".into()))),
            ("RELEASE a", Some(Savepoint::Release("a".into()))),
            (" Rollback to savepoint a ", Some(Savepoint::RollBack("a".into()))),
            ("ROLLBACK WORK TO a", Some(Savepoint::RollBack("a".into()))),
            ("ROLLBACK", None),
            ("SAVEPOINT", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(Savepoint::parse(sql), wanted, "{sql}");
        }
    }
}

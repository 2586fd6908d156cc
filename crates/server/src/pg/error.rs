//! Errors as messages of the protocol ("Error and Notice Message Fields").

use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use tickstone_query::QueryError;
use tickstone_query::dialect::Position;

/// Errors of the protocol itself.
pub(super) const PROTOCOL_VIOLATION: &str = "08P01";

/// An error that a client is told of; the connection goes on.
#[derive(Debug)]
pub(super) struct Fault {
    code: &'static str,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    /// In characters from 1.
    position: Option<usize>,
    /// What drivers tell some errors by.
    routine: Option<&'static str>,
}

impl Fault {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None, hint: None, position: None, routine: None }
    }

    /// An error of a statement, whose text is `sql`.
    pub(super) fn of(error: QueryError, sql: &str) -> Self {
        Self {
            code: error.sql_state().code(),
            position: error.position.map(|position| characters(sql, position)),
            message: error.message,
            detail: error.detail,
            hint: error.hint,
            routine: None,
        }
    }

    /// Says which row of COPY it is.
    pub(super) fn in_row(self, number: u64) -> Self {
        Self { detail: Some(format!("in row {number} of COPY")), ..self }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// That the rows of a prepared statement are other ones now: drivers prepare it again where PostgreSQL's own name for
    /// the place says so.
    pub(super) fn outdated() -> Self {
        // Drivers look for PostgreSQL's words.
        let fault = Self::new("0A000", "cached plan must not change result type");
        let detail = "the rows of this prepared statement have other columns than when it was described";
        let (routine, detail) = (Some("RevalidateCachedQuery"), Some(detail.to_string()));
        Self { routine, detail, ..fault }.hint("prepare it again")
    }

    pub(super) fn response(self, severity: &str) -> ErrorResponse {
        ErrorResponse::new(self.fields(severity))
    }

    pub(super) fn notice(self, severity: &str) -> NoticeResponse {
        NoticeResponse::new(self.fields(severity))
    }

    fn fields(self, severity: &str) -> Vec<(u8, String)> {
        // A message must not hold the byte that ends it.
        let text = |text: String| text.replace('\0', " ");
        let mut fields = vec![
            (b'S', severity.to_string()),
            (b'V', severity.to_string()),
            (b'C', self.code.to_string()),
            (b'M', text(self.message)),
        ];
        fields.extend(self.detail.map(|detail| (b'D', text(detail))));
        fields.extend(self.hint.map(|hint| (b'H', text(hint))));
        fields.extend(self.routine.map(|routine| (b'R', routine.to_string())));
        fields.extend(self.position.map(|position| (b'P', position.to_string())));
        fields
    }
}

impl From<QueryError> for Fault {
    fn from(mut error: QueryError) -> Self {
        error.position = None;
        Self::of(error, "")
    }
}

/// A line and a column as characters from the beginning, from 1.
fn characters(sql: &str, position: Position) -> usize {
    let before = usize::try_from(position.line.saturating_sub(1)).unwrap_or(0);
    let lines = sql.split_inclusive('\n').take(before).map(|line| line.chars().count());
    lines.sum::<usize>() + usize::try_from(position.column).unwrap_or(1)
}

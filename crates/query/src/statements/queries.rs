//! SHOW QUERIES and `queries()`: what runs now.

use super::show::{batch, counts, counts_or_null, instants, numbers, strings};
use crate::access::Who;
use crate::access::standing::Standing;
use crate::database::Database;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Characters of a statement that are shown.
const TEXT_CHARACTERS_MAX: usize = 10_000;

/// One row a statement under way, in the order they began; those of one user where they may not see all.
pub(super) fn queries_batch(database: &Database, of: Option<&Standing>) -> Result<RecordBatch> {
    let all = database.running();
    let mut list = all.list();
    if let Some(standing) = of {
        list.retain(|one| one.is_of(standing.user));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let elapsed: Vec<Duration> = list.iter().map(|one| one.elapsed(all)).collect();
    let started = elapsed.iter().map(|elapsed| i64::try_from(now.saturating_sub(*elapsed).as_nanos()).ok());
    let progress: Vec<(u64, u64)> = list.iter().map(|one| one.progress().rows()).collect();
    batch(vec![
        ("id", counts(list.iter().map(|one| one.id))),
        ("state", strings(list.iter().map(|one| Some(one.state().name())))),
        ("started", instants(started)),
        ("seconds", numbers(elapsed.iter().map(|elapsed| Some(elapsed.as_secs_f64())))),
        ("rows_read", counts(progress.iter().map(|(read, _)| *read))),
        // It may count rows that its user may not read.
        (
            "rows_to_read",
            counts_or_null(progress.iter().map(|(_, selected)| of.is_none().then_some(*selected))),
        ),
        ("rows", counts(list.iter().map(|one| one.rows()))),
        ("memory_bytes", counts(list.iter().map(|one| one.memory_bytes() as u64))),
        ("user_name", strings(list.iter().map(|one| one.who().map(Who::name)))),
        (
            "protocol",
            strings(
                list.iter().map(|one| Some(one.origin().protocol).filter(|protocol| !protocol.is_empty())),
            ),
        ),
        ("address", strings(list.iter().map(|one| one.origin().address.map(|address| address.to_string())))),
        ("statement", strings(list.iter().map(|one| Some(shortened(one.text()))))),
    ])
}

/// The text up to the most characters that are shown.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

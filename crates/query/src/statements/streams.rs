//! CREATE, ALTER and DROP STREAM, and what SHOW STREAMS shows.

use super::show::{batch, counts, instants, numbers, strings};
use crate::access::standing::{Object, Standing};
use crate::database::Database;
use crate::derived::{self, Progress};
use crate::error::{QueryError, Result, external};
use crate::functions::documents::StreamTable;
use crate::session::{Outcome, PinnedSnapshot, Session};
use crate::texts::parse_size;
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result as PlanResult, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;
use std::sync::Arc;
use tickstone_engine::streams::{StreamSettings, StreamStats};
use tickstone_engine::{EngineError, TableSnapshot};
use tickstone_model::{Rights, Ttl};

/// The options of a stream, as CREATE STREAM has them.
const OPTIONS: &str = "index_documents, index_bytes, document_bytes_max, segment_bytes, max_bytes, ttl";

/// CREATE STREAM.
pub(super) async fn create(
    session: &Session,
    name: String,
    if_not_exists: bool,
    options: Vec<(String, String)>,
) -> Result<Outcome> {
    let mut settings = StreamSettings::default();
    set(&mut settings, &options)?;
    let access = session.access();
    blocking(session, move || access.make_stream(&name, settings, !if_not_exists).map(|_| ())).await?;
    Ok(Outcome::done("CREATE STREAM"))
}

/// ALTER STREAM … SET.
pub(super) async fn alter(
    session: &Session,
    name: String,
    options: Vec<(String, String)>,
) -> Result<Outcome> {
    let mut settings = session.engine().streams().get(&name)?.settings();
    set(&mut settings, &options)?;
    session.blocking(move |engine| engine.streams().alter(&name, settings)).await?;
    Ok(Outcome::done("ALTER STREAM"))
}

/// DROP STREAM.
pub(super) async fn drop(session: &Session, names: Vec<String>, if_exists: bool) -> Result<Outcome> {
    for name in &names {
        if let Some(table) = derived::tables_of(session.engine(), name).first() {
            let error = QueryError::request(format!("stream '{name}' is read by table '{table}'"));
            return Err(error.hint("DROP TABLE first"));
        }
        match session.engine().streams().get(name) {
            Err(EngineError::NoSuchStream { .. }) if if_exists => {}
            other => other.map(|_| ())?,
        }
    }
    let database = session.database().clone();
    let dropped =
        move || -> Result<()> { names.iter().try_for_each(|name| database.drop_stream(name, if_exists)) };
    blocking(session, dropped).await?;
    Ok(Outcome::done("DROP STREAM"))
}

async fn blocking(session: &Session, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let done = session.database().runtime().spawn_blocking(work).await;
    done.map_err(|error| QueryError::request(format!("a statement was cut short: {error}")))?
}

fn set(settings: &mut StreamSettings, options: &[(String, String)]) -> Result<()> {
    for (name, value) in options {
        let wrong =
            |wanted: &str| QueryError::request(format!("{name} = '{value}' cannot be: it wants {wanted}"));
        let size = || parse_size(value).ok_or_else(|| wrong("a size, as in 64MB"));
        let is_none = value.eq_ignore_ascii_case("none");
        match name.as_str() {
            "index_documents" => {
                settings.index_documents = value.parse().map_err(|_| wrong("a whole number from 1"))?;
            }
            "index_bytes" => settings.index_bytes = size()?,
            "segment_bytes" => settings.segment_bytes = size()?,
            "document_bytes_max" => {
                let most = u32::try_from(size()?);
                settings.document_bytes_max = most.map_err(|_| wrong("a size up to 512MB"))?;
            }
            "max_bytes" => settings.max_bytes = if is_none { None } else { Some(size()?) },
            "ttl" => {
                let ttl = || Ttl::parse(value).map_err(|error| QueryError::request(error.to_string()));
                settings.ttl = if is_none { None } else { Some(ttl()?) };
            }
            _ => {
                let error = QueryError::request(format!("a stream has no option '{name}'"));
                return Err(error.hint(format!("it has {OPTIONS}")));
            }
        }
    }
    Ok(())
}

/// Rows of `streams()` and SHOW STREAMS.
pub(super) fn streams_batch(database: &Database, of: Option<&Standing>) -> PlanResult<RecordBatch> {
    let engine = database.engine();
    let progress = database.host().progress().map_err(external)?;
    let mut streams = engine.streams().all().map_err(external)?;
    if let Some(standing) = of {
        streams.retain(|stream| standing.knows_stream(stream.name()));
    }
    let stats: Vec<StreamStats> = streams
        .iter()
        .map(|stream| stream.stats())
        .collect::<std::result::Result<_, _>>()
        .map_err(external)?;
    let progress: Vec<Progress> = match of {
        Some(standing) => {
            let snapshot = engine.snapshot();
            let knows = |table: &Arc<TableSnapshot>| !standing.with_any_of(table.schema()).is_none();
            progress.into_iter().filter(|of| snapshot.table(&of.table).is_some_and(knows)).collect()
        }
        None => progress,
    };
    let each = || stats.iter();
    let ns = |us: u64| i64::try_from(us).ok()?.checked_mul(1_000);
    let settings = |of: fn(&StreamSettings) -> u64| counts(each().map(|stats| of(&stats.settings)));
    batch(vec![
        ("stream", strings(each().map(|stats| Some(&stats.name)))),
        ("documents", counts(each().map(|stats| stats.documents))),
        ("buffered", counts(each().map(|stats| stats.buffered))),
        ("bytes", counts(each().map(|stats| stats.bytes))),
        ("damaged_bytes", counts(each().map(|stats| stats.damaged_bytes))),
        ("documents_a_second", numbers(each().map(|stats| Some(stats.rates.0)))),
        ("bytes_a_second", numbers(each().map(|stats| Some(stats.rates.1)))),
        ("first", instants(each().map(|stats| ns(stats.times_us?.0)))),
        ("last", instants(each().map(|stats| ns(stats.times_us?.1)))),
        ("last_seq", counts(each().map(|stats| stats.last))),
        ("index_documents", settings(|of| u64::from(of.index_documents))),
        ("index_bytes", settings(|of| of.index_bytes)),
        ("document_bytes_max", settings(|of| u64::from(of.document_bytes_max))),
        ("segment_bytes", settings(|of| of.segment_bytes)),
        ("max_bytes", strings(each().map(|stats| stats.settings.max_bytes.map(|bytes| bytes.to_string())))),
        ("ttl", strings(each().map(|stats| stats.settings.ttl.map(|ttl| ttl.to_string())))),
        ("tables", strings(each().map(|stats| tables(&progress, &stats.name)))),
        (
            "failure",
            strings(each().map(|stats| stats.failure.clone().or_else(|| failure(&progress, &stats.name)))),
        ),
    ])
}

/// The tables that are parsed from a stream, each with the number of the last document it has.
fn tables(progress: &[Progress], stream: &str) -> Option<String> {
    let of = progress.iter().filter(|of| of.stream == stream);
    let tables: Vec<String> = of.map(|of| format!("{} ({})", of.table, of.seq)).collect();
    Some(tables.join(", ")).filter(|tables| !tables.is_empty())
}

/// Why documents of a stream could not be stored in a table.
fn failure(progress: &[Progress], stream: &str) -> Option<String> {
    let mut failed = progress.iter().filter(|of| of.stream == stream);
    failed.find_map(|of| Some(format!("{}: {}", of.table, of.failure.as_ref()?)))
}

/// `stream('name' [, from [, to]])`: the documents of a stream.
#[derive(Debug)]
pub(super) struct StreamFunction {
    pub(super) pinned: Arc<PinnedSnapshot>,
}

impl TableFunctionImpl for StreamFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> PlanResult<Arc<dyn TableProvider>> {
        let (name, times) = match args.exprs() {
            [Expr::Literal(ScalarValue::Utf8(Some(name)), _), times @ ..] if times.len() <= 2 => {
                (name, times)
            }
            _ => {
                return plan_err!(
                    "stream takes the name of a stream in quotes, and two times: stream('s', from, to)"
                );
            }
        };
        let mut bounds = [0, u64::MAX];
        for (bound, expr) in bounds.iter_mut().zip(times) {
            if let Some(us) = micros(expr)? {
                *bound = us;
            }
        }
        if let Some(standing) = self.pinned.standing().filter(|of| !of.with_stream(name).has(Rights::SELECT))
        {
            let error = standing.lacks(Rights::SELECT, Object::Stream(name));
            return Err(DataFusionError::External(Box::new(error)));
        }
        let stream = self.pinned.database().engine().streams().get(name).map_err(external)?;
        Ok(Arc::new(StreamTable::new(stream, bounds[0], bounds[1])))
    }
}

/// A time as microseconds; `None` for NULL, which bounds nothing.
fn micros(expr: &Expr) -> PlanResult<Option<u64>> {
    let time = match expr {
        Expr::Literal(ScalarValue::TimestampNanosecond(time, None), _) => *time,
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => match crate::texts::parse_instant(text) {
            Some(time) => Some(time),
            None => return plan_err!("stream wants a time, and '{text}' is none"),
        },
        Expr::Literal(value, _) if value.is_null() => None,
        _ => return plan_err!("stream wants times, as in TIMESTAMP '2024-08-08T09:30:00Z'"),
    };
    Ok(time.map(|ns| u64::try_from(ns.div_euclid(1_000)).unwrap_or(0)))
}

//! Tools: what an assistant can have done, each by a name, with arguments as JSON.
//!
//! Invariant: a tool reads and changes nothing; statements of clients go through [`statements::rows`], which carries out
//! only those that give rows.

mod arguments;
mod functions;
mod list;
mod query;
mod rows;
mod statements;
mod tables;

use super::rpc::{Failure, Fault};
use crate::shared::Shared;
use arguments::Arguments;
use list::{TOOLS, Tool, Work};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::Snapshot;
use tickstone_query::{Access, ErrorKind, QueryError};

/// What a tool gives: the same as text and as JSON.
struct Told {
    text: String,
    data: Value,
}

/// How much of an answer an assistant gets.
#[derive(Debug, Clone, Copy)]
struct Limits {
    rows: usize,
    bytes: usize,
    cell_chars: usize,
}

/// A call of a tool.
struct Call<'a> {
    shared: &'a Arc<Shared>,
    /// Whose call it is.
    access: &'a Access,
    arguments: Arguments<'a>,
    limits: Limits,
}

/// `tools/list`.
pub(super) fn list() -> Value {
    json!({ "tools": TOOLS.iter().map(Tool::described).collect::<Vec<_>>() })
}

/// `tools/call`. What goes wrong inside of a tool, wrong arguments too, is a result that says so: the assistant can do
/// better then.
///
/// # Errors
/// Where it calls no tool.
pub(super) async fn call(
    shared: &Arc<Shared>,
    access: &Access,
    params: &Map<String, Value>,
) -> Result<Value, Failure> {
    let wrong = |what: String| Failure::new(Fault::WrongParameters, what);
    let name = params.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| wrong("tools/call has a name, which is a text".into()))?;
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        return Err(wrong(format!("Unknown tool: {name}; there are {}", names.join(", "))));
    };
    let none = Map::new();
    let given = match params.get("arguments") {
        None => &none,
        Some(Value::Object(given)) => given,
        Some(_) => return Err(wrong("arguments are an object".into())),
    };
    Ok(match outcome(shared, access, tool, given).await {
        Ok(Told { text, data }) => json!({
            "content": [{ "type": "text", "text": text }], "structuredContent": data, "isError": false,
        }),
        Err(error) => json!({
            "content": [{ "type": "text", "text": format!("error: {error}") }], "isError": true,
        }),
    })
}

async fn outcome(
    shared: &Arc<Shared>,
    access: &Access,
    tool: &Tool,
    given: &Map<String, Value>,
) -> Result<Told, QueryError> {
    let settings = &shared.settings;
    let limits = Limits {
        rows: settings.count("mcp_rows_max"),
        bytes: settings.bytes("mcp_answer_bytes_max"),
        cell_chars: settings.count("mcp_cell_chars_max"),
    };
    let call = Call { shared, access, arguments: Arguments::of(tool, given)?, limits };
    let (patience, of) = patience(&call);
    let running = async {
        match tool.work {
            Work::ListTables => tables::list(&call).await,
            Work::DescribeTable => tables::describe(&call).await,
            Work::SampleRows => tables::sample(&call).await,
            Work::Query => query::query(&call).await,
            Work::Explain => query::explain(&call).await,
            Work::ListFunctions => functions::list(&call).await,
            Work::DescribeFunction => functions::describe(&call).await,
        }
    };
    match patience {
        None => running.await,
        Some(patience) => tokio::time::timeout(patience, running).await.unwrap_or_else(|_| {
            let late = QueryError::request(format!("{} took longer than {of}, {patience:?}", tool.name));
            Err(late
                .hint("ask for less: a shorter time, fewer symbols, SAMPLE BY; explain says what is read"))
        }),
    }
}

/// How long a call may take, and who says so.
fn patience(call: &Call<'_>) -> (Option<Duration>, &'static str) {
    let most = call.shared.settings.time("mcp_timeout");
    let wanted = call.arguments.count("timeout_seconds").map(|seconds| Duration::from_secs(seconds as u64));
    match (wanted, most) {
        (Some(wanted), most) if most.is_none_or(|most| wanted <= most) => (Some(wanted), "timeout_seconds"),
        _ => (most, "mcp_timeout"),
    }
}

/// The tables as of now, as the user sees them.
///
/// # Errors
/// Where what another process has written cannot be read.
pub(super) async fn snapshot(shared: &Shared, access: &Access) -> Result<Arc<Snapshot>, QueryError> {
    let access = access.clone();
    let task = shared.database.runtime().spawn_blocking(move || access.snapshot());
    task.await.unwrap_or_else(|_| Err(QueryError::new(ErrorKind::Report, "the tables could not be read")))
}

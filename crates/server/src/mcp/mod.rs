//! MCP, the Model Context Protocol: an assistant asks the database as a person would.
//!
//! Owns the messages and their versions, the tools and resources that an assistant sees, and how much of an answer it
//! gets. Tools carry out only statements that give rows and change nothing.
//!
//! ```text
//! a line of stdio ─┐
//! POST /mcp ─► http ┴► Service ─► version ─┬► tools ─► statement
//!                          └► calls        └► resources
//! ```
//!
//! Specification: modelcontextprotocol.io. Enter at [`Service`].

mod calls;
mod docs;
pub(crate) mod http;
mod resources;
mod rpc;
mod tools;
mod version;

use crate::settings::Settings;
use crate::shared::Shared;
use calls::Ended;
use rpc::{Failure, Fault, Message, Request};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tickstone_query::{Access, Database};
use version::{Era, Freshness};

pub(crate) use calls::Calls;

/// What an assistant is told before anything else.
const INSTRUCTIONS: &str = "Tickstone is a time-series database for market data: trades, quotes, order books. \
    Begin with list_tables, then describe_table. SQL is that of Apache DataFusion, close to PostgreSQL's, with clauses for \
    time series: SAMPLE BY (bars), LATEST ON (newest row of each key), ASOF JOIN (what stood at the time), WINDOW JOIN and \
    more; describe_function('SAMPLE BY') explains one with examples, list_functions lists all. Timestamps are nanoseconds, \
    UTC, written '2024-08-08T09:30:00'. Large tables are read fast where the designated timestamp and the series key are \
    filtered: WHERE ts IN '2024-08-08' AND symbol = 'BTC-USD'. Aggregate in SQL: answers are cut to a number of rows. \
    Nothing can be changed here.";

/// The session of those who have a connection of their own.
const ONLY_SESSION: &str = "";

/// A database behind the protocol: answers to messages, however they come.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    access: Access,
}

impl Service {
    /// One over a database, for one client, who may do what the owner of its files may.
    pub fn new(database: Database, settings: Settings) -> Self {
        database.show_settings(settings.shown());
        database.allow_files(settings.allowed_files());
        let access = Access::of_owner(&database);
        Self { shared: Arc::new(Shared::new(database, settings, true, None)), access }
    }

    /// The longest message that is read, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.shared.settings.bytes("request_bytes_max")
    }

    /// The answer to a message, as JSON in one line; `None` where it wants none. Messages may come while others are
    /// answered, and cancel them.
    pub async fn answer(&self, message: &[u8]) -> Option<String> {
        let value = match serde_json::from_slice(message) {
            Ok(value) => value,
            Err(error) => return Some(no_json(&error).to_string()),
        };
        answers(&self.shared, &self.access, Some(ONLY_SESSION), value).await.map(|answer| answer.to_string())
    }

    /// The answer to a message that was not read because of its length.
    pub fn too_long(&self) -> String {
        let what =
            format!("the message is longer than request_bytes_max, {} bytes", self.message_bytes_max());
        rpc::answer(&Value::Null, Err(Failure::new(Fault::NoRequest, what))).to_string()
    }
}

/// The answer to what is no JSON.
fn no_json(error: &serde_json::Error) -> Value {
    rpc::answer(&Value::Null, Err(Failure::new(Fault::NoJson, format!("the message is no JSON: {error}"))))
}

/// The answer to a message, or those to several in an array (2025-03-26), one after the other. Requests of no session
/// cannot be cancelled by a message.
async fn answers(
    shared: &Arc<Shared>,
    access: &Access,
    session: Option<&str>,
    value: Value,
) -> Option<Value> {
    let Value::Array(messages) = value else { return answer(shared, access, session, value).await };
    if messages.is_empty() {
        let failure = Failure::new(Fault::NoRequest, "there is no message in the array");
        return Some(rpc::answer(&Value::Null, Err(failure)));
    }
    let mut all = Vec::new();
    for message in messages {
        all.extend(answer(shared, access, session, message).await);
    }
    (!all.is_empty()).then_some(Value::Array(all))
}

async fn answer(shared: &Arc<Shared>, access: &Access, session: Option<&str>, value: Value) -> Option<Value> {
    let request = match Message::of(value) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification { method, params }) => {
            if let (Some(session), "notifications/cancelled", Some(id)) =
                (session, method.as_str(), params.get("requestId"))
            {
                shared.mcp_calls.cancel(session, id);
            }
            return None;
        }
        Ok(Message::Answer) => return None,
        Err((id, failure)) => return Some(rpc::answer(&id, Err(failure))),
    };
    let task = carry_out(shared, access, &request);
    let Some(session) = session else { return Some(rpc::answer(&request.id, task.await)) };
    match shared.mcp_calls.run(session, &request.id, task).await {
        Ended::Done(outcome) => Some(rpc::answer(&request.id, outcome)),
        Ended::Cancelled => None,
        Ended::Twice => {
            let failure = Failure::new(Fault::NoRequest, "a request of this id is under way");
            Some(rpc::answer(&request.id, Err(failure)))
        }
    }
}

/// The answer to a request whose client has cancelled it, for those who must give one.
fn cancelled(id: &Value) -> Value {
    rpc::answer(id, Err(Failure::new(Fault::Cancelled, "the request was cancelled")))
}

async fn carry_out(shared: &Arc<Shared>, access: &Access, request: &Request) -> Result<Value, Failure> {
    let era = Era::of(request)?;
    let params = &request.params;
    let (result, freshness) = match (era, request.method.as_str()) {
        (Era::Handshake, "initialize") => (initialized(params)?, Freshness::Once),
        (Era::Handshake, "ping") => (json!({}), Freshness::Once),
        (Era::Stateless, "server/discover") => (discovered(), Freshness::Lasting),
        (_, "tools/list") => (only_page(params, tools::list())?, Freshness::Lasting),
        (_, "tools/call") => (tools::call(shared, access, params).await?, Freshness::Once),
        (_, "resources/list") => (only_page(params, resources::list())?, Freshness::Lasting),
        (_, "resources/templates/list") => (only_page(params, resources::templates())?, Freshness::Lasting),
        (_, "resources/read") => (resources::read(shared, access, era, params).await?, Freshness::Changing),
        (_, method) => {
            let what = format!("there is no method '{method}'");
            return Err(Failure::new(Fault::NoSuchMethod, what));
        }
    };
    Ok(era.dressed(result, freshness))
}

/// A list, which is always whole.
fn only_page(params: &Map<String, Value>, list: Value) -> Result<Value, Failure> {
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(list),
        Some(_) => Err(Failure::new(Fault::WrongParameters, "the list has one page: there is no cursor")),
    }
}

fn initialized(params: &Map<String, Value>) -> Result<Value, Failure> {
    let Some(asked) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(Failure::new(
            Fault::WrongParameters,
            "initialize has a protocolVersion, which is a text",
        ));
    };
    Ok(json!({
        "protocolVersion": version::agreed(asked),
        "capabilities": capabilities(),
        "serverInfo": version::server(),
        "instructions": INSTRUCTIONS,
    }))
}

fn discovered() -> Value {
    json!({
        "supportedVersions": version::all(),
        "capabilities": capabilities(),
        "instructions": INSTRUCTIONS,
    })
}

/// What the server can do. No list changes while it runs, and nothing is sent unasked.
fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {} })
}

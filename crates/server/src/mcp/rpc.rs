//! Messages of JSON-RPC 2.0: what one is, and answers to it.

use serde_json::{Map, Value, json};

/// What is wrong with a message, by the codes of JSON-RPC 2.0 and of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    NoJson,
    NoRequest,
    NoSuchMethod,
    WrongParameters,
    /// Before 2026-07-28, which has [`Fault::WrongParameters`] for it.
    NoSuchResource,
    HeadersDiffer,
    NoSuchVersion,
    /// The tables cannot be read.
    Unread,
    Cancelled,
}

impl Fault {
    pub(super) const fn code(self) -> i64 {
        match self {
            Fault::NoJson => -32700,
            Fault::NoRequest => -32600,
            Fault::NoSuchMethod => -32601,
            Fault::WrongParameters => -32602,
            Fault::NoSuchResource => -32002,
            Fault::HeadersDiffer => -32020,
            Fault::NoSuchVersion => -32022,
            Fault::Unread => -32603,
            // Of our own: neither specification has one, and outside of what both reserve.
            Fault::Cancelled => -31000,
        }
    }
}

/// Why a message is refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    message: String,
    data: Option<Value>,
}

impl Failure {
    pub(super) fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), data: None }
    }

    pub(super) fn data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// A request: it is answered.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// A text or a whole number.
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// A message of a client.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Request(Request),
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// An answer: nothing was asked.
    Answer,
}

impl Message {
    /// What an object is.
    ///
    /// # Errors
    /// Where it is no message, with its id as far as it has one.
    pub(super) fn of(value: Value) -> Result<Self, (Value, Failure)> {
        let refused = |id: &Value, what: &str| Err((id.clone(), Failure::new(Fault::NoRequest, what)));
        let Value::Object(mut members) = value else {
            return refused(&Value::Null, "a message is an object of JSON");
        };
        let id = members.remove("id");
        let known = id.clone().filter(is_id).unwrap_or(Value::Null);
        if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return refused(&known, "a message has \"jsonrpc\": \"2.0\"");
        }
        let method = match members.remove("method") {
            Some(Value::String(method)) => method,
            None if members.contains_key("result") || members.contains_key("error") => {
                return Ok(Message::Answer);
            }
            _ => return refused(&known, "a message has a method, which is a text"),
        };
        let params = match members.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => {
                let failure = Failure::new(Fault::WrongParameters, "params are an object");
                return Err((known, failure));
            }
        };
        match id {
            None => Ok(Message::Notification { method, params }),
            Some(id) if is_id(&id) => Ok(Message::Request(Request { id, method, params })),
            Some(_) => refused(&Value::Null, "an id is a text or a whole number"),
        }
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// The answer to a request.
pub(super) fn answer(id: &Value, outcome: Result<Value, Failure>) -> Value {
    match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(failure) => {
            let mut error = json!({ "code": failure.fault.code(), "message": failure.message });
            if let Some(data) = failure.data {
                error["data"] = data;
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Message, (Value, Failure)> {
        Message::of(serde_json::from_str(text).expect("it is JSON"))
    }

    #[test]
    fn what_messages_are() {
        let request = read(r#"{"jsonrpc": "2.0", "id": "a", "method": "m", "params": {"x": 1}}"#);
        let Ok(Message::Request(request)) = request else { panic!("{request:?}") };
        assert_eq!((request.id, request.method.as_str(), request.params.len()), (json!("a"), "m", 1));
        let notification = read(r#"{"jsonrpc": "2.0", "method": "m"}"#);
        assert_eq!(notification, Ok(Message::Notification { method: "m".into(), params: Map::new() }));
        for answer in [r#""result": {}"#, r#""error": {"code": 1, "message": ""}"#] {
            assert_eq!(read(&format!(r#"{{"jsonrpc": "2.0", "id": 1, {answer}}}"#)), Ok(Message::Answer));
        }
    }

    #[test]
    fn what_none_are() {
        for (text, id, fault) in [
            ("1", json!(null), Fault::NoRequest),
            ("{}", json!(null), Fault::NoRequest),
            (r#"{"id": 7, "method": "m"}"#, json!(7), Fault::NoRequest),
            (r#"{"jsonrpc": "1.0", "id": 7, "method": "m"}"#, json!(7), Fault::NoRequest),
            (r#"{"jsonrpc": "2.0", "id": 7}"#, json!(7), Fault::NoRequest),
            (r#"{"jsonrpc": "2.0", "id": 7, "method": 1}"#, json!(7), Fault::NoRequest),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "m"}"#, json!(null), Fault::NoRequest),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "m"}"#, json!(null), Fault::NoRequest),
            (r#"{"jsonrpc": "2.0", "id": 7, "method": "m", "params": []}"#, json!(7), Fault::WrongParameters),
        ] {
            let (of, failure) = read(text).expect_err(text);
            assert_eq!((of, failure.fault), (id, fault), "{text}");
        }
    }
}

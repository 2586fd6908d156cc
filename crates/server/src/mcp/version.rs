//! Versions of the protocol: those that begin with `initialize`, and those whose every request says its version.

use super::rpc::{Failure, Fault, Request};
use serde_json::{Map, Value, json};

/// The version whose requests say their version themselves.
pub(super) const STATELESS: &str = "2026-07-28";

/// The versions that begin with `initialize`, the newest first.
pub(super) const HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// The version of a request over HTTP that names none, and the last one that has several messages in one.
pub(super) const OLDEST: &str = "2025-03-26";

/// Where a request says its version.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// Where an answer says who gives it.
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// How long a client may keep a list or a guide: they change with the program.
const KEPT_MS: u64 = 3_600_000;

/// What kind of versions a request is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Handshake,
    Stateless,
}

/// How long an answer stays true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It is no answer to keep.
    Once,
    /// It changes with the tables.
    Changing,
    /// It changes with the program.
    Lasting,
}

impl Era {
    /// That of a request.
    ///
    /// # Errors
    /// Where it names a version that is not known, or says too little of itself.
    pub(super) fn of(request: &Request) -> Result<Self, Failure> {
        let Some(version) = said(&request.params) else { return Ok(Era::Handshake) };
        let wrong = |what: String| Failure::new(Fault::WrongParameters, what);
        let version = version.as_str().ok_or_else(|| wrong(format!("_meta: {VERSION_KEY} is a text")))?;
        let capabilities = request.params.get("_meta").and_then(|meta| meta.get(CAPABILITIES_KEY));
        if !capabilities.is_some_and(Value::is_object) {
            return Err(wrong(format!("_meta has {CAPABILITIES_KEY}, which is an object")));
        }
        if version == STATELESS { Ok(Era::Stateless) } else { Err(unknown(version)) }
    }

    /// A result as this era has it.
    pub(super) fn dressed(self, mut result: Value, freshness: Freshness) -> Value {
        if self == Era::Stateless {
            result["resultType"] = json!("complete");
            result["_meta"] = json!({ SERVER_KEY: server() });
            let kept = match freshness {
                Freshness::Once => return result,
                Freshness::Changing => 0,
                Freshness::Lasting => KEPT_MS,
            };
            result["ttlMs"] = json!(kept);
            result["cacheScope"] = json!("private");
        }
        result
    }
}

/// The version that a request says it is of.
pub(super) fn said(params: &Map<String, Value>) -> Option<&Value> {
    params.get("_meta")?.get(VERSION_KEY)
}

/// All versions, the newest first.
pub(super) fn all() -> Vec<&'static str> {
    [STATELESS].into_iter().chain(HANDSHAKE).collect()
}

/// The refusal of a version.
pub(super) fn unknown(version: &str) -> Failure {
    let failure = Failure::new(Fault::NoSuchVersion, "Unsupported protocol version");
    failure.data(json!({ "supported": all(), "requested": version }))
}

/// The refusal of a request of the stateless version that does not say so itself.
pub(super) fn unsaid() -> Failure {
    Failure::new(Fault::WrongParameters, format!("_meta has {VERSION_KEY} and {CAPABILITIES_KEY}"))
}

/// The version that a client and this server speak: what it asks for, else the newest that begins as it does.
pub(super) fn agreed(asked: &str) -> &'static str {
    HANDSHAKE.into_iter().find(|version| *version == asked).unwrap_or(HANDSHAKE[0])
}

/// Who answers.
pub(super) fn server() -> Value {
    json!({ "name": "tickstone", "title": "Tickstone", "version": env!("CARGO_PKG_VERSION") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(meta: Value) -> Result<Era, Failure> {
        let params = json!({ "_meta": meta }).as_object().cloned().expect("an object");
        Era::of(&Request { id: json!(1), method: "tools/list".into(), params })
    }

    #[test]
    fn a_request_says_its_version_or_none() {
        assert_eq!(of(json!({})), Ok(Era::Handshake));
        assert_eq!(of(json!({ VERSION_KEY: STATELESS, CAPABILITIES_KEY: {} })), Ok(Era::Stateless));
        let fault = |meta| of(meta).expect_err("it is refused").fault;
        assert_eq!(fault(json!({ VERSION_KEY: STATELESS })), Fault::WrongParameters);
        assert_eq!(fault(json!({ VERSION_KEY: 7, CAPABILITIES_KEY: {} })), Fault::WrongParameters);
        assert_eq!(fault(json!({ VERSION_KEY: "1900-01-01", CAPABILITIES_KEY: {} })), Fault::NoSuchVersion);
    }

    #[test]
    fn the_version_that_is_agreed_on() {
        for version in HANDSHAKE {
            assert_eq!(agreed(version), version);
        }
        for other in ["2024-11-05", STATELESS, "2030-01-01", ""] {
            assert_eq!(agreed(other), "2025-11-25");
        }
    }
}

//! What a client asks: a subscription, or that one ends.

use crate::told::Format;
use serde_json::Value;

/// A message of a client.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    Subscribe(Asked),
    Unsubscribe { id: String },
}

/// A subscription that is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Asked {
    /// What its messages are told by; empty where it says none.
    pub(super) id: String,
    /// A query, or a table's name.
    query: String,
    /// Whether the past is told at its pace.
    replays: bool,
    /// `now`, `beginning`; of a replay an instant.
    from: Option<String>,
    after: Option<String>,
    /// Of a replay: the instant before which it ends.
    to: Option<String>,
    /// Of a replay: how many times as fast.
    speed: Option<String>,
    /// Options of SUBSCRIBE.
    options: Vec<(String, String)>,
    pub(super) format: Format,
}

/// The words of the path; those behind `after` are options of SUBSCRIBE.
pub(super) const WORDS: &[&str] =
    &["id", "query", "format", "from", "after", "events", "slow", "queue", "heartbeat"];
/// The options of SUBSCRIBE, which are members of the request, or words of the path.
const OPTIONS: [&str; 4] = ["events", "slow", "queue", "heartbeat"];
const MEMBERS: &str = "op, id, query, from, after, to, speed, format, events, slow, queue, heartbeat";

impl Request {
    /// Reads a message.
    ///
    /// # Errors
    /// The id that it names, and what is wrong.
    pub(super) fn read(text: &str) -> Result<Self, (String, String)> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| (String::new(), format!("the message is no JSON: {error}")))?;
        let Value::Object(members) = value else {
            return Err((String::new(), "the message is no object of JSON".to_string()));
        };
        let id = members.get("id").and_then(text_of).unwrap_or_default();
        let mut op = "subscribe".to_string();
        let mut asked = Asked::default();
        for (name, value) in &members {
            let Some(text) = text_of(value) else {
                return Err((id, format!("'{name}' is no text and no number")));
            };
            if name == "op" {
                op = text;
            } else if let Err(what) = asked.set(name, text) {
                return Err((id, what));
            }
        }
        match op.as_str() {
            "subscribe" | "replay" => {
                asked.replays = op == "replay";
                asked.checked().map(Request::Subscribe).map_err(|what| (id, what))
            }
            "unsubscribe" => Ok(Request::Unsubscribe { id }),
            _ => Err((id, format!("there is no op '{op}': it is subscribe, replay or unsubscribe"))),
        }
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl Asked {
    /// What the words of the path ask for; `None` where they ask for nothing.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn of_words(words: &str) -> Result<Option<Self>, String> {
        if words.is_empty() {
            return Ok(None);
        }
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(words)
            .map_err(|error| format!("the parameters cannot be read: {error}"))?;
        let mut asked = Self::default();
        for (name, value) in pairs {
            asked.set(&name, value)?;
        }
        asked.checked().map(Some)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "id" => self.id = value,
            "query" => self.query = value,
            "from" => self.from = Some(value),
            "to" => self.to = Some(value),
            "speed" => self.speed = Some(value),
            "after" => self.after = Some(value),
            "format" => {
                self.format = match value.as_str() {
                    "json" => Format::Json,
                    "arrow" => Format::Arrow,
                    _ => return Err(format!("format = '{value}' cannot be: it is json or arrow")),
                }
            }
            name if OPTIONS.contains(&name) => self.options.push((name.to_string(), value)),
            _ => return Err(format!("there is no '{name}' here: a request has {MEMBERS}")),
        }
        Ok(())
    }

    fn checked(self) -> Result<Self, String> {
        let from = self.from.as_deref().unwrap_or("now").to_lowercase();
        match self {
            asked if asked.query.trim().is_empty() => Err("the request has no query".to_string()),
            asked if asked.replays => match (&asked.after, asked.options.first()) {
                (Some(_), _) => Err("a replay has no 'after': it is from an instant".to_string()),
                (_, Some((name, _))) => Err(format!("a replay has no '{name}'")),
                _ => Ok(asked),
            },
            asked if asked.to.is_some() || asked.speed.is_some() => {
                Err("to and speed are of a replay".to_string())
            }
            _ if !matches!(from.as_str(), "now" | "beginning") => {
                Err(format!("from = '{from}' cannot be: it is now or beginning, or after a position"))
            }
            asked if asked.from.is_some() && asked.after.is_some() => {
                Err("from and after exclude each other".to_string())
            }
            asked => Ok(asked),
        }
    }

    /// As a statement of SQL.
    pub(super) fn statement(&self) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let query = self.query.trim().trim_end_matches(';');
        // A query has several words, and names of tables have commas between them at most.
        let of = query.split_whitespace().collect::<Vec<_>>();
        let is_query = of.len() > 1
            && !query.starts_with('"')
            && !of[..of.len() - 1].iter().all(|word| word.ends_with(','));
        let what = if is_query { format!("({query}\n)") } else { query.to_string() };
        if self.replays {
            let mut text = format!("REPLAY {what}");
            for (word, value) in [("FROM", &self.from), ("TO", &self.to), ("SPEED", &self.speed)] {
                if let Some(value) = value {
                    text += &format!(" {word} {}", quoted(value));
                }
            }
            return text;
        }
        let mut text = format!("SUBSCRIBE TO {what}");
        if let Some(from) = &self.from {
            text += &format!(" FROM {}", from.to_uppercase());
        }
        if let Some(after) = &self.after {
            text += &format!(" AFTER {}", quoted(after));
        }
        if !self.options.is_empty() {
            let options: Vec<_> =
                self.options.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
            text += &format!(" WITH ({})", options.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_statements() {
        let read = |text: &str| match Request::read(text) {
            Ok(Request::Subscribe(asked)) => asked.statement(),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(r#"{"query": "trades"}"#), "SUBSCRIBE TO trades");
        assert_eq!(
            read(
                r#"{"op": "subscribe", "id": 7, "query": "SELECT * FROM t;", "after": "12+3", "queue": 5, "slow": "conflate"}"#
            ),
            "SUBSCRIBE TO (SELECT * FROM t\n) AFTER '12+3' WITH (queue = '5', slow = 'conflate')"
        );
        assert_eq!(
            read(r#"{"op": "replay", "query": "trades, quotes", "from": "2024-08-08", "speed": "10x"}"#),
            "REPLAY trades, quotes FROM '2024-08-08' SPEED '10x'"
        );
        let words = Asked::of_words("query=SELECT+1&from=beginning&format=arrow").unwrap().unwrap();
        assert_eq!(
            (words.statement().as_str(), words.format),
            ("SUBSCRIBE TO (SELECT 1\n) FROM BEGINNING", Format::Arrow)
        );
        for (text, what) in [
            ("[]", "no object"),
            ("{", "no JSON"),
            (r#"{"op": "go"}"#, "no op 'go'"),
            (r#"{"query": "t", "from": "now", "after": "1"}"#, "exclude"),
            (r#"{"query": "t", "from": "then"}"#, "cannot be"),
            (r#"{"query": "t", "speed": "2"}"#, "of a replay"),
            (r#"{"op": "replay", "query": "t", "after": "2"}"#, "no 'after'"),
            (r#"{"op": "replay", "query": "t", "queue": "2"}"#, "no 'queue'"),
            (r#"{"query": {}}"#, "no text"),
            (r#"{"id": "a"}"#, "no query"),
            (r#"{"query": "t", "wat": "1"}"#, "no 'wat'"),
        ] {
            let (_, said) = Request::read(text).unwrap_err();
            assert!(said.contains(what), "{text}: {said}");
        }
    }
}

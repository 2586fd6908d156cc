//! The arguments of a tool: their schema, and what a client gives for them.

use super::list::Tool;
use serde_json::{Map, Value, json};
use tickstone_query::QueryError;

/// What an argument can be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A whole number from 1.
    Count,
    Switch,
    /// One of some words, the usual one first.
    Choice(&'static [&'static str]),
}

/// An argument.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) is_required: bool,
    pub(super) about: &'static str,
}

impl Argument {
    /// Its schema in JSON Schema.
    pub(super) fn schema(&self) -> Value {
        match self.kind {
            Kind::Text => json!({ "type": "string", "description": self.about }),
            Kind::Count => json!({ "type": "integer", "minimum": 1, "description": self.about }),
            Kind::Switch => json!({ "type": "boolean", "description": self.about, "default": false }),
            Kind::Choice(words) => {
                json!({ "type": "string", "enum": words, "description": self.about, "default": words[0] })
            }
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self.kind {
            Kind::Text => value.is_string(),
            Kind::Count => value.as_u64().is_some_and(|count| count > 0),
            Kind::Switch => value.is_boolean(),
            Kind::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        }
    }

    fn wanted(&self) -> String {
        match self.kind {
            Kind::Text => "a text".into(),
            Kind::Count => "a whole number from 1".into(),
            Kind::Switch => "true or false".into(),
            Kind::Choice(words) => words.join(" or "),
        }
    }
}

/// Arguments that a tool takes.
pub(super) struct Arguments<'a> {
    given: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    /// Those of a call; NULL is as good as none.
    ///
    /// # Errors
    /// Where one is missing, unknown, or of another kind.
    pub(super) fn of(tool: &Tool, given: &'a Map<String, Value>) -> Result<Self, QueryError> {
        let known = || tool.arguments.iter().map(|argument| argument.name).collect::<Vec<_>>().join(", ");
        let wrong = |what: String| match tool.arguments.is_empty() {
            true => QueryError::request(what),
            false => QueryError::request(what).hint(format!("{} takes {}", tool.name, known())),
        };
        for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            match tool.arguments.iter().find(|argument| argument.name == name) {
                Some(argument) if argument.takes(value) => {}
                Some(argument) => return Err(wrong(format!("'{name}' is {}", argument.wanted()))),
                None => return Err(wrong(format!("{} has no argument '{name}'", tool.name))),
            }
        }
        let is_missing = |argument: &&Argument| {
            argument.is_required && given.get(argument.name).is_none_or(Value::is_null)
        };
        match tool.arguments.iter().find(is_missing) {
            Some(missing) => Err(wrong(format!("the argument '{}' is missing", missing.name))),
            None => Ok(Self { given }),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.given.get(name)?.as_str()
    }

    pub(super) fn count(&self, name: &str) -> Option<usize> {
        let count = self.given.get(name)?.as_u64()?;
        Some(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.given.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether a name, or anything else that is shown with it, has the text of `pattern` in it; so does everything where
    /// there is none.
    pub(super) fn matches(&self, texts: &[&str]) -> bool {
        let Some(pattern) = self.text("pattern") else { return true };
        let pattern = pattern.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&pattern))
    }
}

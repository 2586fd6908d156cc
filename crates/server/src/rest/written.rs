//! JSON as it is written: its numbers with all their digits, its members in their order and as often as they are there.
//! Whether it is JSON at all, `serde_json` says.

use super::words::{Fault, wrong};
use serde_json::Value;
use std::collections::HashSet;
use tickstone_query::{ParameterValue, without_exponent};

/// The most digits of a DECIMAL.
const DIGITS_MAX: usize = 38;

/// A value and its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written<'a> {
    pub(super) text: &'a str,
    pub(super) kind: Kind<'a>,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind<'a> {
    Null,
    Boolean(bool),
    Number,
    Text(String),
    Array(Vec<Written<'a>>),
    Object(Vec<(String, Written<'a>)>),
}

impl<'a> Written<'a> {
    /// Reads a text; `otherwise` is what is wrong where it is no JSON.
    ///
    /// # Errors
    /// Where it is none, and where an object has a member twice.
    pub(super) fn read(text: &'a str, otherwise: &str) -> Result<Self, Fault> {
        serde_json::from_str::<Value>(text).map_err(|error| wrong(format!("{otherwise}: {error}")))?;
        Cursor { text, at: 0 }.value().map_err(wrong)
    }

    /// The value of a placeholder.
    ///
    /// # Errors
    /// Where it is an object, or has one.
    pub(super) fn parameter(self) -> Result<ParameterValue, Fault> {
        Ok(match self.kind {
            Kind::Null => ParameterValue::Null,
            Kind::Boolean(truth) => ParameterValue::Boolean(truth),
            Kind::Text(text) => ParameterValue::Text(text),
            Kind::Number => number(self.text),
            Kind::Array(values) => {
                let values = values.into_iter().map(Written::parameter);
                ParameterValue::List(values.collect::<Result<_, Fault>>()?)
            }
            Kind::Object(_) => return Err(wrong("params: an object is no value of SQL")),
        })
    }
}

/// A number without losing a digit, as far as SQL has room for them: a double where that has the same digits.
fn number(text: &str) -> ParameterValue {
    let whole = text.parse::<i128>().ok();
    if let Some(whole) = whole.filter(|whole| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(whole)) {
        return ParameterValue::Integer(whole);
    }
    // It is a number of JSON, which are numbers of Rust.
    let float = text.parse::<f64>().unwrap_or(f64::NAN);
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match (digits(text), digits(&format!("{float:?}"))) {
        (Some(exact), rounded) if is_whole || rounded.as_ref() != Some(&exact) => {
            let count = exact.bytes().filter(u8::is_ascii_digit).count();
            if count <= DIGITS_MAX { ParameterValue::Decimal(exact) } else { ParameterValue::Float(float) }
        }
        _ => ParameterValue::Float(float),
    }
}

/// A number without an exponent and without zeros that mean nothing.
fn digits(text: &str) -> Option<String> {
    let plain = without_exponent(text)?;
    let (sign, plain) = plain.strip_prefix('-').map_or(("", plain.as_ref()), |rest| ("-", rest));
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

/// A place in a text that is JSON.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn value(&mut self) -> Result<Written<'a>, String> {
        self.pass_space();
        let start = self.at;
        let kind = match self.byte() {
            b'"' => Kind::Text(self.string()),
            b'[' => {
                self.at += 1;
                let mut values = Vec::new();
                while self.has_next(b']') {
                    values.push(self.value()?);
                }
                Kind::Array(values)
            }
            b'{' => Kind::Object(self.members()?),
            _ => {
                let rest = &self.text[self.at..];
                let ends = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
                self.at += rest.find(ends).unwrap_or(rest.len());
                match &self.text[start..self.at] {
                    "null" => Kind::Null,
                    "true" => Kind::Boolean(true),
                    "false" => Kind::Boolean(false),
                    _ => Kind::Number,
                }
            }
        };
        Ok(Written { text: &self.text[start..self.at], kind })
    }

    fn members(&mut self) -> Result<Vec<(String, Written<'a>)>, String> {
        self.at += 1;
        let (mut members, mut names) = (Vec::new(), HashSet::new());
        while self.has_next(b'}') {
            self.pass_space();
            let name = self.string();
            self.pass_space();
            // The colon.
            self.at += 1;
            let value = self.value()?;
            if !names.insert(name.clone()) {
                return Err(format!("{name} is given twice"));
            }
            members.push((name, value));
        }
        Ok(members)
    }

    /// Whether there is another element; passes the comma before it, or the end of the array or object.
    fn has_next(&mut self, end: u8) -> bool {
        self.pass_space();
        let byte = self.byte();
        if byte == b',' || byte == end {
            self.at += 1;
        }
        byte != end
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while !matches!(self.byte(), b'"' | 0) {
            self.at += if self.byte() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        serde_json::from_str(&self.text[start..self.at]).unwrap_or_default()
    }

    fn pass_space(&mut self) {
        while self.byte().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// The byte here; 0, which stands nowhere in JSON, at the end.
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;

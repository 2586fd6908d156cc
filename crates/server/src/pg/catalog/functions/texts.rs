//! Texts as SQL and JSON have to have them.

use super::super::names;
use super::super::relation::quoted;
use super::super::value::{Kind, Value};
use super::{Function, function, text};

/// The most arguments that `json_build_object` takes.
const PAIRS_MAX: usize = 32;

pub(super) fn all() -> Vec<Function> {
    vec![
        function("quote_ident", 1..=1, Kind::Text, |_, values| text(values, 0).map(quoted).into()),
        function("quote_literal", 1..=1, Kind::Text, |_, values| shown(values.first()).map(literal).into()),
        function("quote_nullable", 1..=1, Kind::Text, |_, values| {
            shown(values.first()).map_or_else(|| "NULL".to_string(), literal).into()
        }),
        function("format", 1..=PAIRS_MAX, Kind::Text, |_, values| {
            text(values, 0).map(|of| format(of, &values[1..])).into()
        }),
        function("like_escape", 2..=2, Kind::Text, |_, values| {
            let escape = text(values, 1).and_then(|escape| escape.chars().next());
            text(values, 0).zip(escape).map(|(pattern, escape)| like_escape(pattern, escape)).into()
        }),
        function("parse_ident", 1..=2, Kind::Texts, |_, values| {
            text(values, 0).and_then(names::parts).into()
        }),
        function("json_build_object", 0..=PAIRS_MAX, Kind::Text, |_, values| {
            let pairs = values.chunks(2).map(|pair| {
                let name = serde_json::Value::from(shown(pair.first()).unwrap_or_default());
                format!("{name} : {}", json(pair.get(1)))
            });
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")).into()
        }),
    ]
}

/// A text with values in the places of `%s`, `%I` (a name) and `%L` (a literal), in their order.
fn format(of: &str, values: &[Value]) -> String {
    let (mut made, mut values) = (String::with_capacity(of.len()), values.iter());
    let mut characters = of.chars();
    while let Some(character) = characters.next() {
        let kind = if character == '%' { characters.next() } else { None };
        match kind {
            Some('s') => made.extend(shown(values.next())),
            Some('I') => made.extend(shown(values.next()).map(|name| quoted(&name))),
            Some('L') => made.push_str(&shown(values.next()).map_or_else(|| "NULL".to_string(), literal)),
            Some(other) => made.push(other),
            None => made.push(character),
        }
    }
    made
}

/// A pattern of LIKE whose escape is a backslash.
fn like_escape(pattern: &str, escape: char) -> String {
    let mut made = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == escape {
            made.push('\\');
            made.extend(characters.next());
        } else {
            if character == '\\' {
                made.push('\\');
            }
            made.push(character);
        }
    }
    made
}

fn shown(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Ints(_) | Value::Texts(_) | Value::Refused { .. } => None,
    }
}

fn literal(text: String) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn json(value: Option<&Value>) -> String {
    match value {
        Some(Value::Text(text)) => serde_json::Value::from(text.as_str()).to_string(),
        other => shown(other).unwrap_or_else(|| "null".to_string()),
    }
}

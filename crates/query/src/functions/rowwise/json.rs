//! Functions of JSON in texts: what a path leads to, as it is written there, without spaces.
//!
//! Paths are `$.a.b[0]` (`$."a b"`, `[#-1]` from the end), `/a/b/0`, or one key as it is, as in DuckDB. What a path
//! leads nowhere to is NULL. A text that is no JSON is an error.

use super::texts::texts_type;
use super::{Rowwise, is_text, valid_rows};
use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::sync::Arc;

pub(super) const ALL: &[Rowwise] = &[
    Rowwise {
        name: "json_extract",
        usage: "json_extract(json, path)",
        about: "what a path leads to, as JSON; json -> path",
        takes: json_and_path,
        gives: |_| DataType::Utf8,
        value: |args| texts(args, |found| Some(Cow::Owned(squeezed(found)))),
    },
    Rowwise {
        name: "json_extract_string",
        usage: "json_extract_string(json, path)",
        about: "what a path leads to: the characters of a text, NULL of null, else JSON; json ->> path",
        takes: json_and_path,
        gives: |_| DataType::Utf8,
        value: |args| texts(args, as_text),
    },
    Rowwise {
        name: "json_exists",
        usage: "json_exists(json, path)",
        about: "whether a path leads to something",
        takes: json_and_path,
        gives: |_| DataType::Boolean,
        value: |args| {
            let there =
                valid_rows(args).map(|row| row.map(|row| Ok(found(args, row)?.is_some())).transpose());
            Ok(Arc::new(there.collect::<Result<BooleanArray>>()?))
        },
    },
    Rowwise {
        name: "json_valid",
        usage: "json_valid(text)",
        about: "whether a text is JSON",
        takes: |types| match types {
            [of] if is_text(of) => Some(vec![DataType::Utf8]),
            _ => None,
        },
        gives: |_| DataType::Boolean,
        value: |args| {
            let valid = args[0].as_string::<i32>().iter();
            Ok(Arc::new(valid.map(|text| text.map(is_json)).collect::<BooleanArray>()))
        },
    },
    Rowwise {
        name: "json_array_length",
        usage: "json_array_length(json[, path])",
        about: "how many elements an array has; 0 of anything else",
        takes: json_and_maybe_path,
        gives: |_| DataType::Int64,
        value: |args| {
            let lengths = valid_rows(args).map(|row| {
                let Some(json) = row.map(|row| found(args, row)).transpose()?.flatten() else {
                    return Ok(None);
                };
                let mut count = 0;
                if json.starts_with('[') {
                    each(json, |_, _| count += 1);
                }
                Ok(Some(count))
            });
            Ok(Arc::new(lengths.collect::<Result<Int64Array>>()?))
        },
    },
    Rowwise {
        name: "json_keys",
        usage: "json_keys(json[, path])",
        about: "the keys of an object, in their order; none of anything else",
        takes: json_and_maybe_path,
        gives: |_| texts_type(),
        value: |args| {
            let element = Arc::new(Field::new_list_field(DataType::Utf8, true));
            let mut made = ListBuilder::new(StringBuilder::new()).with_field(element);
            for row in valid_rows(args) {
                let json = row.map(|row| found(args, row)).transpose()?.flatten();
                if let Some(json) = json.filter(|json| json.starts_with('{')) {
                    each(json, |key, _| made.values().append_value(key.map(unescaped).unwrap_or_default()));
                }
                made.append(json.is_some());
            }
            Ok(Arc::new(made.finish()))
        },
    },
    Rowwise {
        name: "json_type",
        usage: "json_type(json[, path])",
        about: "OBJECT, ARRAY, VARCHAR, BIGINT, UBIGINT, DOUBLE, BOOLEAN or NULL: what a value is",
        takes: json_and_maybe_path,
        gives: |_| DataType::Utf8,
        value: |args| {
            let kinds = valid_rows(args).map(|row| {
                let json = row.map(|row| found(args, row)).transpose()?.flatten();
                Ok(json.map(kind))
            });
            Ok(Arc::new(kinds.collect::<Result<StringArray>>()?))
        },
    },
];

fn json_and_path(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [json, path] if is_text(json) && is_text(path) => Some(vec![DataType::Utf8; 2]),
        [json, place] if is_text(json) && place.is_integer() => Some(vec![DataType::Utf8, DataType::Int64]),
        _ => None,
    }
}

fn json_and_maybe_path(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [json] if is_text(json) => Some(vec![DataType::Utf8]),
        _ => json_and_path(types),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn texts(args: &[ArrayRef], shown: for<'j> fn(&'j str) -> Option<Cow<'j, str>>) -> Result<ArrayRef> {
    let mut made = StringBuilder::new();
    for row in valid_rows(args) {
        let json = row.map(|row| found(args, row)).transpose()?.flatten();
        made.append_option(json.and_then(shown));
    }
    Ok(Arc::new(made.finish()))
}

/// What the path of a row leads to.
fn found(args: &[ArrayRef], row: usize) -> Result<Option<&str>> {
    let text = args[0].as_string::<i32>().value(row);
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| exec_datafusion_err!("'{}' is no JSON: {error}", cut_short(text)))?;
    let json = text.trim();
    let Some(path) = args.get(1) else { return Ok(Some(json)) };
    if let Some(places) = path.as_primitive_opt::<Int64Type>() {
        return Ok(element(json, places.value(row)));
    }
    let path = path.as_string::<i32>().value(row);
    let steps = steps(path).ok_or_else(|| {
        exec_datafusion_err!("'{path}' is no path into JSON: write $.key[0], /key/0 or a key alone")
    })?;
    Ok(steps.iter().try_fold(json, |json, step| match step {
        Step::Key(key) => member(json, key),
        Step::Place(place) => element(json, *place),
        Step::Either(name) => match json.starts_with('[') {
            true => element(json, name.parse().ok()?),
            false => member(json, name),
        },
    }))
}

/// The beginning of a text that may be long.
fn cut_short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

enum Step<'p> {
    Key(&'p str),
    /// From the end where it is below 0.
    Place(i64),
    /// A key of an object, a place in an array.
    Either(String),
}

fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    if let Some(pointer) = path.strip_prefix('/') {
        // RFC 6901.
        let step = |part: &str| Step::Either(part.replace("~1", "/").replace("~0", "~"));
        return Some(pointer.split('/').map(step).collect());
    }
    let Some(mut rest) = path.strip_prefix('$') else { return Some(vec![Step::Key(path)]) };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (place, after) = after.split_once(']')?;
            let place = place.strip_prefix('#').unwrap_or(place);
            steps.push(Step::Place(place.parse().ok()?));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(".\"") {
            let (key, after) = after.split_once('"')?;
            steps.push(Step::Key(key));
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Key(&after[..end]));
            rest = &after[end..];
        }
    }
    Some(steps)
}

/// Calls for each member of an object or element of an array (valid JSON, no spaces around) with its key, still
/// escaped, and its value.
fn each<'j>(json: &'j str, mut call: impl FnMut(Option<&'j str>, &'j str)) {
    let is_object = json.starts_with('{');
    let mut rest = json[1..].trim_start();
    while !rest.is_empty() && !rest.starts_with(['}', ']']) {
        let key = is_object.then(|| {
            let end = value_end(rest);
            let key = &rest[1..end - 1];
            rest = rest[end..].trim_start().strip_prefix(':').unwrap_or_default().trim_start();
            key
        });
        let end = value_end(rest);
        call(key, &rest[..end]);
        rest = rest[end..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
}

/// Where the value that a text of valid JSON begins with ends.
fn value_end(text: &str) -> usize {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    in_text = false;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// The member of an object with this key; of equal keys the last, as most readers have it.
fn member<'j>(json: &'j str, key: &str) -> Option<&'j str> {
    let mut found = None;
    if json.starts_with('{') {
        each(json, |name, value| {
            if name.is_some_and(|name| name == key || (name.contains('\\') && unescaped(name) == key)) {
                found = Some(value);
            }
        });
    }
    found
}

fn element(json: &str, place: i64) -> Option<&str> {
    if !json.starts_with('[') {
        return None;
    }
    let mut all = Vec::new();
    each(json, |_, value| all.push(value));
    let place = if place < 0 { place + all.len() as i64 } else { place };
    all.get(usize::try_from(place).ok()?).copied()
}

/// The characters between the quotes of a text of JSON.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let read = serde_json::from_str::<String>(&format!("\"{text}\""));
    // Half of a surrogate pair is no character.
    read.map_or(Cow::Borrowed(text), Cow::Owned)
}

fn as_text(json: &str) -> Option<Cow<'_, str>> {
    match json {
        "null" => None,
        _ if json.starts_with('"') => Some(unescaped(&json[1..json.len() - 1])),
        _ => Some(Cow::Owned(squeezed(json))),
    }
}

/// JSON without the spaces between its parts.
fn squeezed(json: &str) -> String {
    let (mut made, mut in_text, mut escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if in_text {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_text = false,
                _ => {}
            }
        } else if c == '"' {
            in_text = true;
        } else if c.is_ascii_whitespace() {
            continue;
        }
        made.push(c);
    }
    made
}

fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "OBJECT",
        Some(b'[') => "ARRAY",
        Some(b'"') => "VARCHAR",
        Some(b't' | b'f') => "BOOLEAN",
        Some(b'n') => "NULL",
        _ if json.contains(['.', 'e', 'E']) => "DOUBLE",
        Some(b'-') => "BIGINT",
        _ => "UBIGINT",
    }
}

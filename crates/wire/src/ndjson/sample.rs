//! The columns of an unknown file, from its first lines.

use super::token::{Object, Value, unescape};
use crate::chunk::shown;
use crate::infer::ColumnSample;
use std::collections::HashMap;

/// The columns of the lines of `bytes`, at most `lines_max` of them, in the order their keys first
/// come. Lines that are no object, and keys that are no UTF-8, are passed over: importing will report them.
pub fn sample(bytes: &[u8], lines_max: usize) -> Vec<ColumnSample> {
    let mut columns: Vec<ColumnSample> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut text = Vec::new();
    for line in bytes.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(lines_max) {
        let Ok(mut object) = Object::open(line) else { continue };
        while let Ok(Some((key, value))) = object.pair() {
            if !unescape(key.raw, &mut text) {
                continue;
            }
            let Ok(name) = std::str::from_utf8(&text) else { continue };
            let place = *places.entry(text.clone()).or_insert_with(|| {
                columns.push(ColumnSample::new(name));
                columns.len() - 1
            });
            match value {
                Value::Null => {}
                Value::Plain(token) => columns[place].see_token(token),
                Value::Nested(json) => columns[place].see(json),
                Value::Text(string) if string.raw.is_empty() => {}
                Value::Text(string) => {
                    if unescape(string.raw, &mut text) {
                        columns[place].see(&text);
                    }
                }
            }
        }
    }
    columns
}

/// The first line of `bytes` that is no object: its number from 0, its text cut when long, and what is wrong.
pub fn first_fault(bytes: &[u8]) -> Option<(u64, String, &'static str)> {
    bytes.split(|&b| b == b'\n').zip(0..).filter(|(line, _)| !line.trim_ascii().is_empty()).find_map(
        |(line, number)| {
            let what = fault_of(line)?;
            Some((number, shown(line.trim_ascii()), what))
        },
    )
}

fn fault_of(line: &[u8]) -> Option<&'static str> {
    let mut object = match Object::open(line) {
        Ok(object) => object,
        Err(what) => return Some(what),
    };
    loop {
        match object.pair() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(what) => return Some(what),
        }
    }
}

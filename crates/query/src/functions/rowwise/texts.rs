//! Functions of texts and regular expressions, those of the `regex` crate.

use super::{Rowwise, is_text, valid_rows};
use crate::wanted;
use datafusion::arrow::array::{ArrayRef, AsArray, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use regex::Regex;
use std::sync::Arc;

pub(super) const ALL: &[Rowwise] = &[
    Rowwise {
        name: "regexp_extract",
        usage: "regexp_extract(text, pattern[, group])",
        about: "the first match of a pattern, or a group of it; '' where nothing matches",
        takes: text_pattern_group,
        gives: |_| DataType::Utf8,
        value: |args| {
            let (texts, mut last) = (args[0].as_string::<i32>(), None);
            let mut made = StringBuilder::new();
            for row in valid_rows(args) {
                let Some(row) = row else {
                    made.append_null();
                    continue;
                };
                let (pattern, group) = asked(args, row, &mut last)?;
                let found = pattern.captures(texts.value(row)).and_then(|found| found.get(group));
                made.append_value(found.map_or("", |found| found.as_str()));
            }
            Ok(Arc::new(made.finish()))
        },
    },
    Rowwise {
        name: "regexp_extract_all",
        usage: "regexp_extract_all(text, pattern[, group])",
        about: "all matches of a pattern, or a group of each",
        takes: text_pattern_group,
        gives: |_| texts_type(),
        value: |args| {
            let (texts, mut last) = (args[0].as_string::<i32>(), None);
            let mut made = ListBuilder::new(StringBuilder::new()).with_field(element());
            for row in valid_rows(args) {
                if let Some(row) = row {
                    let (pattern, group) = asked(args, row, &mut last)?;
                    for found in pattern.captures_iter(texts.value(row)) {
                        made.values().append_value(found.get(group).map_or("", |found| found.as_str()));
                    }
                }
                made.append(row.is_some());
            }
            Ok(Arc::new(made.finish()))
        },
    },
    Rowwise {
        name: "string_split",
        usage: "string_split(text, separator)",
        about: "the parts of a text between separators; its characters where the separator is ''",
        takes: |types| match types {
            [text, separator] if is_text(text) && is_text(separator) => Some(vec![DataType::Utf8; 2]),
            _ => None,
        },
        gives: |_| texts_type(),
        value: |args| {
            let (texts, separators) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
            let mut made = ListBuilder::new(StringBuilder::new()).with_field(element());
            for row in valid_rows(args) {
                if let Some(row) = row {
                    let (text, separator) = (texts.value(row), separators.value(row));
                    match separator.is_empty() {
                        true => {
                            text.chars().for_each(|c| made.values().append_value(c.encode_utf8(&mut [0; 4])))
                        }
                        false => text.split(separator).for_each(|part| made.values().append_value(part)),
                    }
                }
                made.append(row.is_some());
            }
            Ok(Arc::new(made.finish()))
        },
    },
    Rowwise {
        name: "regexp_split_to_array",
        usage: "regexp_split_to_array(text, pattern)",
        about: "the parts of a text between the matches of a pattern",
        takes: |types| match types {
            [text, pattern] if is_text(text) && is_text(pattern) => Some(vec![DataType::Utf8; 2]),
            _ => None,
        },
        gives: |_| texts_type(),
        value: |args| {
            let (texts, mut last) = (args[0].as_string::<i32>(), None);
            let mut made = ListBuilder::new(StringBuilder::new()).with_field(element());
            for row in valid_rows(args) {
                if let Some(row) = row {
                    let (pattern, _) = asked(args, row, &mut last)?;
                    pattern.split(texts.value(row)).for_each(|part| made.values().append_value(part));
                }
                made.append(row.is_some());
            }
            Ok(Arc::new(made.finish()))
        },
    },
];

fn element() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Utf8, true))
}

pub(super) fn texts_type() -> DataType {
    DataType::List(element())
}

fn text_pattern_group(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [text, pattern] if is_text(text) && is_text(pattern) => Some(vec![DataType::Utf8; 2]),
        [text, pattern, group] if is_text(text) && is_text(pattern) && group.is_integer() => {
            Some(vec![DataType::Utf8, DataType::Utf8, DataType::Int64])
        }
        _ => None,
    }
}

/// The pattern and the group of a row; a pattern that comes again is not read again.
fn asked<'l>(
    args: &[ArrayRef],
    row: usize,
    last: &'l mut Option<(String, Regex)>,
) -> Result<(&'l Regex, usize)> {
    if row.is_multiple_of(1_024) {
        wanted::look()?;
    }
    let text = args[1].as_string::<i32>().value(row);
    let known = match last.take() {
        Some(known) if known.0 == text => last.insert(known),
        _ => {
            let made = Regex::new(text)
                .map_err(|error| exec_datafusion_err!("'{text}' is no regular expression: {error}"))?;
            last.insert((text.to_string(), made))
        }
    };
    let group = args.get(2).map_or(0, |groups| groups.as_primitive::<Int64Type>().value(row));
    match usize::try_from(group) {
        Ok(group) if group < known.1.captures_len() => Ok((&known.1, group)),
        _ => exec_err!("'{text}' has no group {group}: it has {}", known.1.captures_len() - 1),
    }
}

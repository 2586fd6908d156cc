//! An error with the line of SQL it points at.

use std::fmt::Write;
use tickstone_query::QueryError;

/// Message, line and caret, detail and hint of an error in `text`.
pub(super) fn describe(text: &str, error: &QueryError) -> String {
    let place = error.position.as_ref().map(|position| (position.line, position.column));
    let mut out = format!("error: {}", error.message);
    if let Some((line, column)) = place {
        out.push_str(&pointed(text, line, column));
    }
    // Writing to a String does not fail.
    if let Some(detail) = &error.detail {
        let _ = write!(out, "\n{detail}");
    }
    if let Some(hint) = &error.hint {
        let _ = write!(out, "\nhint: {hint}");
    }
    out
}

/// The line of this number and a caret under the column, both from 1; nothing where there is no such
/// line.
fn pointed(text: &str, line: u64, column: u64) -> String {
    let index = usize::try_from(line).unwrap_or(0);
    let Some(shown) = index.checked_sub(1).and_then(|index| text.lines().nth(index)) else {
        return String::new();
    };
    let before = usize::try_from(column).unwrap_or(1).saturating_sub(1).min(shown.chars().count());
    // Tabs keep the caret below the character, however wide the terminal shows them.
    let pad: String = shown.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    format!("\n {number} | {shown}\n {gutter} | {pad}^")
}

#[cfg(test)]
mod tests;

//! Statements at their places: a text of several goes to the server one by one, and errors point into the whole of
//! it.

/// A statement of `text`, `own` part of it, behind as many lines and characters as stand before it there. `after` is
/// where the statement before it ended, 0 for the first, and becomes where this one ends.
pub fn placed(text: &str, after: &mut usize, own: &str) -> String {
    let rest = text.get(*after..).unwrap_or_default();
    let Some(at) = rest.find(own) else { return own.to_string() };
    let start = *after + at;
    *after = start + own.len();
    let before = &text[..start];
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let lines = before.matches('\n').count();
    let mut placed = "\n".repeat(lines);
    placed.extend(std::iter::repeat_n(' ', before[line..].chars().count()));
    placed.push_str(own);
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_keeps_its_line_and_column() {
        let text = "SELECT 1; é SELECT 1;\n\n  SELECT\n 2";
        let mut after = 0;
        assert_eq!(placed(text, &mut after, "SELECT 1"), "SELECT 1");
        assert_eq!(placed(text, &mut after, "SELECT 1"), "            SELECT 1");
        assert_eq!(placed(text, &mut after, "SELECT\n 2"), "\n\n  SELECT\n 2");
        assert_eq!(placed(text, &mut after, "elsewhere"), "elsewhere");
    }
}

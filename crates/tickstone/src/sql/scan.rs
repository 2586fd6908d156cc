//! Just enough of SQL's surface to know where a statement ends while it is typed.

/// Whether `text` ends with a semicolon outside of quotes and comments, or holds nothing to run.
pub(super) fn is_complete(text: &str) -> bool {
    let mut characters = text.chars().peekable();
    let (mut ended, mut empty) = (false, true);
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                (ended, empty) = (false, false);
                if !characters.any(|c| c == character) {
                    return false;
                }
            }
            '-' if characters.peek() == Some(&'-') => {
                characters.by_ref().find(|c| *c == '\n');
            }
            '/' if characters.peek() == Some(&'*') => {
                let mut before = ' ';
                characters.next();
                if !characters.by_ref().any(|c| std::mem::replace(&mut before, c) == '*' && c == '/') {
                    return false;
                }
            }
            ';' => (ended, empty) = (true, false),
            c if c.is_whitespace() => {}
            _ => (ended, empty) = (false, false),
        }
    }
    ended || empty
}

#[cfg(test)]
mod tests;

//! Names as SQL writes them.

/// The parts of a name, in lower case unless quoted; `None` where it is none.
pub(super) fn parts(name: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = name.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), rest[end..].trim_start())
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match after.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if after.is_empty() => return Some(parts),
            None => return None,
        }
    }
}

/// A part up to the quote that ends it, and what stands after.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut characters = text.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        if character != '"' {
            part.push(character);
        } else if characters.peek().is_some_and(|(_, next)| *next == '"') {
            characters.next();
            part.push('"');
        } else {
            return Some((part, text[place + 1..].trim_start()));
        }
    }
    None
}

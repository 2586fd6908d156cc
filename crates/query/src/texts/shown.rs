//! Statements as others are shown them: without the passwords in them.

use std::borrow::Cow;

/// A statement without the passwords in it: `PASSWORD '…'`, whether it is one that can be read or not.
pub fn without_passwords(sql: &str) -> Cow<'_, str> {
    const WORD: &str = "password";
    let bytes = sql.as_bytes();
    let is_word = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let (mut shown, mut done, mut at) = (String::new(), 0, 0);
    while at + WORD.len() < bytes.len() {
        let end = at + WORD.len();
        let is_one = bytes[at..end].eq_ignore_ascii_case(WORD.as_bytes());
        if !is_one || is_word(end) || at > 0 && is_word(at - 1) {
            at += 1;
            continue;
        }
        let opens = end + bytes[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        at = end;
        if bytes.get(opens) != Some(&b'\'') {
            continue;
        }
        // A quote within is written twice; one that is not closed goes to the end.
        let mut close = opens + 1;
        while close < bytes.len() && (bytes[close] != b'\'' || bytes.get(close + 1) == Some(&b'\'')) {
            close += if bytes[close] == b'\'' { 2 } else { 1 };
        }
        shown.push_str(&sql[done..opens]);
        shown.push_str("'…'");
        done = (close + 1).min(bytes.len());
        at = done;
    }
    match done {
        0 => Cow::Borrowed(sql),
        _ => Cow::Owned(shown + &sql[done..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_left_out_and_nothing_else() {
        for (sql, shown) in [
            ("CREATE USER a PASSWORD 'secret'", "CREATE USER a PASSWORD '…'"),
            ("alter user a password\n  'it''s' garbage", "alter user a password\n  '…' garbage"),
            ("CREATE USER a PASSWORD 'open", "CREATE USER a PASSWORD '…'"),
            ("CREATE USER a PASSWORD ''", "CREATE USER a PASSWORD '…'"),
            ("PASSWORD 'a'PASSWORD 'ü'; x", "PASSWORD '…'PASSWORD '…'; x"),
            (
                "SELECT password, 'x' FROM t WHERE password = 'y'",
                "SELECT password, 'x' FROM t WHERE password = 'y'",
            ),
            ("SELECT my_password 'x'", "SELECT my_password 'x'"),
            ("PASSWORD", "PASSWORD"),
            ("", ""),
        ] {
            assert_eq!(without_passwords(sql), shown, "{sql}");
        }
    }
}

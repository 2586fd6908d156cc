//! Long lists of literals after IN, as one value: `id IN (1, 2, … a million more)`.
//!
//! Such a list is some tokens, a node of the parser's tree and an expression of the plan for each of its items, which
//! together are a hundred times as long as its text. Where its items are numbers or texts, and [`ITEMS_MIN`] of them, the
//! tokens are those of a call with the list as it is written, `id IN (__long_list('1, 2, …'))`. What that means is said by
//! [`crate::rules::long_lists`]; any other list stays as it is.

use super::cursor::location_after;
use super::digits::DECIMAL_DIGITS;
use crate::lists::LONG_LIST;
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};
use std::ops::Range;

/// Fewer items are a list like any other, whose plan is kept for others in their places.
pub(crate) const ITEMS_MIN: usize = 4_096;

/// Most digits of a whole number that is sure to be a BIGINT.
const DIGITS_MAX: usize = 18;

/// An item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A whole number.
    Number(i64),
    /// A number with a point, as it is written.
    Fraction(&'a str),
    /// What stands between the quotes: two of them are one.
    Text(&'a str),
}

impl Item<'_> {
    fn is_text(&self) -> bool {
        matches!(self, Item::Text(_))
    }
}

/// The tokens of a text, white space among them.
///
/// # Errors
/// Those of the tokenizer, with the place in the text.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let mut all = Vec::new();
    let (mut at, mut place) = (0, Location { line: 1, column: 1 });
    for list in lists(sql) {
        let known = all.len();
        let read = tokenize(&sql[at..list.start], place, &mut all);
        if read.is_err() || !ends_with_in(&all) {
            // What looks like a list stands in a text or a comment that begins before it: no more is made of any.
            all.truncate(known);
            break;
        }
        place = location_after(&sql[at..list.start], place);
        let span = place.span_to(place);
        let text = Token::SingleQuotedString(sql[list.clone()].to_string());
        let call = [Token::make_word(LONG_LIST, None), Token::LParen, text, Token::RParen];
        all.extend(call.map(|token| TokenWithSpan { token, span }));
        place = location_after(&sql[list.clone()], place);
        at = list.end;
    }
    tokenize(&sql[at..], place, &mut all)?;
    Ok(all)
}

/// Bytes of a text that are long lists.
pub(crate) fn bytes_of_long_lists(sql: &str) -> usize {
    lists(sql).map(|list| list.len()).sum()
}

/// The items of a list as it is written; `None` where one is neither a number nor a text, or there are both.
pub(crate) fn items(list: &str) -> Option<Vec<Item<'_>>> {
    let mut reader = Items { text: list, at: 0 };
    let mut found: Vec<Item<'_>> = Vec::new();
    loop {
        let item = reader.item()?;
        if found.first().is_some_and(|first| first.is_text() != item.is_text()) {
            return None;
        }
        found.push(item);
        match reader.next_byte() {
            None => return Some(found),
            Some(b',') => {}
            Some(_) => return None,
        }
    }
}

/// Adds the tokens of a part of a text that begins at `place`.
fn tokenize(part: &str, place: Location, all: &mut Vec<TokenWithSpan>) -> Result<(), TokenizerError> {
    let moved = |at: Location| match at.line {
        1 => Location { line: place.line, column: place.column + at.column - 1 },
        line => Location { line: place.line + line - 1, column: at.column },
    };
    let mut tokenizer = Tokenizer::new(&GenericDialect {}, part);
    let read = tokenizer.tokenize_with_location_into_buf_with_mapper(all, |token| TokenWithSpan {
        span: moved(token.span.start).span_to(moved(token.span.end)),
        token: token.token,
    });
    read.map_err(|error| TokenizerError { location: moved(error.location), ..error })
}

/// Whether the last tokens are `IN (`.
fn ends_with_in(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter().rev().map(|token| &token.token);
    let opens = words.next() == Some(&Token::LParen);
    let mut before = words.filter(|token| !matches!(token, Token::Whitespace(_)));
    opens
        && matches!(before.next(), Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("in"))
}

/// What looks like long lists, by what stands between their brackets.
fn lists(sql: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        // Two bytes are an item and its comma.
        while sql.len() - from > 2 * ITEMS_MIN {
            let open = from + memchr::memchr(b'(', &sql.as_bytes()[from..])?;
            from = open + 1;
            if follows_in(&sql[..open])
                && let Some(length) = length_of_list(&sql[from..])
            {
                let list = from..from + length;
                from = list.end;
                return Some(list);
            }
        }
        None
    })
}

/// Whether a text ends with the word IN.
fn follows_in(before: &str) -> bool {
    let before = before.trim_ascii_end().as_bytes();
    let Some((rest, word)) = before.split_last_chunk::<2>() else { return false };
    word.eq_ignore_ascii_case(b"in") && rest.last().is_none_or(u8::is_ascii_whitespace)
}

/// Bytes to the bracket that ends a long list, if it is one.
fn length_of_list(text: &str) -> Option<usize> {
    let mut reader = Items { text, at: 0 };
    let first = reader.item()?;
    let mut count = 1;
    loop {
        match reader.next_byte()? {
            b')' => return (count >= ITEMS_MIN).then(|| reader.at - 1),
            b',' => {}
            _ => return None,
        }
        if reader.item()?.is_text() != first.is_text() {
            return None;
        }
        count += 1;
    }
}

/// Reads items one after the other.
struct Items<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Items<'a> {
    /// The next byte that is no white space, which is taken.
    fn next_byte(&mut self) -> Option<u8> {
        let bytes = &self.text.as_bytes()[self.at..];
        let skipped = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.at += skipped + 1;
        Some(bytes[skipped])
    }

    /// The next item, which ends before white space, a comma or a bracket.
    fn item(&mut self) -> Option<Item<'a>> {
        let first = self.next_byte()?;
        let begin = self.at - 1;
        let item = match first {
            b'\'' => self.quoted()?,
            b'-' | b'0'..=b'9' => {
                let digits = if first == b'-' { self.at } else { begin };
                let whole = self.digits(digits);
                let fraction = (self.text.as_bytes().get(digits + whole) == Some(&b'.'))
                    .then(|| self.digits(digits + whole + 1));
                self.at = digits + whole + fraction.map_or(0, |fraction| fraction + 1);
                let written = &self.text[begin..self.at];
                match fraction {
                    None => {
                        (1..=DIGITS_MAX).contains(&whole).then_some(())?;
                        Item::Number(written.parse().ok()?)
                    }
                    Some(fraction) => {
                        let is_plain = whole > 0 && fraction > 0 && whole + fraction <= DECIMAL_DIGITS;
                        is_plain.then_some(Item::Fraction(written))?
                    }
                }
            }
            _ => return None,
        };
        let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b')');
        self.text.as_bytes().get(self.at).is_none_or(ends).then_some(item)
    }

    /// How many digits there are from a place on.
    fn digits(&self, from: usize) -> usize {
        let bytes = &self.text.as_bytes()[from..];
        bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len())
    }

    /// The rest of a text whose first quote was taken.
    fn quoted(&mut self) -> Option<Item<'a>> {
        let begin = self.at;
        loop {
            self.at += memchr::memchr(b'\'', &self.text.as_bytes()[self.at..])? + 1;
            if self.text.as_bytes().get(self.at) != Some(&b'\'') {
                return Some(Item::Text(&self.text[begin..self.at - 1]));
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(item: impl Fn(usize) -> String, separator: &str) -> String {
        (0..ITEMS_MIN).map(item).collect::<Vec<_>>().join(separator)
    }

    fn plain(sql: &str) -> Vec<TokenWithSpan> {
        Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap()
    }

    /// One value stands for the list, and what follows it has the place that it has in the text.
    #[test]
    fn a_list_is_one_value() {
        let lists = [
            long(|at| at.to_string(), ","),
            long(|at| format!("-{at}"), " ,\n "),
            long(|at| if at % 3 == 0 { at.to_string() } else { format!("-{at}.25{at}") }, ", "),
            long(|at| format!("'é''{at}, ('"), ", "),
        ];
        for list in lists {
            let around = |list: &str| format!("SELECT 'é (' FROM t\nWHERE x NOT\tIN ({list}) AND y = 'z'");
            let found = tokens(&around(&list)).unwrap();
            let all = plain(&around(&list));
            assert!(found.len() < 40 && found[found.len() - 8..] == all[all.len() - 8..]);
            let place = found.iter().position(|token| token.token == Token::SingleQuotedString(list.clone()));
            let before = place.and_then(|place| found[..place].split_last_chunk::<2>());
            let (before, call) = before.expect("the list is one value");
            assert!(*before == all[..before.len()] && call[0].token == Token::make_word(LONG_LIST, None));
            assert_eq!(bytes_of_long_lists(&around(&list)), list.len());
            assert_eq!(items(&list).unwrap().len(), ITEMS_MIN);
        }
    }

    #[test]
    fn other_texts_stay() {
        let numbers = long(|at| at.to_string(), ",");
        let others = [
            format!("SELECT 'x IN ({numbers})'"),
            format!("SELECT 1 -- x IN ({numbers})\n"),
            format!("SELECT /* x IN ({numbers}) */ 1"),
            format!("SELECT \"x IN ({numbers})\""),
            format!("SELECT $$x IN ({numbers})$$"),
            format!("SELECT f({numbers})"),
            format!("SELECT within({numbers})"),
            format!("SELECT x IN ({numbers}, NULL)"),
            format!("SELECT x IN ({numbers}, 1.5e3)"),
            format!("SELECT x IN ({numbers}, 1.)"),
            format!("SELECT x IN ({numbers}, .5)"),
            format!("SELECT x IN ({numbers}, 1.5.2)"),
            format!("SELECT x IN ({numbers}, 1.{numbers})", numbers = "1".repeat(38)),
            format!("SELECT x IN ({numbers}, 1::INT)"),
            format!("SELECT x IN ({numbers}, 'a')"),
            format!("SELECT x IN ({numbers}, 1_000)"),
            format!("SELECT x IN ({numbers}, 1 2)"),
            format!("SELECT x IN ({numbers}, 1000000000000000000)"),
            format!("SELECT x IN ({numbers}, )"),
            format!("SELECT x IN ({})", long(|at| format!("'{at}' 'b'"), ",")),
            format!("SELECT x IN ({})", &numbers[2..]),
        ];
        for sql in others {
            assert!(tokens(&sql).unwrap() == plain(&sql), "{}", &sql[..30]);
        }
    }

    /// An error after a list has its place in the text.
    #[test]
    fn errors_have_their_places() {
        let sql = format!("SELECT x IN (\n{}) AND y = 'z", long(|at| at.to_string(), ",\n"));
        let error = tokens(&sql).unwrap_err();
        let known = Tokenizer::new(&GenericDialect {}, &sql).tokenize_with_location().unwrap_err();
        assert_eq!(error, known);
    }
}

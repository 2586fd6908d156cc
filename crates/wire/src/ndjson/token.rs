//! One line's object: its keys and values, one level deep; the values of an array.

use memchr::{memchr, memchr2};

/// A value as it stands in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    /// A string, without its quotes.
    Text(Text<'a>),
    /// A number, `true` or `false`.
    Plain(&'a [u8]),
    /// An array or object.
    Nested(&'a [u8]),
}

/// A string without its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub(crate) raw: &'a [u8],
    /// Whether it holds a backslash: see [`unescape`].
    pub(crate) escaped: bool,
}

/// Walks the pairs of one object.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    line: &'a [u8],
    at: usize,
    first: bool,
}

/// Walks the values of one array.
#[derive(Debug)]
pub(crate) struct Items<'a>(Object<'a>);

type Found<T> = Result<T, &'static str>;

impl<'a> Items<'a> {
    /// The array that is all of `text`.
    pub(crate) fn open(text: &'a [u8]) -> Found<Self> {
        let mut inside = Object { line: text, at: 0, first: true };
        inside.space();
        inside.expect(b'[', "it does not begin with '['")?;
        Ok(Self(inside))
    }

    /// The next value; `None` past the last, when the text has ended well.
    pub(crate) fn item(&mut self) -> Found<Option<Value<'a>>> {
        let Self(inside) = self;
        inside.space();
        if inside.peek() == Some(b']') {
            inside.at += 1;
            inside.space();
            return if inside.at == inside.line.len() { Ok(None) } else { Err("text after its closing ']'") };
        }
        if !inside.first {
            inside.expect(b',', "',' or ']' is missing")?;
            inside.space();
        }
        inside.first = false;
        inside.value().map(Some)
    }
}

impl<'a> Object<'a> {
    /// The object that is all of `line`.
    pub(crate) fn open(line: &'a [u8]) -> Found<Self> {
        let mut object = Object { line, at: 0, first: true };
        object.space();
        object.expect(b'{', "it does not begin with '{'")?;
        Ok(object)
    }

    /// The next pair; `None` past the last, when the line has ended well.
    #[inline]
    pub(crate) fn pair(&mut self) -> Found<Option<(Text<'a>, Value<'a>)>> {
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            self.space();
            return if self.at == self.line.len() { Ok(None) } else { Err("text after its closing '}'") };
        }
        if !self.first {
            self.expect(b',', "',' or '}' is missing")?;
            self.space();
        }
        self.first = false;
        let key = self.text()?;
        self.space();
        self.expect(b':', "':' is missing after a key")?;
        self.space();
        Ok(Some((key, self.value()?)))
    }

    fn value(&mut self) -> Found<Value<'a>> {
        match self.peek() {
            Some(b'"' | b'\'') => self.text().map(Value::Text),
            Some(b'{' | b'[') => self.nested().map(Value::Nested),
            Some(byte) if byte == b'-' || byte.is_ascii_alphanumeric() => {
                let start = self.at;
                while self
                    .peek()
                    .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
                {
                    self.at += 1;
                }
                match &self.line[start..self.at] {
                    b"null" => Ok(Value::Null),
                    token if is_token(token) => Ok(Value::Plain(token)),
                    _ => Err("a word that is no JSON value"),
                }
            }
            _ => Err("a value is missing"),
        }
    }

    fn text(&mut self) -> Found<Text<'a>> {
        if self.peek() == Some(b'\'') {
            return Err("a key or string stands in single quotes, and JSON's stand in double ones");
        }
        self.expect(b'"', "a key or string does not begin with '\"'")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.line.get(self.at..).unwrap_or_default();
            let found = memchr2(b'"', b'\\', rest).ok_or("a string is not closed")?;
            if rest[found] == b'"' {
                let raw = &rest[..found];
                self.at += found + 1;
                return Ok(Text { raw: if escaped { &self.line[start..self.at - 1] } else { raw }, escaped });
            }
            escaped = true;
            self.at += found + 2;
        }
    }

    /// Skips an array or object; its brackets must match, its inside is not looked at further.
    fn nested(&mut self) -> Found<&'a [u8]> {
        let start = self.at;
        let mut open = Vec::new();
        loop {
            match self.peek().ok_or("an array or object is not closed")? {
                b'"' => {
                    self.text()?;
                    continue;
                }
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                close @ (b'}' | b']') if open.pop() != Some(close) => return Err("brackets do not match"),
                _ => {}
            }
            self.at += 1;
            if open.is_empty() {
                return Ok(&self.line[start..self.at]);
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8, otherwise: &'static str) -> Found<()> {
        if self.peek() != Some(byte) {
            return Err(otherwise);
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }
}

/// true, false or what begins like a number; NaN and Infinity, which Python writes.
fn is_token(token: &[u8]) -> bool {
    match token {
        b"true" | b"false" | b"NaN" | b"Infinity" | b"-Infinity" => true,
        [b'-', digit, ..] | [digit, ..] => digit.is_ascii_digit(),
        [] => false,
    }
}

/// A string's text with its escapes resolved, put into `out`; `false` where one is not JSON's.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut rest = raw;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let Some((&escape, after)) = rest[at + 1..].split_first() else { return false };
        rest = after;
        out.push(match escape {
            b'"' | b'\\' | b'/' => escape,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let Some((character, used)) = unicode(rest) else { return false };
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[used..];
                continue;
            }
            _ => return false,
        });
    }
    out.extend_from_slice(rest);
    true
}

/// The character of `XXXX` or `XXXX\uXXXX`, with the length of it.
fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = std::str::from_utf8(bytes.get(at..at + 4)?).ok()?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    };
    let high = unit(0)?;
    if let Some(character) = char::from_u32(high) {
        return Some((character, 4));
    }
    if bytes.get(4..6)? != br"\u" {
        return None;
    }
    let low = unit(6)?;
    let is_pair = (0xD800..0xDC00).contains(&high) && (0xDC00..0xE000).contains(&low);
    let code = is_pair.then(|| 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))?;
    Some((char::from_u32(code)?, 10))
}

//! Names and values as they are written: where they end and what their escapes stand for.
//!
//! InfluxDB has a backslash before a comma, an equals sign and a space in names and tags, and before a quote and a
//! backslash in texts; QuestDB's clients write one before each of these and before line ends, everywhere. Both are
//! read: a backslash before one of them stands for the byte after it, any other for itself.

/// A name or a value: where it stands without quotes, and whether a backslash is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) is_escaped: bool,
}

impl Token {
    pub(super) fn raw(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.end]
    }

    /// What it stands for: a part of `bytes`, or `scratch` where something is escaped.
    pub(super) fn text<'a>(self, bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if !self.is_escaped {
            return self.raw(bytes);
        }
        unescape(self.raw(bytes), scratch);
        scratch
    }
}

/// The name or value without quotes at `start`, up to the first byte of `ends` that no backslash stands before; `None`
/// where the bytes end first.
#[inline]
pub(super) fn unquoted(bytes: &[u8], start: usize, ends: impl Fn(u8) -> bool) -> Option<Token> {
    let (mut end, mut is_escaped) = (start, false);
    loop {
        match *bytes.get(end)? {
            b'\\' => {
                is_escaped = true;
                end += 2;
            }
            byte if ends(byte) => return Some(Token { start, end, is_escaped }),
            _ => end += 1,
        }
    }
}

/// The text whose opening quote stands before `start`, up to its closing one; `None` where the bytes end first.
pub(super) fn quoted(bytes: &[u8], start: usize) -> Option<Token> {
    let (mut end, mut is_escaped) = (start, false);
    loop {
        end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
        if bytes[end] == b'"' {
            return Some(Token { start, end, is_escaped });
        }
        is_escaped = true;
        end += 2;
    }
}

/// Where the line that `at` stands in ends, behind its line end; `None` where the bytes end first.
pub(super) fn next_line(bytes: &[u8], at: usize) -> Option<usize> {
    Some(at + memchr::memchr(b'\n', bytes.get(at..)?)? + 1)
}

fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        match raw.get(at + 1) {
            Some(&escaped @ (b',' | b'=' | b' ' | b'"' | b'\\' | b'\n' | b'\r')) if byte == b'\\' => {
                out.push(escaped);
                at += 2;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

//! Text that is no UTF-8 with lines that end in a line feed, read as if it were.
//!
//! UTF-16 is known by its byte order mark, or by every second byte of its beginning being zero; lines that end in a
//! lone carriage return by there being no line feed outside of quotes. Anything else passes through untouched, and
//! what is no text at all is refused later, by the field that holds it.

use std::io::{self, Cursor, Read};

/// Bytes looked at to know an encoding.
const HEAD_BYTES: usize = 64 << 10;

/// A reader of a file's text, and the encoding's name where it is one that is not read.
pub(super) type Decoded = Result<Box<dyn Read + Send>, &'static str>;

/// The bytes of `reader` as UTF-8 whose lines end in a line feed.
///
/// # Errors
/// Those of `reader`.
pub(super) fn decoded(mut reader: Box<dyn Read + Send>) -> io::Result<Decoded> {
    let head = head(&mut *reader)?;
    if head.starts_with(&[0xFF, 0xFE, 0, 0]) || head.starts_with(&[0, 0, 0xFE, 0xFF]) {
        return Ok(Err("UTF-32"));
    }
    let unit = utf16(&head);
    let whole: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(reader));
    let Some(unit) = unit else { return feed_lines(whole).map(Ok) };
    feed_lines(Box::new(Utf16 { reader: whole, unit, left: Vec::new(), text: Cursor::default() })).map(Ok)
}

fn feed_lines(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let head = head(&mut *reader)?;
    let returns_only = has_returns_only(&head);
    let whole = Cursor::new(head).chain(reader);
    Ok(match returns_only {
        true => Box::new(LineFeeds { reader: whole }),
        false => Box::new(whole),
    })
}

fn head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Two bytes as a unit of UTF-16.
type Unit = fn([u8; 2]) -> u16;

/// How the units of UTF-16 are read, where the text is that.
fn utf16(head: &[u8]) -> Option<Unit> {
    /// Units without a mark that are looked at.
    const UNITS: usize = 256;
    match head {
        [0xFF, 0xFE, ..] => return Some(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => return Some(u16::from_be_bytes),
        _ => {}
    }
    let (units, _) = head.as_chunks::<2>();
    let units = &units[..units.len().min(UNITS)];
    let all = |is: fn(&[u8; 2]) -> bool| units.len() > 1 && units.iter().all(is);
    match () {
        () if all(|unit| unit[0] != 0 && unit[1] == 0) => Some(u16::from_le_bytes),
        () if all(|unit| unit[0] == 0 && unit[1] != 0) => Some(u16::from_be_bytes),
        () => None,
    }
}

/// Whether lines end in a carriage return alone: one stands outside of quotes, and no line feed does.
fn has_returns_only(head: &[u8]) -> bool {
    let (mut quoted, mut returns) = (false, false);
    for (at, byte) in head.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => return false,
            // The last one may have its line feed behind what was read.
            b'\r' if !quoted => returns |= at + 1 < HEAD_BYTES,
            _ => {}
        }
    }
    returns
}

/// UTF-16 as UTF-8.
struct Utf16 {
    reader: Box<dyn Read + Send>,
    unit: Unit,
    /// Bytes read of a character that is not whole.
    left: Vec<u8>,
    text: Cursor<Vec<u8>>,
}

impl Utf16 {
    /// Reads and decodes some more; `false` at the end.
    fn refill(&mut self) -> io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.left);
        let read = (&mut self.reader).take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let mut whole = bytes.len() - bytes.len() % 2;
        let is_high = |unit: u16| (0xD800..0xDC00).contains(&unit);
        if read > 0
            && let Some(last) = whole.checked_sub(2)
            && is_high((self.unit)([bytes[last], bytes[last + 1]]))
        {
            whole = last;
        }
        self.left = bytes.split_off(whole);
        if read == 0 && !self.left.is_empty() {
            return Err(not_utf16());
        }
        let units = bytes.as_chunks::<2>().0.iter().map(|bytes| (self.unit)(*bytes));
        let text: Result<String, _> = char::decode_utf16(units).collect();
        self.text = Cursor::new(text.map_err(|_| not_utf16())?.into_bytes());
        Ok(true)
    }
}

fn not_utf16() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it begins as UTF-16 and is not")
}

impl Read for Utf16 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.text.read(buffer)?;
            if read > 0 || buffer.is_empty() || !self.refill()? {
                return Ok(read);
            }
        }
    }
}

/// Carriage returns as line feeds.
struct LineFeeds<R> {
    reader: R,
}

impl<R: Read> Read for LineFeeds<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        for byte in buffer.iter_mut().take(length).filter(|byte| **byte == b'\r') {
            *byte = b'\n';
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests;

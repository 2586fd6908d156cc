//! An array of JSON, `[{…}, {…}]`, read as if each of its elements stood on a line of its own.
//!
//! Bytes change in their places: the array's brackets become spaces, the commas between its elements line feeds, and line
//! feeds within an element spaces, which mean the same there. So line 7 of what is read is the 7th element. What an element
//! is, is left to the reader of lines; an array that does not end, or that text follows, is an error.

use std::io::{self, Cursor, Read};
use tickstone_wire::csv::BYTE_ORDER_MARK;

/// The bytes of `reader`, where it begins with the bracket of an array its elements as lines.
///
/// # Errors
/// Those of `reader`.
pub(super) fn as_lines(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    /// Bytes before the bracket that are passed over.
    const BEFORE_BYTES_MAX: u64 = 64 << 10;
    let (mut head, mut next) = (Vec::new(), [0]);
    while (head.len() as u64) < BEFORE_BYTES_MAX && reader.read(&mut next)? == 1 {
        head.push(next[0]);
        let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
        let is_before = BYTE_ORDER_MARK.starts_with(text) || text.trim_ascii().is_empty();
        if !is_before {
            break;
        }
    }
    let is_array = head.last() == Some(&b'[');
    let whole = Cursor::new(if is_array { b"[".to_vec() } else { head }).chain(reader);
    Ok(if is_array { Box::new(Elements::new(whole)) } else { Box::new(whole) })
}

/// Where a byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the array.
    Before,
    /// Within so many brackets and braces, the array's among them.
    Within(usize),
    /// In a string within as many; whether after a backslash.
    String(usize, bool),
    After,
}

struct Elements<R> {
    reader: R,
    place: Place,
    /// The number of the element, from 1.
    element: u64,
}

impl<R: Read> Elements<R> {
    fn new(reader: R) -> Self {
        Self { reader, place: Place::Before, element: 1 }
    }

    /// A byte, as it is read.
    fn byte(&mut self, byte: u8) -> io::Result<u8> {
        let (place, read) = match (self.place, byte) {
            (Place::String(depth, false), b'"') => (Place::Within(depth), byte),
            (Place::String(depth, escaped), _) => (Place::String(depth, byte == b'\\' && !escaped), byte),
            (Place::Before, b'[') => (Place::Within(1), b' '),
            (Place::Within(1), b']') => (Place::After, b' '),
            (Place::Within(1), b',') => {
                self.element += 1;
                (self.place, b'\n')
            }
            (Place::Within(depth), b'[' | b'{') => (Place::Within(depth + 1), byte),
            (Place::Within(depth @ 2..), b']' | b'}') => (Place::Within(depth - 1), byte),
            (Place::Within(depth), b'"') => (Place::String(depth, false), byte),
            (place, b' ' | b'\t' | b'\n' | b'\r') => (place, b' '),
            (Place::Before | Place::After, _) => return Err(self.wrong("text follows the array, after")),
            (place, _) => (place, byte),
        };
        self.place = place;
        Ok(read)
    }

    fn wrong(&self, what: &str) -> io::Error {
        let what = format!("{what} element {} of the JSON array", self.element);
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

impl<R: Read> Read for Elements<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        if length == 0 && !buffer.is_empty() && self.place != Place::After {
            return Err(self.wrong("the file ends within"));
        }
        for at in buffer.iter_mut().take(length) {
            *at = self.byte(*at)?;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<String, String> {
        let mut read = String::new();
        let reader = as_lines(Box::new(Cursor::new(text.to_string()))).map_err(|error| error.to_string())?;
        // In pieces of all lengths.
        let mut reader = std::io::BufReader::with_capacity(1 + text.len() % 5, reader);
        reader.read_to_string(&mut read).map_err(|error| error.to_string())?;
        Ok(read)
    }

    #[test]
    fn elements_are_lines() {
        for (text, wanted) in [
            ("[{\"a\": 1}, {\"a\": 2}]\n", " {\"a\": 1}\n {\"a\": 2}  "),
            ("\u{feff} \r\n[\n{\n\"a\":[1,\n2]}]", "  { \"a\":[1, 2]} "),
            ("[{\"a\": \"],[\\\\\\\"}{\\n\"},{}]", " {\"a\": \"],[\\\\\\\"}{\\n\"}\n{} "),
            ("[]", "  "),
            // What is no array passes as it is.
            ("{\"a\": [1]}\n[2]\n", "{\"a\": [1]}\n[2]\n"),
            ("", ""),
            ("\u{feff}", "\u{feff}"),
        ] {
            assert_eq!(lines(text).as_deref(), Ok(wanted), "{text}");
        }
        for (text, wanted) in [
            ("[{\"a\": 1}, {\"a\": 2", "the file ends within element 2 of the JSON array"),
            ("[{\"a\": \"x", "the file ends within element 1 of the JSON array"),
            ("[{}]\n{}", "text follows the array, after element 1 of the JSON array"),
            ("[{}],", "text follows the array, after element 1 of the JSON array"),
        ] {
            assert_eq!(lines(text), Err(wanted.to_string()), "{text}");
        }
    }
}

//! Whether a message of a client is all that its kind has ("Message Formats"), and its texts are texts: what decodes it
//! takes both for granted.

/// The messages of clients: Query, Parse, Bind, Describe, Execute, Close, Flush, Sync, Terminate, those of COPY, passwords.
pub(super) const KINDS: &[u8] = b"QPBDECHSXdcfp";

/// Whether there is nothing missing and nothing more.
pub(super) fn is_whole(kind: u8, body: &[u8]) -> bool {
    let mut rest = Rest(body);
    let read = match kind {
        b'Q' | b'f' => rest.text(),
        b'P' => rest.text().and_then(|()| rest.text()).and_then(|()| rest.counted(4)),
        b'B' => bind(&mut rest),
        b'D' | b'C' => rest.skip(1).and_then(|()| rest.text()),
        b'E' => rest.text().and_then(|()| rest.skip(4)),
        b'd' | b'p' => rest.skip(body.len()),
        _ => Some(()),
    };
    read.is_some() && rest.0.is_empty()
}

/// Names, formats, values, formats of the result.
fn bind(rest: &mut Rest<'_>) -> Option<()> {
    rest.text()?;
    rest.text()?;
    rest.counted(2)?;
    for _ in 0..rest.count()? {
        let length = i32::from_be_bytes(rest.take()?);
        // NULL has no bytes.
        if length != -1 {
            rest.skip(usize::try_from(length).ok()?)?;
        }
    }
    rest.counted(2)
}

/// What is left to be looked at.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// A text and the zero that ends it.
    fn text(&mut self) -> Option<()> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        self.skip(end + 1)
    }

    fn count(&mut self) -> Option<usize> {
        self.take().map(|count| usize::from(u16::from_be_bytes(count)))
    }

    /// A count, and so many things of some bytes.
    fn counted(&mut self, bytes: usize) -> Option<()> {
        let count = self.count()?;
        self.skip(count * bytes)
    }
}

/// Where the text of a message stops being UTF-8.
pub(super) fn no_text(kind: u8, body: &[u8]) -> Option<usize> {
    // How many strings it begins with, and behind how many bytes.
    let (skipped, strings) = match kind {
        b'Q' | b'E' | b'f' => (0, 1),
        b'P' | b'B' => (0, 2),
        b'D' | b'C' => (1, 1),
        _ => return None,
    };
    let body = body.get(skipped..)?;
    let texts = body.split(|byte| *byte == 0).take(strings);
    let length = texts.map(<[u8]>::len).sum::<usize>() + strings - 1;
    let texts = body.get(..length).unwrap_or(body);
    std::str::from_utf8(texts).err().map(|error| error.valid_up_to())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_miss_something_or_have_more() {
        for (kind, whole) in [
            (b'Q', &b"SELECT 1\0"[..]),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x14"),
            (b'B', b"\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x02ab\0\x01\0\x01"),
            (b'D', b"Ss\0"),
            (b'C', b"P\0"),
            (b'E', b"p\0\0\0\0\x07"),
            (b'S', b""),
            (b'H', b""),
            (b'f', b"enough\0"),
        ] {
            assert!(is_whole(kind, whole), "{kind}");
            assert!(!is_whole(kind, &[whole, b"\0"].concat()), "{kind} and more");
            for length in 0..whole.len() {
                assert!(!is_whole(kind, &whole[..length]), "{kind} of {length} bytes");
            }
        }
        assert!(is_whole(b'd', b"anything"));
        assert!(!is_whole(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), "a length that is negative");
    }
}

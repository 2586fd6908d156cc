//! Texts in every encoding, read in pieces of every size.

use super::*;
use proptest::prelude::*;

/// Gives at most `most` bytes at a time.
struct Trickle {
    bytes: Cursor<Vec<u8>>,
    most: usize,
}

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.most);
        self.bytes.read(&mut buffer[..most])
    }
}

fn read(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let reader = decoded(Box::new(Trickle { bytes: Cursor::new(bytes.to_vec()), most }))?;
    let mut reader = reader.map_err(io::Error::other)?;
    let mut out = Vec::new();
    reader.read_to_end(&mut out)?;
    Ok(out)
}

fn units(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn texts_come_back_from_utf_16(
        text in "[a-z0-9,é☂𝄞\"\r]{1,200}\n[a-z,𝄞]{0,200}",
        copies in 1_usize..400,
        most in 1_usize..5_000,
    ) {
        let text = text.repeat(copies);
        for (mark, bytes) in [([0xFF, 0xFE], u16::to_le_bytes as fn(u16) -> [u8; 2]), ([0xFE, 0xFF], u16::to_be_bytes)] {
            let marked = [mark.to_vec(), units(&text, bytes)].concat();
            let plain = format!("\u{feff}{text}").into_bytes();
            prop_assert_eq!(read(&marked, most).unwrap(), read(&plain, most).unwrap());
        }
    }

    #[test]
    fn utf_8_with_line_feeds_stays(text in "[a-z,é☂\"\r]{0,100}\n[a-z,𝄞\"\n]{0,100}", most in 1_usize..500) {
        prop_assume!(!has_returns_only(text.as_bytes()));
        prop_assert_eq!(read(text.as_bytes(), most).unwrap(), text.into_bytes());
    }
}

#[test]
fn utf_16_without_a_mark_is_known_by_its_zeros() {
    let text = "ts,price\n2024-01-01,1.5\n";
    assert_eq!(read(&units(text, u16::to_le_bytes), 7).unwrap(), text.as_bytes());
    assert_eq!(read(&units(text, u16::to_be_bytes), 7).unwrap(), text.as_bytes());
}

#[test]
fn returns_end_lines_where_nothing_else_does() {
    assert_eq!(read(b"a,b\r1,2\r", 3).unwrap(), b"a,b\n1,2\n");
    assert_eq!(read(b"a,b\r\n1,2\r\n", 3).unwrap(), b"a,b\r\n1,2\r\n");
    assert_eq!(read(b"a,\"x\ry\"\n1,2\n", 3).unwrap(), b"a,\"x\ry\"\n1,2\n");
}

#[test]
fn what_is_neither_is_said() {
    assert!(decoded(Box::new(Cursor::new(vec![0xFF, 0xFE, 0, 0, 65, 0, 0, 0]))).unwrap().is_err());
    assert!(read(&[0xFF, 0xFE, 0x00, 0xD8, 0x41, 0x00], 9).is_err());
    assert!(read(&[0xFF, 0xFE, 0x41, 0x00, 0x42], 9).is_err());
}

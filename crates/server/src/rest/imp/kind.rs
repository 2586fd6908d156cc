//! What an upload is that is not taken, by its first bytes.

/// What files of other formats begin with, and what they are.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"PK\x03\x04", "a zip archive (a workbook of Excel is one, too)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "packed with zstd"),
    (&[0x04, 0x22, 0x4d, 0x18], "packed with lz4"),
    (b"BZh", "packed with bzip2"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "packed with xz"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a rar archive"),
    (b"\xd0\xcf\x11\xe0", "a document of Office (.xls)"),
    (b"%PDF-", "a PDF"),
    (b"SQLite format 3\0", "a database of SQLite"),
    (b"Obj\x01", "a file of Avro"),
    (b"ORC", "a file of ORC"),
    (b"\x89HDF", "a file of HDF5"),
];

/// Bytes that are looked at for characters that texts have not.
const LOOKED_AT: usize = 64 << 10;

/// What a file is that should be a text and is none; `None` where it may be one. `delimiter` is a character that its
/// fields have between them.
pub(super) fn no_text(head: &[u8], delimiter: Option<u8>) -> Option<&'static str> {
    let known = SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature));
    // ORC could be the name of a column.
    let known = known.filter(|(signature, _)| signature.len() > 3 || is_binary(head, delimiter));
    known.map(|(_, what)| *what).or_else(|| is_binary(head, delimiter).then_some("binary, no text"))
}

/// Whether bytes are no text: neither UTF-16 nor UTF-8, and with characters of control, or mostly these. A text may have
/// some.
fn is_binary(head: &[u8], delimiter: Option<u8>) -> bool {
    let is_whole = head.len() <= LOOKED_AT;
    let head = &head[..head.len().min(LOOKED_AT)];
    if is_utf16(head) {
        return false;
    }
    let is_control = |byte: &&u8| {
        (**byte < b' ' || **byte == 0x7f)
            && !b"\t\n\x0b\x0c\r\x1a".contains(byte)
            && Some(**byte) != delimiter
    };
    let controls = head.iter().filter(is_control).count();
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // What is looked at may end within a character.
        Err(error) => error.error_len().is_none() && !is_whole,
    };
    (!is_utf8 && controls > 0) || controls * 4 > head.len()
}

/// Whether bytes begin as UTF-16 does: with its mark, or as ASCII in it.
fn is_utf16(head: &[u8]) -> bool {
    let begin = &head[..head.len().min(64)];
    let zeros_at = |place: usize| {
        let mut half = begin.iter().skip(place).step_by(2);
        let mut other = begin.iter().skip(1 - place).step_by(2);
        begin.len() > 1 && half.all(|byte| *byte == 0) && other.all(|byte| *byte != 0)
    };
    begin.starts_with(&[0xff, 0xfe]) || begin.starts_with(&[0xfe, 0xff]) || zeros_at(0) || zeros_at(1)
}

/// Whether a text is an array of JSON, not a CSV whose first field begins with a bracket.
pub(super) fn is_json_array(text: &[u8]) -> bool {
    let Some(rest) = text.trim_ascii_start().strip_prefix(b"[") else { return false };
    matches!(rest.trim_ascii_start().first(), Some(b'{' | b'[' | b']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text() {
        let noise: Vec<u8> = (0..4000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let [zeros, tiff] = [vec![0; 100], b"II*\0\x08\0\0\0\xfe\x0c".to_vec()];
        for head in [&noise, &zeros, &tiff, &b"PK\x03\x04x".to_vec(), &b"\x89PNG\r\n\x1a\n\0\0".to_vec()] {
            assert!(no_text(head, None).is_some(), "{:?}", &head[..head.len().min(20)]);
        }
        let utf16: Vec<u8> = "a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let latin1 = b"name\nM\xfcller\n".to_vec();
        let long = "\u{e9}".repeat(LOOKED_AT).into_bytes();
        let odd = [b"x".as_slice(), &long].concat();
        let controls = b"ts,note\n1,\x01 and \x02 and \0 in a text that is longer\n".to_vec();
        for head in [&utf16, &latin1, &long, &odd, &controls, &Vec::new(), &b"ORC,x\n1,2".to_vec()] {
            assert_eq!(no_text(head, None), None, "{:?}", &head[..head.len().min(20)]);
        }
        let separated = b"a\x01\x01b\n1\x01\x012\n";
        assert!(no_text(separated, None).is_some() && no_text(separated, Some(1)).is_none());
    }

    #[test]
    fn arrays_of_json() {
        for text in ["[{\"a\":1}]", " [\n  {", "[]", "[[1,2]]", "\n[ ["] {
            assert!(is_json_array(text.as_bytes()), "{text}");
        }
        for text in ["", "[a],[b]\n1,2", "[1.5, 2],x", "{\"a\":1}", "a,[{"] {
            assert!(!is_json_array(text.as_bytes()), "{text}");
        }
    }
}

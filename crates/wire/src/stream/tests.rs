use super::*;
use proptest::prelude::*;

fn some_request() -> impl Strategy<Value = (u8, String, Vec<u8>, u16, u64, u64)> {
    (0_u8..7, ".{0,40}", prop::collection::vec(any::<u8>(), 0..100), any::<u16>(), any::<u64>(), any::<u64>())
}

fn request<'a>(drawn: &'a (u8, String, Vec<u8>, u16, u64, u64)) -> Request<'a> {
    let (kind, name, document, stream, from, to) = drawn;
    let (stream, from, to) = (*stream, *from, *to);
    match kind {
        0 => Request::NoOp,
        1 => Request::Open { name },
        2 => Request::Append { stream, document },
        3 => Request::Range { stream, from, to },
        4 => Request::Since { stream, from },
        5 => Request::Prove { credentials: document },
        _ => Request::LastBefore { stream, at: from },
    }
}

proptest! {
    #[test]
    fn what_is_put_is_read(drawn in prop::collection::vec(some_request(), 0..8)) {
        let mut bytes = Vec::new();
        drawn.iter().for_each(|drawn| put(&mut bytes, &request(drawn)));
        let mut at = 0;
        for drawn in &drawn {
            let Ok(Read::Whole(read, size)) = read(&bytes[at..], 100) else { panic!("no request at {at}") };
            prop_assert_eq!(read, request(drawn));
            // Each beginning of it says how long it is, as soon as that is known.
            for end in 0..size {
                let expected = if end < HEADER_BYTES { HEADER_BYTES } else { size };
                prop_assert_eq!(super::read(&bytes[at..at + end], 100), Ok(Read::Part(expected)));
            }
            at += size;
        }
        prop_assert_eq!(at, bytes.len());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(Read::Whole(request, size)) = read(&bytes, 1_000) {
            let mut again = Vec::new();
            put(&mut again, &request);
            let bare = bytes[5] == 5;
            let payload = HEADER_BYTES + if bare { STREAM_BYTES } else { 0 };
            prop_assert_eq!(&again[payload..], &bytes[HEADER_BYTES..size]);
        }
    }
}

#[test]
fn what_is_none_is_named() {
    let text = |bytes: &[u8]| read(bytes, 10).unwrap_err().to_string();
    assert_eq!(text(&[0, 0, 0, 0, 0, 8]), "there is no command 8");
    assert_eq!(text(&[0, 0, 0, 1, 0, 0]), "command 0 with 1 bytes, which it cannot have");
    assert_eq!(text(&[0, 0, 0, 1, 0, 2]), "command 2 with 1 bytes, which it cannot have");
    assert_eq!(text(&[0, 1, 0, 0, 0, 7]), "command 7 with 65536 bytes, which it cannot have");
    assert_eq!(text(&[0, 0, 0, 17, 0, 3]), "command 3 with 17 bytes, which it cannot have");
    assert_eq!(text(&[0, 0, 0, 13, 0, 2]), "a document of 11 bytes, more than 10");
    assert_eq!(text(&[0, 0, 0, 3, 0, 1, 0, 1, 0xFF]), "a name that is no UTF-8");
    assert_eq!(text(&[0, 0, 0, 3, 0, 1, 0, 2, b'a']), "command 1 with 3 bytes, which it cannot have");
    assert_eq!(text(&[0, 0, 0, 1, 0, 5, 0xFF]), "a name that is no UTF-8");
    assert_eq!(text(&[0, 1, 0, 0, 0, 5]), "command 5 with 65536 bytes, which it cannot have");
}

#[test]
fn a_stream_is_opened_in_two_ways() {
    let name = |bytes: &[u8]| match read(bytes, 10).unwrap() {
        Read::Whole(Request::Open { name }, size) if size == bytes.len() => name.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name(&[0, 0, 0, 4, 0, 1, 0, 2, b'a', b'b']), "ab");
    assert_eq!(name(&[0, 0, 0, 2, 0, 5, b'a', b'b']), "ab");
    assert_eq!(name(&[0, 0, 0, 1, 0, 5, b'a']), "a");
    // The engine says which names there can be.
    assert_eq!(name(&[0, 0, 0, 0, 0, 5]), "");
    assert_eq!(name(&[0, 0, 0, 4, 0, 5, 0, 2, b'a', b'b']), "\0\u{2}ab");
}

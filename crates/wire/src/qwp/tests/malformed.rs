//! Messages that are cut, or wrong, are refused; none is believed.

use super::client::{Cells, Client, Style};
use super::recorded::{NULLS, POLARS, ROWS, hex};
use crate::qwp::header::HEADER_BYTES;
use crate::qwp::{Ingress, Limits, Refused, Status, egress, negotiate};
use proptest::prelude::*;

fn status(message: &[u8]) -> Option<Status> {
    Ingress::default().read(message, 0, &mut |_| None).err().map(|refused| refused.status())
}

fn with_length(mut message: Vec<u8>) -> Vec<u8> {
    let length = (message.len() - HEADER_BYTES) as u32;
    message[8..12].copy_from_slice(&length.to_le_bytes());
    message
}

fn messages() -> Vec<Vec<u8>> {
    let style = Style { packed_times: true, own_symbols: true, ..Style::default() };
    let times = (0..40).map(|row| Some(row * row * 37)).collect();
    let own = Client::default().message(
        style,
        &[("t", vec![("s", Cells::Symbol(vec![Some("a".into()); 40])), ("", Cells::TimestampNanos(times))])],
    );
    [ROWS, NULLS, POLARS].iter().map(|text| hex(text)).chain([own]).collect()
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    for message in messages() {
        assert_eq!(status(&message), None);
        for length in 0..message.len() {
            assert!(status(&message[..length]).is_some(), "at byte {length}");
            if length >= HEADER_BYTES {
                let cut = with_length(message[..length].to_vec());
                assert!(status(&cut).is_some(), "with a header, at byte {length}");
            }
        }
        assert_eq!(status(&with_length([&message[..], &[0]].concat())), Some(Status::ParseError));
    }
}

#[test]
fn a_message_with_any_byte_changed_is_read_or_refused() {
    for message in messages() {
        for place in 0..message.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, message[place] ^ 0x10] {
                let mut changed = message.clone();
                changed[place] = value;
                status(&changed);
            }
        }
    }
}

#[test]
fn a_query_cut_anywhere_is_refused() {
    let query =
        hex("100a000000000000000973656c6563742024310002050001000000000000000f000000000002000000c3a903dc0b");
    assert!(egress::read_request(&query).is_ok());
    for length in 0..query.len() {
        // Flags may be left out.
        let is_whole = length == query.len() - 3;
        assert_eq!(egress::read_request(&query[..length]).is_ok(), is_whole, "at byte {length}");
    }
    let refused = egress::read_request(&[&query[..], &[0]].concat()).unwrap_err();
    assert_eq!((refused.id, refused.status), (Some(10), Status::ParseError));
    assert_eq!(
        refused.to_string(),
        format!("not a message of QWP: bytes follow the end of the message (at byte {})", query.len())
    );
    assert!(egress::read_request(&hex("110100000000000000")).is_err(), "a client sends no results");
}

#[test]
fn counts_that_the_bytes_cannot_hold_are_refused() {
    let message = |tables: u16, flags: u8, payload: &[u8]| {
        let header = [b"QWP1", &[1, flags][..], &tables.to_le_bytes(), &[0; 4]].concat();
        with_length([&header, payload].concat())
    };
    let what = |message: &[u8], limits: Limits| match Ingress::new(limits)
        .read(message, 0, &mut |_| None)
        .unwrap_err()
    {
        Refused::Malformed { malformed, .. } => malformed.what,
        other => panic!("{other}"),
    };
    let table = |rows: &[u8], columns: &[u8]| message(1, 0, &[b"\x01t", rows, columns].concat());
    let limits = Limits::default();
    let many = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..];
    assert_eq!(
        what(&table(many, b"\x01\x01a\x05"), limits),
        "the message has more rows, or more values, than it may have"
    );
    assert_eq!(
        what(&table(&[0x80, 0x80, 0x3c], b"\x01\x01a\x05"), limits),
        "a table has more rows than values"
    );
    assert_eq!(what(&table(&[1], b"\x00"), limits), "a table has more rows than values");
    assert_eq!(what(&table(&[1], many), limits), "a count is larger than the rest of the message");
    assert_eq!(
        what(&message(0, 8, &[&[0], many].concat()), limits),
        "a count is larger than the rest of the message"
    );
    assert_eq!(
        what(&table(&[many, &[1]].concat(), b""), limits),
        "a count is larger than the rest of the message"
    );
    let long = [0xff; 11];
    assert_eq!(what(&table(&long, b""), limits), "a number has more than 64 bits");
    let few = Limits { rows_max: 1, ..limits };
    assert_eq!(what(&hex(POLARS), few), "the message has more rows, or more values, than it may have");
    let few = Limits { values_max: 27, ..limits };
    assert_eq!(what(&hex(POLARS), few), "the message has more rows, or more values, than it may have");
    let few = Limits { symbols_max: 1, ..limits };
    assert_eq!(what(&hex(ROWS), few), "the connection has too many symbols");
    let few = Limits { symbol_bytes_max: 5, ..limits };
    assert_eq!(what(&hex(ROWS), few), "the symbols of the connection take too many bytes");
    let few = Limits { message_bytes_max: 50, ..limits };
    assert_eq!(what(&hex(ROWS), few), "it is longer than a message may be");
    assert_eq!(what(&message(0, 0x10, &[]), limits), "it has flags that are not known");
    assert_eq!(
        what(&message(1, 0, b"\x01t\x00\x01\x01a\x08"), limits),
        "a column has a type that is not known"
    );
    // Two bytes of one character in two texts.
    let halves = b"\x01t\x02\x01\x01a\x0f\x00\0\0\0\0\x01\0\0\0\x02\0\0\0\xc3\xa9";
    assert_eq!(what(&message(1, 0, halves), limits), "a text is not valid UTF-8");
    let backwards = b"\x01t\x02\x01\x01a\x0f\x00\0\0\0\0\x02\0\0\0\x01\0\0\0ab";
    assert_eq!(what(&message(1, 0, backwards), limits), "a text ends before it begins");
}

#[test]
fn the_version_is_the_highest_of_both() {
    assert_eq!(negotiate(None), Some(1));
    assert_eq!(negotiate(Some("1")), Some(1));
    assert_eq!(negotiate(Some("7")), Some(1));
    assert_eq!(negotiate(Some("0")), None);
    assert_eq!(negotiate(Some("x")), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_message_with_some_bytes_changed_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let messages = messages();
        let mut message = messages[which.index(messages.len())].clone();
        for (place, value) in edits {
            let place = place.index(message.len());
            message[place] = value;
        }
        if let Some(cut) = cut {
            message.truncate(HEADER_BYTES + cut.index(message.len() - HEADER_BYTES));
        }
        crate::fuzz::qwp(&with_length(message));
    }
}

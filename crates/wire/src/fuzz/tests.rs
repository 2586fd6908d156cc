//! The parsers on bytes drawn by chance.

use super::*;
use proptest::prelude::*;

/// Text that looks like records, with what parsers stumble over.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(&b"\""[..]),
        Just(&b","[..]),
        Just(&b"\n"[..]),
        Just(&b"\r\n"[..]),
        Just(&b"{\"ts\":"[..]),
        Just(&b"{\"px\":[{"[..]),
        Just(&b",\"bids\":[1.5,"[..]),
        Just(&b",\"tags\":[\"a\",null]"[..]),
        Just(&b"}\n"[..]),
        Just(&b"\\u"[..]),
        Just(&b"d83d"[..]),
        Just(&b"\\"[..]),
        Just(&b"-9223372036854775808"[..]),
        Just(&b"99999999999999999999999999999999999999999"[..]),
        Just(&b"1e999999999"[..]),
        Just(&b"2024-02-30T24:60:60.9999999999Z"[..]),
        Just(&b"2024-08-08T09:30:00+14:00"[..]),
        Just(&b"0001-01-01"[..]),
        Just(&b"\xff\xfe"[..]),
        Just(&b"\0"[..]),
        Just(&b"null"[..]),
        Just(&b":"[..]),
        Just(&b"["[..]),
        Just(&b"\xf0\x9f\x98"[..]),
    ];
    let noise = prop::collection::vec(any::<u8>(), 0..6);
    prop::collection::vec((piece, noise), 0..60).prop_map(|pieces| {
        pieces.into_iter().flat_map(|(piece, noise)| [piece.to_vec(), noise].concat()).collect()
    })
}

/// What stands in fields, and what one goes on with where its end is not seen.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop::sample::select(vec![
        "2024-08-08T09:30:00",
        "2024-08-08 09:30:00",
        "2024-08-08T09:30",
        "2024-08-08",
        "2024-08-08T09:30:00.5",
        "2024-08-08T09:30:00Z",
        "2024-08-08 09:30:00 UTC",
        "2024-08-08T09:30:00+02",
        "100",
        "-1",
        "1.5",
        ".5",
        "5.",
        "1e5",
        "nan",
        "00",
        "1723109400000",
        "18446744073709551615",
        "A",
        "A.B",
        "BRK-B",
        "AAPL_240819C00225000",
        "",
        "\"\"",
        "\"a,b\"",
        "\"2024-08-08 09:30:00,5\"",
        "a\\,b",
        "a\\",
        "t",
        "09:30:00",
        "+1",
        " 7 ",
        "0x10",
        "[1.5]",
        "\u{fc}",
        "UTC",
        "12:30",
        "'",
    ]);
    prop_oneof![
        8 => plain.prop_map(|text| text.as_bytes().to_vec()),
        1 => "[-+:TZ., 0-9]{0,30}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_parsed(bytes in text()) {
        csv(&bytes);
        ndjson(&bytes);
    }

    #[test]
    fn fields_are_read_as_they_are_cut(
        choice in any::<u8>(),
        delimiter in prop::sample::select(b",;\t| .:-+TZ0".to_vec()),
        rows in prop::collection::vec(prop::collection::vec(field(), 2..5), 0..8),
    ) {
        let records = rows.iter().map(|fields| fields.join(&[delimiter][..]));
        let bytes = [&[choice][..], &records.collect::<Vec<_>>().join(&b"\n"[..])].concat();
        fields(&bytes);
    }

    #[test]
    fn lines_are_read_as_they_are_alone(
        choice in any::<u8>(),
        lines in prop::collection::vec(
            prop::collection::vec((prop::sample::select(TYPES.to_vec()), field(), 0..3_u8), 1..6),
            0..8,
        ),
        time in prop::sample::select(vec!["", " 1723109400000", " 5t", " -7", " 1,5"]),
    ) {
        let line = |columns: &Vec<((&str, ColumnType), Vec<u8>, u8)>| {
            let column = |((name, _), value, look): &((&str, ColumnType), Vec<u8>, u8)| match look {
                0 => [name.as_bytes(), b"=", value].concat(),
                1 => [name.as_bytes(), b"=", value, b"i"].concat(),
                _ => [name.as_bytes(), b"=\"", value, b"\""].concat(),
            };
            let columns: Vec<Vec<u8>> = columns.iter().map(column).collect();
            [&b"t,sym="[..], &columns.join(&b","[..]), b" px=1.5,id=7i", time.as_bytes(), b"\n"].concat()
        };
        let line_of_fields = |columns| String::from_utf8_lossy(&line(columns)).replace("t,sym=", "t ");
        let lines = lines.iter().flat_map(|columns| [line(columns), line_of_fields(columns).into_bytes()]);
        fields(&[&[choice][..], &lines.collect::<Vec<_>>().concat()].concat());
    }

    #[test]
    fn any_payload_is_read(
        tables in 0..3_u8,
        flags in prop::sample::select(vec![0, 1, 4, 8, 12]),
        payload in prop::collection::vec(
            prop_oneof![3 => 0..4_u8, 2 => 0..0x19_u8, 1 => any::<u8>()],
            0..120,
        ),
    ) {
        let length = (payload.len() as u32).to_le_bytes();
        qwp(&[b"QWP1", &[1, flags, tables, 0][..], &length, &payload].concat());
    }
}

#[test]
fn deep_nesting_is_parsed() {
    for opening in ["[", "{\"x\":", "\"", "{\"ts\":\""] {
        let bytes = opening.repeat(200_000).into_bytes();
        csv(&bytes);
        ndjson(&bytes);
    }
}

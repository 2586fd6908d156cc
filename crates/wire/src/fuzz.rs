//! The parsers as functions of any bytes, for `fuzz/` and for the property tests beside it: none may panic, hang,
//! or allocate past what the bytes can stand for.

use crate::{ColumnPlan, EpochUnit, Plan, TableRows, TimeFormat, csv, ilp, ndjson, qwp, stream};
use std::sync::Arc;
use tickstone_model::{ColumnType, ElementType, TableSchema};

const TYPES: [(&str, ColumnType); 15] = [
    ("ts", ColumnType::Timestamp),
    ("sym", ColumnType::Symbol),
    ("px", ColumnType::Float64),
    ("id", ColumnType::Int64),
    ("note", ColumnType::Varchar),
    ("up", ColumnType::Boolean),
    ("small", ColumnType::Int8),
    ("large", ColumnType::UInt64),
    ("amount", ColumnType::Decimal { precision: 38, scale: 6 }),
    ("day", ColumnType::Date),
    ("clock", ColumnType::Time),
    ("key", ColumnType::Uuid),
    ("raw", ColumnType::Binary),
    ("bids", ColumnType::Array(ElementType::Float64)),
    ("tags", ColumnType::Array(ElementType::Varchar)),
];

/// The first byte chooses how times are written, the rest is text.
fn plan(bytes: &[u8]) -> (Arc<Plan>, &[u8]) {
    let (choice, text) = bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest));
    let time = match choice % 3 {
        0 => TimeFormat::Iso,
        1 => TimeFormat::Epoch(EpochUnit::Nanosecond),
        _ => TimeFormat::Epoch(EpochUnit::Millisecond),
    };
    let column = |(name, column_type): &(&str, ColumnType)| ColumnPlan {
        source: (*name).to_string(),
        column_type: *column_type,
        time,
        required: *name == "ts",
    };
    let fields = (0..TYPES.len()).map(Some).collect();
    (Arc::new(Plan { columns: TYPES.iter().map(column).collect(), fields }), text)
}

/// CSV.
pub fn csv(bytes: &[u8]) {
    let (plan, text) = plan(bytes);
    csv::sniff(text);
    for delimiter in [b',', b';', b'\t'] {
        let end = csv::last_record_end(text, delimiter);
        for stop_at_bad in [false, true] {
            csv::Parser::new(Arc::clone(&plan), delimiter).parse(&text[..end], stop_at_bad);
        }
        csv::Parser::new(Arc::clone(&plan), delimiter).parse(text, false);
    }
}

/// Line protocol: whole, and with bad lines passed over; what is read fits the table that it makes.
pub fn ilp(bytes: &[u8]) {
    let mut parser = ilp::Parser::new(ilp::Precision::Auto);
    let mut start = 0;
    loop {
        let parsed = parser.parse(&bytes[start..], 0, &mut |_| None);
        match parsed.bad {
            Some(bad) => {
                assert!(bad.record.start == parsed.bytes && bad.record.end > bad.record.start);
                start += bad.record.end;
            }
            None => break,
        }
    }
    let held = parser.rows();
    let tables = parser.take();
    assert_eq!(tables.iter().map(|table| table.rows).sum::<usize>(), held);
    tables.iter().for_each(fits_new_table);
}

/// Rows of a new table fit the one that they make.
fn fits_new_table(table: &TableRows) {
    if let Ok(schema) = table.new_table() {
        assert!(table.batch(&schema).is_some_and(|batch| batch.num_rows() == table.rows));
    }
}

/// QWP: a message of rows for no table and, twice, for one of every type; a message of queries. What is read takes no more
/// than a multiple of the bytes: a NULL is a bit of them, and 16 bytes of memory.
pub fn qwp(bytes: &[u8]) {
    const BYTES_A_BYTE_MAX: usize = 8 * 24;
    let column = |builder: tickstone_model::TableSchemaBuilder, (name, of): &(&str, ColumnType)| {
        builder.column(*name, *of)
    };
    let every = TYPES.iter().fold(TableSchema::builder("t"), column).timestamp("ts").build();
    let every = every.ok().map(Arc::new);
    for table in [None, every] {
        let mut connection = qwp::Ingress::default();
        let mut read = || connection.read(bytes, 0, &mut |_| table.clone()).map(|rows| rows.tables);
        let (Ok(first), Ok(again)) = (read(), read()) else { continue };
        assert_eq!(first.len(), again.len());
        for (first, again) in first.iter().zip(&again) {
            assert!(
                first.columns.iter().zip(&again.columns).all(|(first, again)| *first.values == *again.values)
            );
        }
        let memory = first
            .iter()
            .flat_map(|table| &table.columns)
            .map(|column| column.values.get_buffer_memory_size());
        assert!(memory.sum::<usize>() <= BYTES_A_BYTE_MAX * bytes.len() + FEW_BYTES);
        if table.is_none() {
            first.iter().for_each(fits_new_table);
        }
    }
    // Neither order nor answers depend on what a client asks.
    let _ = qwp::egress::read_request(bytes);
}

/// What arrays without values take.
const FEW_BYTES: usize = 1 << 16;

/// NDJSON.
pub fn ndjson(bytes: &[u8]) {
    let (plan, text) = plan(bytes);
    ndjson::sample(text, 100).iter().for_each(|sample| {
        sample.conclude();
    });
    let end = ndjson::last_record_end(text);
    for stop_at_bad in [false, true] {
        ndjson::Parser::new(Arc::clone(&plan)).parse(&text[..end], stop_at_bad);
    }
    ndjson::Parser::new(plan).parse(text, false);
}

/// Requests of streams: each that is read is written as it was.
pub fn stream(bytes: &[u8]) {
    let mut at = 0;
    while let Ok(stream::Read::Whole(request, size)) = stream::read(&bytes[at..], 1 << 20) {
        let mut again = Vec::new();
        stream::put(&mut again, &request);
        assert_eq!(again[stream::HEADER_BYTES..], bytes[at + stream::HEADER_BYTES..at + size]);
        at += size;
    }
}

#[cfg(test)]
mod tests {
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_bytes_are_parsed(bytes in text()) {
            csv(&bytes);
            ndjson(&bytes);
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
}

//! The parsers as functions of any bytes, for `fuzz/` and for the property tests beside it: none may panic, hang,
//! or allocate past what the bytes can stand for.

use crate::column::ColumnBuilder;
use crate::{ColumnPlan, EpochUnit, Plan, TableRows, TimeFormat, csv, ilp, ndjson, qwp, stream};
use arrow_array::{ArrayRef, RecordBatch};
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
        inferred: choice >= 128,
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
    let every = every_type().map(Arc::new);
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

/// Fields: what is read of records is what comes of them cut into fields first, each of which is then read alone and the
/// long way, by no common shape and beside no record before.
pub fn fields(bytes: &[u8]) {
    const DELIMITERS: &[u8] = b",;\t| .:-+TZ0";
    let (choice, _) = bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest));
    let (all, text) = plan(bytes);
    // Three columns of neighbouring types: records of a few bytes are whole ones.
    let columns = (0..3).map(|place| ColumnPlan {
        required: false,
        ..all.columns[(choice / 3 + place) % all.columns.len()].clone()
    });
    let plan = Arc::new(Plan { columns: columns.collect(), fields: (0..3).map(Some).collect() });
    for delimiter in DELIMITERS {
        let found = csv::Parser::new(Arc::clone(&plan), *delimiter).parse(text, false);
        let (columns, bad) = split_first(&plan, *delimiter, text);
        assert_eq!((&found.columns, found.bad.len()), (&columns, bad));
    }
    text.split(|byte| b",\n ".contains(byte)).for_each(|field| values(&plan, field));
    lines_alone(text);
}

/// The columns of the good records of a CSV, and how many are bad.
fn split_first(plan: &Plan, delimiter: u8, text: &[u8]) -> (Vec<ArrayRef>, usize) {
    let mut columns: Vec<ColumnBuilder> = plan.columns.iter().map(ColumnBuilder::new).collect();
    let (mut at, mut rows, mut bad) = (0, 0, 0);
    while at < text.len() {
        if let Some(length) = csv::empty_line(&text[at..]) {
            at += length;
            continue;
        }
        let fields = csv_fields(text, at, delimiter);
        let is_row = fields.as_ref().is_some_and(|fields| {
            let push =
                |((column, plan), (value, quoted)): ((&mut ColumnBuilder, &ColumnPlan), &(Vec<u8>, bool))| {
                    let is_null = value.is_empty() && !(*quoted && plan.has_empty());
                    if is_null { column.push_null().is_ok() } else { column.push(value).is_ok() }
                };
            fields.len() == columns.len() && columns.iter_mut().zip(&plan.columns).zip(fields).all(push)
        });
        if is_row {
            rows += 1;
        } else {
            columns.iter_mut().for_each(|column| column.truncate(rows));
            bad += 1;
        }
        at += csv::record_length(&text[at..], delimiter).unwrap_or(text.len() - at);
    }
    (columns.iter_mut().map(ColumnBuilder::finish).collect(), bad)
}

/// The fields of the record at `at`, and whether each is quoted; `None` where quotes are at fault.
fn csv_fields(text: &[u8], mut at: usize, delimiter: u8) -> Option<Vec<(Vec<u8>, bool)>> {
    let mut fields = Vec::new();
    loop {
        let field = csv::raw_field(text, at, delimiter).ok()?;
        let mut value = text[field.text.clone()].to_vec();
        if field.escaped {
            csv::unescape(&text[field.text], &mut value);
        }
        fields.push((value, field.quoted));
        if field.end == csv::End::Record {
            return Some(fields);
        }
        at = field.next;
    }
}

/// A field of a common shape is the value that it is the long way.
fn values(plan: &Plan, field: &[u8]) {
    for column in &plan.columns {
        let (mut plain, mut long) = (ColumnBuilder::new(column), ColumnBuilder::new(column));
        for _ in 0..2 {
            if plain.push_plain(field).is_some() {
                assert_eq!(long.push(field), Ok(()));
            } else if long.push(field).is_ok() {
                // The next time it is the symbol of the row before.
                assert_eq!(plain.push(field), Ok(()));
            }
        }
        assert_eq!(&plain.finish(), &long.finish());
    }
}

/// Lines of line protocol are the rows that each is alone, the first of its table.
fn lines_alone(bytes: &[u8]) {
    let Some(table) = every_type().map(Arc::new) else { return };
    let batches = |lines: &[u8]| {
        let mut parser = ilp::Parser::new(ilp::Precision::Auto);
        let parsed = parser.parse(lines, 0, &mut |_| Some(Arc::clone(&table)));
        let tables = parser.take().into_iter();
        let batch = |rows: TableRows| Some((rows.name.to_ascii_lowercase(), rows.batch(&table)?));
        (parsed, tables.filter_map(batch).collect::<Vec<(String, RecordBatch)>>())
    };
    let (together, found) = batches(bytes);
    let mut rows = vec![0; found.len()];
    let mut start = 0;
    while start < together.bytes {
        // A line may have line feeds in its texts.
        let ends = bytes[start..].iter().zip(start + 1..).filter(|(byte, _)| **byte == b'\n');
        let whole = ends.map(|(_, end)| batches(&bytes[start..end])).find(|(line, _)| line.bytes > 0);
        let Some((line, alone)) = whole else { break };
        for (name, row) in &alone {
            let place = found.iter().position(|(found, _)| found == name).unwrap_or_default();
            assert_eq!(&found[place].1.slice(rows[place], 1), row);
            rows[place] += 1;
        }
        start += line.bytes;
    }
    assert_eq!(start, together.bytes);
    assert!(found.iter().zip(&rows).all(|((_, batch), rows)| batch.num_rows() == *rows));
}

/// A table with a column of every type.
fn every_type() -> Option<TableSchema> {
    let column = |builder: tickstone_model::TableSchemaBuilder, (name, of): &(&str, ColumnType)| {
        builder.column(*name, *of)
    };
    TYPES.iter().fold(TableSchema::builder("t"), column).timestamp("ts").build().ok()
}

/// Requests of streams: each that is read is written as it was, an opening as command 1.
pub fn stream(bytes: &[u8]) {
    let mut at = 0;
    while let Ok(stream::Read::Whole(request, size)) = stream::read(&bytes[at..], 1 << 20) {
        let mut again = Vec::new();
        stream::put(&mut again, &request);
        assert!(again.ends_with(&bytes[at + stream::HEADER_BYTES..at + size]));
        at += size;
    }
}

#[cfg(test)]
mod tests;

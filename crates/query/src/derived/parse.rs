//! Documents to rows of a table.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampNanosecondArray};
use datafusion::arrow::datatypes::TimestampNanosecondType;
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::streams::Documents;
use tickstone_model::{StreamFormat, StreamSource, TableSchema, is_same_name};
use tickstone_wire::ilp::{Parser, Precision};
use tickstone_wire::{BadRow, Chunk, ColumnPlan, EpochUnit, Plan, TimeFormat, csv, ndjson};

/// What documents gave.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Rows in the table's edge types.
    pub(super) rows: Vec<RecordBatch>,
    pub(super) rejected: Vec<Rejected>,
}

/// A record that did not parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejected {
    /// The time of its document.
    pub(super) ts_ns: i64,
    /// The number of its document.
    pub(super) seq: u64,
    pub(super) document: Vec<u8>,
    pub(super) reason: String,
}

/// A document among those that are parsed together.
struct Place {
    /// Where its bytes stand.
    bytes: Range<usize>,
    ts_ns: i64,
    seq: u64,
}

impl Place {
    fn reject(&self, document: &[u8], reason: String) -> Rejected {
        Rejected { ts_ns: self.ts_ns, seq: self.seq, document: document.to_vec(), reason }
    }
}

/// The documents one after the other, each with a line end.
struct Text {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Text {
    fn of(documents: &Documents, put: impl Fn(&mut Vec<u8>, &[u8])) -> Self {
        let mut text = Self { bytes: Vec::new(), places: Vec::new() };
        for (seq, entry) in documents.entries() {
            let start = text.bytes.len();
            put(&mut text.bytes, entry.document);
            if text.bytes.last() != Some(&b'\n') || text.bytes.len() == start {
                text.bytes.push(b'\n');
            }
            let ts_ns = i64::try_from(entry.ts_us).unwrap_or(0).saturating_mul(1_000);
            text.places.push(Place { bytes: start..text.bytes.len(), ts_ns, seq });
        }
        text
    }

    /// The document that has this byte.
    fn place(&self, at: usize) -> &Place {
        let after = self.places.partition_point(|place| place.bytes.start <= at);
        &self.places[after.saturating_sub(1)]
    }
}

/// Parses documents by the format of a table's source.
pub(super) fn parse(source: &StreamSource, table: &TableSchema, documents: &Documents) -> Parsed {
    match source.format {
        StreamFormat::Ilp => lines(table, documents),
        StreamFormat::Json => {
            let text = Text::of(documents, put_json);
            let chunk = ndjson::Parser::new(plan(source, table)).parse(&text.bytes, false);
            columns(table, &text, chunk, records_by_line)
        }
        StreamFormat::Csv => {
            let text = Text::of(documents, |out, document| out.extend_from_slice(document));
            csv_records(source, table, &text)
        }
    }
}

/// A JSON object over several lines becomes one; lines that are objects of their own stay.
fn put_json(out: &mut Vec<u8>, document: &[u8]) {
    let start = out.len();
    out.extend_from_slice(document);
    let lines = document.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    if lines
        .filter(|line| !line.is_empty())
        .all(|line| line.first() == Some(&b'{') && line.last() == Some(&b'}'))
    {
        return;
    }
    // A line end is no part of a text in JSON.
    out[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
}

fn plan(source: &StreamSource, table: &TableSchema) -> Arc<Plan> {
    let time = match source.epoch.as_str() {
        "s" => TimeFormat::Epoch(EpochUnit::Second),
        "ms" => TimeFormat::Epoch(EpochUnit::Millisecond),
        "us" => TimeFormat::Epoch(EpochUnit::Microsecond),
        "ns" => TimeFormat::Epoch(EpochUnit::Nanosecond),
        _ => TimeFormat::Iso,
    };
    let column = |column: &tickstone_model::Column| ColumnPlan {
        source: source.key_of(&column.name).to_string(),
        column_type: column.column_type,
        time,
        // The document's own time stands for one that is missing.
        required: false,
        inferred: false,
    };
    let fields = (0..table.columns().len()).map(Some).collect();
    Arc::new(Plan { columns: table.columns().iter().map(column).collect(), fields })
}

/// How many records some bytes of whole lines hold.
fn records_by_line(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count()
}

/// The rows of a chunk of records, where each line that is not empty is one.
fn columns(table: &TableSchema, text: &Text, chunk: Chunk, records: fn(&[u8]) -> usize) -> Parsed {
    let rejected: Vec<Rejected> = chunk.bad.iter().map(|bad| rejected(text, bad)).collect();
    let mut arrays = chunk.columns;
    if let Some(index) = table.timestamp()
        && arrays[index].null_count() > 0
    {
        // Which document each row is of: its records, without the bad ones.
        let mut bad = chunk.bad.iter().map(|bad| bad.record.start).peekable();
        let mut times = Vec::with_capacity(chunk.rows);
        for place in &text.places {
            let mut rows = records(&text.bytes[place.bytes.clone()]);
            while bad.next_if(|at| *at < place.bytes.end).is_some() {
                rows = rows.saturating_sub(1);
            }
            times.extend(std::iter::repeat_n(place.ts_ns, rows));
        }
        arrays[index] = filled(&arrays[index], &times);
    }
    let rows = RecordBatch::try_new(Arc::clone(table.edge()), arrays);
    match rows {
        Ok(rows) => Parsed { rows: vec![rows], rejected },
        Err(error) => {
            let all = text.places.iter();
            let reject = |place: &Place| place.reject(&text.bytes[place.bytes.clone()], error.to_string());
            Parsed { rows: Vec::new(), rejected: all.map(reject).collect() }
        }
    }
}

/// Times, those that are missing filled in.
fn filled(given: &ArrayRef, others: &[i64]) -> ArrayRef {
    let Some(given) = given.as_primitive_opt::<TimestampNanosecondType>() else { return Arc::clone(given) };
    let times = given.iter().zip(others).map(|(given, other)| given.unwrap_or(*other));
    Arc::new(TimestampNanosecondArray::from_iter_values(times))
}

fn rejected(text: &Text, bad: &BadRow) -> Rejected {
    let place = text.place(bad.record.start);
    let field = bad.field.as_ref().map(|(number, name)| match name.is_empty() {
        true => format!("field {number}: "),
        false => format!("{name}: "),
    });
    let reason = format!("{}{} ('{}')", field.unwrap_or_default(), bad.fault, bad.text);
    place.reject(text.bytes.get(bad.record.clone()).unwrap_or_default(), reason)
}

/// Records of CSV: a quote may hold a line end, but no record goes past its document.
fn csv_records(source: &StreamSource, table: &TableSchema, text: &Text) -> Parsed {
    const DELIMITER: u8 = b',';
    let plan = plan(source, table);
    let is_whole = |place: &Place| {
        let bytes = &text.bytes[place.bytes.clone()];
        csv::last_record_end(bytes, DELIMITER) == bytes.len()
    };
    let mut parsed = Parsed::default();
    let mut whole = Text { bytes: Vec::with_capacity(text.bytes.len()), places: Vec::new() };
    for place in &text.places {
        let bytes = &text.bytes[place.bytes.clone()];
        if is_whole(place) {
            let start = whole.bytes.len();
            whole.bytes.extend_from_slice(bytes);
            whole.places.push(Place { bytes: start..whole.bytes.len(), ..*place });
        } else {
            parsed.rejected.push(place.reject(bytes, "it ends within a quote".to_string()));
        }
    }
    let chunk = csv::Parser::new(plan, DELIMITER).parse(&whole.bytes, false);
    let rows = columns(table, &whole, chunk, csv_records_in);
    parsed.rows = rows.rows;
    parsed.rejected.extend(rows.rejected);
    parsed.rejected.sort_by_key(|of| of.seq);
    parsed
}

/// How many records whole records of CSV are.
fn csv_records_in(bytes: &[u8]) -> usize {
    let (mut count, mut quoted, mut empty) = (0, false, true);
    for byte in bytes {
        match byte {
            b'"' => (quoted, empty) = (!quoted, false),
            b'\n' if !quoted => {
                count += usize::from(!empty);
                empty = true;
            }
            b'\r' | b' ' | b'\t' => {}
            _ => empty = false,
        }
    }
    count
}

/// Lines of line protocol; those of other tables are passed over, fields that the table has not are left out.
fn lines(table: &TableSchema, documents: &Documents) -> Parsed {
    let shape = Arc::new(table.clone());
    let mut parser = Parser::new(Precision::Auto);
    let mut rejected = Vec::new();
    let mut line = Vec::new();
    for (seq, entry) in documents.entries() {
        let ts_ns = i64::try_from(entry.ts_us).unwrap_or(0).saturating_mul(1_000);
        line.clear();
        line.extend_from_slice(entry.document);
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let mut start = 0;
        while start < line.len() {
            let mut find = |name: &str| is_same_name(name, table.name()).then(|| Arc::clone(&shape));
            let read = parser.parse(&line[start..], ts_ns, &mut find);
            start += read.bytes;
            let (end, reason, ours) = match read.bad {
                Some(bad) => {
                    let end = start - read.bytes + bad.record.end;
                    let ours = bad.table.as_ref().is_none_or(|name| is_same_name(name, table.name()));
                    (end, format!("{} ('{}')", bad.fault, bad.text), ours)
                }
                None if start < line.len() => (
                    line.len(),
                    "it ends within a text in quotes, a binary value or an escape".to_string(),
                    true,
                ),
                None => break,
            };
            if ours {
                let document = line[start.min(end)..end].to_vec();
                rejected.push(Rejected { ts_ns, seq, document, reason });
            }
            start = end.max(start + 1);
        }
    }
    let mut rows = Vec::new();
    for mut found in parser.take() {
        if found.table.is_none() {
            continue;
        }
        found.columns.retain(|column| column.place.is_some());
        rows.extend(found.batch(table));
    }
    Parsed { rows, rejected }
}

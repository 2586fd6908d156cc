//! Rows of a CSV that could not be taken, with nothing in the place of the values at fault (`skipCol`), and without the
//! values that are too many (`skipLev`).

use super::spool::TemporaryFile;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use tickstone_query::import::{ColumnReport, FileReport};
use tickstone_wire::csv::{Field, Parser, Records, last_record_end};
use tickstone_wire::{ColumnPlan, Fault, Plan, RECORD_BYTES_MAX};

/// Bytes that are read at once; more where a record is longer.
const CHUNK_BYTES: usize = 1 << 20;

/// What becomes of rows that cannot be taken as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mending {
    /// A value at fault is left out, not its row.
    pub(super) values: bool,
    /// Values behind those of the last column are left out, not their row.
    pub(super) extra: bool,
}

/// What came of rows that could not be taken.
#[derive(Debug)]
pub(super) struct Mended {
    /// Those that can be taken now, without a header; `None` where there are none.
    pub(super) file: Option<TemporaryFile>,
    /// The columns in the order of the fields.
    pub(super) fields: Vec<String>,
    /// How many values of each column of the table were at fault.
    pub(super) errors: Vec<u64>,
}

/// Mends the rows that an import put aside in `bad`, as the columns of its report want them.
///
/// # Errors
/// Those of the files.
pub(super) fn mend(
    bad: &Path,
    delimiter: u8,
    header: bool,
    report: &FileReport,
    mending: Mending,
) -> io::Result<Mended> {
    let mut chunks = Chunks { file: File::open(bad)?, delimiter, bytes: Vec::new(), ended: false };
    let Some(mut chunk) = chunks.next()? else {
        return Ok(Mended { file: None, fields: Vec::new(), errors: vec![0; report.columns.len()] });
    };
    let columns = match header {
        true => {
            let mut records = Records::new(&chunk, delimiter);
            let columns = named(&records.next().unwrap_or_default(), &report.columns);
            chunk.drain(..records.position());
            columns
        }
        // Those of a table in its order.
        false => (0..report.columns.len()).map(Some).collect(),
    };
    let mut mender = Mender::new(columns, delimiter, report, mending);
    let mut mended = None;
    loop {
        mender.chunk(&chunk);
        if !mender.out.is_empty() {
            let (_, file) = match &mut mended {
                Some(mended) => mended,
                None => {
                    let (kept, file) = TemporaryFile::create()?;
                    mended.insert((kept, BufWriter::new(file)))
                }
            };
            file.write_all(&mender.out)?;
            mender.out.clear();
        }
        match chunks.next()? {
            Some(next) => chunk = next,
            None => break,
        }
    }
    let file = match mended {
        Some((kept, mut file)) => {
            file.flush()?;
            Some(kept)
        }
        None => None,
    };
    Ok(Mended { file, fields: mender.fields, errors: mender.errors })
}

/// The column of each field of a header.
fn named(header: &[Field<'_>], columns: &[ColumnReport]) -> Vec<Option<usize>> {
    let column = |(place, field): (usize, &Field<'_>)| {
        let name = String::from_utf8_lossy(field.text.trim_ascii()).into_owned();
        let name = if name.is_empty() { format!("column{}", place + 1) } else { name };
        columns.iter().position(|column| column.name.eq_ignore_ascii_case(&name))
    };
    header.iter().enumerate().map(column).collect()
}

struct Mender {
    parser: Parser,
    delimiter: u8,
    mending: Mending,
    /// The column of each field.
    columns: Vec<Option<usize>>,
    fields: Vec<String>,
    /// The column that is never NULL.
    timestamp: Option<usize>,
    errors: Vec<u64>,
    /// Rows that can be taken.
    out: Vec<u8>,
}

impl Mender {
    fn new(columns: Vec<Option<usize>>, delimiter: u8, report: &FileReport, mending: Mending) -> Self {
        let is_timestamp = |column: &ColumnReport| report.timestamp.as_ref() == Some(&column.name);
        let plan = |column: &ColumnReport| ColumnPlan {
            source: column.name.clone(),
            column_type: column.column_type,
            time: column.time.unwrap_or_default(),
            required: is_timestamp(column),
            inferred: column.inferred,
        };
        let plan = Plan { columns: report.columns.iter().map(plan).collect(), fields: columns.clone() };
        let name = |column: &Option<usize>| {
            column
                .and_then(|column| report.columns.get(column))
                .map_or_else(String::new, |column| column.name.clone())
        };
        Self {
            parser: Parser::new(Arc::new(plan), delimiter),
            delimiter,
            mending,
            fields: columns.iter().map(name).collect(),
            timestamp: report.columns.iter().position(is_timestamp),
            errors: vec![0; report.columns.len()],
            columns,
            out: Vec::new(),
        }
    }

    /// Mends whole records.
    fn chunk(&mut self, bytes: &[u8]) {
        for bad in self.parser.parse(bytes, false).bad {
            self.record(bytes.get(bad.record).unwrap_or_default());
        }
    }

    /// Mends a record, as long as there is a value that can be left out.
    fn record(&mut self, record: &[u8]) {
        let Some(mut fields) = Records::new(record, self.delimiter).next() else { return };
        let mut text = record.to_vec();
        for _ in 0..=fields.len() {
            let bad = self.parser.parse(&text, true).bad;
            let Some(bad) = bad.first() else {
                self.out.extend_from_slice(&text);
                self.out.push(b'\n');
                return;
            };
            match (&bad.field, &bad.fault) {
                (None, Fault::FieldCount { expected, found }) if found > expected && self.mending.extra => {
                    fields.truncate(*expected);
                }
                (Some((number, _)), _) => {
                    let place = number - 1;
                    let column = self.columns.get(place).copied().flatten();
                    if let Some(column) = column {
                        self.errors[column] += 1;
                    }
                    match fields.get_mut(place) {
                        Some(field) if self.mending.values && column != self.timestamp => {
                            *field = Field { text: Vec::new().into(), quoted: false };
                        }
                        _ => return,
                    }
                }
                _ => return,
            }
            text = self.written(&fields);
        }
    }

    fn written(&self, fields: &[Field<'_>]) -> Vec<u8> {
        let mut text = Vec::new();
        for (place, field) in fields.iter().enumerate() {
            if place > 0 {
                text.push(self.delimiter);
            }
            if !field.quoted {
                text.extend_from_slice(&field.text);
                continue;
            }
            text.push(b'"');
            for byte in field.text.iter() {
                text.extend_from_slice(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) });
            }
            text.push(b'"');
        }
        text
    }
}

/// A file in pieces of whole records.
struct Chunks {
    file: File,
    delimiter: u8,
    /// What was read of the next piece.
    bytes: Vec<u8>,
    ended: bool,
}

impl Chunks {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut wanted = CHUNK_BYTES;
        loop {
            if !self.ended && self.bytes.len() < wanted {
                let missing = wanted - self.bytes.len();
                let read = Read::by_ref(&mut self.file).take(missing as u64).read_to_end(&mut self.bytes)?;
                self.ended = read < missing;
            }
            let end = match self.ended {
                true => self.bytes.len(),
                false => last_record_end(&self.bytes, self.delimiter),
            };
            if end > 0 || self.ended {
                let rest = self.bytes.split_off(end);
                let chunk = std::mem::replace(&mut self.bytes, rest);
                return Ok((!chunk.is_empty()).then_some(chunk));
            }
            if wanted > 2 * RECORD_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            wanted *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tickstone_model::ColumnType;
    use tickstone_query::import::{Compression, FileFormat};

    fn report() -> FileReport {
        let column = |name: &str, column_type| ColumnReport {
            name: name.to_string(),
            column_type,
            time: None,
            inferred: true,
        };
        FileReport {
            path: "x".into(),
            format: FileFormat::Csv,
            compression: Compression::None,
            rows: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            bad_rows: 0,
            examples: Vec::new(),
            ignored: Vec::new(),
            columns: vec![
                column("ts", ColumnType::Timestamp),
                column("px", ColumnType::Float64),
                column("n", ColumnType::Int64),
                column("note", ColumnType::Varchar),
            ],
            timestamp: Some("ts".to_string()),
            series: Vec::new(),
        }
    }

    /// The mended rows, and the faults of each column.
    fn mended(text: &str, values: bool, extra: bool) -> (String, Vec<u64>) {
        let (bad, mut file) = TemporaryFile::create().expect("a file");
        file.write_all(text.as_bytes()).expect("it takes them");
        let mended = mend(bad.path(), b',', true, &report(), Mending { values, extra }).expect("it reads");
        let rows = mended.file.map(|file| std::fs::read_to_string(file.path()).expect("it reads"));
        (rows.unwrap_or_default(), mended.errors)
    }

    #[test]
    fn values_at_fault_are_left_out() {
        let text = "n,ts,px,note\nx,2024-01-01,1.5,\"a, \"\"b\"\"\"\n1,2024-01-01,y,\"\"\nx,2024-01-01,y,\n1,never,1,a\n";
        assert_eq!(
            mended(text, true, false),
            (
                ",2024-01-01,1.5,\"a, \"\"b\"\"\"\n1,2024-01-01,,\"\"\n,2024-01-01,,\n".to_string(),
                vec![1, 2, 2, 0]
            )
        );
        assert_eq!(mended(text, false, false), (String::new(), vec![1, 1, 2, 0]));
    }

    #[test]
    fn values_that_are_too_many() {
        let text = "n,ts,px,note\n1,2024-01-01,1.5,a,b,c\nx,2024-01-01,1.5,a,b\n1,2024-01-01\n";
        assert_eq!(mended(text, false, true).0, "1,2024-01-01,1.5,a\n");
        assert_eq!(mended(text, true, true).0, "1,2024-01-01,1.5,a\n,2024-01-01,1.5,a\n");
        assert_eq!(mended(text, true, false).0, "");
    }

    #[test]
    fn many_rows() {
        let rows = 200_000;
        let text: String = (0..rows).map(|row| format!("x,2024-01-01,{row},\"line\n{row}\"\n")).collect();
        let (out, errors) = mended(&format!("n,ts,px,note\n{text}"), true, false);
        assert_eq!(out.matches(",2024-01-01,").count() as u64, rows);
        assert_eq!(errors, vec![0, 0, rows, 0]);
        assert!(out.ends_with(",2024-01-01,199999,\"line\n199999\"\n"));
    }
}

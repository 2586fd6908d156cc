//! The rows of a query, batch by batch.

use super::column::{put_column, wire_type};
use super::frames::{Done, put_done, put_end, put_error, put_kind, put_reset};
use super::kind;
use super::request::Query;
use super::size::about_bytes;
use super::symbols::SentSymbols;
use crate::qwp::header::flags;
use crate::qwp::refused::Status;
use crate::qwp::write::{put_bytes, put_message, put_varint};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use std::fmt;

/// Symbols of a connection past which they are forgotten before the next query, as QuestDB does.
const SYMBOLS_MAX: usize = 100_000;

/// Bytes of them.
const SYMBOL_BYTES_MAX: usize = 8 << 20;

/// What a connection that runs queries keeps: the symbols that its client has, and how far the query is that it runs. There
/// is one at a time.
#[derive(Debug, Default)]
pub struct Results {
    symbols: SentSymbols,
    id: i64,
    batches: u64,
    rows: u64,
}

/// Why a batch cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsendable {
    /// The column.
    pub column: String,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Why.
    pub(super) fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Values of the type cannot be sent.
    Type,
    /// A value, as the end of a sentence.
    Value { what: &'static str },
}

impl std::error::Error for Unsendable {}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, data_type, fault } = self;
        match fault {
            Fault::Type => {
                write!(f, "column '{column}': QWP has no type for {data_type}; cast it to VARCHAR")
            }
            Fault::Value { what } => write!(f, "column '{column}': a value {what}"),
        }
    }
}

impl Results {
    /// A connection whose client has no symbol yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the answer to a query; appends that the symbols are forgotten, where they are.
    pub fn start(&mut self, out: &mut Vec<u8>, query: &Query) {
        (self.id, self.batches, self.rows) = (query.id, 0, 0);
        let too_many = self.symbols.len() > SYMBOLS_MAX || self.symbols.bytes() > SYMBOL_BYTES_MAX;
        if self.symbols.len() > 0 && (query.resets_symbols || too_many) {
            self.symbols = SentSymbols::default();
            put_reset(out);
        }
    }

    /// Appends a batch of the query's rows: how many bytes it is, for its credit. All batches of a query have the columns
    /// of the first, which is to come even where there is no row. It should be one of [`pieces`], so that clients take it.
    ///
    /// # Errors
    /// [`Unsendable`] where a column cannot be sent; nothing was appended, and the query can only end.
    pub fn put_batch(&mut self, out: &mut Vec<u8>, rows: &RecordBatch) -> Result<usize, Unsendable> {
        let start = out.len();
        let is_symbol = |array: &dyn Array| wire_type(array.data_type()) == Some(super::WireType::Symbol);
        let mut flags = 0;
        for (place, array) in rows.columns().iter().enumerate().filter(|(_, array)| is_symbol(array)) {
            self.symbols.give(place, array);
            flags = flags::SYMBOLS;
        }
        put_message(out, flags, 1, |out| {
            put_kind(out, kind::BATCH, self.id);
            put_varint(out, self.batches);
            if flags != 0 {
                self.symbols.put_new(out);
            }
            self.put_table(out, rows)
        })?;
        if flags != 0 {
            self.symbols.note_sent();
        }
        self.batches += 1;
        self.rows += rows.num_rows() as u64;
        Ok(out.len() - start)
    }

    /// A table without a name; its columns come with the first batch.
    fn put_table(&self, out: &mut Vec<u8>, rows: &RecordBatch) -> Result<(), Unsendable> {
        put_bytes(out, &[]);
        put_varint(out, rows.num_rows() as u64);
        let schema = rows.schema_ref();
        let unsendable = |place: usize, fault| {
            let field = schema.field(place);
            Unsendable { column: field.name().clone(), data_type: field.data_type().clone(), fault }
        };
        if self.batches == 0 {
            put_varint(out, rows.num_columns() as u64);
            for (place, field) in schema.fields().iter().enumerate() {
                let name = field.name();
                put_bytes(out, &name.as_bytes()[..name.floor_char_boundary(NAME_BYTES_MAX)]);
                let of = wire_type(field.data_type()).ok_or_else(|| unsendable(place, Fault::Type))?;
                out.push(of as u8);
            }
        }
        for (place, array) in rows.columns().iter().enumerate() {
            put_column(out, array, self.symbols.ids(place)).map_err(|fault| unsendable(place, fault))?;
        }
        Ok(())
    }

    /// Appends that the query's rows are all sent.
    pub fn put_end(&mut self, out: &mut Vec<u8>) {
        put_end(out, self.id, self.batches.saturating_sub(1), self.rows);
        self.symbols.forget_columns();
    }

    /// Appends that the query was a statement without rows, and is done.
    pub fn put_done(&mut self, out: &mut Vec<u8>, done: Done, rows: u64) {
        put_done(out, self.id, done, rows);
    }

    /// Appends that the query failed.
    pub fn put_error(&mut self, out: &mut Vec<u8>, status: Status, text: &str) {
        put_error(out, self.id, status, text);
        self.symbols.forget_columns();
    }
}

/// The longest name of a column that clients take; a longer one is cut.
const NAME_BYTES_MAX: usize = 127;

/// A batch in pieces of at most `rows_max` rows and about `bytes_max` bytes each, or one row.
pub fn pieces(rows: &RecordBatch, rows_max: usize, bytes_max: usize) -> Vec<RecordBatch> {
    let bytes: usize = rows.columns().iter().map(|array| about_bytes(array)).sum();
    let count = rows.num_rows().div_ceil(rows_max.max(1)).max(bytes.div_ceil(bytes_max.max(1)));
    if count <= 1 || rows.num_rows() <= 1 {
        return vec![rows.clone()];
    }
    let length = rows.num_rows().div_ceil(count);
    let starts = (0..rows.num_rows()).step_by(length);
    let piece = |start: usize| rows.slice(start, length.min(rows.num_rows() - start));
    // Rows of unlike lengths: a piece may still be too large.
    starts.flat_map(|start| pieces(&piece(start), rows_max, bytes_max)).collect()
}

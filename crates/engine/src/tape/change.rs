//! Changes: what the frames of a tape say (docs/formats/tape.md).
//!
//! Invariants:
//! - a change is decoded into owned values before it is applied, so a malformed one changes nothing;
//! - new symbols stand in the frame that first uses them, with the id of the first: a dictionary can
//!   be rebuilt from the tape alone.

use super::rows::{decode_columns, encode_columns};
use crate::codec::{Decoder, Encoder, Malformed};
use crate::part::PositionRange;
use arrow_array::ArrayRef;
use tickstone_model::{ColumnType, PartitionBy, SyncPolicy, TableSchema};

/// A source file of a bulk load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSource {
    /// The file's name as given.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// XXH3-64 of its bytes as stored (compressed ones compressed).
    pub hash: u64,
}

/// Strings that got the ids `first_id`, `first_id + 1`, … of a SYMBOL column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewSymbols {
    pub(crate) column: u16,
    pub(crate) first_id: u32,
    pub(crate) symbols: Vec<String>,
}

/// Where a part is and what it holds, as the tape and the manifest say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartEntry {
    /// Start of its partition (ns since the Unix epoch).
    pub(crate) partition: i64,
    /// File name within the partition's folder.
    pub(crate) file: String,
    pub(crate) positions: PositionRange,
    pub(crate) rows: u64,
    /// Smallest and largest designated timestamp, both inside.
    pub(crate) times: Option<(i64, i64)>,
    pub(crate) file_bytes: u64,
}

/// Rows for one table, as they arrived, in stored types.
#[derive(Debug, Clone)]
pub(crate) struct TableRows {
    pub(crate) table: u32,
    pub(crate) symbols: Vec<NewSymbols>,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ArrayRef>,
}

/// One frame's meaning.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Rows for one or more tables: a commit.
    Rows(Vec<TableRows>),
    /// A new table.
    Create { table: u32, schema: TableSchema },
    /// A table is gone.
    Drop { table: u32 },
    /// All rows before this frame are gone.
    Truncate { table: u32 },
    /// Parts written by a bulk load join their table; their positions are this frame's.
    Load { table: u32, symbols: Vec<NewSymbols>, parts: Vec<PartEntry>, source: Option<ImportSource> },
    /// The database was closed: everything before is on stable storage.
    Close,
    /// Frames from `first` up to this one's position are lost: a repair put them aside.
    Gap { first: u64 },
}

const KIND_ROWS: u16 = 1;
const KIND_CREATE: u16 = 2;
const KIND_DROP: u16 = 3;
const KIND_TRUNCATE: u16 = 4;
const KIND_LOAD: u16 = 5;
pub(crate) const KIND_CLOSE: u16 = 6;
/// Kinds 7 to 9 are those of tables that change.
pub(crate) const KIND_GAP: u16 = 10;

/// What a change that does more than add rows concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The table whose id the payload begins with: rows of it.
    Table,
    /// The same, but it only adds parts.
    Load,
    /// Anything.
    Any,
}

/// `None` for kinds that add rows, or change nothing that rows depend on: replaying them once more, past what
/// was sealed since, gives the same rows.
pub(crate) fn scope_of(kind: u16) -> Option<Scope> {
    match kind {
        KIND_ROWS | KIND_CREATE | KIND_CLOSE | KIND_GAP => None,
        KIND_DROP | KIND_TRUNCATE => Some(Scope::Table),
        KIND_LOAD => Some(Scope::Load),
        _ => Some(Scope::Any),
    }
}

/// Encodes a change for the tape: its kind and payload.
pub(crate) fn encode_change(change: &Change) -> (u16, Vec<u8>) {
    let mut out = Encoder::default();
    let kind = match change {
        Change::Rows(tables) => {
            out.len(tables.len());
            for rows in tables {
                out.u32(rows.table);
                encode_symbols(&mut out, &rows.symbols);
                out.len(rows.rows);
                encode_columns(&mut out, &rows.columns);
            }
            KIND_ROWS
        }
        Change::Create { table, schema } => {
            out.u32(*table);
            encode_schema(&mut out, schema);
            KIND_CREATE
        }
        Change::Drop { table } => {
            out.u32(*table);
            KIND_DROP
        }
        Change::Truncate { table } => {
            out.u32(*table);
            KIND_TRUNCATE
        }
        Change::Load { table, symbols, parts, source } => {
            out.u32(*table);
            encode_symbols(&mut out, symbols);
            out.len(parts.len());
            parts.iter().for_each(|part| encode_part(&mut out, part));
            out.optional(source.as_ref(), encode_source);
            KIND_LOAD
        }
        Change::Close => KIND_CLOSE,
        Change::Gap { first } => {
            out.u64(*first);
            KIND_GAP
        }
    };
    (kind, out.finish())
}

/// Reads a frame's payload. `column_types` gives the types of a table's columns, `None` for one that
/// is not known (it was dropped later in the tape): its rows are passed over.
pub(crate) fn decode_change(
    kind: u16,
    payload: &[u8],
    column_types: impl Fn(u32) -> Option<Vec<ColumnType>>,
) -> Result<Change, Malformed> {
    let mut input = Decoder::new(payload);
    let change = match kind {
        KIND_ROWS => return decode_rows(input, column_types),
        KIND_CREATE => Change::Create { table: input.u32()?, schema: decode_schema(&mut input)? },
        KIND_DROP => Change::Drop { table: input.u32()? },
        KIND_TRUNCATE => Change::Truncate { table: input.u32()? },
        KIND_LOAD => {
            let (table, symbols) = (input.u32()?, decode_symbols(&mut input)?);
            let parts = (0..input.count(1)?).map(|_| decode_part(&mut input)).collect::<Result<_, _>>()?;
            Change::Load { table, symbols, parts, source: input.optional(decode_source)? }
        }
        KIND_CLOSE => Change::Close,
        KIND_GAP => Change::Gap { first: input.u64()? },
        other => return Err(format!("frames of kind {other} are not known to this version")),
    };
    input.finish()?;
    Ok(change)
}

fn decode_rows(
    mut input: Decoder<'_>,
    column_types: impl Fn(u32) -> Option<Vec<ColumnType>>,
) -> Result<Change, Malformed> {
    let count = input.count(1)?;
    let mut tables = Vec::with_capacity(count);
    for _ in 0..count {
        let (table, symbols, rows) = (input.u32()?, decode_symbols(&mut input)?, input.u32()? as usize);
        let columns = decode_columns(&mut input, rows, column_types(table).as_deref())?;
        tables.push(TableRows { table, symbols, rows, columns });
    }
    input.finish()?;
    Ok(Change::Rows(tables))
}

pub(crate) fn encode_symbols(out: &mut Encoder, symbols: &[NewSymbols]) {
    out.len(symbols.len());
    for new in symbols {
        out.u16(new.column);
        out.u32(new.first_id);
        out.len(new.symbols.len());
        new.symbols.iter().for_each(|symbol| out.text(symbol));
    }
}

pub(crate) fn decode_symbols(input: &mut Decoder<'_>) -> Result<Vec<NewSymbols>, Malformed> {
    let columns = input.count(10)?;
    let mut all = Vec::with_capacity(columns);
    for _ in 0..columns {
        let (column, first_id) = (input.u16()?, input.u32()?);
        let count = input.count(4)?;
        let symbols = (0..count).map(|_| input.text().map(str::to_string)).collect::<Result<_, _>>()?;
        all.push(NewSymbols { column, first_id, symbols });
    }
    Ok(all)
}

pub(crate) fn encode_part(out: &mut Encoder, part: &PartEntry) {
    out.i64(part.partition);
    out.text(&part.file);
    out.u64(part.positions.first);
    out.u64(part.positions.last);
    out.u64(part.rows);
    out.optional(part.times, |out, (min, max)| {
        out.i64(min);
        out.i64(max);
    });
    out.u64(part.file_bytes);
}

pub(crate) fn decode_part(input: &mut Decoder<'_>) -> Result<PartEntry, Malformed> {
    Ok(PartEntry {
        partition: input.i64()?,
        file: input.text()?.to_string(),
        positions: PositionRange { first: input.u64()?, last: input.u64()? },
        rows: input.u64()?,
        times: input.optional(|input| Ok((input.i64()?, input.i64()?)))?,
        file_bytes: input.u64()?,
    })
}

pub(crate) fn encode_source(out: &mut Encoder, source: &ImportSource) {
    out.text(&source.name);
    out.u64(source.bytes);
    out.u64(source.hash);
}

pub(crate) fn decode_source(input: &mut Decoder<'_>) -> Result<ImportSource, Malformed> {
    Ok(ImportSource { name: input.text()?.to_string(), bytes: input.u64()?, hash: input.u64()? })
}

pub(crate) fn encode_schema(out: &mut Encoder, schema: &TableSchema) {
    out.text(schema.name());
    out.len(schema.columns().len());
    for column in schema.columns() {
        out.text(&column.name);
        out.text(&column.column_type.to_string());
    }
    out.optional(schema.timestamp(), |out, index| out.text(&schema.columns()[index].name));
    out.len(schema.series().len());
    schema.series().iter().for_each(|index| out.text(&schema.columns()[*index].name));
    out.text(schema.partition_by().name());
    out.text(schema.sync().name());
}

pub(crate) fn decode_schema(input: &mut Decoder<'_>) -> Result<TableSchema, Malformed> {
    let mut builder = TableSchema::builder(input.text()?);
    for _ in 0..input.count(8)? {
        let name = input.text()?;
        let column_type = ColumnType::parse(input.text()?).map_err(|error| error.to_string())?;
        builder = builder.column(name, column_type);
    }
    if let Some(name) = input.optional(Decoder::text)? {
        builder = builder.timestamp(name);
    }
    let series = (0..input.count(4)?).map(|_| input.text()).collect::<Result<Vec<_>, _>>()?;
    let partition_by = PartitionBy::parse(input.text()?).map_err(|error| error.to_string())?;
    let sync = SyncPolicy::parse(input.text()?).map_err(|error| error.to_string())?;
    builder.series(series).partition_by(partition_by).sync(sync).build().map_err(|error| error.to_string())
}

//! Changes: what the frames of a tape say (docs/formats/tape.md).
//!
//! Invariants:
//! - a change is decoded into owned values before it is applied, so a malformed one changes nothing;
//! - new symbols stand in the frame that first uses them, with the id of the first: a dictionary can
//!   be rebuilt from the tape alone.

use super::rows::{decode_columns, encode_columns};
use crate::codec::{Decoder, Encoder, Malformed};
use crate::part::{PartName, PartSummary, PositionRange};
use arrow_array::ArrayRef;
use tickstone_model::{
    ColumnType, Grant, MaterializedView, PartitionBy, Rights, StreamSource, SyncPolicy, TableAccess,
    TableSchema, TableSchemaBuilder, TimeRange, Ttl,
};

/// A source file of a bulk load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSource {
    /// The file's name as given.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// XXH3-64 of its bytes as stored (compressed ones compressed), and of what its folders say of its rows.
    pub hash: u64,
}

/// A file of a bulk load, and the rows that it brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    /// The file.
    pub source: ImportSource,
    /// Rows of it.
    pub rows: u64,
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
    /// Version of the table's schema that the file was written with. The tape does not say it: it is the
    /// one in force at the frame.
    pub(crate) schema_version: u32,
}

impl PartEntry {
    /// The entry of a part that was written, or found.
    pub(crate) fn of(
        partition: i64,
        file: String,
        positions: PositionRange,
        summary: &PartSummary,
        schema_version: u32,
    ) -> Self {
        let PartSummary { rows, times, file_bytes } = *summary;
        Self { partition, file, positions, rows, times, file_bytes, schema_version }
    }

    /// What says that no row of this part's positions is left.
    pub(crate) fn emptied(&self) -> Self {
        Self::emptied_of(self.partition, self.positions)
    }

    /// The epoch of the opening that wrote the part, `None` where it has another name.
    pub(crate) fn epoch(&self) -> Option<u64> {
        PartName::of(&self.file).map(|name| name.epoch)
    }

    /// What says that of these positions no row of a partition is left. It has no columns, and so no schema.
    pub(crate) fn emptied_of(partition: i64, positions: PositionRange) -> Self {
        let (file, rows, times, file_bytes, schema_version) = (String::new(), 0, None, 0, 0);
        Self { partition, file, positions, rows, times, file_bytes, schema_version }
    }

    /// Whether it names no part, but positions of which no row is left.
    pub(crate) fn is_emptied(&self) -> bool {
        self.file.is_empty()
    }
}

/// A part that goes, and the one that comes in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RewrittenPart {
    /// Start of the partition (ns since the Unix epoch).
    pub(crate) partition: i64,
    /// File name of the part that goes.
    pub(crate) gone: String,
    /// `None` where no row is left.
    pub(crate) came: Option<PartEntry>,
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
    Load { table: u32, symbols: Vec<NewSymbols>, parts: Vec<PartEntry>, files: Vec<LoadedFile> },
    /// Parts of a table replaced by others with the same positions: DELETE and UPDATE. Where materialized views read it,
    /// `touched` are stretches that all changed rows are in; none where that is not known.
    Rewrite { table: u32, symbols: Vec<NewSymbols>, parts: Vec<RewrittenPart>, touched: Vec<TimeRange> },
    /// A table has another shape from here on: columns, name or time to live.
    Alter { table: u32, schema: TableSchema },
    /// The partitions that lie whole in a range are gone, with all rows before this frame.
    DropPartitions { table: u32, range: TimeRange },
    /// A table is gone, and another has its place: from here on that is of this shape, its name included.
    Replace { table: u32, schema: TableSchema, replaced: u32 },
    /// Of a materialized view: the stretches `current` hold the rows of its query as of position `as_of`, those of
    /// `stale` do not, whatever they did.
    Refresh { table: u32, as_of: u64, current: Vec<TimeRange>, stale: Vec<TimeRange> },
    /// The database was closed: everything before is on stable storage.
    Close,
    /// Frames from `first` up to this one's position are lost: a repair put them aside.
    Gap { first: u64 },
}

impl Change {
    /// The symbols it brings, by table.
    pub(crate) fn symbols(&self) -> Vec<(u32, &[NewSymbols])> {
        match self {
            Self::Rows(tables) => tables.iter().map(|rows| (rows.table, &rows.symbols[..])).collect(),
            Self::Load { table, symbols, .. } | Self::Rewrite { table, symbols, .. } => {
                vec![(*table, &symbols[..])]
            }
            _ => Vec::new(),
        }
    }
}

const KIND_ROWS: u16 = 1;
const KIND_CREATE: u16 = 2;
const KIND_DROP: u16 = 3;
const KIND_TRUNCATE: u16 = 4;
const KIND_LOAD: u16 = 5;
pub(crate) const KIND_CLOSE: u16 = 6;
const KIND_ALTER: u16 = 7;
const KIND_DROP_PARTITIONS: u16 = 8;
const KIND_REWRITE: u16 = 9;
pub(crate) const KIND_GAP: u16 = 10;
const KIND_REPLACE: u16 = 11;
const KIND_REFRESH: u16 = 12;

/// Property of a schema: version (`u32`), smallest id never used (`u32`), the columns' ids (`u32` each).
const PROPERTY_IDENTITY: u16 = 1;
/// Property of a schema: its time to live, as text.
const PROPERTY_TTL: u16 = 2;
/// Property of a schema: names of the columns of which later rows replace earlier ones, with their count.
const PROPERTY_DEDUP: u16 = 3;
/// Property of a schema: names of the indexed columns, with their count.
const PROPERTY_INDEX: u16 = 4;
/// Property of a schema: the query of a view, as text. Such a schema has no columns.
const PROPERTY_VIEW: u16 = 5;
/// Property of a schema: the stream its rows are parsed from, as text: format, unit of times, key and name, a line each.
const PROPERTY_SOURCE: u16 = 6;
/// Property of a schema: what a materialized view stands for, as text: the longest length of a bucket, where one
/// begins if all are that long, how rows fall into them, the table below and the query, a line each.
const PROPERTY_MATERIALIZED: u16 = 7;
/// Property of a schema: the table is not in its place yet, and goes with its process. Empty.
const PROPERTY_ASIDE: u16 = 8;
/// Property of a schema: it is not a view, but a text that the database keeps for itself. Empty.
const PROPERTY_INTERNAL: u16 = 9;
/// Property of a schema: who owns it, and who else may do what with it.
const PROPERTY_ACCESS: u16 = 10;

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
        KIND_ROWS | KIND_CREATE | KIND_CLOSE | KIND_GAP | KIND_REFRESH => None,
        KIND_DROP | KIND_TRUNCATE | KIND_ALTER | KIND_DROP_PARTITIONS => Some(Scope::Table),
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
            encode_created(&mut out, schema);
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
        Change::Load { table, symbols, parts, files } => {
            out.u32(*table);
            encode_symbols(&mut out, symbols);
            out.len(parts.len());
            parts.iter().for_each(|part| encode_part(&mut out, part));
            encode_files(&mut out, files);
            KIND_LOAD
        }
        Change::Alter { table, schema } => {
            out.u32(*table);
            encode_schema(&mut out, schema);
            KIND_ALTER
        }
        Change::DropPartitions { table, range } => {
            out.u32(*table);
            encode_range(&mut out, *range);
            KIND_DROP_PARTITIONS
        }
        Change::Rewrite { table, symbols, parts, touched } => {
            out.u32(*table);
            encode_symbols(&mut out, symbols);
            out.len(parts.len());
            for part in parts {
                out.i64(part.partition);
                out.text(&part.gone);
                out.optional(part.came.as_ref(), encode_part);
            }
            // Frames of tables without views are as they were before there were any.
            if !touched.is_empty() {
                encode_ranges(&mut out, touched);
            }
            KIND_REWRITE
        }
        Change::Replace { table, schema, replaced } => {
            out.u32(*table);
            encode_schema(&mut out, schema);
            out.u32(*replaced);
            KIND_REPLACE
        }
        Change::Refresh { table, as_of, current, stale } => {
            out.u32(*table);
            out.u64(*as_of);
            encode_ranges(&mut out, current);
            encode_ranges(&mut out, stale);
            KIND_REFRESH
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
        KIND_CREATE => Change::Create { table: input.u32()?, schema: decode_created(&mut input)? },
        KIND_DROP => Change::Drop { table: input.u32()? },
        KIND_TRUNCATE => Change::Truncate { table: input.u32()? },
        KIND_LOAD => {
            let (table, symbols) = (input.u32()?, decode_symbols(&mut input)?);
            let parts: Vec<PartEntry> =
                (0..input.count(1)?).map(|_| decode_part(&mut input)).collect::<Result<_, _>>()?;
            let files = decode_files(&mut input, parts.iter().map(|part| part.rows).sum())?;
            Change::Load { table, symbols, parts, files }
        }
        KIND_ALTER => Change::Alter { table: input.u32()?, schema: decode_schema(&mut input)? },
        KIND_DROP_PARTITIONS => {
            Change::DropPartitions { table: input.u32()?, range: decode_range(&mut input)? }
        }
        KIND_REWRITE => Change::Rewrite {
            table: input.u32()?,
            symbols: decode_symbols(&mut input)?,
            parts: (0..input.count(1)?).map(|_| decode_rewritten(&mut input)).collect::<Result<_, _>>()?,
            touched: if input.is_empty() { Vec::new() } else { decode_ranges(&mut input)? },
        },
        KIND_REPLACE => Change::Replace {
            table: input.u32()?,
            schema: decode_schema(&mut input)?,
            replaced: input.u32()?,
        },
        KIND_REFRESH => Change::Refresh {
            table: input.u32()?,
            as_of: input.u64()?,
            current: decode_ranges(&mut input)?,
            stale: decode_ranges(&mut input)?,
        },
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
        schema_version: 0,
    })
}

fn decode_rewritten(input: &mut Decoder<'_>) -> Result<RewrittenPart, Malformed> {
    let (partition, gone) = (input.i64()?, input.text()?.to_string());
    Ok(RewrittenPart { partition, gone, came: input.optional(decode_part)? })
}

/// No file, one (which brought all rows), or several.
fn encode_files(out: &mut Encoder, files: &[LoadedFile]) {
    match files {
        [] => out.u8(0),
        [only] => {
            out.u8(1);
            encode_source(out, &only.source);
        }
        several => {
            out.u8(2);
            out.len(several.len());
            for file in several {
                encode_source(out, &file.source);
                out.u64(file.rows);
            }
        }
    }
}

fn decode_files(input: &mut Decoder<'_>, rows: u64) -> Result<Vec<LoadedFile>, Malformed> {
    match input.u8()? {
        0 => Ok(Vec::new()),
        1 => Ok(vec![LoadedFile { source: decode_source(input)?, rows }]),
        2 => {
            let files = input.count(1)?;
            (0..files).map(|_| Ok(LoadedFile { source: decode_source(input)?, rows: input.u64()? })).collect()
        }
        _ => Err("the files of a load are none".into()),
    }
}

pub(crate) fn encode_source(out: &mut Encoder, source: &ImportSource) {
    out.text(&source.name);
    out.u64(source.bytes);
    out.u64(source.hash);
}

pub(crate) fn decode_source(input: &mut Decoder<'_>) -> Result<ImportSource, Malformed> {
    Ok(ImportSource { name: input.text()?.to_string(), bytes: input.u64()?, hash: input.u64()? })
}

/// A half-open range of time.
pub(crate) fn encode_range(out: &mut Encoder, range: TimeRange) {
    out.i64(range.from);
    out.i64(range.to);
}

pub(crate) fn decode_range(input: &mut Decoder<'_>) -> Result<TimeRange, Malformed> {
    Ok(TimeRange::new(input.i64()?, input.i64()?))
}

/// Ranges of time, with their count.
pub(crate) fn encode_ranges(out: &mut Encoder, ranges: &[TimeRange]) {
    out.len(ranges.len());
    ranges.iter().for_each(|range| encode_range(out, *range));
}

pub(crate) fn decode_ranges(input: &mut Decoder<'_>) -> Result<Vec<TimeRange>, Malformed> {
    (0..input.count(16)?).map(|_| decode_range(input)).collect()
}

/// A schema with its properties.
pub(crate) fn encode_schema(out: &mut Encoder, schema: &TableSchema) {
    encode_columns_and_clauses(out, schema);
    encode_properties(out, schema);
}

/// A new table's schema: properties only where there are any, as frames of the first tapes had none.
fn encode_created(out: &mut Encoder, schema: &TableSchema) {
    encode_columns_and_clauses(out, schema);
    if !properties(schema).is_empty() {
        encode_properties(out, schema);
    }
}

fn encode_columns_and_clauses(out: &mut Encoder, schema: &TableSchema) {
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

/// Number and bytes of each property that is not what a schema has without it.
fn properties(schema: &TableSchema) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    if schema.version() > 0 {
        let mut out = Encoder::default();
        out.u32(schema.version());
        out.u32(schema.next_column_id());
        (0..schema.columns().len()).for_each(|index| out.u32(schema.column_id(index)));
        all.push((PROPERTY_IDENTITY, out.finish()));
    }
    if let Some(ttl) = schema.ttl() {
        all.push((PROPERTY_TTL, ttl.to_string().into_bytes()));
    }
    for (number, columns) in [(PROPERTY_DEDUP, schema.dedup()), (PROPERTY_INDEX, schema.indexed())] {
        if !columns.is_empty() {
            let mut out = Encoder::default();
            out.len(columns.len());
            columns.iter().for_each(|column| out.text(&schema.columns()[*column].name));
            all.push((number, out.finish()));
        }
    }
    if let Some(query) = schema.view() {
        all.push((PROPERTY_VIEW, query.as_bytes().to_vec()));
    }
    if let Some(source) = schema.source() {
        all.push((PROPERTY_SOURCE, source.encode().into_bytes()));
    }
    if let Some(view) = schema.materialized() {
        all.push((PROPERTY_MATERIALIZED, view.encode().into_bytes()));
    }
    if schema.is_aside() {
        all.push((PROPERTY_ASIDE, Vec::new()));
    }
    if schema.is_internal() {
        all.push((PROPERTY_INTERNAL, Vec::new()));
    }
    if !schema.access().is_empty() {
        all.push((PROPERTY_ACCESS, encode_access(schema.access())));
    }
    all
}

fn encode_access(access: &TableAccess) -> Vec<u8> {
    let mut out = Encoder::default();
    out.optional(access.owner, Encoder::u32);
    out.len(access.grants.len());
    for grant in &access.grants {
        out.u32(grant.to);
        out.u32(grant.rights.bits());
        out.optional(grant.columns.as_deref(), |out, columns| {
            out.len(columns.len());
            columns.iter().for_each(|id| out.u32(*id));
        });
        out.optional(grant.filter.as_deref(), Encoder::text);
    }
    out.finish()
}

fn decode_access(input: &mut Decoder<'_>) -> Result<TableAccess, Malformed> {
    let owner = input.optional(Decoder::u32)?;
    let mut grants = Vec::new();
    for _ in 0..input.count(10)? {
        let (to, bits) = (input.u32()?, input.u32()?);
        let rights = Rights::from_bits(bits).ok_or("a right that is not known to this version")?;
        let ids = |input: &mut Decoder<'_>| (0..input.count(4)?).map(|_| input.u32()).collect();
        let columns: Option<Vec<u32>> = input.optional(ids)?;
        let filter = input.optional(Decoder::text)?.map(str::to_string);
        grants.push(Grant { to, rights, columns, filter });
    }
    Ok(TableAccess { owner, grants })
}

fn encode_properties(out: &mut Encoder, schema: &TableSchema) {
    let all = properties(schema);
    out.len(all.len());
    for (number, bytes) in all {
        out.u16(number);
        out.len(bytes.len());
        out.raw(&bytes);
    }
}

/// Reads what [`encode_schema`] wrote.
pub(crate) fn decode_schema(input: &mut Decoder<'_>) -> Result<TableSchema, Malformed> {
    let (builder, columns) = decode_columns_and_clauses(input)?;
    finish_schema(decode_properties(input, builder, columns)?)
}

/// Reads a schema of a create frame, or of a manifest of version 1, which has no properties.
pub(crate) fn decode_schema_without_properties(input: &mut Decoder<'_>) -> Result<TableSchema, Malformed> {
    finish_schema(decode_columns_and_clauses(input)?.0)
}

fn decode_created(input: &mut Decoder<'_>) -> Result<TableSchema, Malformed> {
    let (builder, columns) = decode_columns_and_clauses(input)?;
    let builder = if input.is_empty() { builder } else { decode_properties(input, builder, columns)? };
    finish_schema(builder)
}

fn finish_schema(builder: TableSchemaBuilder) -> Result<TableSchema, Malformed> {
    builder.build().map_err(|error| error.to_string())
}

fn decode_columns_and_clauses(input: &mut Decoder<'_>) -> Result<(TableSchemaBuilder, usize), Malformed> {
    let mut builder = TableSchema::builder(input.text()?);
    let columns = input.count(8)?;
    for _ in 0..columns {
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
    Ok((builder.series(series).partition_by(partition_by).sync(sync), columns))
}

fn decode_properties(
    input: &mut Decoder<'_>,
    mut builder: TableSchemaBuilder,
    columns: usize,
) -> Result<TableSchemaBuilder, Malformed> {
    for _ in 0..input.count(6)? {
        let (number, length) = (input.u16()?, input.count(1)?);
        let mut one = Decoder::new(input.raw(length)?);
        builder = match number {
            PROPERTY_IDENTITY => {
                let (version, next_id) = (one.u32()?, one.u32()?);
                let ids = (0..columns).map(|_| one.u32()).collect::<Result<Vec<_>, _>>()?;
                one.finish()?;
                builder.identity(ids, next_id, version)
            }
            PROPERTY_TTL => {
                let text = std::str::from_utf8(one.raw(length)?).map_err(|error| error.to_string())?;
                builder.ttl(Some(Ttl::parse(text).map_err(|error| error.to_string())?))
            }
            PROPERTY_DEDUP | PROPERTY_INDEX => {
                let names = (0..one.count(4)?).map(|_| one.text()).collect::<Result<Vec<_>, _>>()?;
                one.finish()?;
                if number == PROPERTY_DEDUP { builder.dedup(names) } else { builder.indexed(names) }
            }
            PROPERTY_VIEW => {
                let text = std::str::from_utf8(one.raw(length)?).map_err(|error| error.to_string())?;
                builder.view(text)
            }
            PROPERTY_SOURCE => {
                let text = std::str::from_utf8(one.raw(length)?).map_err(|error| error.to_string())?;
                let source = StreamSource::decode(text).ok_or("the source of a table is none")?;
                builder.source(Some(source))
            }
            PROPERTY_MATERIALIZED => {
                let text = std::str::from_utf8(one.raw(length)?).map_err(|error| error.to_string())?;
                let view =
                    MaterializedView::decode(text).ok_or("a materialized view that stands for nothing")?;
                builder.materialized(Some(view))
            }
            PROPERTY_ASIDE => {
                one.finish()?;
                builder.aside()
            }
            PROPERTY_INTERNAL => {
                one.finish()?;
                builder.internal()
            }
            PROPERTY_ACCESS => {
                let access = decode_access(&mut one)?;
                one.finish()?;
                builder.access(access)
            }
            other => return Err(format!("property {other} of a schema is not known to this version")),
        };
    }
    Ok(builder)
}

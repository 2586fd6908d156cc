//! A part's own account of its columns, for when nothing else tells: a repair without a manifest.

use super::layout::{FOOTER_HEAD_BYTES, FooterHead, TRAILER_BYTES, Trailer, u32_at};
use super::open::{ARRAY, check_header, schema_bytes};
use crate::disk::FileBytes;
use crate::{EngineError, Result, part::Part};
use std::path::Path;
use std::sync::Arc;
use tickstone_model::{AlterTable, ColumnType, ElementType, PartitionBy, TableSchema};

impl Part {
    /// Opens a part of a table whose schema is not known: its name is `table`, its partitions are by
    /// `partition_by`, the rest is what the part says.
    ///
    /// # Errors
    /// As [`Part::open`].
    pub(crate) fn open_alone(
        bytes: FileBytes,
        path: &Path,
        table: &str,
        partition_by: PartitionBy,
    ) -> Result<Part> {
        check_header(&bytes, path)?;
        let damaged = |what: &str| EngineError::damaged(path, 0, what);
        let footer = footer(&bytes).ok_or_else(|| damaged("the footer cannot be read"))?;
        let schema = schema_of(footer, table, partition_by);
        let schema = Arc::new(schema.ok_or_else(|| damaged("the columns it names make no table"))?);
        let mut part = Part::open(bytes, path, &schema)?;
        let index = |column: &usize| AlterTable::AddIndex(schema.columns()[*column].name.clone());
        let indexes: Vec<AlterTable> = part.bloom_columns().iter().map(index).collect();
        // Columns that have filters are indexed ones; adding an index breaks no rule.
        part.schema = Arc::new(indexes.iter().try_fold(TableSchema::clone(&schema), |s, i| s.altered(i))?);
        Ok(part)
    }
}

fn footer(file: &[u8]) -> Option<&[u8]> {
    let trailer_at = file.len().checked_sub(TRAILER_BYTES)?;
    let trailer = Trailer::from_bytes(&file[trailer_at..])?;
    let start = usize::try_from(trailer.footer_offset).ok()?;
    let footer = file.get(start..trailer_at)?;
    (crc32c::crc32c(footer) == trailer.footer_crc).then_some(footer)
}

/// The reverse of [`schema_bytes`].
fn schema_of(footer: &[u8], table: &str, partition_by: PartitionBy) -> Option<TableSchema> {
    let head = FooterHead::read(footer.get(..FOOTER_HEAD_BYTES)?);
    let end = FOOTER_HEAD_BYTES.checked_add(head.schema_bytes as usize)?;
    let bytes = footer.get(FOOTER_HEAD_BYTES..end)?;
    let (timestamp, series) = (u32_at(bytes, 0), u32_at(bytes, 4) as usize);
    let mut at = 8_usize.checked_add(series.checked_mul(4)?)?;
    let mut builder = TableSchema::builder(table).partition_by(partition_by);
    let mut names = Vec::new();
    while at < bytes.len() {
        let &[code, precision, scale, length] = bytes.get(at..at + 4)? else { return None };
        let name = bytes.get(at + 4..at + 4 + usize::from(length))?;
        let name = std::str::from_utf8(name).ok()?;
        builder = builder.column(name, column_type(code, precision, scale)?);
        names.push(name);
        at += 4 + name.len();
    }
    if timestamp != u32::MAX {
        builder = builder.timestamp(*names.get(timestamp as usize)?);
    }
    let series = (0..series).map(|place| names.get(u32_at(bytes, 8 + place * 4) as usize).copied());
    let schema = builder.series(series.collect::<Option<Vec<_>>>()?).build().ok()?;
    (schema_bytes(&schema) == bytes).then_some(schema)
}

fn column_type(code: u8, precision: u8, scale: u8) -> Option<ColumnType> {
    Some(match code {
        1 => ColumnType::Boolean,
        2 => ColumnType::Int8,
        3 => ColumnType::Int16,
        4 => ColumnType::Int32,
        5 => ColumnType::Int64,
        6 => ColumnType::UInt8,
        7 => ColumnType::UInt16,
        8 => ColumnType::UInt32,
        9 => ColumnType::UInt64,
        10 => ColumnType::Float32,
        11 => ColumnType::Float64,
        12 => ColumnType::Decimal { precision, scale: scale.cast_signed() },
        13 => ColumnType::Symbol,
        14 => ColumnType::Varchar,
        15 => ColumnType::Binary,
        16 => ColumnType::Uuid,
        17 => ColumnType::Date,
        18 => ColumnType::Timestamp,
        19 => ColumnType::Time,
        array if array & ARRAY != 0 => {
            ColumnType::Array(ElementType::of(column_type(code & !ARRAY, precision, scale)?)?)
        }
        _ => return None,
    })
}

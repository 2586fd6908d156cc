//! Rows from the client into a table: parsed, gathered, cast and appended to a transaction.

use super::super::error::Fault;
use super::binary::{Binary, Tuple};
use super::lines::Rows;
use super::{Format, Header, binary};
use std::sync::Arc;
use tickstone_model::TableSchema;
use tickstone_query::arrow::array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, FixedSizeBinaryBuilder, Float64Builder, Int64Builder,
    ListBuilder, StringBuilder, Time64NanosecondBuilder, TimestampNanosecondBuilder,
};
use tickstone_query::arrow::array::{ArrayRef, RecordBatch};
use tickstone_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// Rows of a batch.
const BATCH_ROWS: usize = 65_536;

/// Bytes that one row may have.
const ROW_BYTES_MAX: usize = 256 << 20;

/// Gathers rows as batches.
#[derive(Debug)]
pub(in crate::pg) struct Filler {
    source: Source,
    schema: SchemaRef,
    columns: Vec<Builder>,
    /// Rows in the builders, and before them.
    gathered: usize,
    rows: u64,
    header: Header,
    full: Vec<RecordBatch>,
}

#[derive(Debug)]
enum Source {
    Lines(Rows),
    Binary(Binary),
}

/// What is wrong with a row.
pub(super) struct Bad(Fault);

impl From<String> for Bad {
    fn from(what: String) -> Self {
        Self(Fault::new("22P04", what))
    }
}

impl Filler {
    /// For some columns of a table, in this order; all where none are named.
    ///
    /// # Errors
    /// Where there is no such column.
    pub(in crate::pg) fn new(table: &TableSchema, columns: &[String], format: Format) -> Result<Self, Fault> {
        let places: Vec<usize> = match columns.is_empty() {
            true => (0..table.columns().len()).collect(),
            false => columns
                .iter()
                .map(|name| {
                    let missing = || {
                        Fault::new("42703", format!("column '{name}' of '{}' does not exist", table.name()))
                    };
                    table.column_index(name).ok_or_else(missing)
                })
                .collect::<Result<_, _>>()?,
        };
        let is_binary = format == Format::Binary;
        let (mut fields, mut builders) = (Vec::new(), Vec::new());
        for place in places {
            let column = &table.columns()[place];
            let builder = Builder::of(&column.column_type.edge_type(), is_binary);
            fields.push(Field::new(&column.name, builder.data_type(), true));
            builders.push(builder);
        }
        let header = match format {
            Format::Text { header, .. } | Format::Csv { header, .. } => header,
            Format::Binary => Header::None,
        };
        let source =
            if is_binary { Source::Binary(Binary::default()) } else { Source::Lines(Rows::new(format)) };
        Ok(Self {
            source,
            schema: Arc::new(Schema::new(fields)),
            columns: builders,
            gathered: 0,
            rows: 0,
            header,
            full: Vec::new(),
        })
    }

    /// The columns of the batches.
    pub(in crate::pg) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes what came; the batches that are full.
    ///
    /// # Errors
    /// Where it is no row, with its number.
    pub(in crate::pg) fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>, Fault> {
        self.feed(Some(bytes))?;
        if self.waiting() > ROW_BYTES_MAX {
            let what = format!("row {} of COPY is longer than {ROW_BYTES_MAX} bytes", self.number());
            return Err(Fault::new("54000", what));
        }
        Ok(std::mem::take(&mut self.full))
    }

    /// The rest, once all has come.
    ///
    /// # Errors
    /// Where it ends within a row.
    pub(in crate::pg) fn finish(&mut self) -> Result<Vec<RecordBatch>, Fault> {
        self.feed(None)?;
        self.build()?;
        Ok(std::mem::take(&mut self.full))
    }

    fn waiting(&self) -> usize {
        match &self.source {
            Source::Lines(rows) => rows.waiting(),
            Source::Binary(binary) => binary.waiting(),
        }
    }

    /// The number of the row that comes next, from 1.
    fn number(&self) -> u64 {
        self.rows + self.gathered as u64 + 1
    }

    fn feed(&mut self, bytes: Option<&[u8]>) -> Result<(), Fault> {
        let mut source = std::mem::replace(&mut self.source, Source::Binary(Binary::default()));
        let done = match &mut source {
            Source::Lines(rows) => {
                let mut each = |values: &[Vec<u8>], nulls: &[bool]| self.line(values, nulls);
                match bytes {
                    Some(bytes) => rows.push::<Bad>(bytes, &mut each),
                    None => rows.finish::<Bad>(&mut each),
                }
            }
            Source::Binary(binary) => {
                let mut each = |tuple: &mut Tuple| self.tuple(tuple);
                match bytes {
                    Some(bytes) => binary.push::<Bad>(bytes, &mut each),
                    None => binary.finish().map_err(Bad::from),
                }
            }
        };
        self.source = source;
        done.map_err(|Bad(fault)| match self.header {
            Header::None => fault.in_row(self.number()),
            _ => fault,
        })
    }

    fn line(&mut self, values: &[Vec<u8>], nulls: &[bool]) -> Result<(), Bad> {
        if self.header != Header::None {
            if self.header == Header::Match {
                self.match_header(values, nulls)?;
            }
            self.header = Header::None;
            return Ok(());
        }
        if values.len() != self.columns.len() {
            return Err(format!(
                "it has {} fields, and there are {} columns",
                values.len(),
                self.columns.len()
            )
            .into());
        }
        for ((column, value), null) in self.columns.iter_mut().zip(values).zip(nulls) {
            column.push_text((!null).then_some(value)).map_err(Bad::from)?;
        }
        self.counted()
    }

    /// Checks the names of the header, letters of either case.
    fn match_header(&self, names: &[Vec<u8>], nulls: &[bool]) -> Result<(), Bad> {
        let fields = self.schema.fields();
        if names.len() != fields.len() {
            let what =
                format!("the header has {} fields, and there are {} columns", names.len(), fields.len());
            return Err(what.into());
        }
        for (place, (field, (name, null))) in fields.iter().zip(names.iter().zip(nulls)).enumerate() {
            let name = String::from_utf8_lossy(name);
            if *null || name.to_lowercase() != field.name().to_lowercase() {
                let got = if *null { "NULL".to_string() } else { format!("'{name}'") };
                let what =
                    format!("field {} of the header is {got}, not column '{}'", place + 1, field.name());
                return Err(what.into());
            }
        }
        Ok(())
    }

    fn tuple(&mut self, tuple: &mut Tuple) -> Result<(), Bad> {
        if tuple.len() != self.columns.len() {
            return Err(format!(
                "it has {} fields, and there are {} columns",
                tuple.len(),
                self.columns.len()
            )
            .into());
        }
        for (column, value) in self.columns.iter_mut().zip(tuple.iter_mut()) {
            binary::push(column, value.take()).map_err(|(code, what)| Bad(Fault::new(code, what)))?;
        }
        self.counted()
    }

    fn counted(&mut self) -> Result<(), Bad> {
        self.gathered += 1;
        if self.gathered >= BATCH_ROWS { self.build().map_err(Bad) } else { Ok(()) }
    }

    fn build(&mut self) -> Result<(), Fault> {
        if self.gathered == 0 {
            return Ok(());
        }
        self.rows += self.gathered as u64;
        self.gathered = 0;
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(Builder::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        self.full.push(batch.map_err(|error| Fault::new("XX000", error.to_string()))?);
        Ok(())
    }
}

/// A column that fills.
#[derive(Debug)]
pub(super) enum Builder {
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    /// Elements as text.
    List(ListBuilder<StringBuilder>, DataType),
    Bool(BooleanBuilder),
    Integer(Int64Builder),
    Double(Float64Builder),
    Timestamp(TimestampNanosecondBuilder),
    Date(Date32Builder),
    Time(Time64NanosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    /// A text in place of what has digits.
    Numeric(StringBuilder),
}

impl Builder {
    fn of(wanted: &DataType, is_binary: bool) -> Self {
        match wanted {
            DataType::Decimal128(..) => Builder::Numeric(StringBuilder::new()),
            DataType::Binary => Builder::Bytes(BinaryBuilder::new()),
            DataType::List(element) => {
                Builder::List(ListBuilder::new(StringBuilder::new()), element.data_type().clone())
            }
            _ if !is_binary => Builder::Text(StringBuilder::new()),
            DataType::Boolean => Builder::Bool(BooleanBuilder::new()),
            DataType::UInt64 => Builder::Numeric(StringBuilder::new()),
            other if other.is_integer() => Builder::Integer(Int64Builder::new()),
            DataType::Float32 | DataType::Float64 => Builder::Double(Float64Builder::new()),
            DataType::Timestamp(..) => Builder::Timestamp(TimestampNanosecondBuilder::new()),
            DataType::Date32 => Builder::Date(Date32Builder::new()),
            DataType::Time64(_) => Builder::Time(Time64NanosecondBuilder::new()),
            DataType::FixedSizeBinary(_) => Builder::Uuid(FixedSizeBinaryBuilder::new(16)),
            _ => Builder::Text(StringBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Builder::Text(_) | Builder::Numeric(_) => DataType::Utf8,
            Builder::Bytes(_) => DataType::Binary,
            Builder::List(..) => DataType::List(Field::new_list_field(DataType::Utf8, true).into()),
            Builder::Bool(_) => DataType::Boolean,
            Builder::Integer(_) => DataType::Int64,
            Builder::Double(_) => DataType::Float64,
            Builder::Timestamp(_) => {
                DataType::Timestamp(tickstone_query::arrow::datatypes::TimeUnit::Nanosecond, None)
            }
            Builder::Date(_) => DataType::Date32,
            Builder::Time(_) => DataType::Time64(tickstone_query::arrow::datatypes::TimeUnit::Nanosecond),
            Builder::Uuid(_) => DataType::FixedSizeBinary(16),
        }
    }

    fn push_text(&mut self, value: Option<&Vec<u8>>) -> Result<(), String> {
        let text = match value.map(|bytes| std::str::from_utf8(bytes)) {
            None => None,
            Some(Ok(text)) => Some(text),
            Some(Err(_)) => return Err("it is no UTF-8".to_string()),
        };
        match (self, text) {
            (Builder::Bytes(builder), Some(text)) => match tickstone_query::parse_bytes(text) {
                Some(bytes) => builder.append_value(bytes),
                None => return Err(format!("'{text}' is no BINARY")),
            },
            (Builder::Bytes(builder), None) => builder.append_null(),
            (Builder::List(builder, _), Some(text)) => {
                let elements = tickstone_query::array_elements(text);
                let elements = elements.ok_or_else(|| format!("'{text}' is no array of one dimension"))?;
                elements.iter().for_each(|element| builder.values().append_option(element.as_deref()));
                builder.append(true);
            }
            (Builder::List(builder, _), None) => builder.append(false),
            (Builder::Numeric(builder), Some(text)) => {
                let digits = tickstone_query::without_exponent(text.trim());
                builder.append_value(digits.as_deref().unwrap_or(text));
            }
            (Builder::Text(builder) | Builder::Numeric(builder), text) => builder.append_option(text),
            // The others are of binary alone.
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Text(builder) | Builder::Numeric(builder) => Arc::new(builder.finish()),
            Builder::Bytes(builder) => Arc::new(builder.finish()),
            Builder::List(builder, _) => Arc::new(builder.finish()),
            Builder::Bool(builder) => Arc::new(builder.finish()),
            Builder::Integer(builder) => Arc::new(builder.finish()),
            Builder::Double(builder) => Arc::new(builder.finish()),
            Builder::Timestamp(builder) => Arc::new(builder.finish()),
            Builder::Date(builder) => Arc::new(builder.finish()),
            Builder::Time(builder) => Arc::new(builder.finish()),
            Builder::Uuid(builder) => Arc::new(builder.finish()),
        }
    }
}

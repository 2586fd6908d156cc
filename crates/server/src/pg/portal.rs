//! Statements that were prepared, and those that were given values and may be half read.

use super::channel::Channel;
use super::connection::Stop;
use super::digits::Digits;
use super::error::Fault;
use super::savepoints::Savepoint;
use super::types;
use super::values::Canonical;
use crate::statement::Rows;
use bytes::BufMut;
use pgwire::messages::data::RowDescription;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tickstone_query::arrow::array::{RecordBatch, RecordBatchOptions};
use tickstone_query::arrow::compute::{CastOptions, cast_with_options};
use tickstone_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tickstone_query::dialect::Statement;
use tickstone_query::{Description, Entitlement};

/// A statement that was prepared.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) text: Arc<str>,
    /// `None` for a text without a statement.
    pub(super) statement: Option<Statement>,
    /// Where it is about a savepoint, which no statement is.
    pub(super) savepoint: Option<Savepoint>,
    /// The types of parameters that the client said, and their numbers; 0 where it did not.
    pub(super) given: Vec<Option<DataType>>,
    pub(super) oids: Vec<u32>,
    /// What it takes and gives, once somebody asked.
    pub(super) description: OnceLock<Arc<Description>>,
    /// The columns that the client was told of last, by a portal.
    told: Mutex<Option<SchemaRef>>,
}

impl Prepared {
    pub(super) fn new(
        text: Arc<str>,
        statement: Option<Statement>,
        savepoint: Option<Savepoint>,
        oids: Vec<u32>,
    ) -> Self {
        let given = oids.iter().map(|oid| types::of_oid(*oid)).collect();
        let (description, told) = (OnceLock::new(), Mutex::new(None));
        Self { text, statement, savepoint, given, oids, description, told }
    }

    /// The columns that the client takes the rows to have.
    pub(super) fn told(&self) -> Option<SchemaRef> {
        let by_portal = self.told.lock().unwrap_or_else(PoisonError::into_inner).clone();
        by_portal.or_else(|| self.description.get()?.rows.clone())
    }

    /// Notes that the client was told of these columns.
    pub(super) fn tell(&self, schema: &SchemaRef) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(schema));
    }
}

/// A statement with values, on its way.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) text: Arc<str>,
    /// What it was bound from; a cursor was not.
    pub(super) prepared: Option<Arc<Prepared>>,
    pub(super) formats: Formats,
    pub(super) state: State,
    /// Whether it outlives its transaction.
    pub(super) hold: bool,
    /// What its query might read when it began.
    pub(super) entitled: Option<Entitlement>,
}

impl Portal {
    /// Says that its client wants no more of its rows.
    pub(super) fn leave(&self) {
        if let State::Rows(reading) = &self.state {
            reading.rows.enough();
        }
    }

    /// Checks that its rows may be read on.
    ///
    /// # Errors
    /// Where what its user may read was changed.
    pub(super) fn check(&self) -> Result<(), Stop> {
        let checked = self.entitled.as_ref().map_or(Ok(()), Entitlement::check);
        if let (Err(error), State::Rows(reading)) = (&checked, &self.state) {
            reading.rows.refuse(error);
        }
        Ok(checked?)
    }
}

#[derive(Debug)]
pub(super) enum State {
    /// Not begun; `None` for a text without a statement.
    Ready(Option<Box<Statement>>),
    /// To be carried out.
    Savepoint(Savepoint),
    /// Rows, of which some may be sent.
    Rows(Box<Reading>),
    /// Carried out: the tag, and how many rows were sent.
    Done(String),
}

/// The format of each column of a result.
#[derive(Debug, Clone, Default)]
pub(super) struct Formats(pub(super) Vec<i16>);

impl Formats {
    /// 0 for text, 1 for binary: none say text, one says all.
    pub(super) fn of(&self, column: usize) -> i16 {
        match self.0.as_slice() {
            [] => 0,
            [all] => *all,
            each => each.get(column).copied().unwrap_or(0),
        }
    }

    /// What a client is told of rows with these columns.
    pub(super) fn description(&self, schema: &Schema) -> RowDescription {
        let fields = schema.fields().iter().enumerate();
        RowDescription::new(fields.map(|(place, field)| types::field(field, self.of(place))).collect())
    }
}

/// Rows that are read bit by bit.
#[derive(Debug)]
pub(super) struct Reading {
    rows: Rows,
    /// What the client was told of them, where that may differ from what they are.
    told: Option<SchemaRef>,
    pub(super) kind: &'static str,
    /// A batch of which some rows were sent.
    current: Option<(Canonical, usize, usize)>,
    ended: bool,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some((_, next, rows)) = &self.current {
            self.rows.keep_back((rows - next) as u64);
        }
    }
}

impl Reading {
    pub(super) fn new(rows: Rows, kind: &'static str) -> Self {
        Self { rows, told: None, kind, current: None, ended: false }
    }

    /// Whether its statement has changed the database, and is done but for its rows.
    pub(super) fn is_done(&self) -> bool {
        self.rows.changed
    }

    /// Gives its rows in the types of these columns.
    pub(super) fn tell(&mut self, told: SchemaRef) {
        self.told = Some(told);
    }

    /// The columns, as the client is told.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.told.as_ref().unwrap_or(&self.rows.schema)
    }

    /// Waits for rows; whether there are any more.
    ///
    /// # Errors
    /// Those of the statement.
    pub(super) async fn fill(&mut self) -> Result<bool, Stop> {
        loop {
            if self.current.as_ref().is_some_and(|(_, next, rows)| next < rows) {
                return Ok(true);
            }
            self.current = None;
            let next = if self.ended { None } else { self.rows.next().await };
            let Some(batch) = next else {
                self.ended = true;
                return Ok(false);
            };
            let batch = match &self.told {
                Some(told) => as_told(batch?, told)?,
                None => batch?,
            };
            let rows = batch.num_rows();
            self.current = Some((Canonical::of(&batch)?, 0, rows));
        }
    }

    /// Puts rows of the current batch behind what is to be sent, until there are so many, or enough to send; how many.
    ///
    /// # Errors
    /// Where a type cannot be written: a defect.
    pub(super) fn put(
        &mut self,
        channel: &mut Channel,
        formats: &Formats,
        digits: Digits,
        most: u64,
    ) -> Result<u64, Stop> {
        let Some((batch, next, rows)) = &mut self.current else { return Ok(0) };
        let columns = batch.columns()?;
        let binary: Vec<bool> = (0..columns.len()).map(|place| formats.of(place) == 1).collect();
        let count = u16::try_from(columns.len()).unwrap_or(u16::MAX);
        let (first, out) = (*next, &mut channel.out);
        let last = usize::try_from(most).map_or(*rows, |most| first.saturating_add(most).min(*rows));
        while *next < last && out.len() < super::channel::SEND_BYTES {
            out.put_u8(b'D');
            let start = out.len();
            out.put_u32(0);
            out.put_u16(count);
            for (column, binary) in columns.iter().zip(&binary) {
                column.put_sized(*next, *binary, digits, out);
            }
            let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            *next += 1;
        }
        Ok((*next - first) as u64)
    }

    /// Passes over rows of the current batch; how many.
    pub(super) fn skip(&mut self, most: u64) -> u64 {
        let Some((_, next, rows)) = &mut self.current else { return 0 };
        let skipped = usize::try_from(most).map_or(*rows - *next, |most| most.min(*rows - *next));
        *next += skipped;
        self.rows.keep_back(skipped as u64);
        skipped as u64
    }

    /// What is to be known of its rows, once all of them were read.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.rows.warnings()
    }

    /// The next batch as it is, for COPY.
    pub(super) async fn next(&mut self) -> Option<Result<RecordBatch, tickstone_query::QueryError>> {
        self.rows.next().await
    }
}

/// A batch in the types that a client was told: a parameter may have another type than the place where it stands let
/// expect.
fn as_told(batch: RecordBatch, told: &SchemaRef) -> Result<RecordBatch, Stop> {
    if batch.num_columns() != told.fields().len() {
        return Err(Fault::outdated().into());
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(told.fields()).map(|(array, field)| {
        let wanted = field.data_type();
        if types::of(array.data_type()) == types::of(wanted) {
            return Ok(Arc::clone(array));
        }
        cast_with_options(array, wanted, &strict).map_err(|error| {
            let (name, of) = (field.name(), tickstone_query::type_name(wanted));
            Fault::new(
                "22003",
                format!("a value of column '{name}' is no {of}, as it was described: {error}"),
            )
            .hint("cast the parameter that it is made of")
        })
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let fields: Vec<_> = columns
        .iter()
        .zip(told.fields())
        .map(|(array, field)| Field::new(field.name(), array.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let made = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
    Ok(made.map_err(tickstone_query::QueryError::from)?)
}

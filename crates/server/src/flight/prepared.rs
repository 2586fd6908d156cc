//! Prepared statements: parsed once, run with values that come before.

use super::connection::Charge;
use super::failure::{defect, missing, status};
use super::handles::{Used, lock};
use super::ingest::Incoming;
use super::service::Inner;
use super::sessions::{Within, too_many};
use super::statements::{Asked, describe, parse};
use crate::parameters::{are_named, names};
use arrow_flight::sql::{ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult};
use arrow_flight::{IpcMessage, SchemaAsIpc};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use tickstone_client::protocol::StatementTicket;
use tickstone_query::Access;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::{DataType, Field, Schema};
use tickstone_query::arrow::ipc::writer::IpcWriteOptions;
use tickstone_query::dialect::Statement;
use tonic::Status;

/// A prepared statement.
#[derive(Debug)]
pub(super) struct Prepared {
    /// That of the user who prepared it: nobody else knows of it.
    access: Access,
    pub(super) text: Arc<str>,
    pub(super) statement: Statement,
    home: Mutex<Home>,
    /// Values for its placeholders, a row a run.
    pub(super) parameters: Mutex<Option<Vec<RecordBatch>>>,
    /// What these take.
    charge: Mutex<Option<Arc<Charge>>>,
}

/// Where a prepared statement runs. Its execution does not name a transaction, and clients go on with it when they have
/// ended that which they prepared it in and begun the next.
#[derive(Debug)]
enum Home {
    /// In a session of its own.
    Alone,
    /// In the session or transaction with this handle.
    Session(Bytes),
    /// Its transaction was ended by this connection: in the next one that begins there, until then in a session of its
    /// own.
    Ended(u64),
}

impl Inner {
    /// What a prepared statement runs in.
    ///
    /// # Errors
    /// Where that is not there any more, and where nobody can tell which transaction of several it is.
    pub(super) fn home(&self, prepared: &Prepared) -> Result<Within, Status> {
        match &*lock(&prepared.home) {
            Home::Session(handle) => self.within(&prepared.access, handle),
            Home::Ended(connection) if self.has_transaction(*connection) => Err(missing(
                "the transaction of the prepared statement has ended, and it could be of several others",
                "prepare it again",
            )),
            Home::Alone | Home::Ended(_) => self.within(&prepared.access, &[]),
        }
    }

    /// Has prepared statements know that a connection ended their transaction.
    pub(super) fn leave(&self, transaction: &[u8], connection: u64) {
        self.prepared.each(|prepared| {
            let mut home = lock(&prepared.home);
            if matches!(&*home, Home::Session(handle) if handle == transaction) {
                *home = Home::Ended(connection);
            }
        });
    }

    /// Has the only transaction of a connection take over the prepared statements of those before.
    pub(super) fn take_over(&self, connection: u64, transaction: &Bytes) {
        self.prepared.each(|prepared| {
            let mut home = lock(&prepared.home);
            if matches!(*home, Home::Ended(there) if there == connection) {
                *home = Home::Session(transaction.clone());
            }
        });
    }

    /// # Errors
    /// Where the user has no such prepared statement.
    pub(super) fn prepared(&self, access: &Access, handle: &[u8]) -> Result<Used<Prepared>, Status> {
        self.prepared.get(handle).filter(|prepared| prepared.access.is_of(access)).ok_or_else(|| {
            missing(
                "there is no such prepared statement",
                "it was closed, or nobody used it for flight_idle_timeout: prepare it again",
            )
        })
    }

    /// Forgets a prepared statement, where the user has it.
    pub(super) fn forget_prepared(&self, access: &Access, handle: &[u8]) {
        if self.prepared(access, handle).is_ok() {
            self.prepared.forget(handle);
        }
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// Where it could not be run, and where there are too many.
    pub(super) async fn prepare_statement(
        &self,
        access: &Access,
        request: ActionCreatePreparedStatementRequest,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let session = request.transaction_id.unwrap_or_default();
        let within = self.within(access, &session)?;
        let parsed = parse(&self.shared, &request.query).inspect_err(|_| within.fail());
        let (text, statement) = parsed.map_err(|error| status(&error))?;
        let described = describe(self, &within, &statement).await.map_err(|error| status(&error))?;
        let names = names(&statement);
        let types = match are_named(&names) {
            true => names.iter().map(|name| (name.clone(), DataType::Utf8)).collect::<Vec<_>>(),
            false => {
                let numbered = described.parameters.into_iter().enumerate();
                numbered.map(|(place, data_type)| (format!("${}", place + 1), data_type)).collect()
            }
        };
        let fields = types.into_iter().map(|(name, data_type)| Field::new(name, data_type, true));
        let takes = Schema::new(fields.collect::<Vec<_>>());
        let home = Mutex::new(if session.is_empty() { Home::Alone } else { Home::Session(session) });
        let prepared = Prepared {
            access: access.clone(),
            text,
            statement,
            home,
            parameters: Mutex::default(),
            charge: Mutex::default(),
        };
        let number = self.numbers.next();
        let is_theirs = |other: &Prepared| access.owner().is_some() && other.access.is_of(access);
        if self.prepared.keep(number, prepared, self.handles_max, is_theirs).is_err() {
            return Err(too_many(self.handles_max, "prepared statements"));
        }
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: Bytes::copy_from_slice(&number),
            dataset_schema: described.rows.as_ref().map(|rows| ipc(rows)).transpose()?.unwrap_or_default(),
            parameter_schema: ipc(&takes)?,
        })
    }

    /// Gives a prepared statement values, in the place of those it had.
    ///
    /// # Errors
    /// Where there is no such statement, and where the rows cannot be read.
    pub(super) async fn bind(
        &self,
        access: &Access,
        handle: &[u8],
        rows: Option<Incoming>,
    ) -> Result<(), Status> {
        let prepared = self.prepared(access, handle)?;
        let (batches, charge) = match rows {
            Some(rows) => {
                let within = self.home(&prepared)?;
                let (batches, charge) = rows.all(self).await.inspect_err(|_| within.fail())?;
                (Some(batches), Some(charge))
            }
            None => (None, None),
        };
        *lock(&prepared.parameters) = batches;
        *lock(&prepared.charge) = charge;
        Ok(())
    }

    /// Runs a prepared statement that gives no rows, with the values that come now, or with those it was given; how
    /// many rows it changed, -1 where it does not say.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub(super) async fn update_prepared(
        &self,
        access: &Access,
        handle: &[u8],
        rows: Option<Incoming>,
    ) -> Result<i64, Status> {
        // A schema without columns is how some clients say that there are no values.
        if let Some(rows) = rows.filter(|rows| !rows.schema().fields().is_empty()) {
            self.bind(access, handle, Some(rows)).await?;
        }
        let prepared = Bytes::copy_from_slice(handle);
        let ticket = StatementTicket { prepared, ..StatementTicket::default() };
        let (_, changed) = self.update(Asked::of_ticket(self, access, &ticket)?).await?;
        Ok(count(changed))
    }
}

/// How many rows were changed, -1 where nobody knows.
pub(super) fn count(changed: Option<u64>) -> i64 {
    changed.and_then(|rows| i64::try_from(rows).ok()).unwrap_or(-1)
}

/// # Errors
/// Where columns cannot be told: a defect.
pub(super) fn ipc(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options).try_into().map_err(defect)?;
    Ok(bytes)
}

//! What a connection does with its settings: SET and SHOW, what clients and the catalog are told, READ ONLY.

use super::connection::{Connection, Stop};
use super::execute::Started;
use super::guc::{DEFAULT_READ_ONLY, READ_ONLY};
use super::portal::Reading;
use crate::statement::Rows;
use pgwire::messages::startup::ParameterStatus;
use std::sync::Arc;
use tickstone_query::QueryError;
use tickstone_query::arrow::array::{ArrayRef, RecordBatch, StringArray};
use tickstone_query::arrow::datatypes::{DataType, Field, Schema};
use tickstone_query::dialect::Statement;

impl Connection {
    /// SET, RESET of one.
    ///
    /// # Errors
    /// Where there is none of the name, or it cannot be so.
    pub(super) async fn set(&mut self, name: &str, value: &str) -> Result<(), Stop> {
        self.guc.set(name, value)?;
        if name.eq_ignore_ascii_case(READ_ONLY) {
            // It is of the transaction that is open, if one is.
            self.set_read_only(READ_ONLY, false).await?;
        }
        self.settings_changed().await?;
        self.tell(name);
        Ok(())
    }

    /// Has the session and the catalog know how things are set.
    ///
    /// # Errors
    /// Those of the session.
    pub(super) async fn settings_changed(&mut self) -> Result<(), Stop> {
        let is_in_transaction = self.is_in_transaction();
        let read_only = self.guc.is_on(DEFAULT_READ_ONLY);
        if read_only != self.read_only {
            if is_in_transaction {
                // It goes on as it began.
                self.set_read_only(READ_ONLY, false).await?;
            }
            self.set_read_only(DEFAULT_READ_ONLY, true).await?;
            self.read_only = read_only;
        }
        if !is_in_transaction {
            self.guc.begin_transaction(None);
        }
        self.note_settings();
        Ok(())
    }

    /// The same where all is as the connection began, which the session is not told.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn settings_reset(&mut self) -> Result<(), Stop> {
        self.guc.reset();
        self.read_only = false;
        self.settings_changed().await
    }

    /// Has the session keep READ ONLY as a setting says, for all its transactions or for the open one.
    async fn set_read_only(&self, name: &str, session: bool) -> Result<(), Stop> {
        let set = Statement::SetTransaction { read_only: Some(self.guc.is_on(name)), session };
        self.conversation.run(&self.shared, "SET TRANSACTION".into(), set, None).await?;
        Ok(())
    }

    /// Has `transaction_read_only` say what a transaction began with; `None` where it said nothing, or has ended.
    pub(super) fn note_read_only(&mut self, read_only: Option<bool>) {
        if self.guc.begin_transaction(read_only) {
            self.note_settings();
        }
    }

    fn note_settings(&self) {
        self.guc.all().for_each(|(name, value)| self.client.note(name, value));
    }

    /// SHOW of a setting of the connection, SHOW ALL.
    pub(super) fn show(&self, name: &str) -> Result<Started, QueryError> {
        let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
        let columns = match name {
            "all" => {
                let (names, values): (Vec<&str>, Vec<&str>) = self.guc.all().unzip();
                vec![text(names), text(values)]
            }
            name => vec![text(vec![&self.guc.shown(name).unwrap_or_default()])],
        };
        let rows = Rows::of_batch(RecordBatch::try_new(Arc::new(shown_schema(name)), columns)?);
        Ok(Started::Rows(Box::new(Reading::new(rows, "SHOW"))))
    }

    /// Tells the client of a setting that changed, where clients are told of it.
    fn tell(&mut self, name: &str) {
        let told = self.guc.told().find(|(told, _)| told.eq_ignore_ascii_case(name));
        if let Some((name, value)) = told {
            let status = ParameterStatus::new(name.to_string(), value.to_string());
            self.channel.put(&status);
        }
    }
}

/// The columns of SHOW of a setting of the connection.
pub(super) fn shown_schema(name: &str) -> Schema {
    let names = if name == "all" { vec!["name", "setting"] } else { vec![name] };
    Schema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect::<Vec<_>>())
}

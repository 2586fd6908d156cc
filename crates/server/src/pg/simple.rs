//! The simple protocol: a text of any number of statements, carried out one after the other.

use super::connection::{Connection, Status, Stop};
use super::error::Fault;
use super::execute::{Started, tag_of_rows};
use super::portal::Formats;
use super::savepoints::Savepoint;
use pgwire::messages::response::EmptyQueryResponse;
use std::sync::Arc;
use tickstone_query::dialect::Statement;

impl Connection {
    /// Carries out a text. Its INSERTs are one transaction, up to a statement that does not go into it.
    ///
    /// # Errors
    /// At the first statement that fails; those before it are done, but for the INSERTs of the transaction it is in.
    pub(super) async fn simple(&mut self, sql: &str) -> Result<(), Stop> {
        self.close_portal("");
        if let Some(savepoint) = Savepoint::parse(sql) {
            let tag = self.savepoint(&savepoint)?;
            self.complete(tag.to_string());
            self.ready();
            return Ok(());
        }
        let parsed = self.shared.database.parse_with_texts(sql);
        let statements = parsed.map_err(|error| Fault::of(error, sql))?;
        if statements.is_empty() {
            self.channel.put(&EmptyQueryResponse::new());
        }
        let several = statements.len() > 1;
        for (text, statement) in statements {
            if several && self.status == Status::Idle && statement.inserts_values() {
                self.begin_implicit().await?;
            }
            self.simple_one(sql, text, statement).await?;
        }
        self.end_implicit().await?;
        self.ready();
        Ok(())
    }

    async fn simple_one(&mut self, sql: &str, text: Arc<str>, statement: Statement) -> Result<(), Stop> {
        match self.start(&text, sql, statement).await? {
            Started::Done(tag) => self.complete(tag),
            Started::CopyIn(copy) => {
                let tag = self.copy_in(*copy).await?;
                self.complete(tag);
            }
            Started::CopyOut(copy) => {
                let tag = self.copy_out(*copy).await?;
                self.complete(tag);
            }
            Started::Rows(mut reading) => {
                let formats = Formats::default();
                self.channel.put(&formats.description(reading.schema()));
                let (rows, _) = self.send_rows(&mut reading, &formats, u64::MAX).await?;
                self.complete(tag_of_rows(reading.kind, rows));
            }
            Started::Fetched { cursor, rows, moves } => self.fetch(&cursor, rows, moves, None).await?,
        }
        Ok(())
    }
}

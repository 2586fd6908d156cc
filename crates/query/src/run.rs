//! The way in: a session carries out any statement.
//!
//! Sessions know no statements but queries, and statements are made of sessions: both meet here.

use crate::database::Database;
use crate::dialect::{CopySource, Statement};
use crate::entrance::Access;
use crate::error::{QueryError, Result};
use crate::running::{CancelToken, QueryProgress};
use crate::session::{Outcome, Session, elsewhere};
use crate::stack::OnEnoughStack;
use crate::statements;
use crate::wanted::Within;
use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::Engine;

/// What planning takes of a byte of a query's text: 3.1 GB were measured for 8 MB of numbers after IN.
const PLANNED: usize = 384;

impl Access {
    /// A new session of the user's.
    pub fn session(&self) -> Session {
        // Where no thread can be had, views are worked out by whoever reads them.
        let _ = statements::keep_views(&self.database);
        Session::new(&self.database, self.who.clone(), self.origin, statements::table_functions)
    }
}

impl Database {
    /// A new session of its owner's: its own transaction and settings.
    pub fn session(&self) -> Session {
        Access::of_owner(self).session()
    }
}

impl Session {
    /// Carries out one statement. Reads see the newest snapshot, also inside a transaction, whose
    /// inserts show when it commits.
    ///
    /// # Errors
    /// A [`QueryError`]; nothing of the statement was stored then. A transaction stays open.
    pub async fn run(&mut self, statement: Statement) -> Result<Outcome> {
        self.run_text(statement, None).await
    }

    /// As [`Self::run`]; SHOW QUERIES lists the statement by its text while it runs and while its rows are read.
    ///
    /// # Errors
    /// As [`Self::run`], and where CANCEL QUERY ended it.
    pub async fn run_text(&mut self, statement: Statement, text: Option<Arc<str>>) -> Result<Outcome> {
        self.run_until(statement, text, &CancelToken::default()).await
    }

    /// As [`Self::run_text`], of a statement that `token` can end. Where it is asked to end after it has changed the
    /// database, it is done, and says so: whoever needs to know what became of it waits for it.
    ///
    /// # Errors
    /// As [`Self::run_text`], and the one that `token` was given.
    pub async fn run_until(
        &mut self,
        statement: Statement,
        text: Option<Arc<str>>,
        token: &CancelToken,
    ) -> Result<Outcome> {
        // One that was dropped in its midst may have left its own.
        self.whole = None;
        self.run_listed(statement, text, token).await
    }

    async fn run_listed(
        &mut self,
        statement: Statement,
        text: Option<Arc<str>>,
        token: &CancelToken,
    ) -> Result<Outcome> {
        if let Some(why) = token.cancelled() {
            return Err(why);
        }
        let text = match statement.without_secret() {
            Some(told) => text.map(|_| told.into()),
            None => text,
        };
        let changes = !self.executed(&statement).only_reads();
        let entitled = match self.executed(&statement) {
            Statement::Subscribe(_) | Statement::Replay(_) => self.entitlement(&statement)?,
            _ => None,
        };
        let entered = self.database.running().enter(&statement, text, &self.memory);
        if let Some(entered) = &entered {
            token.follow(entered.one());
        }
        self.running = entered.as_ref().map(|entered| Arc::clone(entered.one()));
        let done = OnEnoughStack::new(self.run_entered(statement)).await;
        self.running = None;
        let Some(entered) = entered else { return done };
        if changes && done.is_ok() {
            entered.one().wanted().settle();
        }
        match done {
            Ok(Outcome::Rows { schema, stream, planning, progress }) => {
                let progress = progress.of_statement(entered.one().wanted());
                let stream = entitled.into_iter().fold(stream, |stream, entitled| entitled.watch(stream));
                let stream = entered.watch(stream, &progress);
                Ok(Outcome::Rows { schema, stream, planning, progress })
            }
            Ok(done) => Ok(done),
            Err(error) => {
                entered.failed();
                Err(error)
            }
        }
    }

    /// As [`Self::run_text`], of the one statement that a text is, without values from elsewhere: where its plan is kept
    /// [`Self::run_known`] answers the same text from then on.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub async fn run_whole(&mut self, statement: Statement, text: Arc<str>) -> Result<Outcome> {
        self.whole = matches!(statement, Statement::Query(_)).then(|| Arc::clone(&text));
        self.run_listed(statement, Some(text), &CancelToken::default()).await
    }

    /// The rows of a query by its text alone, which is not parsed; `None` where its plan is not kept, or not for tables,
    /// settings and functions as they are now.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub async fn run_known(&mut self, text: &Arc<str>) -> Result<Option<Outcome>> {
        if self.engine().is_read_only() {
            return Ok(None);
        }
        let begun = Instant::now();
        self.renew()?;
        self.states.know(self.database.user_functions())?;
        let Some(known) = self.known_text(text) else { return Ok(None) };
        self.states.begin();
        let entered = self.database.running().enter_query(Arc::clone(text), &self.memory);
        self.running = Some(Arc::clone(entered.one()));
        let wanted = Arc::clone(entered.one().wanted());
        let started = Within::new(Some(wanted), async { self.start_known(&known) });
        let started = OnEnoughStack::new(started).await;
        self.running = None;
        match started.unwrap_or_else(Err) {
            Ok(Some((plan, stream))) => {
                self.database.plans().count(true);
                let progress = QueryProgress::of(&plan).of_statement(entered.one().wanted());
                let stream = entered.watch(stream, &progress);
                let (schema, planning) = (plan.schema(), begun.elapsed());
                Ok(Some(Outcome::Rows { schema, stream, planning, progress }))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                entered.failed();
                Err(self.explained(error))
            }
        }
    }

    async fn run_entered(&mut self, statement: Statement) -> Result<Outcome> {
        let (statement, name) = match statement {
            Statement::Execute { name, values } => (self.prepared.bound(&name, &values)?, Some(name)),
            other => (other, None),
        };
        let _held = match (&statement, &self.running) {
            (Statement::Query(_), Some(running)) => self.claim_text(running.text(), PLANNED)?,
            _ => None,
        };
        let wanted = self.running.as_ref().map(|running| Arc::clone(running.wanted()));
        // A defect in planning must not take the program down that holds the session.
        let done = Within::new(wanted, self.carry_out(statement)).await.unwrap_or_else(Err);
        done.map_err(|error| self.explained(error)).map_err(|error| match &name {
            Some(name) => elsewhere(error, name),
            None => error,
        })
    }

    /// Carries a statement out; where another process writes the database, on what that has written by now, and once
    /// more where it removed parts before they were opened. All parts that a query reads are opened before it gives
    /// rows.
    async fn carry_out(&mut self, statement: Statement) -> Result<Outcome> {
        if !self.engine().is_read_only() {
            return self.carry_out_now(statement).await;
        }
        self.blocking(Engine::refresh).await?;
        let mut gone = Vec::new();
        loop {
            let done = self.carry_out_now(statement.clone()).await;
            let Some(table) = done.as_ref().err().and_then(QueryError::table_of_part_gone) else {
                return done;
            };
            if gone.len() == Engine::READS_MAX {
                return done;
            }
            gone.push(table);
            let tables = gone.clone();
            self.blocking(move |engine| engine.reread(&tables)).await?;
        }
    }

    async fn carry_out_now(&mut self, mut statement: Statement) -> Result<Outcome> {
        self.renew()?;
        self.states.know(self.database.user_functions())?;
        self.states.begin();
        self.name_temporaries(&mut statement)?;
        self.check_rights(&statement)?;
        if self.prepare(&mut statement).await? || !self.temporaries.is_empty() {
            // What is stored of a view, and which values a PIVOT finds, differs from snapshot to snapshot; a table of the
            // session's own is no other's.
            self.whole = None;
        }
        match statement {
            Statement::Query(query) => self.run_query(*query).await,
            other => statements::run(self, other).await,
        }
    }

    /// Carries out the one statement of a text and collects its rows.
    ///
    /// # Errors
    /// Those of [`Self::parse`] and [`Self::run`]; where the text is not one statement.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let text: Arc<str> = sql.into();
        if let Some(Outcome::Rows { stream, .. }) = self.run_known(&text).await? {
            return Ok(stream.try_collect().await?);
        }
        let mut statements = self.parse(sql)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(QueryError::request("the text must hold exactly one statement"));
        };
        match self.run_whole(statement, text).await? {
            Outcome::Rows { stream, .. } => Ok(stream.try_collect().await?),
            Outcome::Done { .. } => Ok(Vec::new()),
        }
    }

    /// The query of what COPY … TO writes.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn rows_of(&self, source: CopySource) -> Result<Statement> {
        self.renew()?;
        let source = match source {
            CopySource::Table { name, columns } => {
                CopySource::Table { name: self.stored_name(&name), columns }
            }
            query => query,
        };
        Ok(Statement::Query(Box::new(statements::query_of(self, source)?)))
    }
}

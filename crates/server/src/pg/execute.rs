//! Statements of either protocol: what changes the connection is done here, the rest by its session.

use super::connection::{Connection, Status, Stop};
use super::copy::Format;
use super::error::Fault;
use super::guc::{DEFAULT_READ_ONLY, Guc, READ_ONLY};
use super::portal::{Formats, Reading};
use crate::statement::Answer;
use pgwire::messages::response::CommandComplete;
use std::sync::Arc;
use tickstone_query::Session;
use tickstone_query::dialect::{CopyEnd, CreateTable, CreateView, Statement};

/// A statement that has begun.
pub(super) enum Started {
    /// It gives rows.
    Rows(Box<Reading>),
    /// It is done; its tag.
    Done(String),
    /// It wants rows of the client.
    CopyIn(Box<CopyIn>),
    /// It gives rows as a file.
    CopyOut(Box<CopyOut>),
    /// Rows of a cursor.
    Fetched { cursor: String, rows: Option<u64>, moves: bool },
}

/// COPY … FROM STDIN.
#[derive(Debug)]
pub(super) struct CopyIn {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) format: Format,
}

/// COPY … TO STDOUT.
#[derive(Debug)]
pub(super) struct CopyOut {
    pub(super) reading: Box<Reading>,
    pub(super) format: Format,
}

impl Connection {
    /// Begins a statement whose placeholders have values. `sql` is the text that its errors have places in.
    ///
    /// # Errors
    /// Where it fails, and where the transaction has failed before.
    pub(super) async fn start(
        &mut self,
        text: &Arc<str>,
        sql: &str,
        statement: Statement,
    ) -> Result<Started, Stop> {
        self.registered.cancel.begin();
        if self.status == Status::Failed && !matches!(statement, Statement::Commit | Statement::Rollback) {
            let fault = Fault::new(
                "25P02",
                "a statement of this transaction has failed: nothing is done until it ends",
            );
            return Err(fault.hint("ROLLBACK").into());
        }
        self.join_implicit(&statement).await?;
        match statement {
            Statement::Begin { .. } if self.status == Status::Open => {
                self.warn(Fault::new("25001", "a transaction is open already"));
                Ok(Started::Done("BEGIN".to_string()))
            }
            Statement::Begin { read_only } => {
                self.run(text, sql, statement).await?;
                self.status = Status::Open;
                self.note_read_only(read_only);
                self.inserted = 0;
                self.savepoints.clear();
                Ok(Started::Done("BEGIN".to_string()))
            }
            Statement::Commit => self.commit(text, sql).await,
            Statement::Rollback => {
                if self.status == Status::Idle {
                    self.warn(Fault::new("25P01", "no transaction is open"));
                }
                self.roll_back().await;
                Ok(Started::Done("ROLLBACK".to_string()))
            }
            Statement::SetTransaction { read_only: Some(read_only), session } => {
                let name = if session { DEFAULT_READ_ONLY } else { READ_ONLY };
                self.set(name, if read_only { "on" } else { "off" }).await?;
                Ok(Started::Done("SET".to_string()))
            }
            Statement::Set { name, value } if Guc::is_known(&name) => {
                self.set(&name, &value).await?;
                Ok(Started::Done("SET".to_string()))
            }
            Statement::Reset { name: Some(name) } if Guc::is_known(&name) => {
                self.set(&name, "default").await?;
                Ok(Started::Done("RESET".to_string()))
            }
            Statement::Reset { name: None } => {
                self.run(text, sql, statement).await?;
                self.settings_reset().await?;
                Ok(Started::Done("RESET".to_string()))
            }
            Statement::Discard => {
                if self.status != Status::Idle {
                    return Err(Fault::new("25001", "DISCARD ALL cannot be in a transaction").into());
                }
                self.prepared.clear();
                self.close_portals_but(|_| false);
                self.listening.leave(None);
                self.run(text, sql, statement).await?;
                self.settings_reset().await?;
                Ok(Started::Done("DISCARD ALL".to_string()))
            }
            Statement::Deallocate { ref name } => self.deallocate(text, sql, name.clone(), statement).await,
            Statement::Listen { channel } => {
                self.listen(&channel, sql).await?;
                Ok(Started::Done("LISTEN".to_string()))
            }
            Statement::Unlisten { channel } => {
                self.listening.leave(channel.as_deref());
                Ok(Started::Done("UNLISTEN".to_string()))
            }
            Statement::DeclareCursor { name, hold, query } => {
                self.declare(text, sql, name, hold, Statement::Query(query)).await
            }
            Statement::Fetch { name, rows, moves } => Ok(Started::Fetched { cursor: name, rows, moves }),
            Statement::CloseCursor { name } => self.close_cursor(name),
            Statement::CopyFrom { table, columns, end: CopyEnd::Client, options } => {
                let format = Format::of_options(&options, true)?;
                let table = self.conversation.with(|session| session.stored_name(&table)).await;
                Ok(Started::CopyIn(Box::new(CopyIn { table, columns, format })))
            }
            Statement::CopyTo { source, end: CopyEnd::Client, options } => {
                let format = Format::of_options(&options, false)?;
                let query = self.conversation.with(|session: &mut Session| session.rows_of(source)).await;
                let query = query.map_err(|error| Fault::of(error, sql))?;
                match self.run(text, sql, query).await? {
                    Answer::Rows(rows) => {
                        let reading = Box::new(Reading::new(rows, "COPY"));
                        Ok(Started::CopyOut(Box::new(CopyOut { reading, format })))
                    }
                    Answer::Done { .. } => Ok(Started::Done("COPY 0".to_string())),
                }
            }
            other => match other.shown_setting() {
                Some(name) if name == "all" || self.guc.get(&name).is_some() => Ok(self.show(&name)?),
                Some(name) if !name.contains('.') => {
                    Err(Fault::new("42704", format!("there is no setting '{name}'")).into())
                }
                _ => self.start_in_session(text, sql, other).await,
            },
        }
    }

    async fn start_in_session(
        &mut self,
        text: &Arc<str>,
        sql: &str,
        statement: Statement,
    ) -> Result<Started, Stop> {
        let kind = statement.kind();
        let is_of_session = statement.is_of_its_session() && kind != "CREATE TABLE";
        let at_once = self.status == Status::Open && !statement.only_reads() && !is_of_session;
        let mut notices = self.what_is_there(&statement).await;
        if at_once && !matches!(kind, "INSERT" | "MERGE") {
            let what = format!("{kind} is carried out at once: ROLLBACK does not take it back");
            notices.push(("WARNING", Fault::new("01000", what)));
        }
        let answer = self.run(text, sql, statement).await?;
        notices.into_iter().for_each(|(severity, notice)| self.channel.put(&notice.notice(severity)));
        Ok(match answer {
            Answer::Rows(rows) => {
                if kind == "INSERT" {
                    // Of RETURNING: how many they are shows when they are read.
                    self.inserted += 1;
                }
                let kind = if kind == "EXECUTE" { "SELECT" } else { kind };
                Started::Rows(Box::new(Reading::new(rows, kind)))
            }
            Answer::Done { tag, rows } => Started::Done(match (tag.as_str(), rows) {
                ("INSERT", Some(rows)) => {
                    self.inserted += rows;
                    format!("INSERT 0 {rows}")
                }
                ("INSERT", rows) => format!("INSERT 0 {}", rows.unwrap_or(0)),
                ("MERGE", rows) => {
                    self.inserted += rows.unwrap_or(0);
                    format!("MERGE {}", rows.unwrap_or(0))
                }
                ("TRUNCATE", _) => "TRUNCATE TABLE".to_string(),
                ("UPDATE" | "DELETE" | "COPY", rows) => format!("{tag} {}", rows.unwrap_or(0)),
                _ => tag,
            }),
        })
    }

    /// What IF EXISTS and IF NOT EXISTS pass over.
    async fn what_is_there(&self, statement: &Statement) -> Vec<(&'static str, Fault)> {
        let snapshot = self.access.snapshot().unwrap_or_default();
        let is_there = |name: &str| snapshot.table(name).is_some();
        let own = match statement {
            Statement::DropTable { names, .. } => names.as_slice(),
            Statement::CreateTable(CreateTable { name, temporary: true, .. }) => std::slice::from_ref(name),
            _ => &[],
        };
        let is_own = |session: &mut Session| own.iter().map(|name| session.has_temporary(name)).collect();
        let is_own: Vec<bool> =
            if own.is_empty() { Vec::new() } else { self.conversation.with(is_own).await };
        let there_already =
            |name: &str| ("NOTICE", Fault::new("42P07", format!("'{name}' is there already, passed over")));
        match statement {
            Statement::DropTable { names, if_exists: true, .. }
            | Statement::DropView { names, if_exists: true, .. } => {
                let is_own = |place: usize| is_own.get(place).is_some_and(|own| *own);
                let missing =
                    names.iter().enumerate().filter(|(place, name)| !is_own(*place) && !is_there(name));
                let notice = |name| Fault::new("00000", format!("'{name}' does not exist, passed over"));
                missing.map(|(_, name)| ("NOTICE", notice(name))).collect()
            }
            Statement::CreateTable(CreateTable { name, if_not_exists: true, temporary, .. })
                if if *temporary { is_own == [true] } else { is_there(name) } =>
            {
                vec![there_already(name)]
            }
            Statement::CreateView(CreateView { name, if_not_exists: true, .. }) if is_there(name) => {
                vec![there_already(name)]
            }
            Statement::CreateMaterializedView(view) if view.if_not_exists && is_there(&view.name) => {
                vec![there_already(&view.name)]
            }
            _ => Vec::new(),
        }
    }

    /// Runs a statement in the session.
    ///
    /// # Errors
    /// Where it fails, and where the client goes or cancels it.
    pub(super) async fn run(
        &mut self,
        text: &Arc<str>,
        sql: &str,
        statement: Statement,
    ) -> Result<Answer, Stop> {
        let answer = self.run_unless_cancelled(text, statement).await?;
        Ok(answer.map_err(|error| Fault::of(error, sql))?)
    }

    /// COMMIT: of a transaction that failed, its end without what it did.
    async fn commit(&mut self, text: &Arc<str>, sql: &str) -> Result<Started, Stop> {
        match self.status {
            Status::Failed => {
                self.roll_back().await;
                return Ok(Started::Done("ROLLBACK".to_string()));
            }
            Status::Idle | Status::Implicit => {
                self.warn(Fault::new("25P01", "no transaction is open"));
                return Ok(Started::Done("COMMIT".to_string()));
            }
            Status::Open => {}
        }
        // Whatever comes of it, the transaction is over; it is not broken off half-way.
        self.status = Status::Idle;
        self.note_read_only(None);
        self.close_portals();
        let committed = self.conversation.run(&self.shared, Arc::clone(text), Statement::Commit, None).await;
        committed.map_err(|error| Fault::of(error, sql))?;
        Ok(Started::Done("COMMIT".to_string()))
    }

    /// Ends a transaction, where one is open, without what it did.
    pub(super) async fn roll_back(&mut self) {
        self.status = Status::Idle;
        self.note_read_only(None);
        self.close_portals();
        // A statement that was broken off may have taken the transaction with it.
        let _ = self.conversation.run(&self.shared, "ROLLBACK".into(), Statement::Rollback, None).await;
    }

    /// DEALLOCATE of what either protocol has prepared.
    async fn deallocate(
        &mut self,
        text: &Arc<str>,
        sql: &str,
        name: Option<String>,
        statement: Statement,
    ) -> Result<Started, Stop> {
        let tag = if name.is_none() { "DEALLOCATE ALL" } else { "DEALLOCATE" };
        match name {
            Some(name) if self.prepared.remove(&name).is_some() => {}
            name => {
                if name.is_none() {
                    self.prepared.clear();
                }
                self.run(text, sql, statement).await?;
            }
        }
        Ok(Started::Done(tag.to_string()))
    }

    pub(super) fn warn(&mut self, fault: Fault) {
        self.channel.put(&fault.notice("WARNING"));
    }

    pub(super) fn complete(&mut self, tag: String) {
        self.channel.put(&CommandComplete::new(tag));
    }

    /// Sends rows until there are so many or no more; how many, and whether there are more.
    ///
    /// # Errors
    /// Those of the statement, and where the client goes or cancels it.
    pub(super) async fn send_rows(
        &mut self,
        reading: &mut Reading,
        formats: &Formats,
        most: u64,
    ) -> Result<(u64, bool), Stop> {
        let (mut sent, digits, is_done) = (0, self.guc.digits(), reading.is_done());
        while sent < most {
            let is_live = matches!(reading.kind, "SUBSCRIBE" | "REPLAY");
            let mut stopping = self.stopping.clone();
            let filled = tokio::select! {
                biased;
                _ = stopping.wait_for(|stops| *stops), if is_live => {
                    return Err(Fault::new("57P01", "the server is stopping").into());
                }
                filled = Self::while_wanted(&mut self.channel, &self.registered, is_done, reading.fill()) => filled,
            };
            if !filled?? {
                for what in reading.warnings() {
                    self.channel.put(&Fault::new("01000", what).notice("WARNING"));
                }
                return Ok((sent, false));
            }
            sent += reading.put(&mut self.channel, formats, digits, most - sent)?;
            match is_live {
                // Its rows come one by one, and are wanted at once.
                true => self.channel.send().await?,
                false => self.channel.send_much().await?,
            }
        }
        Ok((sent, true))
    }
}

/// The tag of a statement that gave rows.
pub(super) fn tag_of_rows(kind: &str, rows: u64) -> String {
    match kind {
        "SHOW" | "EXPLAIN" => kind.to_string(),
        "INSERT" => format!("INSERT 0 {rows}"),
        _ => format!("{kind} {rows}"),
    }
}

//! SUBSCRIBE: the rows of a table as they come, as a statement whose rows do not end.
//!
//! ```text
//! FROM BEGINNING: a query over the rows there are, in order of time ─┐
//! AFTER:          the tape from a position on ───────────────────────┼─► the mailbox of the hub ─► messages
//! FROM NOW: ─────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! - each change after the place it begins at is heard once, in the order of the tape, when it is on stable storage;
//! - the position of a message says how far all before it, and itself, go: who resumes there misses and repeats nothing;
//! - who is slow keeps a bounded number of rows waiting, and then reads the tape.

mod bars;
mod messages;
mod options;
mod replay;
mod rows;
mod stages;
mod token;

use crate::dialect::{Subscribe, SubscribeFrom};
use crate::error::{ErrorKind, QueryError, Result};
use crate::live::{self, Hub, Item, Mailbox, What};
use crate::running::QueryProgress;
use crate::session::{Outcome, Session};
use bars::Bars;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use messages::{Event, Message};
use options::{Options, Slow};
pub(super) use replay::replay;
use rows::Loading;
use sqlparser::ast;
use stages::Stages;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_engine::{Engine, EngineError, FollowFrom, Follower, Happened, Heard, Snapshot, TableSnapshot};
use token::Token;

/// How long a reading of the tape waits for more, when it has caught up.
const PATIENCE: Duration = Duration::from_millis(5);

/// SUBSCRIBE.
pub(super) async fn run(session: &mut Session, subscribe: Subscribe) -> Result<Outcome> {
    let begun = Instant::now();
    if session.engine().is_read_only() {
        let error = QueryError::request("a database that is open for reading only has no subscriptions");
        return Err(error.hint("subscribe where it is written: in that process, or at its server"));
    }
    let options = Options::parse(&subscribe.options)?;
    let statement = ast::Statement::Query(subscribe.query.clone());
    let (plan, columns) = session.analyzed(statement).await?;
    let database = session.database().clone();
    let work = match Bars::of(&plan, session, &subscribe.query)? {
        Some(bars) => Work::Bars(Box::new(bars)),
        None => Work::Rows(Stages::of(&plan, session, &database)?.for_slow(options.slow)),
    };
    let output = match &work {
        Work::Rows(stages) => Arc::clone(stages.output()),
        Work::Bars(_) => columns,
    };
    let schema = live::message_schema(&output);
    let table = Arc::clone(work.table());
    let (engine, hub) = (session.engine().clone(), Arc::clone(database.hub()));
    let mut subscription = Subscription {
        engine,
        hub,
        work,
        options,
        schema: Arc::clone(&schema),
        at: Token::default(),
        newest: None,
        phase: Phase::Over,
        todo: VecDeque::new(),
        out: VecDeque::new(),
        loading: None,
        idle: false,
        conflating: false,
        last: Instant::now(),
    };
    subscription.begin(session, &subscribe, &table).await?;
    let adapted = Arc::clone(&schema);
    let rows = futures::stream::unfold(Some(subscription), |state| async {
        let mut subscription = state?;
        match subscription.next().await {
            Ok(batch) => Some((Ok(batch), Some(subscription))),
            Err(error) => Some((Err(DataFusionError::External(Box::new(error))), None)),
        }
    });
    let stream = Box::pin(RecordBatchStreamAdapter::new(adapted, rows));
    let progress = QueryProgress::default();
    Ok(Outcome::Rows { schema, stream, planning: begun.elapsed(), progress })
}

/// What a subscription makes of what happens.
enum Work {
    Rows(Stages),
    Bars(Box<Bars>),
}

impl Work {
    fn table(&self) -> &Arc<TableSnapshot> {
        match self {
            Work::Rows(stages) => stages.table(),
            Work::Bars(bars) => bars.table(),
        }
    }

    fn mailbox(&self) -> Arc<Mailbox> {
        match self {
            Work::Rows(stages) => Mailbox::new(stages.table().id(), stages.symbols().cloned()),
            Work::Bars(bars) => Mailbox::new(bars.table().id(), None),
        }
    }
}

/// One subscription under way.
struct Subscription {
    engine: Engine,
    hub: Arc<Hub>,
    work: Work,
    options: Options,
    schema: SchemaRef,
    /// All up to here was handled.
    at: Token,
    /// The newest time of the table's rows, while the tape is read.
    newest: Option<i64>,
    phase: Phase,
    /// What was heard and not handled.
    todo: VecDeque<Item>,
    /// Messages to be given out.
    out: VecDeque<Message>,
    loading: Option<Loading>,
    /// The last reading of the tape brought nothing.
    idle: bool,
    /// More rows waited than may: the newest of each series are given.
    conflating: bool,
    /// When the last message was given.
    last: Instant,
}

/// Where what is heard comes from.
enum Phase {
    /// Rows that were there, up to the position of the subscription.
    Beginning(SendableRecordBatchStream),
    /// The tape; once close to its end with a mailbox, which gets what comes after a position.
    Behind(Box<Follower>, Option<(Arc<Mailbox>, u64)>),
    Live(Arc<Mailbox>),
    Over,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Subscription {
    /// Takes its mailbox out of the hub, if it has one.
    fn leave(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Live(mailbox) | Phase::Behind(_, Some((mailbox, _))) => self.hub.leave(&mailbox),
            _ => {}
        }
    }

    async fn begin(
        &mut self,
        session: &mut Session,
        subscribe: &Subscribe,
        table: &Arc<TableSnapshot>,
    ) -> Result<()> {
        let asked = match &subscribe.from {
            SubscribeFrom::After(text) => Some(Token::parse(text)?),
            _ => None,
        };
        let newest_of = |snapshot: &Snapshot, as_of: Option<u64>| {
            let now = snapshot.tables().find(|now| now.id() == table.id())?;
            match as_of {
                Some(position) => now.newest_as_of(position),
                None => now.partitions().times().map(|(_, newest)| newest),
            }
        };
        let newest = match (&subscribe.from, asked) {
            (SubscribeFrom::Beginning, _) => {
                let stream = match &mut self.work {
                    Work::Rows(_) => {
                        session.start(ast::Statement::Query(in_order(&subscribe.query, table)?)).await?.1
                    }
                    Work::Bars(bars) => bars.those_closed(session).await?,
                };
                let snapshot = session.full_snapshot();
                self.at.position = snapshot.position();
                // Its rows may be seen by queries already, but are told when they are stable.
                let position = self.at.position;
                session.blocking(move |engine| engine.settle(position)).await?;
                self.phase = Phase::Beginning(stream);
                newest_of(&snapshot, None)
            }
            // Another table had its name.
            (_, Some(token)) if table.created_at() > token.position => {
                return Err(rows::gone(table.schema().name()));
            }
            (_, Some(token)) => {
                let follower =
                    self.engine.follow(FollowFrom::After(token.position)).map_err(position_error)?;
                self.at = token;
                let newest = newest_of(&session.full_snapshot(), Some(token.position));
                self.newest = newest;
                self.phase = Phase::Behind(Box::new(follower), None);
                newest
            }
            (_, None) => {
                let mailbox = self.work.mailbox();
                self.hub.register(&self.engine, &mailbox)?;
                self.phase = Phase::Live(mailbox);
                let snapshot = self.engine.snapshot();
                self.at.position = snapshot.position();
                newest_of(&snapshot, None)
            }
        };
        if let Work::Bars(bars) = &mut self.work {
            self.at.closed_to = bars.begin(self.at.closed_to, newest);
        }
        // Its state would be kept for as long as it is listened to.
        session.let_go();
        let detail = format!("{{\"oldest\":\"{}\"}}", self.engine.oldest_position()?);
        match self.phase {
            // Who resumed before all that was there is told would miss the rest of it.
            Phase::Beginning(_) => self.out.push_back(Message::untimely(Event::Subscribed, Some(detail))),
            _ => self.tell(Event::Subscribed, Some(detail)),
        }
        Ok(())
    }

    /// The next message.
    async fn next(&mut self) -> Result<RecordBatch> {
        loop {
            if let Some(message) = self.out.pop_front() {
                self.last = Instant::now();
                return message.into_batch(&self.schema);
            }
            if !self.todo.is_empty() {
                self.handle().await?;
                continue;
            }
            let due = (self.last + self.options.heartbeat).saturating_duration_since(Instant::now());
            match &mut self.phase {
                Phase::Beginning(stream) => match stream.next().await {
                    Some(batch) => self.out.push_back(Message::rows(Event::Insert, None, batch?)),
                    None => {
                        let from = FollowFrom::After(self.at.position);
                        let follower = self.engine.follow(from).map_err(|error| {
                            let hint = "reading what was there took longer than the tape is kept: raise tape_keep_bytes";
                            position_error(error).hint(hint)
                        })?;
                        self.newest = self.newest_now();
                        self.phase = Phase::Behind(Box::new(follower), None);
                        self.tell(Event::CaughtUp, None);
                    }
                },
                Phase::Behind(..) => {
                    self.read_on(due).await?;
                    if due.is_zero() && self.todo.is_empty() {
                        self.tell(Event::Heartbeat, None);
                    }
                }
                Phase::Live(mailbox) => {
                    let mailbox = Arc::clone(mailbox);
                    let timely = tokio::time::timeout(due, mailbox.ready()).await.is_ok();
                    let told = self.hub.position();
                    let taken = mailbox.take();
                    if !timely && taken.items.is_empty() && taken.error.is_none() && taken.full.is_none() {
                        self.at = Token { position: self.at.position.max(told), done: 0, ..self.at };
                        self.tell(Event::Heartbeat, None);
                    }
                    if let Some(error) = taken.error {
                        return Err(error);
                    }
                    self.conflating = false;
                    if taken.waited > self.options.queue {
                        self.too_slow(taken.waited)?;
                    }
                    self.todo = taken.items.into();
                    if let Some(position) = taken.full {
                        self.hub.leave(&mailbox);
                        let from = FollowFrom::After(position.max(self.at.position));
                        let follower = self.engine.follow(from).map_err(position_error)?;
                        self.newest = self.newest_now();
                        self.phase = Phase::Behind(Box::new(follower), None);
                    }
                }
                Phase::Over => return Err(QueryError::request("the subscription is over")),
            }
        }
    }

    fn newest_now(&self) -> Option<i64> {
        let snapshot = self.engine.snapshot();
        let table = snapshot.tables().find(|table| table.id() == self.work.table().id());
        table.and_then(|table| table.newest_as_of(self.at.position))
    }

    /// More rows wait than may.
    fn too_slow(&mut self, waited: usize) -> Result<()> {
        match self.options.slow {
            Slow::Conflate => {
                self.conflating = true;
                Ok(())
            }
            Slow::Cut => {
                let message = format!(
                    "the subscription was cut: {waited} rows waited for its reader, of at most {} (queue)",
                    self.options.queue
                );
                let hint = format!(
                    "go on with AFTER '{}'; a larger queue, or slow = 'conflate', waits longer",
                    self.at
                );
                Err(QueryError::new(ErrorKind::Retry, message).hint(hint))
            }
        }
    }

    /// Reads the tape.
    async fn read_on(&mut self, due: Duration) -> Result<()> {
        let Phase::Behind(mut follower, mailbox) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Ok(());
        };
        // What comes next may not be stable yet.
        let patience = if mailbox.is_some() || self.idle { due.min(PATIENCE) } else { Duration::ZERO };
        let read = tokio::task::spawn_blocking(move || {
            let news = follower.next(patience);
            (follower, news)
        });
        let (follower, news) = read.await.map_err(|error| {
            QueryError::new(ErrorKind::Report, format!("a subscription was cut short: {error}"))
        })?;
        let reached = follower.position();
        let news = match news {
            Ok(news) => news,
            Err(error) => {
                if let Some((mailbox, _)) = &mailbox {
                    self.hub.leave(mailbox);
                }
                return Err(position_error(error));
            }
        };
        self.idle = news.heard.is_empty();
        for heard in news.heard {
            self.add(heard);
        }
        self.todo.push_back(Item { position: reached, what: What::Reached });
        self.phase = match mailbox {
            Some((mailbox, since)) if reached >= since => Phase::Live(mailbox),
            Some(registered) => Phase::Behind(follower, Some(registered)),
            // The hub may be ahead, or behind.
            None if reached >= self.hub.position() => {
                let mailbox = self.work.mailbox();
                let since = self.hub.register(&self.engine, &mailbox)?;
                match reached >= since {
                    true => Phase::Live(mailbox),
                    false => Phase::Behind(follower, Some((mailbox, since))),
                }
            }
            None => Phase::Behind(follower, None),
        };
        Ok(())
    }

    /// Adds what a frame did to the table to what is to be handled.
    fn add(&mut self, heard: Arc<Heard>) {
        let id = self.work.table().id();
        for (place, change) in heard.changes.iter().enumerate().filter(|(_, change)| change.table == id) {
            let newest = match &change.what {
                Happened::Rows(rows) => {
                    rows.pieces().iter().filter_map(|piece| piece.times()?.last().copied()).max()
                }
                Happened::Loaded(table) => table.partitions().times().map(|(_, newest)| newest),
                _ => None,
            };
            if let Some(newest) = newest {
                if let Some(began) = live::day_began(self.newest, newest) {
                    self.todo.push_back(Item { position: heard.position, what: What::DayBegan(began) });
                }
                self.newest = self.newest.max(Some(newest));
            }
            let what = What::Change { heard: Arc::clone(&heard), place, rows: None };
            self.todo.push_back(Item { position: heard.position, what });
        }
    }

    /// Handles something of what was heard.
    async fn handle(&mut self) -> Result<()> {
        let Some(item) = self.todo.front() else { return Ok(()) };
        // What a mailbox had got before it was its turn.
        let is_change = !matches!(item.what, What::Sealed(_));
        if is_change && item.position <= self.at.position {
            self.todo.pop_front();
            return Ok(());
        }
        match &item.what {
            What::Reached => {
                let position = item.position;
                self.todo.pop_front();
                self.at = Token { position, done: 0, ..self.at };
            }
            What::Sealed(sealed) => {
                let range = sealed.partition;
                let detail = format!(
                    "{{\"from\":\"{}\",\"to\":\"{}\",\"rows\":{}}}",
                    messages::instant(range.from),
                    messages::instant(range.to),
                    sealed.rows
                );
                self.todo.pop_front();
                self.tell(Event::Sealed, Some(detail));
            }
            What::DayBegan(began) => {
                let detail = format!("{{\"began\":\"{}\"}}", messages::instant(*began));
                self.todo.pop_front();
                self.tell(Event::EndOfDay, Some(detail));
            }
            What::Change { .. } => match &self.work {
                Work::Rows(_) => self.handle_rows()?,
                Work::Bars(_) => self.handle_bars().await?,
            },
        }
        Ok(())
    }

    /// A message without rows.
    fn tell(&mut self, event: Event, detail: Option<String>) {
        self.out.push_back(Message::event(event, self.at, detail));
    }
}

/// The rows that a query reads of a table, in order of time.
fn in_order(query: &ast::Query, table: &TableSnapshot) -> Result<Box<ast::Query>> {
    let mut query = Box::new(query.clone());
    let schema = table.schema();
    if let Some(time) = schema.timestamp() {
        crate::dialect::in_order_of(&mut query, schema.name(), &schema.columns()[time].name)?;
    }
    Ok(query)
}

/// An error of following the tape, with what a subscriber can do.
fn position_error(error: EngineError) -> QueryError {
    let hint = match &error {
        EngineError::PositionGone { oldest, .. } => {
            Some(format!("AFTER '{oldest}' is the oldest that can be; FROM BEGINNING begins anew"))
        }
        EngineError::PositionAhead { .. } => Some("FROM BEGINNING begins anew".to_string()),
        _ => None,
    };
    let error: QueryError = error.into();
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

//! The extended protocol: statements are parsed, given values, described and carried out by messages of their own.

use super::connection::{Connection, Status, Stop};
use super::error::Fault;
use super::execute::Started;
use super::parameters::{self, Wanted};
use super::portal::{Formats, Portal, Prepared, Reading, State};
use super::savepoints::Savepoint;
use super::types;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::EmptyQueryResponse;
use std::sync::Arc;
use tickstone_query::arrow::datatypes::DataType;
use tickstone_query::dialect::Statement;
use tickstone_query::{Description, ParameterValue, Parameters, widen_floats};

/// Most prepared statements of a connection.
const PREPARED_MAX: usize = 10_000;

impl Connection {
    pub(super) async fn parse(&mut self, message: Parse) -> Result<(), Stop> {
        let name = message.name.unwrap_or_default();
        if !name.is_empty() && self.prepared.contains_key(&name) {
            return Err(Fault::new("42P05", format!("there is a prepared statement {name} already")).into());
        }
        if self.prepared.len() >= PREPARED_MAX {
            let what = format!("a connection has at most {PREPARED_MAX} prepared statements");
            return Err(Fault::new("53000", what).hint("DEALLOCATE ALL forgets them").into());
        }
        let text: Arc<str> = message.query.into();
        let savepoint = Savepoint::parse(&text);
        let sql = if savepoint.is_some() { "" } else { text.as_ref() };
        let parsed = self.shared.database.parse_with_texts(sql).map_err(|error| Fault::of(error, &text))?;
        let mut parsed = parsed.into_iter().map(|(_, statement)| statement);
        let mut statement = parsed.next();
        statement.iter_mut().for_each(widen_floats);
        if parsed.next().is_some() {
            return Err(Fault::new("42601", "a prepared statement is one statement, not several").into());
        }
        let prepared = Prepared::new(text, statement, savepoint, message.type_oids);
        self.prepared.insert(name, Arc::new(prepared));
        self.channel.put(&ParseComplete::new());
        Ok(())
    }

    fn prepared(&self, name: Option<&str>) -> Result<Arc<Prepared>, Stop> {
        let name = name.unwrap_or_default();
        match self.prepared.get(name) {
            Some(prepared) => Ok(Arc::clone(prepared)),
            None => Err(Fault::new("26000", format!("there is no prepared statement '{name}'")).into()),
        }
    }

    /// What a prepared statement takes and gives, found out once.
    async fn description(&self, prepared: &Prepared) -> Result<Arc<Description>, Stop> {
        if let Some(known) = prepared.description.get() {
            return Ok(Arc::clone(known));
        }
        let described = self.described(prepared).await?;
        Ok(Arc::clone(prepared.description.get_or_init(|| Arc::new(described))))
    }

    /// What it takes and gives now.
    async fn described(&self, prepared: &Prepared) -> Result<Description, Stop> {
        match &prepared.statement {
            // What the connection itself carries out takes nothing.
            Some(statement) if !self.takes_nothing(statement) => {
                let (statement, given) = (statement.clone(), prepared.given.clone());
                let described = self.conversation.describe(&self.shared, statement, given).await;
                Ok(described.map_err(|error| Fault::of(error, &prepared.text))?)
            }
            _ => Ok(Description { parameters: Vec::new(), rows: None }),
        }
    }

    fn takes_nothing(&self, statement: &Statement) -> bool {
        let declares = matches!(statement, Statement::DeclareCursor { .. });
        (statement.is_of_its_connection() && !declares) || self.shown(statement)
    }

    /// Whether a statement shows a setting of the connection.
    fn shown(&self, statement: &Statement) -> bool {
        statement.shown_setting().is_some_and(|name| name == "all" || self.guc.get(&name).is_some())
    }

    pub(super) async fn bind(&mut self, message: Bind) -> Result<(), Stop> {
        let prepared = self.prepared(message.statement_name.as_deref())?;
        let count = message.parameters.len();
        // A text of a known type says all; anything else is read by the type of the place where it stands.
        let known = (0..count).all(|place| prepared.given.get(place).is_some_and(Option::is_some));
        let inferred = match known {
            true => None,
            false => self.description(&prepared).await.ok(),
        };
        let type_of = |place: usize| {
            let given = prepared.given.get(place).and_then(Option::as_ref);
            given.or_else(|| inferred.as_ref()?.parameters.get(place)).unwrap_or(&DataType::Utf8)
        };
        let formats = Formats(message.parameter_format_codes);
        let values = message.parameters.iter().enumerate().map(|(place, bytes)| {
            let oid = prepared.oids.get(place).copied().unwrap_or_default();
            let wanted = Wanted { place: place + 1, oid, data_type: type_of(place) };
            parameters::value(bytes.as_ref(), wanted, formats.of(place) == 1)
        });
        let values = values.collect::<Result<Vec<ParameterValue>, Fault>>()?;
        let statement = match &prepared.statement {
            None => None,
            Some(statement) => {
                let mut bound = [statement.clone()];
                let parameters = if count == 0 { Parameters::None } else { Parameters::Positional(values) };
                let wrong = |error| Fault::of(error, &prepared.text);
                parameters.bind(&mut bound).map_err(wrong)?;
                let [bound] = bound;
                Some(Box::new(bound))
            }
        };
        let portal = Portal {
            text: Arc::clone(&prepared.text),
            prepared: Some(Arc::clone(&prepared)),
            formats: Formats(message.result_column_format_codes),
            state: match &prepared.savepoint {
                Some(savepoint) => State::Savepoint(savepoint.clone()),
                None => State::Ready(statement),
            },
            hold: false,
            entitled: None,
        };
        let name = message.portal_name.unwrap_or_default();
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(Fault::new("42P03", format!("there is a portal '{name}' already")).into());
        }
        self.close_portal(&name);
        self.keep(name, portal)?;
        self.channel.put(&BindComplete::new());
        Ok(())
    }

    pub(super) async fn describe(&mut self, message: Describe) -> Result<(), Stop> {
        if message.target_type == TARGET_TYPE_BYTE_STATEMENT {
            let prepared = self.prepared(message.name.as_deref())?;
            let description = self.description(&prepared).await?;
            let oids = description.parameters.iter().enumerate().map(|(place, data_type)| {
                let given = prepared.oids.get(place).copied().filter(|oid| *oid != 0);
                given.unwrap_or_else(|| types::of_parameter(data_type).oid())
            });
            let oids = oids.collect();
            self.channel.put(&ParameterDescription::new(oids));
            match (&description.rows, &prepared.statement) {
                (Some(schema), _) => self.channel.put(&Formats::default().description(schema)),
                (None, Some(Statement::Fetch { name, moves: false, .. })) => {
                    self.describe_cursor(name, &Formats::default())?;
                }
                (None, Some(statement)) if self.shown(statement) => {
                    let name = statement.shown_setting().unwrap_or_default();
                    self.channel.put(&Formats::default().description(&super::settings::shown_schema(&name)));
                }
                _ => self.channel.put(&NoData::new()),
            }
            return Ok(());
        }
        let name = message.name.unwrap_or_default();
        let mut portal = self.portal(&name)?;
        // Rows are known once their query has begun, which it will anyway.
        let begun = self.begin_portal(&mut portal, true).await;
        let described = begun.and_then(|()| self.describe_portal(&portal));
        self.portals.insert(name, portal);
        described
    }

    fn describe_portal(&mut self, portal: &Portal) -> Result<(), Stop> {
        match &portal.state {
            State::Rows(reading) => {
                portal.prepared.iter().for_each(|prepared| prepared.tell(reading.schema()));
                self.channel.put(&portal.formats.description(reading.schema()));
                return Ok(());
            }
            State::Ready(Some(statement)) => {
                if let Statement::Fetch { name, moves: false, .. } = statement.as_ref() {
                    return self.describe_cursor(name, &portal.formats);
                }
            }
            _ => {}
        }
        self.channel.put(&NoData::new());
        Ok(())
    }

    /// The columns that FETCH gives.
    fn describe_cursor(&mut self, name: &str, formats: &Formats) -> Result<(), Stop> {
        match self.portals.get(name).map(|cursor| &cursor.state) {
            Some(State::Rows(reading)) => {
                let description = formats.description(reading.schema());
                self.channel.put(&description);
            }
            Some(_) => self.channel.put(&NoData::new()),
            None => return Err(Fault::new("34000", format!("there is no cursor {name}")).into()),
        }
        Ok(())
    }

    /// Takes a portal out, to be put back.
    fn portal(&mut self, name: &str) -> Result<Portal, Stop> {
        let missing = || Fault::new("34000", format!("there is no portal '{name}'"));
        Ok(self.portals.remove(name).ok_or_else(missing)?)
    }

    /// Begins the statement of a portal where it reads rows; `describes` where the client is told of its columns then.
    async fn begin_portal(&mut self, portal: &mut Portal, describes: bool) -> Result<(), Stop> {
        let State::Ready(Some(statement)) = &portal.state else { return Ok(()) };
        if !statement.gives_rows() {
            return Ok(());
        }
        let State::Ready(Some(statement)) = std::mem::replace(&mut portal.state, State::Done(String::new()))
        else {
            return Ok(());
        };
        let text = Arc::clone(&portal.text);
        if statement.returns_rows() {
            // What it stores stays stored: whether its rows are as was told is found before.
            if let Some(prepared) = portal.prepared.as_ref().filter(|_| !describes)
                && let Some(told) = prepared.told()
            {
                let now = self.described(prepared).await?.rows;
                if !now.is_some_and(|now| types::are_alike(&told, &now)) {
                    return Err(Fault::outdated().into());
                }
            }
            if self.status == Status::Idle && statement.inserts_values() {
                self.begin_implicit().await?;
            }
        }
        portal.entitled = self.conversation.with(|session| session.entitlement(&statement)).await?;
        if let Started::Rows(mut reading) = self.start(&text, &text, *statement).await? {
            if let Some(prepared) = &portal.prepared {
                self.hold_to_what_was_told(prepared, &mut reading, describes).await?;
            }
            portal.state = State::Rows(reading);
        }
        Ok(())
    }

    /// Has rows come as the client takes them to be: where only the value of a parameter makes them differ, they are cast.
    ///
    /// # Errors
    /// Where what it reads has changed since, and the client is not told now.
    async fn hold_to_what_was_told(
        &self,
        prepared: &Prepared,
        reading: &mut Reading,
        describes: bool,
    ) -> Result<(), Stop> {
        let Some(told) = prepared.told().filter(|told| !types::are_alike(told, reading.schema())) else {
            return Ok(());
        };
        let now = self.described(prepared).await.ok().and_then(|described| described.rows);
        match now.is_some_and(|now| types::are_alike(&told, &now)) {
            true => reading.tell(told),
            false if describes => {}
            false => return Err(Fault::outdated().into()),
        }
        Ok(())
    }

    pub(super) async fn execute(&mut self, message: Execute) -> Result<(), Stop> {
        let name = message.name.unwrap_or_default();
        let mut portal = self.portal(&name)?;
        let most = u64::try_from(message.max_rows).ok().filter(|most| *most > 0).unwrap_or(u64::MAX);
        let done = self.execute_portal(&mut portal, most).await;
        if self.status != Status::Failed {
            self.portals.insert(name, portal);
        }
        done
    }

    async fn execute_portal(&mut self, portal: &mut Portal, most: u64) -> Result<(), Stop> {
        match &portal.state {
            State::Rows(_) => portal.check()?,
            _ => self.begin_portal(portal, false).await?,
        }
        match std::mem::replace(&mut portal.state, State::Done("SELECT 0".to_string())) {
            State::Rows(reading) => self.read_on(portal, reading, most).await?,
            State::Done(tag) => self.complete(tag),
            State::Savepoint(savepoint) => {
                let tag = self.savepoint(&savepoint)?;
                self.complete(tag.to_string());
            }
            State::Ready(None) => {
                portal.state = State::Ready(None);
                self.channel.put(&EmptyQueryResponse::new());
            }
            State::Ready(Some(statement)) => {
                if self.status == Status::Idle && statement.inserts_values() {
                    self.begin_implicit().await?;
                }
                let (text, formats) = (Arc::clone(&portal.text), portal.formats.clone());
                match self.start(&text, &text, *statement).await? {
                    Started::Rows(reading) => self.read_on(portal, reading, most).await?,
                    Started::Fetched { cursor, rows, moves } => {
                        self.fetch(&cursor, rows, moves, Some(&formats)).await?;
                    }
                    Started::CopyIn(copy) => {
                        let tag = self.copy_in(*copy).await?;
                        self.complete(tag);
                    }
                    Started::CopyOut(copy) => {
                        let tag = self.copy_out(*copy).await?;
                        self.complete(tag);
                    }
                    Started::Done(tag) => {
                        portal.state = State::Done(tag.clone());
                        self.complete(tag);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends rows of a portal up to a number.
    async fn read_on(
        &mut self,
        portal: &mut Portal,
        mut reading: Box<Reading>,
        most: u64,
    ) -> Result<(), Stop> {
        let (sent, more) = self.send_rows(&mut reading, &portal.formats, most).await?;
        if more {
            portal.state = State::Rows(reading);
            self.channel.put(&PortalSuspended::new());
        } else {
            let tag = super::execute::tag_of_rows(reading.kind, sent);
            portal.state = State::Done(super::execute::tag_of_rows(reading.kind, 0));
            self.complete(tag);
        }
        Ok(())
    }

    pub(super) fn close(&mut self, message: &Close) -> Result<(), Stop> {
        let name = message.name.as_deref().unwrap_or_default();
        if message.target_type == TARGET_TYPE_BYTE_STATEMENT {
            self.prepared.remove(name);
        } else {
            self.close_portal(name);
        }
        self.channel.put(&CloseComplete::new());
        Ok(())
    }
}

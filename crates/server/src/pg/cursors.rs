//! Cursors: DECLARE, FETCH, MOVE and CLOSE. A cursor is a portal whose rows are asked for by statements.

use super::connection::{Connection, Status, Stop};
use super::error::Fault;
use super::execute::Started;
use super::portal::{Formats, Portal, Reading, State};
use crate::statement::Answer;
use std::sync::Arc;
use tickstone_query::dialect::Statement;

/// Most cursors and portals of a connection.
const PORTALS_MAX: usize = 1_000;

impl Connection {
    /// DECLARE: the query begins, and its rows wait.
    pub(super) async fn declare(
        &mut self,
        text: &Arc<str>,
        sql: &str,
        name: String,
        hold: bool,
        query: Statement,
    ) -> Result<Started, Stop> {
        if self.status != Status::Open && !hold {
            let fault = Fault::new("25P01", "a cursor ends with its transaction, and none is open");
            return Err(fault.hint("BEGIN first, or DECLARE … CURSOR WITH HOLD").into());
        }
        if self.portals.contains_key(&name) {
            return Err(Fault::new("42P03", format!("there is a cursor {name} already")).into());
        }
        let entitled = self.conversation.with(|session| session.entitlement(&query)).await?;
        if let Answer::Rows(rows) = self.run(text, sql, query).await? {
            let state = State::Rows(Box::new(Reading::new(rows, "FETCH")));
            let (text, formats) = (Arc::clone(text), Formats::default());
            self.keep(name, Portal { text, prepared: None, formats, state, hold, entitled })?;
        }
        Ok(Started::Done("DECLARE CURSOR".to_string()))
    }

    /// Keeps a portal by its name.
    ///
    /// # Errors
    /// Where there are too many.
    pub(super) fn keep(&mut self, name: String, portal: Portal) -> Result<(), Stop> {
        if self.portals.len() >= PORTALS_MAX && !self.portals.contains_key(&name) {
            let what = format!("a connection has at most {PORTALS_MAX} cursors and portals");
            return Err(Fault::new("53000", what).hint("CLOSE ALL closes them").into());
        }
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Sends rows of a cursor, or passes over them. A client of the extended protocol knows the columns, and says their
    /// formats.
    ///
    /// # Errors
    /// Where there is no such cursor, and those of its query.
    pub(super) async fn fetch(
        &mut self,
        cursor: &str,
        rows: Option<u64>,
        moves: bool,
        formats: Option<&Formats>,
    ) -> Result<(), Stop> {
        let missing = || Fault::new("34000", format!("there is no cursor {cursor}"));
        // Taken out while it is read: its rows and the connection are used together.
        let mut portal = self.portals.remove(cursor).ok_or_else(missing)?;
        let fetched = self.fetch_from(&mut portal, rows, moves, formats).await;
        self.portals.insert(cursor.to_string(), portal);
        let count = fetched?;
        self.complete(format!("{} {count}", if moves { "MOVE" } else { "FETCH" }));
        Ok(())
    }

    async fn fetch_from(
        &mut self,
        portal: &mut Portal,
        rows: Option<u64>,
        moves: bool,
        formats: Option<&Formats>,
    ) -> Result<u64, Stop> {
        portal.check()?;
        let State::Rows(reading) = &mut portal.state else { return Ok(0) };
        let most = rows.unwrap_or(u64::MAX);
        if moves {
            let mut passed = 0;
            while passed < most
                && Self::while_wanted(&mut self.channel, &self.registered, false, reading.fill()).await??
            {
                passed += reading.skip(most - passed);
            }
            return Ok(passed);
        }
        let formats = match formats {
            Some(formats) => formats,
            None => {
                self.channel.put(&portal.formats.description(reading.schema()));
                &portal.formats
            }
        };
        Ok(self.send_rows(reading, formats, most).await?.0)
    }

    /// CLOSE.
    pub(super) fn close_cursor(&mut self, name: Option<String>) -> Result<Started, Stop> {
        match name {
            None => self.close_portals_but(|_| false),
            Some(name) => {
                let missing = || Fault::new("34000", format!("there is no cursor {name}"));
                self.portals.remove(&name).ok_or_else(missing)?.leave();
            }
        }
        Ok(Started::Done("CLOSE CURSOR".to_string()))
    }

    /// Closes what ends with a transaction.
    pub(super) fn close_portals(&mut self) {
        self.close_portals_but(|portal| portal.hold);
    }

    /// Closes all that are not to stay.
    pub(super) fn close_portals_but(&mut self, stays: impl Fn(&Portal) -> bool) {
        self.portals.retain(|_, portal| {
            let stays = stays(portal);
            if !stays {
                portal.leave();
            }
            stays
        });
    }

    /// Closes one, where it is there.
    pub(super) fn close_portal(&mut self, name: &str) {
        self.portals.remove(name).iter().for_each(Portal::leave);
    }
}

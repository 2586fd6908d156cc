//! The one owner of what runs beside statements for a directory: tables parsed from streams, and the hub of subscriptions.
//!
//! An engine is opened for its host and never handed to a second one: [`Database`](crate::Database) makes both at once.
//! What a process that ended left aside was dropped by the engine when it opened. The thread of materialized views runs
//! statements; it is the database's ([`crate::refresher`]), once for all its handles.

use crate::access::Held;
use crate::derived::{Derived, Progress};
use crate::error::Result;
use crate::live::Hub;
use std::sync::Arc;
use tickstone_engine::Engine;

/// See the module.
pub(crate) struct Host {
    engine: Engine,
    derived: Derived,
    hub: Arc<Hub>,
}

impl Host {
    /// Starts what runs over an engine that was just opened, for those who own it.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(engine: Engine, accounts: Arc<Held>) -> Result<Self> {
        let host = Self { engine, derived: Derived::new(accounts), hub: Arc::default() };
        host.parse_streams()?;
        Ok(host)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What hands changes to those who subscribed.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Parses streams into the tables that were made for that since.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn parse_streams(&self) -> Result<()> {
        self.derived.start(&self.engine)
    }

    /// How far each table that is parsed from a stream is.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn progress(&self) -> tickstone_engine::Result<Vec<Progress>> {
        self.derived.progress(&self.engine)
    }

    /// Ends all of it; what is under way is committed or left for the next opening.
    pub(crate) fn stop(&self) {
        self.derived.stop();
        self.hub.stop();
    }
}

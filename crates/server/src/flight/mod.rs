//! Arrow Flight SQL: statements, and rows both ways, as Arrow batches over gRPC.
//!
//! Owns the calls of Flight ([`service`]), what clients refer to by a handle ([`handles`]: sessions, transactions and
//! prepared statements, few and not for long), and what there is, in Flight SQL's words ([`metadata`]). Messages,
//! their framing and Arrow's bytes are `tonic`'s and `arrow-flight`'s.
//!
//! ```text
//! connection ─► service ─┬► GetFlightInfo ─► statements: describe ─► ticket
//!                        ├► DoGet ─► statements: run ─► batches ─► messages
//!                        ├► DoPut ─► rows ─┬► ingest ─► append, a bulk load
//!                        │                 └► prepared: parameters
//!                        └► DoAction ─► handles
//! ```
//!
//! Invariant: a statement that gives rows runs when they are asked for, not before; one that gives none, at once.

mod actions;
mod connection;
mod failure;
mod handles;
mod info;
mod ingest;
mod metadata;
mod prepared;
mod rows;
mod service;
mod sessions;
mod statements;
mod updates;

pub(crate) use connection::serve;
pub(crate) use service::Flight;

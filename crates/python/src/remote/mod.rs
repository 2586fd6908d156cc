//! A server as a database: handles with the methods of those of the engine, so that what is written in Python serves
//! both.

mod database;
mod parameters;
mod rows;
mod session;

pub(crate) use database::Remote;
pub(crate) use session::{RemoteQuery, RemoteSession, RemoteStatement};

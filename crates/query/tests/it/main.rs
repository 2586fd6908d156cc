//! The query crate from outside: SQL files in three states, and generated tables against a second
//! engine.

mod database;
mod property;
mod slt;
mod states;

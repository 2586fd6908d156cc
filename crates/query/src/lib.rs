//! SQL over the engine.

pub mod dialect;
mod functions;
mod operators;

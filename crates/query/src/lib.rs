//! SQL over the engine.

mod designated;
pub mod dialect;
mod functions;
mod operators;
#[cfg(test)]
mod testing;

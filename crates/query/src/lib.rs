//! SQL over the engine.

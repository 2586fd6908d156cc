//! A simulated disk with crash images, and the crash tests of the engine.

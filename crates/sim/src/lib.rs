//! The engine on a disk that fails: a simulator, and the crash tests of the engine.
//!
//! ```text
//! seed ─► Settings ─► World: actors (actions) ─► engine ─► FaultyDisk
//!                        │                         │
//!                        └─► Model ◄── compared ───┘   live, in held snapshots, after every reopening
//! ```
//!
//! [`run`] takes a seed through [`STEPS`] steps of writers, readers, loaders, seals and crashes, and says what
//! does not hold. [`CrashDisk`] is the other way round: it keeps every call of a scripted load and gives
//! the disks that a power cut could have left at each.
//!
//! Never touches the real disk, clock or randomness: the same seed is the same run, call by call.

mod change;
mod clock;
mod crash_disk;
mod day;
mod edit;
mod faulty_disk;
mod generate;
mod model;
mod random;
mod run;
mod shape;
mod table;
mod world;

pub use clock::StepClock;
pub use crash_disk::{CrashDisk, Image, Survival};
pub use day::{Footprint, simulate_day};
pub use faulty_disk::{FaultCounts, FaultRates, FaultyDisk, Kept, Lies};
pub use random::Random;
pub use run::{Report, RunOptions, STEPS, run, shrink};

//! A simulated disk with crash images, and the crash tests of the engine.
//!
//! [`CrashDisk`] keeps every call that changes it. After a scripted load, [`CrashDisk::images`] gives
//! the disks that a power cut could have left at each of those calls: what was synced, with nothing,
//! all, or some torn part of what was not. A test opens each and checks what must be there.
//! Never touches the real disk, clock or randomness: the same seed gives the same images.

mod clock;
mod crash_disk;
mod random;

pub use clock::StepClock;
pub use crash_disk::{CrashDisk, Image, Survival};
pub use random::Random;

//! Frames that a full disk refused: what became of them, for those who wait and those who build on them.
//!
//! Invariants:
//! - frames appended between two refusals share a [`Fate`]; it is refused at most once, from some position on,
//!   and the frames before that position were written;
//! - a refused frame is on no disk and in no snapshot; its position goes to the next frame that is written.

use crate::{EngineError, Result};
use std::sync::{Arc, OnceLock};
use tickstone_model::SyncPolicy;

/// What becomes of the frames appended until the disk refuses one.
#[derive(Debug, Default)]
pub(crate) struct Fate(OnceLock<Refusal>);

#[derive(Debug)]
struct Refusal {
    /// Position of the first frame refused.
    from: u64,
    /// What the disk said.
    cause: String,
}

impl Fate {
    /// The frames from `from` on were not written.
    pub(super) fn refuse(&self, from: u64, cause: String) {
        // Set once: whoever refuses puts another fate in this one's place before it lets go of the latch.
        let _ = self.0.set(Refusal { from, cause });
    }

    /// The first position refused, where some were.
    pub(super) fn refused_from(&self) -> Option<u64> {
        self.0.get().map(|refusal| refusal.from)
    }

    /// # Errors
    /// [`EngineError::DiskFull`] where the frame at `position` was refused.
    pub(super) fn check(&self, position: u64) -> Result<()> {
        match self.0.get() {
            Some(Refusal { from, cause }) if position >= *from => {
                Err(EngineError::DiskFull { cause: cause.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// The position of a frame handed over, and how to wait for it.
#[derive(Debug, Clone)]
pub(crate) struct Ticket {
    pub(crate) position: u64,
    pub(super) sync: SyncPolicy,
    pub(super) fate: Arc<Fate>,
}

impl Ticket {
    /// Whether its frame was written, given the last position written as of before; `None` while it waits.
    pub(crate) fn outcome(&self, written: u64) -> Option<bool> {
        match self.fate.refused_from() {
            Some(from) => Some(self.position < from),
            None => (self.position <= written).then_some(true),
        }
    }
}

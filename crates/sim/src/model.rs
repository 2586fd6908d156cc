//! What must be in the database: plain vectors of rows, and which of them a power cut may take.
//!
//! Invariants:
//! - `live` is what a snapshot taken now shows;
//! - `stable` is what survives anything; `tail` is what was done after it, in the order of the tape;
//! - what survives is `stable` and a prefix of `tail`: never a later change without an earlier one, and
//!   each change whole, over all its tables, or not at all.

use crate::change::Change;
use crate::shape::State;
use tickstone_model::SyncPolicy;

/// A change after the stable state.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    /// What was done.
    pub(crate) change: Change,
    /// Whether it was acknowledged, or at least is visible: a kill must not lose it.
    pub(crate) visible: bool,
    /// By which policy.
    pub(crate) sync: SyncPolicy,
}

/// The database as it must be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    live: State,
    stable: State,
    tail: Vec<Done>,
}

impl Model {
    /// What a snapshot shows.
    pub(crate) fn live(&self) -> &State {
        &self.live
    }

    /// Changes that may be lost.
    pub(crate) fn tail(&self) -> &[Done] {
        &self.tail
    }

    /// A change is visible now.
    pub(crate) fn done(&mut self, change: Change, sync: SyncPolicy) {
        change.apply(&mut self.live);
        self.tail.push(Done { change, visible: true, sync });
    }

    /// A change failed so that it may be found after reopening.
    pub(crate) fn in_doubt(&mut self, change: Change) {
        self.tail.push(Done { change, visible: false, sync: SyncPolicy::Always });
    }

    /// Everything visible is on stable storage.
    pub(crate) fn all_stable(&mut self) {
        self.stable_after(self.visible());
    }

    /// The interval is over: everything up to the last change of this policy is on stable storage.
    pub(crate) fn interval_over(&mut self) {
        let by_interval = |done: &Done| done.visible && done.sync == SyncPolicy::Interval;
        self.stable_after(self.tail.iter().rposition(by_interval).map_or(0, |last| last + 1));
    }

    /// Changes of the tail up to the last visible one.
    fn visible(&self) -> usize {
        self.tail.iter().rposition(|done| done.visible).map_or(0, |last| last + 1)
    }

    /// The first `count` changes of the tail are on stable storage.
    pub(crate) fn stable_after(&mut self, count: usize) {
        for done in self.tail.drain(..count) {
            if done.visible {
                done.change.apply(&mut self.stable);
            }
        }
    }

    /// The states that may be found, as the number of changes of the tail they hold: all of them after a
    /// power cut; after a kill those with everything that was visible.
    pub(crate) fn candidates(&self, killed: bool) -> impl Iterator<Item = (usize, State)> + '_ {
        let first = if killed { self.visible() } else { 0 };
        let mut state = self.stable.clone();
        let states = (0..=self.tail.len()).map(move |count| {
            if let Some(done) = count.checked_sub(1).and_then(|last| self.tail.get(last)) {
                done.change.apply(&mut state);
            }
            (count, state.clone())
        });
        states.skip(first)
    }

    /// This state was found, and is stable now.
    pub(crate) fn found(&mut self, state: State) {
        self.live = state.clone();
        self.stable = state;
        self.tail.clear();
    }
}

//! The state of maintenance: who may run a step, and what there is to do.

use crate::lock::{Turn, Turns, lock};
use crate::store::snapshot::{Snapshot, TableDir, TableSnapshot};
use crate::worker::Worker;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    pub(crate) worker: Worker,
    step: Turns,
    /// Tables with runs to merge or parts that left since the last step.
    pub(crate) touched: Mutex<BTreeSet<u32>>,
    /// Folders of dropped tables whose manifests may still be there: the tape keeps their DROP until then.
    pub(crate) dropped: Mutex<Vec<Arc<TableDir>>>,
    /// Set once a manifest, or the copy of one, could not be saved: its name may be there without being stable, so
    /// that the end must not count as a clean close, after which nothing is made stable again.
    pub(crate) unsure: AtomicBool,
    /// Held by the one who makes or releases a hold, before any other lock.
    pub(crate) holding: Mutex<()>,
    /// The search for orphans, which goes on beside maintenance.
    pub(crate) sweep: Arc<Sweep>,
    pub(crate) sweeper: Mutex<Option<JoinHandle<()>>>,
}

/// Proof that no other maintenance step runs.
#[derive(Debug)]
pub(crate) struct Pause<'a>(#[allow(dead_code, reason = "held for its turn")] Turn<'a>);

impl Maintenance {
    /// Whether no file can be left that nothing names.
    pub(crate) fn is_swept(&self) -> bool {
        self.sweep.done.load(Ordering::Acquire)
    }

    /// Notes that a part of this name is going to be written.
    pub(crate) fn give_name(&self, name: &str) {
        self.sweep.give(name);
    }

    /// Notes that these tables were written to, or that parts left them: the next step looks at them, and at
    /// no others.
    pub(crate) fn touch(&self, tables: impl IntoIterator<Item = u32>) {
        lock(&self.touched).extend(tables);
    }

    /// Notes what an opening leaves to be done.
    pub(crate) fn touch_all(&self, snapshot: &Snapshot) {
        let left = |table: &&Arc<TableSnapshot>| !table.retired.is_empty();
        self.touch(snapshot.hot_tables().chain(snapshot.tables().filter(left)).map(|table| table.id));
    }

    /// Keeps steps from running while the guard lives.
    pub(crate) fn pause(&self) -> Pause<'_> {
        Pause(self.step.take())
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        self.sweep.stopping.store(true, Ordering::Relaxed);
        if let Some(sweeper) = lock(&self.sweeper).take() {
            // A panic there was printed; the sweep is not done then.
            let _ = sweeper.join();
        }
        self.worker.stop();
    }
}

/// How far the search for orphans is.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) stopping: AtomicBool,
    pub(crate) done: AtomicBool,
    /// Names of parts given out since the opening, while that is not done.
    given: Mutex<HashSet<String>>,
}

impl Sweep {
    /// Notes that a part of this name is going to be written.
    fn give(&self, name: &str) {
        if !self.done.load(Ordering::Acquire) {
            lock(&self.given).insert(name.to_string());
        }
    }

    /// Whether this process has given out the name of a part.
    pub(crate) fn has_given(&self, name: &str) -> bool {
        lock(&self.given).contains(name)
    }

    /// Notes that no file is left that nothing names.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Release);
        lock(&self.given).clear();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

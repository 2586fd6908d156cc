//! Ctrl-C: cancels what runs, and ends the process only when nothing heeds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Exit code of an interrupted process, as shells have it: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// Whether Ctrl-C was pressed since the last [`Interrupt::reset`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    pressed: Arc<AtomicBool>,
    notify: Notify,
}

impl Interrupt {
    /// Takes Ctrl-C over for the rest of the process. Pressed a second time before anything heeded
    /// the first, it ends the process: the database is safe against that.
    pub(crate) fn install() -> Self {
        let interrupt = Self::default();
        let state = Arc::clone(&interrupt.state);
        // It fails only where a handler is installed already; then Ctrl-C ends the process as before.
        let _ = ctrlc::set_handler(move || {
            if state.pressed.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED);
            }
            state.notify.notify_one();
        });
        interrupt
    }

    /// Forgets what was pressed before.
    pub(crate) fn reset(&self) {
        self.state.pressed.store(false, Ordering::SeqCst);
    }

    /// The flag for code that asks now and then.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.state.pressed)
    }

    /// Ends when Ctrl-C is pressed.
    pub(crate) async fn pressed(&self) {
        while !self.state.pressed.load(Ordering::SeqCst) {
            self.state.notify.notified().await;
        }
    }
}

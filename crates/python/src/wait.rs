//! Waiting for the engine: with the interpreter released, and with an ear for Ctrl-C.

use crate::defect::net;
use crate::functions::check_outside;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How often a wait looks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a future to its end on this thread, which does not hold the interpreter. What is done within
/// [`SIGNAL_INTERVAL`] never looks for signals.
///
/// # Errors
/// What the handler of a signal raised, `KeyboardInterrupt` as a rule. The future is dropped then, which
/// cancels it. `Error` inside a function of the user's, and where the future panics.
pub(crate) fn wait<F: Future>(runtime: &Handle, future: F) -> PyResult<F::Output> {
    wait_and_tell(runtime, future, || Ok(()))
}

/// As [`wait`], and calls `tell` at every look for signals.
///
/// # Errors
/// As [`wait`], and those of `tell`.
pub(crate) fn wait_and_tell<F: Future>(
    runtime: &Handle,
    future: F,
    mut tell: impl FnMut() -> PyResult<()>,
) -> PyResult<F::Output> {
    check_outside()?;
    let waker = Waker::from(Arc::new(Wakes(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let mut look_at = Instant::now() + SIGNAL_INTERVAL;
    loop {
        // One turn at a time: the runtime ends each after a while, also where there is more to do.
        let turn = poll_fn(|_| Poll::Ready(future.as_mut().poll(&mut context)));
        if let Poll::Ready(done) = net(|| Ok(runtime.block_on(turn)))? {
            return Ok(done);
        }
        // Not with a timer of the runtime: a query that keeps all its threads at work stops its timers.
        thread::park_timeout(look_at.saturating_duration_since(Instant::now()));
        if Instant::now() >= look_at {
            check_signals()?;
            tell()?;
            look_at = Instant::now() + SIGNAL_INTERVAL;
        }
    }
}

/// Wakes a thread that waits.
struct Wakes(Thread);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs the handlers of signals that came.
///
/// # Errors
/// What a handler raised.
pub(crate) fn check_signals() -> PyResult<()> {
    // Only the main thread runs handlers. Others must not even ask: one that holds the interpreter may
    // be waiting for them.
    match is_main_thread() {
        true => Python::attach(|py| py.check_signals()),
        false => Ok(()),
    }
}

/// Whether this is the process's first thread, on which Python runs signal handlers.
pub(crate) fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: both calls only read the caller's ids.
    let main = unsafe { libc::gettid() == libc::getpid() };
    #[cfg(target_os = "macos")]
    // SAFETY: the call only reads the caller's id.
    let main = unsafe { libc::pthread_main_np() == 1 };
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    let main = false;
    main
}

/// Calls `work` with the interpreter released, also where the caller is foreign code that may hold it or
/// not.
pub(crate) fn released<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match holds_interpreter() {
        true => Python::attach(|py| py.detach(work)),
        false => work(),
    }
}

/// Whether this thread holds the interpreter. The stable interface does not say; every CPython has the
/// function all the same, and where it is missing the interpreter stays with the caller.
fn holds_interpreter() -> bool {
    type Check = unsafe extern "C" fn() -> c_int;
    static CHECK: OnceLock<Option<Check>> = OnceLock::new();
    let check = CHECK.get_or_init(|| {
        #[cfg(unix)]
        // SAFETY: the name is a C string, and the address, where there is one, is that of
        // `int PyGILState_Check(void)`.
        let found = unsafe {
            let address = libc::dlsym(libc::RTLD_DEFAULT, c"PyGILState_Check".as_ptr());
            (!address.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, Check>(address))
        };
        #[cfg(not(unix))]
        let found = None;
        found
    });
    // SAFETY: it takes nothing and may be called from any thread while Python is loaded.
    check.is_some_and(|check| unsafe { check() } == 1)
}

//! Functions written in Python, as the engine calls them: on any of its threads, a batch at a time.
//!
//! A call takes the interpreter, which nothing that waits for the engine holds. While it runs, its thread runs no
//! statement: the session it would need may be the one that waits for it. The interpreter ends after the calls under
//! way, and no other begins then: a thread of the engine's that asked for it later would take the process down.

use crate::arrow::{Column, array_of, data_type_of};
use crate::error;
use arrow_array::ArrayRef;
use pyo3::prelude::*;
use std::cell::Cell;
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tickstone_query::{
    Function, FunctionError, FunctionKind, FunctionResult, FunctionSignature, NullHandling,
};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// How many calls are under way in this process.
static CALLS: Calls = Calls(AtomicU64::new(0));

/// Whether the interpreter is about to end, so that no call may begin.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A count in the low half, and in the high one the process it is of: threads that a fork left behind do not count.
struct Calls(AtomicU64);

impl Calls {
    fn change(&self, change: impl Fn(u64) -> u64) {
        let mine = u64::from(process::id()) << 32;
        // Always changes.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |held| {
            Some(mine | change(if held & !0xffff_ffff == mine { held & 0xffff_ffff } else { 0 }))
        });
    }

    fn get(&self) -> u64 {
        let held = self.0.load(Ordering::SeqCst);
        if held >> 32 == u64::from(process::id()) { held & 0xffff_ffff } else { 0 }
    }
}

/// Marks this thread as one that runs a function, until it goes.
struct Inside {
    before: bool,
}

impl Inside {
    /// # Errors
    /// Where the interpreter is about to end.
    fn enter() -> FunctionResult<Self> {
        CALLS.change(|calls| calls + 1);
        let inside = Self { before: INSIDE.replace(true) };
        match ENDING.load(Ordering::SeqCst) {
            true => Err("Python is ending".into()),
            false => Ok(inside),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
        CALLS.change(|calls| calls.saturating_sub(1));
    }
}

/// Called when the interpreter is about to end: waits for the calls under way, and lets no other begin.
///
/// # Errors
/// What the handler of a signal raised.
#[pyfunction]
pub(crate) fn end_calls(py: Python<'_>) -> PyResult<()> {
    const LOOK_INTERVAL: Duration = Duration::from_millis(1);
    ENDING.store(true, Ordering::SeqCst);
    while CALLS.get() > 0 {
        py.detach(|| thread::sleep(LOOK_INTERVAL));
        py.check_signals()?;
    }
    Ok(())
}

/// Refuses to wait for the engine where a function of the user's runs, which the engine waits for.
///
/// # Errors
/// `Error` there.
pub(crate) fn check_outside() -> PyResult<()> {
    match INSIDE.get() {
        true => Err(error::request(
            "a user function cannot run statements",
            Some("read what it needs before, and keep it in a variable"),
        )),
        false => Ok(()),
    }
}

/// What is said of a function beside its name and its code.
pub(crate) struct Declared {
    pub(crate) kind: FunctionKind,
    pub(crate) nulls: NullHandling,
    pub(crate) side_effects: bool,
}

/// The function of a callable that takes the arguments as a list of [`Column`]s, for an aggregate also where groups
/// begin and end.
///
/// # Errors
/// Where a type is none of Arrow's.
pub(crate) fn function(
    name: &str,
    call: Py<PyAny>,
    parameters: &[Bound<'_, PyAny>],
    returns: &Bound<'_, PyAny>,
    declared: &Declared,
) -> PyResult<Function> {
    let parameters = parameters.iter().map(data_type_of).collect::<PyResult<_>>()?;
    let signature = FunctionSignature::new(parameters, data_type_of(returns)?);
    let over_rows = |call: Py<PyAny>| move |arguments: &[ArrayRef]| called(&call, arguments, None);
    let function = match declared.kind {
        FunctionKind::Scalar => Function::scalar(name, signature, over_rows(call)),
        FunctionKind::Window => Function::window(name, signature, over_rows(call)),
        FunctionKind::Aggregate => Function::aggregate_groups(name, signature, move |arguments, groups| {
            called(&call, arguments, Some(groups))
        }),
    };
    Ok(function.nulls(declared.nulls).side_effects(declared.side_effects))
}

/// What the callable gives.
fn called(
    call: &Py<PyAny>,
    arguments: &[ArrayRef],
    groups: Option<&[Range<usize>]>,
) -> FunctionResult<ArrayRef> {
    let _inside = Inside::enter()?;
    let given = Python::attach(|py| {
        let columns: Vec<Column> = arguments.iter().map(Column::of).collect();
        let given = match groups {
            None => call.call1(py, (columns,))?,
            Some(groups) => {
                let starts: Vec<usize> = groups.iter().map(|rows| rows.start).collect();
                let ends: Vec<usize> = groups.iter().map(|rows| rows.end).collect();
                call.call1(py, (columns, starts, ends))?
            }
        };
        array_of(given.bind(py))
    });
    given.map_err(|raised: PyErr| Box::new(raised) as FunctionError)
}

//! Functions written in Python, as the engine calls them: on any of its threads, a batch at a time.
//!
//! A call takes the interpreter, which nothing that waits for the engine holds. While it runs, its thread runs no
//! statement: the session it would need may be the one that waits for it.

use crate::arrow::{Column, array_of, data_type_of};
use crate::error;
use arrow_array::ArrayRef;
use pyo3::prelude::*;
use std::cell::Cell;
use std::ops::Range;
use tickstone_query::{
    Function, FunctionError, FunctionKind, FunctionResult, FunctionSignature, NullHandling,
};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that runs a function, until it goes.
struct Inside {
    before: bool,
}

impl Inside {
    fn enter() -> Self {
        Self { before: INSIDE.replace(true) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
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
    let _inside = Inside::enter();
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

//! Enough stack for deep syntax trees, plans and expressions, on any thread.
//!
//! Sessions are polled on the caller's thread, which may have little: Python's threads, tokio's. What may call itself
//! as often as a statement is nested runs on a stack of its own where that of the thread is short.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What planning and executing a statement of the greatest depth takes, measured in the dev profile, and half as much
/// again.
const PLAN_BYTES: usize = 4 << 20;

/// The size of a stack that is made for it.
const GROWN_BYTES: usize = 16 << 20;

/// Runs a call where at least [`PLAN_BYTES`] of stack are left.
pub(crate) fn on_enough_stack<T>(call: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(PLAN_BYTES, GROWN_BYTES, call)
}

/// Runs a call where as many bytes of stack are left beside what any call needs.
pub(crate) fn with_stack<T>(bytes: usize, call: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(PLAN_BYTES + bytes, GROWN_BYTES + bytes, call)
}

/// A future that is polled where there is enough stack.
pub(crate) struct OnEnoughStack<F>(Pin<Box<F>>);

impl<F: Future> OnEnoughStack<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for OnEnoughStack<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let future = &mut self.get_mut().0;
        on_enough_stack(|| future.as_mut().poll(context))
    }
}

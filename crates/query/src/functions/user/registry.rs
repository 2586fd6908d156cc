//! Which functions there are, by name.

use super::{Function, FunctionKind, aggregate, scalar, window};
use crate::error::{QueryError, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The functions at one moment.
#[derive(Debug, Default)]
pub(crate) struct FunctionSet {
    /// How often they have changed.
    pub(crate) version: u64,
    by_name: BTreeMap<String, Arc<Function>>,
}

impl FunctionSet {
    /// The functions, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Function>> {
        self.by_name.values()
    }

    /// The error, said better where it is about a window function that was called without OVER.
    pub(crate) fn explained(&self, error: QueryError) -> QueryError {
        let name = error.unknown_function().map(str::to_lowercase);
        let window = name.and_then(|name| self.by_name.get(&name)).map(|function| function.kind());
        if window == Some(FunctionKind::Window) { error.over_window() } else { error }
    }

    /// Makes these the user's functions of a state that has those of `before`.
    ///
    /// # Errors
    /// Those of the state.
    pub(crate) fn install(&self, before: &Self, state: &mut SessionState) -> Result<()> {
        for function in before.iter() {
            match function.kind() {
                FunctionKind::Scalar => drop(state.deregister_udf(function.name())?),
                FunctionKind::Aggregate => drop(state.deregister_udaf(function.name())?),
                FunctionKind::Window => drop(state.deregister_udwf(function.name())?),
            }
        }
        for function in self.iter() {
            match function.kind() {
                FunctionKind::Scalar => drop(state.register_udf(scalar::planned(function))?),
                FunctionKind::Aggregate => drop(state.register_udaf(aggregate::planned(function))?),
                FunctionKind::Window => drop(state.register_udwf(window::planned(function))?),
            }
        }
        Ok(())
    }
}

/// The functions of a database.
#[derive(Debug, Default)]
pub(crate) struct UserFunctions {
    current: Mutex<Arc<FunctionSet>>,
}

impl UserFunctions {
    /// Those there are now.
    pub(crate) fn current(&self) -> Arc<FunctionSet> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a function, or with `replace` puts it in the place of the one of its name.
    ///
    /// # Errors
    /// Where it has no name or no parameters, or the name is taken: by `built_in` also with `replace`.
    pub(crate) fn create(
        &self,
        function: Function,
        replace: bool,
        built_in: &SessionState,
        is_callable: fn(&str) -> bool,
    ) -> Result<()> {
        check_name(function.name(), built_in, is_callable)?;
        if function.signature().parameters().is_empty() {
            let message = format!("function '{}' takes no argument", function.name());
            return Err(QueryError::request(message)
                .hint("how many values it is to give, its arguments say: add one"));
        }
        self.change(|by_name| {
            if !replace && by_name.contains_key(function.name()) {
                let message = format!("there is a function '{}' already", function.name());
                return Err(QueryError::request(message).hint("replace it, or remove it first"));
            }
            by_name.insert(function.name().to_string(), Arc::new(function));
            Ok(())
        })
    }

    /// Takes a function away.
    ///
    /// # Errors
    /// Where the user has none of this name.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.change(|by_name| match by_name.remove(&name.to_lowercase()) {
            Some(_) => Ok(()),
            None => Err(QueryError::request(format!("there is no function '{name}' of yours"))
                .hint("SHOW FUNCTIONS lists them")),
        })
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Arc<Function>>) -> Result<()>) -> Result<()> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_name = current.by_name.clone();
        change(&mut by_name)?;
        let version = current.version + 1;
        let before = std::mem::replace(&mut *current, Arc::new(FunctionSet { version, by_name }));
        drop(current);
        // A closure of the user's may run code when it goes.
        drop(before);
        Ok(())
    }
}

/// Refuses a name that SQL could not call, or that calls something else.
fn check_name(name: &str, built_in: &SessionState, is_callable: fn(&str) -> bool) -> Result<()> {
    if !is_callable(name) {
        return Err(QueryError::request(format!("'{name}' is no name of a function"))
            .hint("a name is letters, digits and _, and no word of SQL's own"));
    }
    let known = built_in.scalar_functions().contains_key(name)
        || built_in.aggregate_functions().contains_key(name)
        || built_in.window_functions().contains_key(name)
        || built_in.higher_order_functions().contains_key(name);
    match known {
        true => Err(QueryError::request(format!("'{name}' is a function of the database"))
            .hint("take another name: what is built in keeps its meaning")),
        false => Ok(()),
    }
}

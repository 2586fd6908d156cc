//! What stands in and after the brackets of a call beside its arguments: DISTINCT, ORDER BY, FILTER, IGNORE NULLS,
//! WITHIN GROUP, OVER. Planning lets a function that knows nothing of one of them go without; here it is refused.

use super::SqlError;
use super::cursor::Result;
use super::marker::{place, simple_name};
use sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
};

/// What kind of function a name is of, and which clauses it heeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callable {
    /// What it is called on.
    pub kind: CallableKind,
    /// Whether DISTINCT changes its result, or cannot.
    pub distinct: bool,
    /// Whether IGNORE NULLS and RESPECT NULLS are heeded.
    pub nulls: bool,
    /// Whether ORDER BY in the brackets is heeded.
    pub order: bool,
    /// Whether it has another value each time it is called.
    pub volatile: bool,
}

/// What a function is called on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallableKind {
    /// One row.
    Scalar,
    /// Rows of a group or of a frame.
    Aggregate,
    /// Rows of a window alone.
    Window,
}

/// Finds a function by its name in lower case.
pub(super) type Callables<'a> = dyn Fn(&str) -> Option<Callable> + 'a;

/// Refuses the first clause of a call that its function would not heed.
pub(super) fn check(function: &Function, callables: &Callables<'_>) -> Result<()> {
    let clauses = Clauses::of(function);
    if clauses == Clauses::default() {
        return Ok(());
    }
    let Some(name) = simple_name(&function.name) else { return Ok(()) };
    let name = name.to_lowercase();
    let Some(callable) = callables(&name) else { return Ok(()) };
    let refuse = |clause: &str, why: &str| {
        Err(SqlError::new(format!("{name} takes no {clause}: {why}"), place(&function.name)))
    };
    match callable.kind {
        CallableKind::Scalar => match clauses.first() {
            Some(clause) => refuse(clause, "it is a function of one row"),
            None => Ok(()),
        },
        CallableKind::Window if clauses.distinct => refuse("DISTINCT", "it is a function of windows"),
        CallableKind::Window if clauses.filter => refuse("FILTER", "it is a function of windows"),
        CallableKind::Window | CallableKind::Aggregate if clauses.order && clauses.over => {
            refuse("ORDER BY in the brackets before OVER", "the window says the order: OVER (… ORDER BY …)")
        }
        CallableKind::Aggregate if clauses.order && !callable.order => {
            refuse("ORDER BY", "its value does not depend on the order of rows")
        }
        CallableKind::Window | CallableKind::Aggregate if clauses.nulls && !callable.nulls => {
            refuse("IGNORE NULLS or RESPECT NULLS", "what it does with NULL is fixed")
        }
        CallableKind::Aggregate if clauses.distinct && !callable.distinct => {
            refuse("DISTINCT", "it would count every row")
        }
        CallableKind::Aggregate | CallableKind::Window => Ok(()),
    }
}

/// Which clauses a call has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Clauses {
    distinct: bool,
    order: bool,
    filter: bool,
    nulls: bool,
    within: bool,
    over: bool,
}

impl Clauses {
    fn of(function: &Function) -> Self {
        let mut clauses = Self {
            filter: function.filter.is_some(),
            nulls: function.null_treatment.is_some(),
            within: !function.within_group.is_empty(),
            over: function.over.is_some(),
            ..Self::default()
        };
        if let FunctionArguments::List(FunctionArgumentList { duplicate_treatment, clauses: found, .. }) =
            &function.args
        {
            clauses.distinct = *duplicate_treatment == Some(DuplicateTreatment::Distinct);
            for clause in found {
                clauses.order |= matches!(clause, FunctionArgumentClause::OrderBy(_));
                clauses.nulls |= matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_));
            }
        }
        clauses
    }

    fn first(&self) -> Option<&'static str> {
        let all = [
            (self.distinct, "DISTINCT"),
            (self.order, "ORDER BY"),
            (self.filter, "FILTER"),
            (self.nulls, "IGNORE NULLS or RESPECT NULLS"),
            (self.within, "WITHIN GROUP"),
            (self.over, "OVER"),
        ];
        all.into_iter().find(|(there, _)| *there).map(|(_, clause)| clause)
    }
}

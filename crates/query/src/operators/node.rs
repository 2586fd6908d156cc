//! The scaffold of logical nodes: what DataFusion asks of a node of ours that is the same for all of them.

use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_datafusion_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::vec::IntoIter;

/// What is a node's own; [`node!`] writes the rest.
pub(super) trait Node<const N: usize>: UserDefinedLogicalNodeCore {
    fn sources(&self) -> [&LogicalPlan; N];

    /// The columns of its rows.
    fn output(&self) -> &DFSchemaRef;

    /// The expressions that it works out.
    fn exprs(&self) -> Vec<Expr>;

    /// Whether a condition on a column of the output picks rows of the input as it picks those of the output, so that
    /// it may be looked at below.
    fn passes(&self, _column: usize) -> bool {
        false
    }

    /// Writes what EXPLAIN says of it.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The same over other expressions, as many as it has, and inputs.
    fn over(&self, exprs: Exprs, inputs: [LogicalPlan; N]) -> Result<Self>;

    /// The columns of each input that are read for some of the output.
    fn reads(&self, _output: &[usize]) -> [Vec<usize>; N] {
        self.sources().map(|input| (0..input.schema().fields().len()).collect())
    }

    /// The columns on which no condition is carried below it.
    fn stops(&self) -> HashSet<String> {
        let fields = self.output().fields().iter().enumerate();
        fields.filter(|(at, _)| !self.passes(*at)).map(|(_, field)| field.name().clone()).collect()
    }
}

/// Expressions that a node gets, in the order of its own.
pub(super) struct Exprs(IntoIter<Expr>);

impl Exprs {
    pub(super) fn new(exprs: Vec<Expr>) -> Self {
        Self(exprs.into_iter())
    }

    /// The one in the place of `old`, without a name that a rule gave it.
    pub(super) fn next(&mut self, old: &Expr) -> Expr {
        self.0.next().map_or_else(|| old.clone(), Expr::unalias)
    }

    /// So many, with their names.
    pub(super) fn take(&mut self, count: usize) -> Vec<Expr> {
        self.0.by_ref().take(count).collect()
    }

    /// Those that are left, with their names.
    pub(super) fn rest(self) -> Vec<Expr> {
        self.0.collect()
    }
}

/// The inputs that a node of this name gets.
pub(super) fn inputs_of<const N: usize>(name: &str, inputs: Vec<LogicalPlan>) -> Result<[LogicalPlan; N]> {
    inputs
        .try_into()
        .map_err(|of: Vec<_>| internal_datafusion_err!("{name} has {N} inputs, not {}", of.len()))
}

/// Whether a column after the first one of the output is a key that is a column of the input.
pub(super) fn is_plain_key(keys: &[Expr], column: usize) -> bool {
    let key = column.checked_sub(1).and_then(|at| keys.get(at));
    matches!(key, Some(Expr::Column(_)))
}

/// Indices of the columns that expressions read, ascending.
pub(super) fn columns_of(exprs: &[Expr], schema: &DFSchema) -> Vec<usize> {
    let refs = exprs.iter().flat_map(Expr::column_refs);
    sorted(refs.filter_map(|column| schema.maybe_index_of_column(column)).collect())
}

/// In order, each once.
pub(super) fn sorted(mut columns: Vec<usize>) -> Vec<usize> {
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Makes a node of a logical plan of a [`Node`].
macro_rules! node {
    ($node:ident) => {
        const _: () = {
            use datafusion::common::{DFSchemaRef, Result};
            use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
            use std::cmp::Ordering;
            use std::collections::HashSet;
            use std::fmt;
            use $crate::operators::node::{Exprs, Node, inputs_of};

            impl PartialOrd for $node {
                fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                    (self == other).then_some(Ordering::Equal)
                }
            }

            impl UserDefinedLogicalNodeCore for $node {
                fn name(&self) -> &str {
                    stringify!($node)
                }

                fn inputs(&self) -> Vec<&LogicalPlan> {
                    self.sources().to_vec()
                }

                fn schema(&self) -> &DFSchemaRef {
                    self.output()
                }

                fn expressions(&self) -> Vec<Expr> {
                    self.exprs()
                }

                fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
                    self.stops()
                }

                fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.show(f)
                }

                fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
                    self.over(Exprs::new(exprs), inputs_of(stringify!($node), inputs)?)
                }

                fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
                    Some(self.reads(output_columns).to_vec())
                }
            }
        };
    };
}

pub(super) use node;

/// Items with commas between them.
pub(super) fn write_list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Pairs that are equal, with commas between them.
pub(super) fn write_pairs<'a, T: fmt::Display + 'a>(
    f: &mut fmt::Formatter<'_>,
    pairs: impl IntoIterator<Item = &'a (T, T)>,
) -> fmt::Result {
    let pairs: Vec<String> = pairs.into_iter().map(|(left, right)| format!("{left} = {right}")).collect();
    write_list(f, &pairs)
}

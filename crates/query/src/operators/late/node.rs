//! The logical node of columns that are read last.

use datafusion::arrow::datatypes::Field;
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The rows of an input, of which one column is the numbers of rows of a table, with more columns of that table after
/// those of the input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LateColumns {
    pub(crate) input: LogicalPlan,
    /// The column of numbers.
    pub(crate) number: Column,
    /// The columns of the table.
    pub(crate) columns: Vec<usize>,
    schema: DFSchemaRef,
}

/// A column of the output: its qualifier and what it is.
pub(crate) type Named = (Option<TableReference>, Arc<Field>);

impl LateColumns {
    /// The rows of `input`, numbered by `number`, with these columns of the table.
    pub(crate) fn try_new(input: LogicalPlan, number: Column, late: Vec<(usize, Named)>) -> Result<Self> {
        let (columns, named): (Vec<usize>, Vec<Named>) = late.into_iter().unzip();
        let below = input.schema();
        let fields = below.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let fields = fields.chain(named).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, below.metadata().clone())?);
        Ok(Self { input, number, columns, schema })
    }
}

impl PartialOrd for LateColumns {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for LateColumns {
    fn name(&self) -> &str {
        "LateColumns"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    /// No condition is carried below it: what could be was before it came.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = self.schema.fields().iter().skip(self.input.schema().fields().len());
        let late: Vec<&str> = late.map(|field| field.name().as_str()).collect();
        write!(f, "LateColumns: [{}]", late.join(", "))
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.into_iter().next().unwrap_or_else(|| self.input.clone());
        Ok(Self { input, ..self.clone() })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

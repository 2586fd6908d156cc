//! The logical node of columns that are read last.

use crate::operators::node::{Exprs, Node, node};
use datafusion::arrow::datatypes::Field;
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::fmt;
use std::sync::Arc;

/// The rows of an input, of which one column is the numbers of rows of a table, with more columns of that table after
/// those of the input. No condition is carried below it: what could be was before it came.
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

node!(LateColumns);

impl Node<1> for LateColumns {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = self.schema.fields().iter().skip(self.input.schema().fields().len());
        let late: Vec<&str> = late.map(|field| field.name().as_str()).collect();
        write!(f, "LateColumns: [{}]", late.join(", "))
    }

    fn over(&self, _exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        Ok(Self { input, ..self.clone() })
    }
}

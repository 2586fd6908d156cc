//! The logical node of WINDOW, HORIZON and SPLICE JOIN.

use crate::designated::TIMESTAMP_KEY;
use crate::operators::joins::node::{Pairing, looked_up};
use crate::operators::node::{Exprs, Node, node, write_list, write_pairs};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use std::fmt;
use std::sync::Arc;

/// The rows around a left row's time that are aggregated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Window {
    /// From so many nanoseconds after the left row's time (negative: before it), inside.
    pub(crate) low: i64,
    /// To so many, inside; not below `low`.
    pub(crate) high: i64,
    /// Whether the last row at or before its start is in it.
    pub(crate) prevailing: bool,
}

/// Which of the joins it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Window(Window),
    /// At these offsets from each left row's time, ns; at least one.
    Horizon {
        offsets: Arc<[i64]>,
        alias: String,
    },
    Splice,
}

impl Kind {
    /// The least and the greatest distance, ns, of a right row's time from a left row's that it is looked for
    /// at; the prevailing one before them not counted.
    pub(crate) fn reach(&self) -> (i64, i64) {
        match self {
            Kind::Window(window) => (window.low, window.high),
            Kind::Horizon { offsets, .. } => {
                let ends = (offsets.iter().min(), offsets.iter().max());
                (ends.0.copied().unwrap_or(0), ends.1.copied().unwrap_or(0))
            }
            Kind::Splice => (0, 0),
        }
    }

    /// How many rows come of one left row.
    pub(crate) fn rows_per_left(&self) -> usize {
        match self {
            Kind::Horizon { offsets, .. } => offsets.len(),
            Kind::Window(_) | Kind::Splice => 1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Window(Window { low, high, prevailing }) => {
                let word = if *prevailing { "INCLUDE" } else { "EXCLUDE" };
                write!(f, "window {low}ns to {high}ns, {word} PREVAILING")
            }
            Kind::Horizon { offsets, .. } => write!(f, "horizon of {} offsets", offsets.len()),
            Kind::Splice => f.write_str("splice"),
        }
    }
}

/// See the folder's root for what it means.
///
/// Output: of a window the left columns and the aggregates; of a horizon the left columns, the right ones,
/// `alias.offset` and `alias.timestamp`; of a splice the left columns and the right ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SeriesJoin {
    pub(crate) pairing: Pairing,
    pub(crate) kind: Kind,
    /// Of a window, over the columns of both sides. `None` while the SELECT around it is planned: the output
    /// is then the columns of both sides.
    pub(crate) aggregates: Option<Vec<Expr>>,
    schema: DFSchemaRef,
}

impl SeriesJoin {
    pub(crate) fn try_new(pairing: Pairing, kind: Kind, aggregates: Option<Vec<Expr>>) -> Result<Self> {
        let fields = match (&kind, &aggregates) {
            (Kind::Window(_), Some(aggregates)) => {
                let pairs = pairs(&pairing)?;
                let mut fields = pairing.left_fields();
                for aggregate in aggregates {
                    fields.push(aggregate.to_field(&pairs)?);
                }
                fields
            }
            (Kind::Window(_), None) => pairing.fields(false),
            (Kind::Horizon { alias, .. }, _) => {
                let mut fields = pairing.fields(false);
                let alias = || Some(TableReference::bare(alias.clone()));
                let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
                fields.push((alias(), Arc::new(Field::new("offset", DataType::Int64, false))));
                fields.push((alias(), Arc::new(Field::new("timestamp", time, true))));
                fields
            }
            (Kind::Splice, _) => {
                let mut fields = pairing.fields(false);
                for (_, field) in &mut fields {
                    *field = Arc::new(looked_up(field, false));
                }
                fields
            }
        };
        let metadata = pairing.left.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
        Ok(Self { pairing, kind, aggregates, schema })
    }

    /// The columns that aggregates may read: the left ones, then the right ones.
    pub(crate) fn pairs(&self) -> Result<DFSchema> {
        pairs(&self.pairing)
    }

    /// The right side's time, where it is a plain column: what `first` and `last` go by.
    pub(crate) fn right_time(&self) -> Option<Column> {
        match &self.pairing.times.1 {
            Expr::Column(column) => Some(column.clone()),
            _ => None,
        }
    }
}

/// The columns of both sides.
fn pairs(pairing: &Pairing) -> Result<DFSchema> {
    let mut fields = pairing.fields(false);
    // `first` and `last` go by the right side's time.
    for (_, field) in &mut fields {
        if field.metadata().contains_key(TIMESTAMP_KEY) {
            let mut metadata = field.metadata().clone();
            metadata.remove(TIMESTAMP_KEY);
            *field = Arc::new(field.as_ref().clone().with_metadata(metadata));
        }
    }
    DFSchema::new_with_metadata(fields, pairing.left.schema().metadata().clone())
}

node!(SeriesJoin);

impl Node<2> for SeriesJoin {
    fn sources(&self) -> [&LogicalPlan; 2] {
        self.pairing.inputs()
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        let mut exprs = self.pairing.exprs();
        exprs.extend(self.aggregates.iter().flatten().cloned());
        exprs
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, right) = &self.pairing.times;
        write!(f, "SeriesJoin: {}, {left} {right}, on=[", self.kind)?;
        write_pairs(f, &self.pairing.keys)?;
        f.write_str("], aggregates=[")?;
        write_list(f, self.aggregates.as_deref().unwrap_or(&[]))?;
        f.write_str("]")
    }

    fn over(&self, mut exprs: Exprs, inputs: [LogicalPlan; 2]) -> Result<Self> {
        let pairing = self.pairing.over(&mut exprs, inputs);
        Self::try_new(pairing, self.kind.clone(), self.aggregates.is_some().then(|| exprs.rest()))
    }

    fn reads(&self, output: &[usize]) -> [Vec<usize>; 2] {
        self.pairing.reads(output, self.aggregates.as_deref())
    }
}

//! The logical node of nbbo.

use crate::operators::node::{Exprs, Node, columns_of, is_plain_key, node, write_list};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::fmt;
use std::sync::Arc;

/// What a call says; pairs are of the bid and the ask.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NbboArguments {
    /// The order of rows, `Timestamp(ns)`.
    pub(crate) time: Expr,
    /// What tells instruments apart.
    pub(crate) series: Vec<Expr>,
    /// What tells venues apart, of any type.
    pub(crate) venue: Expr,
    /// Doubles.
    pub(crate) prices: [Expr; 2],
    /// Doubles, where they are asked for.
    pub(crate) sizes: [Option<Expr>; 2],
}

/// The best of each side at each quote.
///
/// Output: the time, the series, then bid and ask each as price, size (where asked for) and venues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Nbbo {
    /// The quotes.
    pub(crate) input: LogicalPlan,
    pub(crate) arguments: NbboArguments,
    schema: DFSchemaRef,
}

/// The names of a side's columns.
const COLUMNS: [[&str; 3]; 2] = [["bid", "bid_size", "bid_venues"], ["ask", "ask_size", "ask_venues"]];

impl Nbbo {
    pub(crate) fn try_new(input: LogicalPlan, arguments: NbboArguments) -> Result<Self> {
        let through = std::iter::once(&arguments.time).chain(&arguments.series);
        let mut fields = exprlist_to_fields(through, &input)?;
        let venues = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
        for ([price, size, set], asked) in COLUMNS.into_iter().zip(&arguments.sizes) {
            let mut add = |name: &str, data_type: &DataType| {
                let field = Field::new(name, data_type.clone(), true);
                fields.push((None::<TableReference>, Arc::new(field)));
            };
            add(price, &DataType::Float64);
            if asked.is_some() {
                add(size, &DataType::Float64);
            }
            add(set, &venues);
        }
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self { input, arguments, schema: Arc::new(schema) })
    }
}

node!(Nbbo);

impl Node<1> for Nbbo {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        let NbboArguments { time, series, venue, prices, sizes } = &self.arguments;
        let sizes = sizes.iter().flatten();
        [time, venue].into_iter().chain(prices).chain(sizes).chain(series).cloned().collect()
    }

    /// Books follow from all quotes before: only a condition on the series leaves them what they are.
    fn passes(&self, column: usize) -> bool {
        is_plain_key(&self.arguments.series, column)
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NbboArguments { time, series, venue, prices: [bid, ask], .. } = &self.arguments;
        write!(f, "Nbbo: by {time}, bid={bid}, ask={ask}, venue={venue}, series=[")?;
        write_list(f, series)?;
        f.write_str("]")
    }

    fn over(&self, mut exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        let old = &self.arguments;
        let mut next = |old: &Expr| exprs.next(old);
        let (time, venue) = (next(&old.time), next(&old.venue));
        let prices = old.prices.each_ref().map(&mut next);
        let sizes = old.sizes.each_ref().map(|size| size.as_ref().map(&mut next));
        let series = old.series.iter().map(&mut next).collect();
        Self::try_new(input, NbboArguments { time, series, venue, prices, sizes })
    }

    fn reads(&self, _output: &[usize]) -> [Vec<usize>; 1] {
        [columns_of(&self.exprs(), self.input.schema())]
    }
}

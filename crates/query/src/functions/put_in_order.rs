//! Aggregates that need their rows in an order, beside others that need them in another: `nth_value(x, 2 ORDER BY a)` and
//! `nth_value(x, 2 ORDER BY b)`.
//!
//! DataFusion 55.2 sorts the input of such an aggregate, and refuses two orders. Where there are two, the rows of a group
//! are kept here, with what they are ordered by, and put in order when it is finished (`rules::aggregates`).

use super::user::{bytes_of, list_of, listed, unlisted};
use datafusion::arrow::array::{Array, ArrayRef, UInt64Array, new_empty_array};
use datafusion::arrow::compute::{SortColumn, SortOptions, concat, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use std::sync::Arc;

/// The same aggregate, which takes its rows in any order.
pub(crate) fn put_in_order(aggregate: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(PutInOrder(Arc::clone(aggregate)).into())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PutInOrder(Arc<AggregateUDF>);

impl AggregateUDFImpl for PutInOrder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.0.default_value(data_type)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let columns = args.input_fields.iter().chain(args.ordering_fields).enumerate();
        let field = |(at, field): (usize, &FieldRef)| {
            let name = format_state_name(args.name, &format!("column {at}"));
            Arc::new(Field::new(name, list_of(field.data_type()), true))
        };
        Ok(columns.map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let order = args.order_bys.iter().map(|key| key.options).collect();
        let arguments = args.expr_fields.len();
        let types = args.expr_fields.iter().map(|field| Ok(field.data_type().clone()));
        let keys = args.order_bys.iter().map(|key| key.expr.data_type(args.schema));
        let types = types.chain(keys).collect::<Result<Vec<DataType>>>()?;
        let columns = types.iter().map(|_| Vec::new()).collect();
        let inner = self.0.accumulator(args)?;
        Ok(Box::new(Rows { inner, types, arguments, order, columns, bytes: 0 }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

/// The rows of a group.
#[derive(Debug)]
struct Rows {
    /// What takes them in when they are in order.
    inner: Box<dyn Accumulator>,
    /// Of the columns: the arguments, then what they are ordered by.
    types: Vec<DataType>,
    arguments: usize,
    order: Vec<SortOptions>,
    /// For each column the batches that came.
    columns: Vec<Vec<ArrayRef>>,
    bytes: usize,
}

impl Rows {
    fn push(&mut self, values: impl IntoIterator<Item = ArrayRef>) {
        for (column, values) in self.columns.iter_mut().zip(values) {
            self.bytes += bytes_of(&values);
            column.push(values);
        }
    }

    /// The columns, each in one piece.
    fn joined(&self) -> Result<Vec<ArrayRef>> {
        let one = |(chunks, data_type): (&Vec<ArrayRef>, &DataType)| match chunks.as_slice() {
            [] => Ok(new_empty_array(data_type)),
            chunks => Ok(concat(&chunks.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
        };
        self.columns.iter().zip(&self.types).map(one).collect()
    }
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.push(values.iter().map(Arc::clone));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self.joined()?;
        let rows = columns.first().map_or(0, |column| column.len());
        if rows > 0 {
            let keys = columns[self.arguments..].iter().zip(&self.order);
            let mut by: Vec<SortColumn> = keys
                .map(|(values, options)| SortColumn { values: Arc::clone(values), options: Some(*options) })
                .collect();
            // Of equal rows the one that came first.
            by.push(SortColumn {
                values: Arc::new((0..rows as u64).collect::<UInt64Array>()),
                options: Some(SortOptions::default()),
            });
            let places = lexsort_to_indices(&by, None)?;
            let sorted: Vec<ArrayRef> =
                columns.iter().map(|column| take(column, &places, None)).collect::<Result<_, _>>()?;
            self.inner.update_batch(&sorted)?;
        }
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.joined()?;
        let all = 0..columns.first().map_or(0, |column| column.len());
        let one = |column| ScalarValue::try_from_array(&listed(column, std::slice::from_ref(&all))?, 0);
        columns.into_iter().map(one).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let values = states.iter().map(|state| Ok(unlisted(state)?.0)).collect::<Result<Vec<_>>>()?;
        self.push(values);
        Ok(())
    }
}

//! `CASE WHEN … THEN a ELSE b END` of two numbers that cost little: both are worked out for all rows, and each row takes
//! its own. Where that fails, since one of them cannot be worked out for a row of the other, rows are taken apart.

use crate::error::from_arrow;
use crate::operators::expr::{InPlace, in_place};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::{kernels::zip::zip, prep_null_mask_filter};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NegativeExpr, NotExpr,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use std::sync::Arc;

/// Most operations of a branch that is worked out for rows that do not take it.
const OPERATIONS_MAX: usize = 8;

/// The quick form of a CASE of one condition; `None` of anything else.
pub(super) fn choice(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Arc<dyn PhysicalExpr>> {
    let case = expr.downcast_ref::<CaseExpr>().filter(|case| case.expr().is_none())?;
    let [(when, then)] = case.when_then_expr() else { return None };
    let or = case.else_expr()?;
    let of = expr.data_type(schema).ok()?;
    let same = [then, or].iter().all(|branch| branch.data_type(schema).is_ok_and(|branch| branch == of));
    let cheap = [then, or].iter().all(|branch| is_cheap(branch, &mut 0)) && !is_volatile(expr);
    (of.is_numeric() && same && cheap).then(|| {
        let (when, then, or) = (Arc::clone(when), Arc::clone(then), Arc::clone(or));
        Arc::new(Choice { case: Arc::clone(expr), when, then, or }) as _
    })
}

/// Whether an expression costs little for any row.
fn is_cheap(expr: &Arc<dyn PhysicalExpr>, operations: &mut usize) -> bool {
    *operations += 1;
    let simple = expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<CastExpr>()
        || expr.is::<BinaryExpr>()
        || expr.is::<NegativeExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>();
    simple
        && *operations <= OPERATIONS_MAX
        && expr.children().into_iter().all(|child| is_cheap(child, operations))
}

/// One of two values of each row.
#[derive(Debug)]
struct Choice {
    case: Arc<dyn PhysicalExpr>,
    when: Arc<dyn PhysicalExpr>,
    then: Arc<dyn PhysicalExpr>,
    or: Arc<dyn PhysicalExpr>,
}

impl Choice {
    /// The values of all rows; `None` where a branch cannot be worked out for all of them.
    fn values(&self, batch: &RecordBatch) -> Result<Option<ArrayRef>> {
        let rows = batch.num_rows();
        let when = self.when.evaluate(batch)?.into_array(rows)?;
        let Some(when) = when.as_boolean_opt() else { return Ok(None) };
        let when = if when.null_count() > 0 { prep_null_mask_filter(when) } else { when.clone() };
        let (Ok(then), Ok(or)) = (self.then.evaluate(batch), self.or.evaluate(batch)) else {
            return Ok(None);
        };
        let (then, or) = (then.into_array(rows)?, or.into_array(rows)?);
        Ok(Some(match then.data_type() {
            DataType::Int32 => chosen::<Int32Type>(when.values(), &then, &or),
            DataType::Int64 => chosen::<Int64Type>(when.values(), &then, &or),
            DataType::Float32 => chosen::<Float32Type>(when.values(), &then, &or),
            DataType::Float64 => chosen::<Float64Type>(when.values(), &then, &or),
            _ => {
                let when = BooleanArray::new(when.values().clone(), None);
                zip(&when, &then, &or).map_err(from_arrow)?
            }
        }))
    }
}

/// The value of each row.
fn chosen<A: ArrowPrimitiveType>(when: &BooleanBuffer, then: &ArrayRef, or: &ArrayRef) -> ArrayRef {
    let (then, or) = (then.as_primitive::<A>(), or.as_primitive::<A>());
    let pairs = then.values().iter().zip(or.values().iter());
    let values = when.iter().zip(pairs).map(|(when, (then, or))| if when { *then } else { *or });
    let values: Vec<A::Native> = values.collect();
    let valid = |of: &PrimitiveArray<A>| match of.nulls() {
        Some(nulls) => nulls.inner().clone(),
        None => BooleanBuffer::new_set(of.len()),
    };
    let nulls = (then.null_count() + or.null_count() > 0)
        .then(|| NullBuffer::new(&(when & &valid(then)) | &(&!when & &valid(or))));
    Arc::new(PrimitiveArray::<A>::new(values.into(), nulls).with_data_type(then.data_type().clone()))
}

in_place!(Choice);

impl InPlace for Choice {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.case
    }

    fn work_out(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.values(batch)? {
            Some(values) => Ok(ColumnarValue::Array(values)),
            None => self.case.evaluate(batch),
        }
    }

    fn below(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.when, &self.then, &self.or]
    }

    fn over(&self, mut below: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let (or, then, when) = (below.swap_remove(2), below.swap_remove(1), below.swap_remove(0));
        let whens = vec![(Arc::clone(&when), Arc::clone(&then))];
        let case = Arc::new(CaseExpr::try_new(None, whens, Some(Arc::clone(&or)))?);
        Ok(Arc::new(Self { case, when, then, or }))
    }
}

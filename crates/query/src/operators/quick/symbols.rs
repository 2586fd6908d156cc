//! Expressions over one SYMBOL column are worked out once a symbol, and rows take what is found by their ids:
//! `side = 'buy'`, `venue IN (…)`, `upper(symbol)`.

use crate::arrays::dictionaries::{OfDictionaries, is_symbol};
use crate::error::from_arrow;
use crate::operators::below::batch_of;
use crate::operators::expr::{InPlace, in_place};
use arrow_select::take::take;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, UInt32Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use std::sync::{Arc, Mutex, PoisonError};

/// Symbols for which an expression is worked out that few rows ask for.
const SYMBOLS_MIN: usize = 1_024;
/// More symbols are not remembered.
const SYMBOLS_MAX: usize = 1 << 17;

/// The form of an expression over one SYMBOL column that is worked out once a symbol; `None` of any other.
pub(super) fn by_symbol(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let Some(column) = only_symbol(expr, schema) else { return Ok(None) };
    Ok(Some(Arc::new(BySymbol::new(Arc::clone(expr), column, schema)?)))
}

/// The one column of an expression that is more than that, where it is one of symbols.
fn only_symbol(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    let columns = collect_columns(expr);
    let mut columns = columns.iter();
    let (Some(column), None) = (columns.next(), columns.next()) else { return None };
    let of = schema.fields().get(column.index())?.data_type();
    // Results of these types are taken by their ids without a look at each.
    let taken = expr.data_type(schema).is_ok_and(|of| of == DataType::Boolean || of.is_primitive());
    (is_symbol(of) && taken && !expr.is::<Column>() && !is_volatile(expr)).then_some(column.index())
}

/// An expression over one column of symbols.
#[derive(Debug)]
pub(super) struct BySymbol {
    expr: Arc<dyn PhysicalExpr>,
    column: usize,
    /// The same over a batch of that column alone.
    alone: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// What it is of each symbol of a dictionary, and of NULL behind the last; `None` where it fails for some symbol,
    /// which no row may have.
    known: Mutex<OfDictionaries<Option<ArrayRef>>>,
}

impl BySymbol {
    fn new(expr: Arc<dyn PhysicalExpr>, column: usize, schema: &SchemaRef) -> Result<Self> {
        let alone = |expr: Arc<dyn PhysicalExpr>| {
            Ok(match expr.downcast_ref::<Column>() {
                Some(of) => Transformed::yes(Arc::new(Column::new(of.name(), 0)) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(expr),
            })
        };
        let alone = Arc::clone(&expr).transform_up(alone).data()?;
        let field = schema.field(column).clone().with_nullable(true);
        let schema = Arc::new(Schema::new(vec![field]));
        Ok(Self { expr, column, alone, schema, known: Mutex::default() })
    }

    /// What it is of each symbol, where that is known, or is worth finding out for so many rows.
    fn known(&self, symbols: &ArrayRef, rows: usize) -> Result<Option<ArrayRef>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(results) = known.get(symbols) {
            return Ok(results.clone());
        }
        let count = symbols.len();
        if count > SYMBOLS_MAX || count > rows.max(SYMBOLS_MIN) {
            return Ok(None);
        }
        let ids: UInt32Array = (0..count as u32).map(Some).chain([None]).collect();
        let all = crate::scan::symbols_by_id(&ids, Arc::clone(symbols))?;
        let batch = batch_of(&self.schema, vec![all], count + 1)?;
        let results = self.alone.evaluate(&batch).and_then(|found| found.into_array(count + 1)).ok();
        known.insert(symbols, results.clone());
        Ok(results)
    }
}

/// The result of each row by its id.
fn take_results(results: &ArrayRef, ids: &UInt32Array) -> Result<ArrayRef> {
    let null = results.len() - 1;
    let nulls = ids.nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some(results) = results.as_boolean_opt() {
        let values: Vec<bool> = results.values().iter().collect();
        let values_of = |row: usize, id: u32| match nulls {
            Some(nulls) if nulls.is_null(row) => null,
            _ => id as usize,
        };
        let of = ids.values();
        let gather =
            |values: &[bool]| BooleanBuffer::collect_bool(of.len(), |row| values[values_of(row, of[row])]);
        let valid = results.nulls().filter(|nulls| nulls.null_count() > 0);
        let valid = valid.map(|valid| NullBuffer::new(gather(&valid.iter().collect::<Vec<bool>>())));
        return Ok(Arc::new(BooleanArray::new(gather(&values), valid)));
    }
    let Some(nulls) = nulls else { return take(results, ids, None).map_err(from_arrow) };
    let ids = ids.values().iter().enumerate();
    let ids = ids.map(|(row, id)| if nulls.is_null(row) { null as u32 } else { *id });
    take(results, &ids.collect::<UInt32Array>(), None).map_err(from_arrow)
}

in_place!(BySymbol);

impl InPlace for BySymbol {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    fn work_out(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let column = batch.columns().get(self.column);
        let column = column.ok_or_else(|| internal_datafusion_err!("no column {} to read", self.column))?;
        let Some(symbols) = column.as_dictionary_opt::<UInt32Type>() else {
            return self.expr.evaluate(batch);
        };
        match self.known(symbols.values(), batch.num_rows())? {
            Some(results) => Ok(ColumnarValue::Array(take_results(&results, symbols.keys())?)),
            None => self.expr.evaluate(batch),
        }
    }

    fn over(&self, mut below: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        // It is over other columns, or over others' schema, now.
        Ok(below.swap_remove(0))
    }
}

//! Columns that come from the files' paths: the keys of `key=value` folders, and their names.

use crate::error::{QueryError, Result};
use crate::paths::{DataFile, KeyColumn, key_columns};
use arrow_cast::cast;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, RecordBatchOptions, StringArray, UInt32Array,
};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;
use tickstone_model::ColumnType;

/// The columns that paths give: one row a file.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    rows: RecordBatch,
}

impl Folders {
    /// The columns that paths give files whose own are `schema`, which count before them: keys, where `hive` is so or
    /// nothing is said and they are the same for all; and the files' names where `filename` is so.
    pub(super) fn of(
        files: &[DataFile],
        schema: &Schema,
        hive: Option<bool>,
        filename: bool,
    ) -> Result<Self> {
        let mut all = match hive {
            Some(false) => Vec::new(),
            hive => key_columns(files, hive.is_some())?,
        };
        if filename && schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case("filename")) {
            return Err(QueryError::request("filename => true, and the files have a column 'filename'")
                .hint("leave the option out, or rename the column in a query over the file"));
        }
        if filename {
            all.retain(|key| !key.name.eq_ignore_ascii_case("filename"));
            let values = files.iter().map(|file| Some(file.path.to_string_lossy().into_owned())).collect();
            all.push(KeyColumn { name: "filename".to_string(), column_type: ColumnType::Symbol, values });
        }
        let own = |name: &str| schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name));
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for column in all.iter().filter(|column| !own(&column.name)) {
            let texts: ArrayRef =
                Arc::new(column.values.iter().map(Option::as_deref).collect::<StringArray>());
            let values = cast(&texts, &column.column_type.edge_type())?;
            fields.push(Field::new(&column.name, values.data_type().clone(), true));
            columns.push(values);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(files.len()));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        Ok(Self { rows })
    }

    /// The columns.
    pub(super) fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// The columns' values for a file.
    pub(super) fn values(&self, file: usize) -> datafusion::common::Result<Vec<ScalarValue>> {
        self.rows.columns().iter().map(|column| ScalarValue::try_from_array(column, file)).collect()
    }

    /// A column's value for a file, as often as it has rows.
    pub(super) fn repeated(
        &self,
        column: usize,
        file: usize,
        rows: usize,
    ) -> datafusion::common::Result<ArrayRef> {
        let values = self.rows.column(column);
        if let Some(texts) = values.as_any_dictionary_opt() {
            // One value of the dictionary, not a dictionary of all.
            let key = texts.keys().is_valid(file).then(|| texts.normalized_keys()[file] as u32);
            let keys: UInt32Array = std::iter::repeat_n(key, rows).collect();
            return Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(texts.values()))?));
        }
        ScalarValue::try_from_array(values, file)?.to_array_of_size(rows)
    }

    /// Whether a condition is about these columns alone, and says the same however often it is asked.
    pub(super) fn decide(&self, condition: &Expr) -> bool {
        let schema = self.rows.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        !names.is_empty() && expr_applicable_for_cols(&names, condition) && !condition.is_volatile()
    }

    /// The files whose rows meet the conditions that [`Self::decide`]; the others are not asked.
    pub(super) fn chosen(&self, conditions: &[Expr]) -> datafusion::common::Result<Vec<usize>> {
        let mut chosen: Vec<usize> = (0..self.rows.num_rows()).collect();
        let schema = DFSchema::try_from(self.rows.schema().as_ref().clone())?;
        for condition in conditions.iter().filter(|condition| self.decide(condition)) {
            // Conditions of a scan name columns by their table; here there is none.
            let met = create_physical_expr(
                &unnormalize_col(condition.clone()),
                &schema,
                &ExecutionProps::new(),
                &PhysicalPlanningContext::default(),
            )?
            .evaluate(&self.rows)?
            .into_array(self.rows.num_rows())?;
            let met = met.as_boolean();
            chosen.retain(|file| met.is_valid(*file) && met.value(*file));
        }
        Ok(chosen)
    }
}

//! A table of one snapshot as DataFusion sees it: a schema, and a scan with its filters pushed down.

use crate::dialect::change::ROW_NUMBER;
use crate::error::external;
use crate::scan::{Constraint, ScanExec, Selected};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use tickstone_engine::TableSnapshot;

/// One table as of one snapshot. A statement makes one for each table it names.
#[derive(Debug)]
pub struct SnapshotTable {
    table: Arc<TableSnapshot>,
    schema: SchemaRef,
    /// Whether its scans are templates: they select when they are bound.
    template: bool,
    /// What was selected so far: the planner asks for sizes before it asks for the scan.
    selected: Mutex<Vec<(Constraint, Arc<Selected>)>>,
}

impl SnapshotTable {
    /// The table `table`, whose marked edge schema is `schema`.
    pub fn new(table: Arc<TableSnapshot>, schema: SchemaRef) -> Self {
        Self { table, schema, template: false, selected: Mutex::default() }
    }

    /// The same for a plan that is kept.
    pub(crate) fn template(table: Arc<TableSnapshot>, schema: SchemaRef) -> Self {
        Self { template: true, ..Self::new(table, schema) }
    }

    /// The same with one more column: the numbers of rows ([`ROW_NUMBER`]).
    #[must_use]
    pub(crate) fn with_numbers(&self) -> Self {
        let number = Arc::new(Field::new(ROW_NUMBER, DataType::UInt64, false));
        let fields: Vec<FieldRef> = self.schema.fields().iter().cloned().chain([number]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let known = self.selected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let table = Arc::clone(&self.table);
        Self { table, schema, template: self.template, selected: Mutex::new(known) }
    }

    /// The engine's view of the table.
    pub fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// The rows that a scan with these filters yields.
    ///
    /// # Errors
    /// Those of the engine where it cannot read the table's files.
    pub fn rows_selected(&self, filters: &[Expr]) -> Result<u64> {
        Ok(self.select(filters)?.rows)
    }

    fn select(&self, filters: &[Expr]) -> Result<Arc<Selected>> {
        let constraint = Constraint::all(&self.table, filters.iter());
        let mut known = self.selected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, selected)) = known.iter().find(|(of, _)| *of == constraint) {
            return Ok(Arc::clone(selected));
        }
        let selected = if constraint.is_empty() {
            Selected::nothing(&self.table, constraint.clone().into_selection())
        } else {
            Selected::new(&self.table, constraint.clone().into_selection()).map_err(external)?
        };
        let selected = Arc::new(selected);
        known.push((constraint, Arc::clone(&selected)));
        Ok(selected)
    }
}

impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let constraint = |filter: &Expr| match self.template {
            true => Constraint::of_template(&self.table, filter),
            false => Constraint::of(&self.table, filter),
        };
        let support = |filter: &&Expr| match constraint(filter) {
            Some(constraint) if constraint.exact => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    // Written without `async_trait`, which costs seconds of build time an implementation.
    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        state: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
    {
        if self.template {
            let scan =
                ScanExec::template(&self.table, &self.schema, projection, filters, limit, state.config());
            return Box::pin(async move { Ok(Arc::new(scan) as Arc<dyn ExecutionPlan>) });
        }
        let planned = self.select(filters).map(|selected| {
            let scan = ScanExec::new(&selected, &self.schema, projection, limit, state.config());
            Arc::new(scan) as Arc<dyn ExecutionPlan>
        });
        Box::pin(async move { planned })
    }
}

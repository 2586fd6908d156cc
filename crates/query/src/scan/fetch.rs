//! Columns of single rows, by the rows' numbers: what is left to be read of the few rows that a query keeps.

use super::columns::{Columns, numbered_row};
use super::exec::ScanExec;
use super::selected::Selected;
use crate::error::{external, from_arrow};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array, new_empty_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use std::sync::Arc;

/// Reads columns of rows that a scan numbered.
#[derive(Debug)]
pub(crate) struct RowFetcher {
    selected: Arc<Selected>,
    columns: Columns,
}

impl RowFetcher {
    /// A fetcher of the columns `columns` of the scan's table, which are those of `schema`.
    pub(crate) fn new(scan: &ScanExec, columns: &[usize], schema: SchemaRef) -> Self {
        let selected = Arc::clone(scan.selected());
        let columns = Columns::new(&selected.table, schema, columns, scan.bytes_read());
        Self { selected, columns }
    }

    /// The columns of rows, in the order of `numbers`.
    pub(crate) fn fetch(&self, numbers: &UInt64Array) -> Result<Vec<ArrayRef>> {
        crate::wanted::look()?;
        let numbers = numbers.values();
        // Rows are read as they lie, so that no block is decoded twice.
        let sorted = numbers.is_sorted();
        let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
        if !sorted {
            order.sort_by_key(|at| numbers[*at as usize]);
        }
        let rows: Vec<(usize, usize)> = order.iter().map(|at| numbered_row(numbers[*at as usize])).collect();
        let lists: Vec<(usize, Vec<usize>)> = rows
            .chunk_by(|a, b| a.0 == b.0)
            .map(|of| (of[0].0, of.iter().map(|(_, row)| *row).collect()))
            .collect();
        let back = (!sorted).then(|| {
            let mut back = vec![0; order.len()];
            for (at, row) in (0..).zip(&order) {
                back[*row as usize] = at;
            }
            UInt32Array::from(back)
        });
        let column = |column: usize| {
            let read = |(segment, rows): &(usize, Vec<usize>)| {
                self.selected.segments[*segment].take(column, rows).map_err(external)
            };
            let arrays = lists.iter().map(read).collect::<Result<Vec<ArrayRef>>>()?;
            let all = match arrays.as_slice() {
                [] => {
                    let of = self.selected.table.schema().columns()[column].column_type;
                    new_empty_array(&of.stored_type())
                }
                [only] => Arc::clone(only),
                _ => {
                    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                    concat(&arrays).map_err(from_arrow)?
                }
            };
            match &back {
                Some(back) => take(&all, back, None).map_err(from_arrow),
                None => Ok(all),
            }
        };
        self.columns.edge(self.columns.indices().map(column).collect::<Result<_>>()?)
    }
}

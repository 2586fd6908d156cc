//! Changes of data: what each does in engine terms ([`Change::run`]) and in model terms
//! ([`Change::apply`]). A new kind is a variant and an arm in both, and a way to choose it in `world/actions`.

use crate::edit::Edit;
use crate::shape::{ModelTable, Row, State, TableSpec};
use crate::table::record_batch;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError, Result};
use tickstone_model::{AlterTable, SyncPolicy, TimeRange};

/// A change of data, whole or not at all.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A new table.
    Create {
        /// Its shape.
        spec: TableSpec,
        /// Which making of a table of this name it is.
        made: u64,
    },
    /// A table goes.
    Drop {
        /// Its name.
        table: String,
    },
    /// A table's rows go.
    Truncate {
        /// Its name.
        table: String,
    },
    /// Rows of one or more tables: a commit, a transaction, or a bulk load.
    Rows {
        /// By table, in arrival order.
        tables: Vec<(String, Vec<Row>)>,
        /// When, ns since the Unix epoch.
        at_ns: i64,
    },
    /// A table gets another shape, or name.
    Alter {
        /// Its name.
        table: String,
        /// How.
        change: AlterTable,
    },
    /// A table goes, and another has its name.
    Replace {
        /// Its name.
        table: String,
        /// The other's.
        with: String,
    },
    /// Whole partitions go.
    DropPartitions {
        /// The table's name.
        table: String,
        /// Those that lie whole in it.
        range: TimeRange,
    },
    /// DELETE and UPDATE.
    Rewrite {
        /// The table's name.
        table: String,
        /// Of which rows.
        edit: Arc<Edit>,
    },
}

impl Change {
    /// Does it, in model terms.
    pub(crate) fn apply(&self, state: &mut State) {
        match self {
            Change::Create { spec, made } => {
                let table = ModelTable { spec: spec.clone(), made: *made, rows: Vec::new() };
                state.insert(spec.name.clone(), Arc::new(table));
            }
            Change::Drop { table } => {
                state.remove(table);
            }
            Change::Truncate { table } => {
                change_table(state, table, |table| table.rows.clear());
            }
            Change::Rows { tables, at_ns } => {
                for (name, rows) in tables {
                    change_table(state, name, |table| table.commit(rows, *at_ns));
                }
            }
            Change::Alter { table, change } => {
                if let Some(mut altered) = state.remove(table) {
                    Arc::make_mut(&mut altered).alter(change);
                    state.insert(altered.spec.name.clone(), altered);
                }
            }
            Change::Replace { table, with } => {
                let replaced = state.remove(table);
                if let Some(mut altered) = state.remove(with) {
                    let taking = Arc::make_mut(&mut altered);
                    taking.alter(&AlterTable::RenameTable(table.clone()));
                    if let Some(replaced) = replaced {
                        taking.spec.access = taking.spec.access_of_replaced(&replaced.spec);
                    }
                    state.insert(table.clone(), altered);
                }
            }
            Change::DropPartitions { table, range } => {
                change_table(state, table, |table| table.drop_partitions(*range));
            }
            Change::Rewrite { table, edit } => {
                change_table(state, table, |table| table.rewrite(&edit.deleted, &edit.updated, edit.column));
            }
        }
    }

    /// Does it, in engine terms, with the least of calls; `state` is that of the model before.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn run(&self, engine: &Engine, state: &State, sync: Option<SyncPolicy>) -> Result<()> {
        match self {
            Change::Create { spec, .. } => {
                let schema = spec.schema().map_err(|what| EngineError::NoSuchTable { name: what })?;
                engine.create_table(schema)
            }
            Change::Drop { table } => engine.drop_table(table),
            Change::Truncate { table } => engine.truncate_table(table),
            Change::Alter { table, change } => engine.alter_table(table, change),
            Change::Replace { table, with } => engine.replace_table(table, with),
            Change::DropPartitions { table, range } => engine.drop_partitions(table, *range).map(|_| ()),
            Change::Rewrite { table, edit } => {
                let Some(of) = state.get(table) else { return Ok(()) };
                let mut rewrite = engine.rewrite(table)?;
                edit.stage(&mut rewrite, &of.spec)?;
                rewrite.commit().map(|_| ())
            }
            Change::Rows { tables, .. } => {
                let mut transaction = engine.begin();
                for (name, rows) in tables {
                    if let Some(table) = state.get(name) {
                        transaction.append(name, &record_batch(&table.spec, rows)?)?;
                    }
                }
                transaction.commit(sync).map(|_| ())
            }
        }
    }

    /// In a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Change::Create { spec, .. } => {
                format!("create {} ({} columns, sync {})", spec.name, spec.columns.len(), spec.sync.name())
            }
            Change::Drop { table } => format!("drop {table}"),
            Change::Truncate { table } => format!("truncate {table}"),
            Change::Alter { table, change } => format!("alter {table}: {change:?}"),
            Change::Replace { table, with } => format!("replace {table} with {with}"),
            Change::DropPartitions { table, range } => format!("drop partitions of {table} in {range}"),
            Change::Rewrite { table, edit } => {
                let (deleted, updated) = (edit.deleted.len(), edit.updated.len());
                format!("delete {deleted} of {table}, update {updated} in column {}", edit.column)
            }
            Change::Rows { tables, .. } => {
                let tables = tables.iter().map(|(name, rows)| format!("{name}+{}", rows.len()));
                format!("rows {}", tables.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

fn change_table(state: &mut State, name: &str, change: impl FnOnce(&mut ModelTable)) {
    if let Some(table) = state.get_mut(name) {
        change(Arc::make_mut(table));
    }
}

//! What the statements of a session are planned with: the database's state, its own catalog and settings.

use super::catalog::{PinnedCatalog, PinnedSnapshot};
use crate::database::Database;
use crate::dialect::{Callable, CallableKind};
use crate::error::Result;
use crate::facts::{heeds_distinct, heeds_nulls, takes_any_order};
use crate::functions::user::FunctionSet;
use crate::running::SessionMemory;
use datafusion::catalog::{CatalogProviderList, TableFunctionImpl};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState, TaskContext};
use datafusion::logical_expr::Volatility;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Table functions that show what a pinned snapshot holds, by name.
pub(crate) type ShowFunctions = fn(&Arc<PinnedSnapshot>) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)>;

/// The next number of a session's settings.
static SETTINGS: AtomicU64 = AtomicU64::new(1);

/// The states of one session.
#[derive(Debug)]
pub(crate) struct States {
    /// For statements over many rows: several partitions at once.
    pub(crate) wide: SessionState,
    /// For all others: one partition, so that nothing is repartitioned or spawned.
    pub(crate) narrow: SessionState,
    /// What plans of either run with; made once, since it holds a copy of every function's name.
    wide_task: Arc<TaskContext>,
    narrow_task: Arc<TaskContext>,
    /// That of the database, with memory counted for the session.
    runtime: Arc<RuntimeEnv>,
    /// A number of what was SET: 0 for what all sessions start with.
    pub(crate) settings: u64,
    /// The functions of the user's own that they know.
    pub(crate) functions: Arc<FunctionSet>,
}

impl States {
    pub(crate) fn new(
        database: &Database,
        pinned: &Arc<PinnedSnapshot>,
        memory: &Arc<SessionMemory>,
        shows: ShowFunctions,
        user: Option<u32>,
    ) -> Self {
        let catalog: Arc<dyn CatalogProviderList> = Arc::new(PinnedCatalog::new(pinned));
        let mut wide = database.base_state().clone();
        wide.register_catalog_list(catalog);
        for (name, function) in shows(pinned) {
            wide.register_udtf(name, function);
        }
        for function in pinned.system().map(|system| system.functions()).unwrap_or_default() {
            // Of a session's own state, which has no function of the name before.
            let _ = wide.register_udf(function);
        }
        let memory_pool = Arc::clone(memory) as Arc<dyn MemoryPool>;
        let shared = wide.runtime_env().as_ref().clone();
        let of_user = user.and_then(|user| database.shares().disk(user).ok());
        let disk_manager = of_user.unwrap_or_else(|| Arc::clone(&shared.disk_manager));
        let runtime = Arc::new(RuntimeEnv { memory_pool, disk_manager, ..shared });
        Self::over(wide, runtime, 0, Arc::default())
    }

    fn over(
        wide: SessionState,
        runtime: Arc<RuntimeEnv>,
        settings: u64,
        functions: Arc<FunctionSet>,
    ) -> Self {
        let narrow = narrowed(&wide);
        let task =
            |state: &SessionState| Arc::new(TaskContext::from(state).with_runtime(Arc::clone(&runtime)));
        let (wide_task, narrow_task) = (task(&wide), task(&narrow));
        Self { wide, narrow, wide_task, narrow_task, runtime, settings, functions }
    }

    /// What a plan of the wide or the narrow state runs with.
    pub(crate) fn task(&self, wide: bool) -> Arc<TaskContext> {
        Arc::clone(if wide { &self.wide_task } else { &self.narrow_task })
    }

    /// The function of a name in lower case.
    pub(crate) fn callable(&self, name: &str) -> Option<Callable> {
        let state = &self.narrow;
        let callable =
            |kind, volatile| Callable { kind, distinct: false, nulls: false, order: false, volatile };
        if let Some(scalar) = state.scalar_functions().get(name) {
            let volatile = scalar.signature().volatility == Volatility::Volatile;
            return Some(callable(CallableKind::Scalar, volatile));
        }
        if state.higher_order_functions().contains_key(name) {
            return Some(callable(CallableKind::Scalar, false));
        }
        let nulls = heeds_nulls(name);
        if let Some(aggregate) = state.aggregate_functions().get(name) {
            // A function of the user's own is told of DISTINCT.
            let own = self.functions.iter().any(|function| function.name().eq_ignore_ascii_case(name));
            let (distinct, nulls) =
                (own || heeds_distinct(aggregate.name()), nulls || aggregate.supports_null_handling_clause());
            let order = own || !takes_any_order(aggregate.name());
            return Some(Callable { distinct, nulls, order, ..callable(CallableKind::Aggregate, false) });
        }
        let window = state.window_functions().contains_key(name);
        window.then_some(Callable { nulls, ..callable(CallableKind::Window, false) })
    }

    /// Starts a statement: `now()` is this moment.
    pub(crate) fn begin(&mut self) {
        self.wide.mark_start_execution();
        self.narrow.mark_start_execution();
    }

    /// Gets to know the functions of the user's own.
    ///
    /// # Errors
    /// Those of the states.
    pub(crate) fn know(&mut self, functions: Arc<FunctionSet>) -> Result<()> {
        if functions.version == self.functions.version {
            return Ok(());
        }
        let mut wide = self.wide.clone();
        functions.install(&self.functions, &mut wide)?;
        *self = Self::over(wide, Arc::clone(&self.runtime), self.settings, functions);
        Ok(())
    }

    /// Has the settings of others.
    pub(crate) fn set_all(&mut self, of: &Self) {
        let mut wide = self.wide.clone();
        *wide.config_mut() = of.wide.config().clone();
        *self = Self::over(wide, Arc::clone(&self.runtime), of.settings, Arc::clone(&self.functions));
    }

    /// Changes an option for the rest of the session.
    ///
    /// # Errors
    /// Where there is no such option, or it cannot have that value.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let mut wide = self.wide.clone();
        wide.config_mut().options_mut().set(name, value)?;
        let (runtime, settings) = (Arc::clone(&self.runtime), SETTINGS.fetch_add(1, Ordering::Relaxed));
        *self = Self::over(wide, runtime, settings, Arc::clone(&self.functions));
        Ok(())
    }
}

fn narrowed(wide: &SessionState) -> SessionState {
    let mut narrow = wide.clone();
    narrow.config_mut().options_mut().execution.target_partitions = 1;
    narrow
}

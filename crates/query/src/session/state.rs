//! What DataFusion is configured with: catalog, functions, rules.

use super::catalog::{PinnedCatalog, PinnedSnapshot};
use super::memory::SessionMemory;
use crate::Database;
use crate::dialect::{Callable, CallableKind};
use crate::error::Result;
use crate::functions::ExtractFields;
use crate::functions::user::FunctionSet;
use crate::functions::{heeds_distinct, heeds_nulls};
use crate::literals::UuidLiterals;
use crate::operators::{self, SessionSettings};
use crate::uuids::OtherTypes;
use datafusion::catalog::CatalogProviderList;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateDefaults, TaskContext};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the one catalog and of the one schema in it.
pub(super) const CATALOG: &str = "tickstone";
pub(super) const SCHEMA: &str = "public";

/// The state all sessions of a database start with; it has no catalog yet.
pub(crate) fn base(threads: usize, memory_bytes: usize) -> Result<SessionState> {
    let pool = Arc::new(FairSpillPool::new(memory_bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool);
    let builder = SessionStateBuilder::new()
        .with_config(config(threads))
        .with_runtime_env(runtime.build_arc()?)
        .with_expr_planners(expr_planners())
        .with_type_planner(Arc::new(OtherTypes))
        .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_table_function_list(crate::functions::series::table_functions());
    Ok(operators::install(builder).build())
}

fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let first: [Arc<dyn ExprPlanner>; 2] = [Arc::new(UuidLiterals), Arc::new(ExtractFields)];
    first.into_iter().chain(SessionStateDefaults::default_expr_planners()).collect()
}

fn config(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_option_extension(SessionSettings::default());
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    // Names take the spelling of what they refer to before they are planned (`dialect::resolve_names`).
    options.sql_parser.enable_ident_normalization = false;
    // Text is `Utf8` everywhere, as tables have it.
    options.sql_parser.map_string_types_to_utf8view = false;
    options.optimizer.max_passes = 1;
    // A UNION of a designated timestamp and another column has the marks of both when it runs and of neither in the
    // logical plan: no error. What a batch holds is checked when it is made.
    options.execution.skip_physical_aggregate_schema_check = true;
    options.explain.logical_plan_only = false;
    options.explain.show_statistics = false;
    config
}

/// The next number of a session's settings.
static SETTINGS: AtomicU64 = AtomicU64::new(1);

/// The states of one session.
#[derive(Debug)]
pub(super) struct States {
    /// For statements over many rows: several partitions at once.
    pub(super) wide: SessionState,
    /// For all others: one partition, so that nothing is repartitioned or spawned.
    pub(super) narrow: SessionState,
    /// What plans of either run with; made once, since it holds a copy of every function's name.
    wide_task: Arc<TaskContext>,
    narrow_task: Arc<TaskContext>,
    /// That of the database, with memory counted for the session.
    runtime: Arc<RuntimeEnv>,
    /// A number of what was SET: 0 for what all sessions start with.
    pub(super) settings: u64,
    /// The functions of the user's own that they know.
    pub(super) functions: Arc<FunctionSet>,
}

impl States {
    pub(super) fn new(
        database: &Database,
        pinned: &Arc<PinnedSnapshot>,
        memory: &Arc<SessionMemory>,
    ) -> Self {
        let catalog: Arc<dyn CatalogProviderList> = Arc::new(PinnedCatalog::new(pinned));
        let mut wide = database.base_state().clone();
        wide.register_catalog_list(catalog);
        for (name, function) in crate::statements::table_functions(pinned) {
            wide.register_udtf(name, function);
        }
        for function in pinned.system().map(|system| system.functions()).unwrap_or_default() {
            // Of a session's own state, which has no function of the name before.
            let _ = wide.register_udf(function);
        }
        let memory_pool = Arc::clone(memory) as Arc<dyn MemoryPool>;
        let runtime = Arc::new(RuntimeEnv { memory_pool, ..wide.runtime_env().as_ref().clone() });
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
    pub(super) fn task(&self, wide: bool) -> Arc<TaskContext> {
        Arc::clone(if wide { &self.wide_task } else { &self.narrow_task })
    }

    /// The function of a name in lower case.
    pub(super) fn callable(&self, name: &str) -> Option<Callable> {
        let state = &self.narrow;
        if state.scalar_functions().contains_key(name) || state.higher_order_functions().contains_key(name) {
            return Some(Callable { kind: CallableKind::Scalar, distinct: false, nulls: false });
        }
        let nulls = heeds_nulls(name);
        if let Some(aggregate) = state.aggregate_functions().get(name) {
            // A function of the user's own is told of DISTINCT.
            let own = self.functions.iter().any(|function| function.name().eq_ignore_ascii_case(name));
            let (distinct, nulls) =
                (own || heeds_distinct(aggregate.name()), nulls || aggregate.supports_null_handling_clause());
            return Some(Callable { kind: CallableKind::Aggregate, distinct, nulls });
        }
        let window = state.window_functions().contains_key(name);
        window.then_some(Callable { kind: CallableKind::Window, distinct: false, nulls })
    }

    /// Starts a statement: `now()` is this moment.
    pub(super) fn begin(&mut self) {
        self.wide.mark_start_execution();
        self.narrow.mark_start_execution();
    }

    /// Gets to know the functions of the user's own.
    ///
    /// # Errors
    /// Those of the states.
    pub(super) fn know(&mut self, functions: Arc<FunctionSet>) -> Result<()> {
        if functions.version == self.functions.version {
            return Ok(());
        }
        let mut wide = self.wide.clone();
        functions.install(&self.functions, &mut wide)?;
        *self = Self::over(wide, Arc::clone(&self.runtime), self.settings, functions);
        Ok(())
    }

    /// Changes an option for the rest of the session.
    ///
    /// # Errors
    /// Where there is no such option, or it cannot have that value.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
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

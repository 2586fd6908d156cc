//! What DataFusion is configured with: functions, operators, rules.

use crate::error::Result;
use crate::functions::{ExtractFields, PlacesInTexts};
use crate::operators;
use crate::rules::literals::UuidLiterals;
use crate::rules::slices::TextSlices;
use crate::rules::texts::OtherTypes;
use crate::settings::SessionSettings;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SessionState, SessionStateDefaults};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// Name of the one catalog and of the one schema in it.
pub(crate) const CATALOG: &str = "tickstone";
pub(crate) const SCHEMA: &str = "public";

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
        .with_table_function_list(crate::functions::generate_series::table_functions());
    Ok(operators::install(builder).build())
}

fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let first: [Arc<dyn ExprPlanner>; 4] =
        [Arc::new(UuidLiterals), Arc::new(TextSlices), Arc::new(ExtractFields), Arc::new(PlacesInTexts)];
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

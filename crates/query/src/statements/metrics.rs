//! SHOW METRICS and `metrics()`: counters since the database was opened, and gauges of now.

use super::show::{batch, numbers, strings};
use crate::aside::listed;
use crate::database::Database;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryLimit;
use tickstone_engine::TableSnapshot;

/// One number that the database knows of itself.
struct Metric {
    name: &'static str,
    /// "counter" only grows; "gauge" is what is now.
    kind: &'static str,
    /// `None` where there is none, such as a budget without a limit.
    value: Option<f64>,
    unit: &'static str,
    description: &'static str,
}

/// One row a metric.
pub(super) fn metrics_batch(database: &Database) -> Result<RecordBatch> {
    let mut all = of_writing(database);
    all.extend(of_storage(database));
    all.extend(of_memory(database));
    all.extend(of_statements(database));
    batch(vec![
        ("metric", strings(all.iter().map(|metric| Some(metric.name)))),
        ("kind", strings(all.iter().map(|metric| Some(metric.kind)))),
        ("value", numbers(all.iter().map(|metric| metric.value))),
        ("unit", strings(all.iter().map(|metric| Some(metric.unit)))),
        ("description", strings(all.iter().map(|metric| Some(metric.description)))),
    ])
}

fn counter(name: &'static str, value: u64, unit: &'static str, description: &'static str) -> Metric {
    Metric { name, kind: "counter", value: Some(value as f64), unit, description }
}

fn gauge(name: &'static str, value: f64, unit: &'static str, description: &'static str) -> Metric {
    Metric { name, kind: "gauge", value: Some(value), unit, description }
}

fn of_writing(database: &Database) -> Vec<Metric> {
    let engine = database.engine();
    let ((commits, rows), stats) = (engine.commits(), engine.maintenance_stats());
    vec![
        counter("commits", commits, "commits", "commits of rows acknowledged, imports included"),
        counter("rows_committed", rows, "rows", "rows in these commits"),
        counter("tape_syncs", engine.syncs(), "syncs", "times the tape was made stable"),
        counter("parts_sealed", stats.parts_sealed, "parts", "parts written of rows that were in memory"),
        counter("sealed_bytes", stats.sealed_bytes, "bytes", "size of these parts"),
        counter(
            "loaded_bytes",
            stats.loaded_bytes,
            "bytes",
            "size of parts that imports and large inserts wrote",
        ),
        counter("merges", stats.compactions, "merges", "times neighbouring parts were merged"),
        counter("parts_merged", stats.parts_merged, "parts", "parts that were merged into others"),
        counter("merged_bytes", stats.compacted_bytes, "bytes", "size of the parts that merges wrote"),
        counter(
            "rewritten_bytes",
            stats.rewritten_bytes,
            "bytes",
            "size of parts that DELETE and UPDATE wrote",
        ),
        gauge(
            "write_amplification",
            stats.write_amplification(),
            "ratio",
            "bytes of parts written for each byte of a new one",
        ),
    ]
}

fn of_storage(database: &Database) -> Vec<Metric> {
    let snapshot = database.engine().snapshot();
    let tables = || listed(&snapshot).filter(|table| table.schema().view().is_none());
    let sum = |of: &dyn Fn(&TableSnapshot) -> f64| -> f64 { tables().map(|table| of(table)).sum() };
    vec![
        gauge("tables", tables().count() as f64, "tables", "tables there are"),
        gauge("rows", sum(&|table| table.rows() as f64), "rows", "rows in all tables"),
        gauge(
            "partitions",
            sum(&|table| table.partitions().len() as f64),
            "partitions",
            "partitions of all tables",
        ),
        gauge("parts", sum(&|table| table.partitions().parts() as f64), "parts", "parts of all partitions"),
        gauge(
            "disk_bytes",
            sum(&|table| table.partitions().disk_bytes() as f64),
            "bytes",
            "size of all parts",
        ),
    ]
}

fn of_memory(database: &Database) -> Vec<Metric> {
    let (engine, pool) = (database.engine(), &database.base_state().runtime_env().memory_pool);
    let limit = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes as f64,
        _ => f64::INFINITY,
    };
    let recent = engine.snapshot().recent_bytes() as f64;
    let budget = engine.options().memory_budget_bytes as f64;
    vec![
        gauge("recent_bytes", recent, "bytes", "rows in memory that are not sealed"),
        gauge(
            "memory_bytes",
            engine.memory_bytes() as f64,
            "bytes",
            "these, and what loads, transactions and merges hold",
        ),
        gauge("memory_budget_bytes", budget, "bytes", "most of it: memory_budget"),
        gauge("query_memory_bytes", pool.reserved() as f64, "bytes", "memory that queries have reserved"),
        gauge("query_memory_budget_bytes", limit, "bytes", "most of it: query_memory"),
    ]
}

fn of_statements(database: &Database) -> Vec<Metric> {
    let (statements, plans) = (database.running().counts(), database.plans().counts());
    vec![
        counter(
            "statements",
            statements.begun,
            "statements",
            "statements begun, those done at once left out",
        ),
        counter("statements_failed", statements.failed, "statements", "of these, those that failed"),
        counter(
            "statements_cancelled",
            statements.cancelled,
            "statements",
            "of these, those that CANCEL QUERY ended",
        ),
        gauge("statements_running", statements.running as f64, "statements", "those under way: SHOW QUERIES"),
        counter("plans_made", plans.made, "queries", "queries that were planned"),
        counter("plans_reused", plans.reused, "queries", "queries that ran by a plan that was kept"),
        gauge("plans_known", plans.statements as f64, "statements", "statements that plans are kept for"),
        gauge(
            "uptime",
            database.running().uptime().as_secs_f64(),
            "seconds",
            "since the database was opened",
        ),
    ]
}

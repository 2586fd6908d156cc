//! SHOW CONFIG and `config()`: every setting, its value and what it is where nothing is set.

use super::show::{batch, strings};
use crate::database::ShownSetting;
use crate::dialect::VIEW_DEPTH_MAX;
use crate::operators::MAX_FILLED_ROWS;
use crate::plans::STATEMENTS_MAX;
use crate::{Database, DatabaseOptions};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use std::time::Duration;
use tickstone_model::MAX_COLUMNS;
use tickstone_wire::RECORD_BYTES_MAX;

/// One setting.
struct Setting {
    name: &'static str,
    /// As it is, and as it is unless set.
    values: [String; 2],
    unit: &'static str,
    description: &'static str,
}

impl Setting {
    fn shown(self) -> ShownSetting {
        let [value, default] = self.values;
        // What is not its default was said by the program that opened the database.
        let origin = if value == default { "default" } else { "option" }.to_string();
        let (unit, description) = (self.unit.to_string(), self.description.to_string());
        ShownSetting { name: self.name.to_string(), value, default, unit, origin, description }
    }
}

/// One row a setting.
pub(super) fn config_batch(database: &Database) -> Result<RecordBatch> {
    let own = settings(database.options(), &DatabaseOptions::default());
    let mut all: Vec<ShownSetting> = own.into_iter().map(Setting::shown).collect();
    all.extend_from_slice(database.shown_settings());
    let column = |of: fn(&ShownSetting) -> &String| strings(all.iter().map(|setting| Some(of(setting))));
    batch(vec![
        ("setting", column(|setting| &setting.name)),
        ("value", column(|setting| &setting.value)),
        ("default", column(|setting| &setting.default)),
        ("unit", column(|setting| &setting.unit)),
        ("origin", column(|setting| &setting.origin)),
        ("description", column(|setting| &setting.description)),
    ])
}

fn settings(options: &DatabaseOptions, default: &DatabaseOptions) -> Vec<Setting> {
    let setting = |name, of: &dyn Fn(&DatabaseOptions) -> String, unit, description| Setting {
        name,
        values: [of(options), of(default)],
        unit,
        description,
    };
    let fixed = |name, value: usize, unit, description| Setting {
        name,
        values: [value.to_string(), value.to_string()],
        unit,
        description,
    };
    let or = |value: Option<usize>, none: &str| value.map_or_else(|| none.to_string(), |v| v.to_string());
    vec![
        setting(
            "memory_budget",
            &|o| o.engine.memory_budget_bytes.to_string(),
            "bytes",
            "most memory for rows not yet sealed, loads, transactions and merges; writers wait past it",
        ),
        setting(
            "query_memory",
            &|o| or(o.query_memory_bytes, "3/4 of all"),
            "bytes",
            "most memory that running queries reserve together; past it they go to disk or fail",
        ),
        setting(
            "query_threads",
            &|o| or(o.query_threads, "one a core"),
            "threads",
            "threads that run queries",
        ),
        setting(
            "wide_rows_min",
            &|o| o.wide_rows_min.to_string(),
            "rows",
            "rows read from which a query runs on all threads",
        ),
        setting(
            "sync_interval",
            &|o| millis(o.engine.sync_interval),
            "milliseconds",
            "longest time that rows of the sync policy interval stay unsynced",
        ),
        setting(
            "threads",
            &|o| o.engine.threads.to_string(),
            "threads",
            "threads that sort and encode parts",
        ),
        setting(
            "background",
            &|o| o.engine.background.to_string(),
            "",
            "whether sealing, merging and syncs by interval have threads of their own",
        ),
        setting("slice_rows", &|o| o.engine.slice_rows.to_string(), "rows", "most rows of a part's slice"),
        setting(
            "segment_bytes",
            &|o| o.engine.segment_bytes.to_string(),
            "bytes",
            "length from which a segment of the tape is closed",
        ),
        setting(
            "tape_bytes_max",
            &|o| o.engine.tape_bytes_max.to_string(),
            "bytes",
            "tape past which the partitions that hold it back are sealed",
        ),
        setting(
            "tape_keep_bytes",
            &|o| o.engine.tape_keep_bytes.to_string(),
            "bytes",
            "tape, and parts that were merged since, that stay for subscriptions that resume",
        ),
        setting(
            "tape_keep_age",
            &|o| o.engine.tape_keep_age.as_secs().to_string(),
            "seconds",
            "how long they stay at most",
        ),
        setting(
            "follow_memory_bytes",
            &|o| o.engine.follow_memory_bytes.to_string(),
            "bytes",
            "the newest changes that are in memory while somebody subscribes",
        ),
        setting(
            "compaction_parts_min",
            &|o| o.engine.compaction_parts_min.to_string(),
            "parts",
            "fewest neighbouring parts that are merged unasked; 0 for never",
        ),
        setting(
            "compaction_bytes_per_s",
            &|o| o.engine.compaction_bytes_per_s.to_string(),
            "bytes a second",
            "most that merging parts unasked reads and writes together",
        ),
        setting(
            "archive_after",
            &|o| o.engine.archive_after.as_secs().to_string(),
            "seconds",
            "a partition that nobody wrote for so long is archived; 0 for never",
        ),
        fixed(
            "kept_statements_max",
            STATEMENTS_MAX,
            "statements",
            "statements that plans are kept for; fixed",
        ),
        fixed("filled_rows_max", MAX_FILLED_ROWS, "rows", "rows that FILL may make of one query; fixed"),
        fixed("record_bytes_max", RECORD_BYTES_MAX, "bytes", "length of a record of an imported file; fixed"),
        fixed("columns_max", MAX_COLUMNS, "columns", "columns of a table; fixed"),
        fixed("view_depth_max", VIEW_DEPTH_MAX, "views", "views that may be read through one another; fixed"),
    ]
}

fn millis(time: Duration) -> String {
    (time.as_secs_f64() * 1e3).to_string()
}

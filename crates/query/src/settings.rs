//! Settings of one session that operators go by: `SET block_statistics = false`, `SET deterministic_sums = true`,
//! `SET pipeline = false`, `SET local_buckets = false`.

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;

extensions_options! {
    /// What a session may change of how its statements run.
    pub(crate) struct SessionSettings {
        /// Whether count, sum, avg, min and max come from statistics where these say enough; if not, every value is read
        pub block_statistics: bool, default = true
        /// Whether sums of doubles, and what is made of them, are the same to the last digit however rows are read
        pub deterministic_sums: bool, default = false
        /// Whether windows, groups and joins go series by series where they can; if not, they go the SQL engine's own way
        pub pipeline: bool, default = true
        /// Whether buckets under a day, and FROM and TO of SAMPLE BY, go by the clocks of TIME ZONE; if not, by UTC
        pub local_buckets: bool, default = true
    }
}

impl ConfigExtension for SessionSettings {
    const PREFIX: &'static str = "tickstone";
}

/// Whether statistics may take the place of values.
pub(crate) fn goes_by_statistics(options: &ConfigOptions) -> bool {
    options.extensions.get::<SessionSettings>().is_none_or(|settings| settings.block_statistics)
}

/// Whether operators over series take the place of DataFusion's.
pub(crate) fn has_pipeline(options: &ConfigOptions) -> bool {
    options.extensions.get::<SessionSettings>().is_none_or(|settings| settings.pipeline)
}

/// Whether SAMPLE BY goes by the clocks of its zone throughout.
pub(crate) fn has_local_buckets(options: &ConfigOptions) -> bool {
    options.extensions.get::<SessionSettings>().is_none_or(|settings| settings.local_buckets)
}

//! How rows and tables come, change and go: each by one frame of the tape.
//!
//! ```text
//! ingest (rows -> checked batches) ─► transaction ─┐
//!                                  ─► load        ─┼─► commit ─► tape
//!                                     rewrite     ─┘
//! tables (CREATE, ALTER, DROP, TRUNCATE), aside ────────────────► tape
//! ```

pub(crate) mod accounts;
pub(crate) mod aside;
pub(crate) mod commit;
pub(crate) mod ingest;
pub(crate) mod load;
pub(crate) mod rewrite;
pub(crate) mod tables;
pub(crate) mod transaction;

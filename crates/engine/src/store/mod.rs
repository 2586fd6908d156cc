//! What a database holds: tables with their runs and parts as one snapshot, and the files that tell of them.

pub(crate) mod dictionary;
pub(crate) mod feed;
pub(crate) mod history;
pub(crate) mod hold;
pub(crate) mod manifest;
pub(crate) mod new_part;
pub(crate) mod publisher;
pub(crate) mod snapshot;
pub(crate) mod staleness;
pub(crate) mod switch;

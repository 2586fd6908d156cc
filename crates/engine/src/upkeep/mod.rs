//! What happens off the commit path, on threads of its own or when it is asked for.
//!
//! ```text
//! maintenance (a step: merge runs, seal, free) ─► seal ─► saving ─► tape
//! compact (parts merge)  ─────────────────────────────────► saving
//! orphans (what a crash left)
//! ```

pub(crate) mod compact;
pub(crate) mod maintenance;
pub(crate) mod orphans;
pub(crate) mod saving;
pub(crate) mod seal;
pub(crate) mod tape;

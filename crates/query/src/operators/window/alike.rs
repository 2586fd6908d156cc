//! Windows whose PARTITION BY has columns that are one: `PARTITION BY a, b` over `SELECT x AS a, x AS b`, over a join by
//! `a = b`, or over rows that a filter made alike.
//!
//! Rows in the order of a are in the order of both, and DataFusion 55.2 takes that for rows sorted by two keys. When it
//! runs it finds but one of them sorted and ends with "Expects PARTITION BY expression to be ordered". Such a node may
//! as well take its rows as sorted by some of its keys, which it knows how to do.

use crate::operators::rules::NodeRule;
use datafusion::physical_plan::InputOrderMode;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, get_ordered_partition_by_indices};
use std::sync::Arc;

/// Must run after the rule that puts sorts below windows.
pub(in crate::operators) const KEYS_ALIKE: NodeRule = NodeRule::up("keys_alike", |plan| {
    let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() else { return Ok(None) };
    let sorted = window.input_order_mode == InputOrderMode::Sorted;
    let [first, ..] = window.window_expr() else { return Ok(None) };
    let keys = first.partition_by();
    let found = get_ordered_partition_by_indices(keys, window.input())?;
    if !sorted || found.len() == keys.len() {
        return Ok(None);
    }
    let mode = match found.is_empty() {
        true => InputOrderMode::Linear,
        false => InputOrderMode::PartiallySorted(found),
    };
    let (exprs, input) = (window.window_expr().to_vec(), Arc::clone(window.input()));
    let can_repartition = !window.partition_keys().is_empty();
    Ok(Some(Arc::new(BoundedWindowAggExec::try_new(exprs, input, mode, can_repartition)?)))
});

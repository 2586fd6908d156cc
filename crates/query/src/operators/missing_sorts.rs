//! Sorts that DataFusion 55.2 takes away, or does not put, where an order is asked for.
//!
//! Where two columns of one input of a UNION are one, its rows are sorted by one of them, while those of the other inputs
//! are sorted by both: a merge above asks for an order that the union cannot promise. And a rule that takes the order from
//! below an aggregate does not tell the merge above it. Each ends in "does not satisfy order requirements" when the plan
//! is checked. This rule sorts what is not in the order it should have.

use super::rules::NodeRule;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// Must run before the plan is checked, and after all rules that move sorts.
pub(super) const MISSING_SORTS: NodeRule = NodeRule::up("missing_sorts", |plan| {
    let mut sorted = false;
    let mut inputs = Vec::new();
    for (input, wanted) in plan.children().into_iter().zip(plan.required_input_ordering()) {
        let mut input = Arc::clone(input);
        if let Some(wanted) = wanted {
            let wanted = wanted.into_single();
            if !input.equivalence_properties().ordering_satisfy_requirement(wanted.clone())? {
                let sort = SortExec::new(LexOrdering::from(wanted), input);
                input = Arc::new(sort.with_preserve_partitioning(true));
                sorted = true;
            }
        }
        inputs.push(input);
    }
    sorted.then(|| Arc::clone(plan).replace_children(inputs, super::recompute())).transpose()
});

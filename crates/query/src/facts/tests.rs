use super::*;
use std::collections::BTreeSet;

/// Names that a session knows and the list does not have, and the other way round.
fn difference<'a>(
    known: impl IntoIterator<Item = &'a str>,
    declared: impl IntoIterator<Item = &'a str>,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let (known, declared): (BTreeSet<_>, BTreeSet<_>) =
        (known.into_iter().collect(), declared.into_iter().collect());
    (known.difference(&declared).copied().collect(), declared.difference(&known).copied().collect())
}

#[test]
fn every_aggregate_and_window_function_declares_what_it_is() {
    let state = crate::state::base(1, usize::MAX).unwrap();
    let aggregates: Vec<_> = state.aggregate_functions().values().collect();
    let declared = AGGREGATES.iter().map(|of| of.name);
    let (undeclared, unknown) = difference(aggregates.iter().map(|of| of.name()), declared);
    assert!(undeclared.is_empty() && unknown.is_empty(), "undeclared {undeclared:?}, unknown {unknown:?}");
    let windows: Vec<_> = state.window_functions().values().collect();
    let both = |name: &&str| !NULLS_IN_WINDOWS.contains(name);
    let known = windows.iter().map(|of| of.name()).filter(both);
    let (undeclared, unknown) = difference(known, WINDOWS.iter().map(|(name, _)| *name));
    assert!(undeclared.is_empty() && unknown.is_empty(), "undeclared {undeclared:?}, unknown {unknown:?}");
}

#[test]
fn every_node_is_declared_once() {
    let names: BTreeSet<_> = NODES.iter().map(|of| of.name).collect();
    assert_eq!(names.len(), NODES.len());
}

//! `OVER w` and `OVER (w …)` with the window that WINDOW names: planning looks names up in the list of a SELECT alone, and
//! loses the window elsewhere.

use super::walks::walk_mut;
use sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByKind, Query, Select, SetExpr,
    VisitMut, VisitorMut, WindowSpec, WindowType,
};
use std::ops::ControlFlow;

/// Puts the windows in the place of their names. A name that is none, or that two windows have, stays: planning says so.
pub(super) fn place(node: &mut impl VisitMut) {
    // It never breaks off.
    let _ = walk_mut(node, &mut Place);
}

struct Place;

impl VisitorMut for Place {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Query { body, order_by, .. } = query;
        let SetExpr::Select(select) = body.as_ref() else { return ControlFlow::Continue(()) };
        if let Some(mut windows) = Windows::of(select)
            && let Some(OrderByKind::Expressions(keys)) = order_by.as_mut().map(|order| &mut order.kind)
        {
            let _ = walk_mut(keys, &mut windows);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(mut windows) = Windows::of(select) {
            let _ = walk_mut(&mut select.projection, &mut windows);
            if let Some(condition) = &mut select.qualify {
                let _ = walk_mut(condition, &mut windows);
            }
            // They stand where they are meant.
            select.named_window.clear();
        }
        ControlFlow::Continue(())
    }
}

/// The windows of a SELECT.
struct Windows {
    named: Vec<(Ident, WindowSpec)>,
    /// Of queries: names inside are theirs.
    depth: usize,
}

fn is(name: &Ident, other: &Ident) -> bool {
    match name.quote_style.or(other.quote_style) {
        Some(_) => name.value == other.value,
        None => name.value.eq_ignore_ascii_case(&other.value),
    }
}

impl Windows {
    fn of(select: &Select) -> Option<Self> {
        let mut windows = Self { named: Vec::new(), depth: 0 };
        for NamedWindowDefinition(name, window) in &select.named_window {
            let spec = match window {
                NamedWindowExpr::NamedWindow(other) => windows.find(other)?.clone(),
                NamedWindowExpr::WindowSpec(spec) => windows.completed(spec).unwrap_or_else(|| spec.clone()),
            };
            if windows.find(name).is_some() {
                return None;
            }
            windows.named.push((name.clone(), spec));
        }
        (!windows.named.is_empty()).then_some(windows)
    }

    fn find(&self, name: &Ident) -> Option<&WindowSpec> {
        self.named.iter().find(|(known, _)| is(known, name)).map(|(_, spec)| spec)
    }

    /// A window that is another one with more.
    fn completed(&self, spec: &WindowSpec) -> Option<WindowSpec> {
        let base = self.find(spec.window_name.as_ref()?)?;
        // What another window says of its own is not said again.
        let apart = spec.partition_by.is_empty()
            && (spec.order_by.is_empty() || base.order_by.is_empty())
            && base.window_frame.is_none();
        apart.then(|| WindowSpec {
            window_name: None,
            partition_by: base.partition_by.clone(),
            order_by: if base.order_by.is_empty() { spec.order_by.clone() } else { base.order_by.clone() },
            window_frame: spec.window_frame.clone(),
        })
    }
}

impl VisitorMut for Windows {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (0, Expr::Function(Function { over: Some(over), .. })) = (self.depth, expr) {
            let spec = match &*over {
                WindowType::NamedWindow(name) => self.find(name).cloned(),
                WindowType::WindowSpec(spec) => self.completed(spec),
            };
            if let Some(spec) = spec {
                *over = WindowType::WindowSpec(spec);
            }
        }
        ControlFlow::Continue(())
    }
}

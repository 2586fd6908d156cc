//! Walks over the syntax tree. The parser's own are compiled once for each visitor, some 700 functions and 200 KB every
//! time: here they are compiled for one visitor, which calls the one that is given.

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Has a visitor see the parts of a node, and change them.
pub(crate) fn walk_mut<V: VisitorMut>(node: &mut impl VisitMut, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut seeing = Seeing { visitor, broke: None };
    let walked = node.visit(&mut WalkMut(&mut seeing));
    broken(walked, seeing.broke)
}

/// Has a visitor see the parts of a node.
pub(crate) fn walk<V: Visitor>(node: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut seeing = Seeing { visitor, broke: None };
    let walked = node.visit(&mut Walk(&mut seeing));
    broken(walked, seeing.broke)
}

/// Has a visitor see the parts of a statement.
pub fn walk_statement(statement: &Statement, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    statement.visit(&mut Walk(visitor))
}

fn broken<B>(walked: ControlFlow<()>, broke: Option<B>) -> ControlFlow<B> {
    match (walked, broke) {
        (ControlFlow::Break(()), Some(broke)) => ControlFlow::Break(broke),
        _ => ControlFlow::Continue(()),
    }
}

/// A visitor, and what it broke off with.
struct Seeing<'a, V, B> {
    visitor: &'a mut V,
    broke: Option<B>,
}

impl<V, B> Seeing<'_, V, B> {
    fn note(&mut self, seen: ControlFlow<B>) -> ControlFlow<()> {
        match seen {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(broke) => {
                self.broke = Some(broke);
                ControlFlow::Break(())
            }
        }
    }
}

/// The one visitor that walks are compiled for.
struct Walk<'a>(&'a mut dyn Visitor<Break = ()>);

/// The same of walks that change what they see.
struct WalkMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// Implements the methods of a visitor by those of another.
macro_rules! forward {
    ($($method:ident: $node:ty),*) => {
        impl<V: Visitor> Visitor for Seeing<'_, V, V::Break> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                let seen = self.visitor.$method(node);
                self.note(seen)
            })*
        }

        impl<V: VisitorMut> VisitorMut for Seeing<'_, V, V::Break> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                let seen = self.visitor.$method(node);
                self.note(seen)
            })*
        }

        impl Visitor for Walk<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        impl VisitorMut for WalkMut<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }
    };
}

forward! {
    pre_visit_query: Query,
    post_visit_query: Query,
    pre_visit_select: Select,
    post_visit_select: Select,
    pre_visit_relation: ObjectName,
    post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor,
    post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr,
    post_visit_expr: Expr,
    pre_visit_statement: Statement,
    post_visit_statement: Statement,
    pre_visit_value: ValueWithSpan,
    post_visit_value: ValueWithSpan
}

/// Changes each expression, after those inside.
pub(super) fn each_expr(node: &mut impl VisitMut, each: &mut dyn FnMut(&mut Expr)) {
    struct Each<'a>(&'a mut dyn FnMut(&mut Expr));
    impl VisitorMut for Each<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            (self.0)(expr);
            ControlFlow::Continue(())
        }
    }
    // The walk never breaks off.
    let _ = node.visit(&mut WalkMut(&mut Each(each)));
}

/// Whether an expression is so.
pub(super) fn has_expr(node: &impl Visit, is_so: &dyn Fn(&Expr) -> bool) -> bool {
    struct Is<'a>(&'a dyn Fn(&Expr) -> bool);
    impl Visitor for Is<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    node.visit(&mut Walk(&mut Is(is_so))).is_break()
}

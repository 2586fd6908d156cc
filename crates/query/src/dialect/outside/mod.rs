//! PostgreSQL's ways of naming its own things, which tools write around everything they ask its catalog: the schema in
//! `pg_catalog.pg_class`, `OPERATOR(pg_catalog.~)`, `COLLATE pg_catalog.default`, casts to the types of names
//! (`'t'::regclass`), `= ANY(array)`. The same without, or as calls ([`calls`]), as statements are parsed.
//!
//! Sub-queries over relations of the catalog become such as DataFusion can join ([`selects`]), once it is known which
//! names are relations of the catalog: a user's table, or WITH, may have any of their names.

mod calls;
mod selects;
mod values;

use super::cursor::is_word;
use super::walks::each_expr;
use super::walks::walk_mut;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, Statement, TableFactor, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Says what only PostgreSQL's tools write in words that planning knows.
pub(super) fn mend(node: &mut impl VisitMut) {
    // It never breaks off.
    let _ = walk_mut(node, &mut Outside);
}

/// Has a statement ask the relations of the catalog, which `is_relation` knows by their names in lower case, as planning
/// can. Any other statement stays as it is.
pub(crate) fn mend_catalog(statement: &mut super::Statement, is_relation: &dyn Fn(&str) -> bool) {
    let mut names = Names::default();
    let _ = statement.walk_queries_mut(&mut names);
    names.read.retain(|name| is_relation(name) && !names.declared.contains(name));
    if !names.read.is_empty() {
        let _ = statement.walk_queries_mut(&mut Bound { relations: &names.read, joined: 0, depth: 0 });
    }
}

struct Outside;

impl VisitorMut for Outside {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        values::mend(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        selects::place_functions(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        calls::mend(expr);
        ControlFlow::Continue(())
    }
}

/// Names of a statement, in lower case.
#[derive(Default)]
struct Names {
    /// Those that it reads rows from.
    read: BTreeSet<String>,
    /// Those that WITH declares anywhere in it.
    declared: BTreeSet<String>,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.declared.extend(tables.map(|table| table.alias.name.value.to_ascii_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.read.extend(selects::table_name(factor));
        ControlFlow::Continue(())
    }
}

/// See [`mend_catalog`].
struct Bound<'a> {
    /// The relations of the catalog that the statement reads.
    relations: &'a BTreeSet<String>,
    /// Sub-queries that became joins.
    joined: usize,
    /// How many queries the walk is in.
    depth: usize,
}

impl VisitorMut for Bound<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth == 0 {
            selects::order_columns(query, self.relations);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        selects::mend(select, self.relations, &mut self.joined);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        calls::mend_walk(expr, self.relations);
        ControlFlow::Continue(())
    }
}

/// Takes the schema, OPERATOR and the collation away.
pub(super) fn join_words(tokens: &mut Vec<TokenWithSpan>) {
    let is_schema = |token: &Token| match token {
        Token::Word(word) => word.value.eq_ignore_ascii_case("pg_catalog"),
        Token::DoubleQuotedString(text) => text == "pg_catalog",
        _ => false,
    };
    if !tokens.iter().any(|token| is_schema(&token.token) || is_word(&token.token, "OPERATOR")) {
        return;
    }
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.drain(..).peekable();
    while let Some(token) = rest.next() {
        let named = is_schema(&token.token) && rest.peek().is_some_and(|next| next.token == Token::Period);
        if named && made.last().is_none_or(|before| before.token != Token::Period) {
            rest.next();
            continue;
        }
        made.push(token);
    }
    drop(rest);
    let is = |at: usize, token: &Token| made.get(at).is_some_and(|found| found.token == *token);
    let mut at = 0;
    while at < made.len() {
        let token = &made[at];
        if is_word(&token.token, "OPERATOR") && is(at + 1, &Token::LParen) && is(at + 3, &Token::RParen) {
            tokens.push(made[at + 2].clone());
            at += 4;
        } else if is_word(&token.token, "COLLATE")
            && made
                .get(at + 1)
                .is_some_and(|next| matches!(&next.token, Token::Word(word) if word.value == "default"))
        {
            at += 2;
        } else {
            tokens.push(token.clone());
            at += 1;
        }
    }
}

/// The placeholder that `x = ANY($1)` looks for a value in, and the value.
pub(crate) fn searched(expr: &Expr) -> Option<(&ValueWithSpan, &Expr)> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(arguments) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(array))),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
    ] = arguments.args.as_slice()
    else {
        return None;
    };
    let name = function.name.0.last()?.as_ident()?;
    let is_placeholder = matches!(array.value, Value::Placeholder(_));
    (is_placeholder && name.value.eq_ignore_ascii_case("array_has")).then_some((array, value))
}

/// `x = ANY($1)` as `x IN ($1)`: what it compares is then seen.
pub(crate) fn search_in_lists(statement: &mut Statement) {
    each_expr(statement, &mut |expr| {
        let made = searched(expr).map(|(array, value)| Expr::InList {
            expr: Box::new(value.clone()),
            list: vec![Expr::Value(array.clone())],
            negated: false,
        });
        if let Some(made) = made {
            *expr = made;
        }
    });
}

/// The placeholders that values are looked for in.
pub(crate) fn searched_placeholders(statement: &mut Statement) -> Vec<String> {
    let mut found = Vec::new();
    each_expr(statement, &mut |expr| {
        if let Some((ValueWithSpan { value: Value::Placeholder(name), .. }, _)) = searched(expr) {
            found.push(name.clone());
        }
    });
    found
}

//! Items of a SELECT that stand for several columns, or for an item before them:
//!
//! ```text
//! COLUMNS('p.*'), min(COLUMNS(c -> c LIKE 'p%'))  ->  one item for each column
//! * RENAME (px AS price)                          ->  the columns, one with another name
//! px * 2 AS d, d + 1                              ->  px * 2 AS d, px * 2 + 1, also in WHERE
//! ```
//!
//! A name is a column first, wherever FROM has one of this name.

use super::by_name;
use super::columns::{Column, Columns};
use super::cursor::Result;
use super::marker::{place, simple_name};
use super::walks::{each_expr, has_expr, walk_mut};
use super::{Position, SqlError};
use regex::Regex;
use sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Query, RenameSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind, Value,
    VisitorMut, WildcardAdditionalOptions,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Puts what items stand for in their places.
///
/// # Errors
/// [`SqlError`] at COLUMNS or RENAME where the columns of FROM are not known, and where they name none.
pub(super) fn write_out(columns: &Columns<'_>, select: &mut Select) -> Result<()> {
    let several = |item: &SelectItem| {
        is_renaming(item) || of_item(item).is_some_and(|expr| has_expr(expr, &is_columns))
    };
    if select.projection.iter().any(several) {
        let known = columns.of_from(&select.from);
        let items = std::mem::take(&mut select.projection);
        for item in items {
            match several(&item) {
                true => select.projection.extend(written_out(item, known.as_deref())?),
                false => select.projection.push(item),
            }
        }
    }
    let in_where = select.selection.as_ref().and_then(first_columns);
    if let Some(at) = in_where {
        let error = SqlError::new("COLUMNS stands in the list of a SELECT", at);
        return Err(error.hint("name the columns of the condition"));
    }
    mean_aliases(columns, select);
    Ok(())
}

fn of_item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn is_renaming(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) if options.opt_rename.is_some() || options.opt_replace.is_some())
}

pub(super) fn is_columns(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if simple_name(&function.name).is_some_and(|name| name.eq_ignore_ascii_case("columns")))
}

fn first_columns(expr: &Expr) -> Option<Position> {
    let found = std::cell::Cell::new(None);
    has_expr(expr, &|expr| {
        let is_it = is_columns(expr);
        if is_it {
            found.set(Some(place(expr)));
        }
        is_it
    });
    found.get()
}

fn written_out(item: SelectItem, known: Option<&[Column]>) -> Result<Vec<SelectItem>> {
    let unknown = |what: &str, at: Position| {
        SqlError::new(format!("{what}: the columns of this FROM are not known before it is planned"), at)
            .hint("name the columns")
    };
    match item {
        SelectItem::Wildcard(options) => {
            let at = super::cursor::position(options.wildcard_token.0.span.start).unwrap_or_default();
            if options.opt_rename.is_none() {
                return replaced(SelectItem::Wildcard(options), known);
            }
            let known = known.ok_or_else(|| unknown("* RENAME", at))?;
            renamed(known.to_vec(), known, &options, at)
        }
        SelectItem::QualifiedWildcard(of, options) if options.opt_rename.is_none() => {
            replaced(SelectItem::QualifiedWildcard(of, options), known)
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) => {
            let at = place(&table);
            let known = known.ok_or_else(|| unknown("* RENAME", at))?;
            let name = table.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone());
            let of_table = known.iter().filter(|column| column.table == name).cloned().collect();
            renamed(of_table, known, &options, at)
        }
        SelectItem::UnnamedExpr(expr) => each_column(&expr, known, unknown),
        SelectItem::ExprWithAlias { expr, alias } => {
            let mut made = each_column(&expr, known, unknown)?;
            match made.as_mut_slice() {
                [SelectItem::UnnamedExpr(expr)] => {
                    let expr = expr.clone();
                    Ok(vec![SelectItem::ExprWithAlias { expr, alias }])
                }
                _ => {
                    let at = first_columns(&expr).unwrap_or_default();
                    Err(SqlError::new(format!("{} columns would all be called {alias}", made.len()), at)
                        .hint("leave AS out, and rename them in a query around"))
                }
            }
        }
        other => Ok(vec![other]),
    }
}

/// `*` whose columns the planner replaces: one that is not there it would leave out without a word.
fn replaced(item: SelectItem, known: Option<&[Column]>) -> Result<Vec<SelectItem>> {
    let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = &item else {
        return Ok(vec![item]);
    };
    let replaces = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let names = replaces.map(|replace| &replace.column_name);
    if let Some((missing, known)) = known.and_then(|known| {
        let is = |name: &Ident| known.iter().any(|column| column.name.eq_ignore_ascii_case(&name.value));
        Some((names.clone().find(|name| !is(name))?, known))
    }) {
        let at = super::cursor::position(missing.span.start).unwrap_or_default();
        let names: Vec<&str> = known.iter().map(|column| column.name.as_str()).collect();
        return Err(SqlError::new(format!("column '{}' does not exist", missing.value), at)
            .hint(format!("columns are {}", names.join(", "))));
    }
    Ok(vec![item])
}

/// How a column is named where others have its name too.
fn column_expr(column: &Column, all: &[Column]) -> Expr {
    let name = Ident::with_quote('"', column.name.clone());
    let shared = all.iter().filter(|other| other.name == column.name).count() > 1;
    match &column.table {
        Some(table) if shared => Expr::CompoundIdentifier(vec![Ident::with_quote('"', table.clone()), name]),
        _ => Expr::Identifier(name),
    }
}

fn last_of(name: &ObjectName) -> &str {
    name.0.last().and_then(|part| part.as_ident()).map_or("", |ident| ident.value.as_str())
}

/// What EXCLUDE and EXCEPT leave out.
fn excluded(options: &WildcardAdditionalOptions) -> Vec<&str> {
    let mut names = Vec::new();
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => names.push(last_of(name)),
        Some(ExcludeSelectItem::Multiple(several)) => names.extend(several.iter().map(last_of)),
        None => {}
    }
    if let Some(ExceptSelectItem { first_element, additional_elements }) = &options.opt_except {
        names.extend(
            std::iter::once(first_element).chain(additional_elements).map(|ident| ident.value.as_str()),
        );
    }
    names
}

/// The columns of `*` with its options.
fn renamed(
    mut columns: Vec<Column>,
    all: &[Column],
    options: &WildcardAdditionalOptions,
    at: Position,
) -> Result<Vec<SelectItem>> {
    let leave = excluded(options);
    let missing = |name: &str| {
        let error = SqlError::new(format!("column '{name}' does not exist"), at);
        let names: Vec<&str> = all.iter().map(|column| column.name.as_str()).collect();
        Err(error.hint(format!("columns are {}", names.join(", "))))
    };
    let is = |column: &Column, name: &str| column.name.eq_ignore_ascii_case(name);
    let renames = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => vec![one],
        Some(RenameSelectItem::Multiple(several)) => several.iter().collect(),
        None => Vec::new(),
    };
    let replaces = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let named = leave.iter().copied();
    let named = named.chain(renames.iter().map(|rename| rename.ident.value.as_str()));
    let named = named.chain(replaces.clone().map(|replace| replace.column_name.value.as_str()));
    for name in named {
        if !columns.iter().any(|column| is(column, name)) {
            return missing(name);
        }
    }
    columns.retain(|column| !leave.iter().any(|name| is(column, name)));
    let item = |column: &Column| {
        let replace = replaces.clone().find(|replace| is(column, &replace.column_name.value));
        let rename = renames.iter().find(|rename| is(column, &rename.ident.value));
        let own = replace.map(|_| Ident::with_quote('"', column.name.clone()));
        let expr = replace.map_or_else(|| column_expr(column, all), |replace| replace.expr.clone());
        match rename.map(|rename| rename.alias.clone()).or(own) {
            Some(alias) => SelectItem::ExprWithAlias { expr, alias },
            None => SelectItem::UnnamedExpr(expr),
        }
    };
    Ok(columns.iter().map(item).collect())
}

/// An expression with COLUMNS once for each column that it names.
fn each_column(
    expr: &Expr,
    known: Option<&[Column]>,
    unknown: impl Fn(&str, Position) -> SqlError,
) -> Result<Vec<SelectItem>> {
    let at = first_columns(expr).unwrap_or_default();
    let known = known.ok_or_else(|| unknown("COLUMNS", at))?;
    let mut asked: Vec<Expr> = Vec::new();
    each_expr(&mut expr.clone(), &mut |part| {
        if is_columns(part) && !asked.contains(part) {
            asked.push(part.clone());
        }
    });
    let [Expr::Function(columns)] = asked.as_slice() else {
        return Err(SqlError::new("an expression takes one COLUMNS, however often", at));
    };
    let chosen = chosen(columns, known, at)?;
    if chosen.is_empty() {
        let names: Vec<&str> = known.iter().map(|column| column.name.as_str()).collect();
        let error = SqlError::new("COLUMNS names no column", at);
        return Err(error.hint(format!("columns are {}", names.join(", "))));
    }
    let one = |column: &Column| {
        let mut made = expr.clone();
        each_expr(&mut made, &mut |part| {
            if is_columns(part) {
                *part = column_expr(column, known);
            }
        });
        SelectItem::UnnamedExpr(made)
    };
    Ok(chosen.into_iter().map(one).collect())
}

fn chosen<'c>(columns: &Function, known: &'c [Column], at: Position) -> Result<Vec<&'c Column>> {
    let wrong = || {
        SqlError::new("COLUMNS takes a pattern, a list of names, a condition on names, or *", at).hint(
            "write COLUMNS('bid.*'), COLUMNS(['bid', 'ask']), COLUMNS(c -> c LIKE 'bid%') or COLUMNS(* EXCLUDE (ts))",
        )
    };
    let FunctionArguments::List(list) = &columns.args else { return Err(wrong()) };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return Err(wrong()) };
    let of_names = |names: &[String]| {
        let one = |name: &String| {
            let found = known.iter().find(|column| column.name.eq_ignore_ascii_case(name));
            found.ok_or_else(|| SqlError::new(format!("column '{name}' does not exist"), at))
        };
        names.iter().map(one).collect()
    };
    let text = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        Expr::Identifier(name) => Some(name.value.clone()),
        _ => None,
    };
    match argument {
        FunctionArgExpr::Wildcard => Ok(known.iter().collect()),
        FunctionArgExpr::WildcardWithOptions(options)
            if options.opt_rename.is_none() && options.opt_replace.is_none() =>
        {
            let leave = excluded(options);
            let kept = |column: &&Column| !leave.iter().any(|name| column.name.eq_ignore_ascii_case(name));
            Ok(known.iter().filter(kept).collect())
        }
        FunctionArgExpr::Expr(Expr::Array(array)) => {
            let names: Option<Vec<String>> = array.elem.iter().map(text).collect();
            of_names(&names.ok_or_else(wrong)?)
        }
        FunctionArgExpr::Expr(Expr::Value(value)) => {
            let Value::SingleQuotedString(pattern) = &value.value else { return Err(wrong()) };
            let pattern = Regex::new(pattern).map_err(|error| {
                SqlError::new(format!("'{pattern}' is no regular expression: {error}"), at)
            })?;
            Ok(known.iter().filter(|column| pattern.is_match(&column.name)).collect())
        }
        FunctionArgExpr::Expr(Expr::Lambda(condition)) => {
            let told =
                known.iter().map(|column| Some((column, by_name::is_true_of(condition, &column.name)?)));
            let told = told.collect::<Option<Vec<_>>>().ok_or_else(|| {
                SqlError::new("COLUMNS cannot tell whether this is true of a name", at)
                    .hint(by_name::CONDITIONS)
            })?;
            Ok(told.into_iter().filter(|(_, holds)| *holds).map(|(column, _)| column).collect())
        }
        FunctionArgExpr::Expr(Expr::Identifier(name)) => of_names(std::slice::from_ref(&name.value)),
        _ => Err(wrong()),
    }
}

/// Puts what aliases stand for in the place of their names in items after them, and in WHERE.
fn mean_aliases(columns: &Columns<'_>, select: &mut Select) {
    let has_alias = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { .. });
    let uses = select.selection.is_some() || select.projection.len() > 1;
    if !uses || !select.projection.iter().any(has_alias) {
        return;
    }
    let Some(known) = columns.of_from(&select.from) else { return };
    let mut meant = Meant { known, aliases: HashMap::new(), depth: 0, changed: false };
    for item in &mut select.projection {
        let before = match item {
            SelectItem::UnnamedExpr(expr) if !meant.aliases.is_empty() => Some(expr.to_string()),
            _ => None,
        };
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &mut *item else {
            continue;
        };
        meant.within(expr);
        let changed = std::mem::take(&mut meant.changed);
        match item {
            SelectItem::ExprWithAlias { expr, alias } => {
                meant.aliases.insert(alias.value.to_lowercase(), (alias.clone(), expr.clone()));
            }
            SelectItem::UnnamedExpr(expr) if changed => {
                let alias = Ident::with_quote('"', before.unwrap_or_default());
                let expr = std::mem::replace(expr, Expr::value(Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            _ => {}
        }
    }
    if let Some(condition) = &mut select.selection {
        meant.within(condition);
    }
}

struct Meant {
    known: Vec<Column>,
    aliases: HashMap<String, (Ident, Expr)>,
    /// Of queries: names inside are theirs.
    depth: usize,
    changed: bool,
}

impl Meant {
    fn within(&mut self, expr: &mut Expr) {
        if !self.aliases.is_empty() {
            // It never breaks off.
            let _ = walk_mut(expr, self);
        }
    }

    fn of(&self, name: &Ident) -> Option<&Expr> {
        let is = |other: &str| match name.quote_style {
            Some(_) => other == name.value,
            None => other.eq_ignore_ascii_case(&name.value),
        };
        let (alias, expr) = self.aliases.get(&name.value.to_lowercase())?;
        (is(&alias.value) && !self.known.iter().any(|column| is(&column.name))).then_some(expr)
    }
}

impl VisitorMut for Meant {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (0, Expr::Identifier(name)) = (self.depth, &*expr)
            && let Some(meant) = self.of(name)
        {
            *expr = Expr::Nested(Box::new(meant.clone()));
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

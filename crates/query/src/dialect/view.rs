//! Views: CREATE VIEW, DROP VIEW, and queries in the place of the views that a statement reads.
//!
//! A view is the text of a query. Before names are resolved each view in FROM becomes a sub-query of that name, so that
//! planning meets nothing new: filters reach the tables below, a designated timestamp is carried through, and a kept
//! plan is one for the view as it is now. What is wrong within a view is said at the view's name in the statement.

use super::cursor::{Cursor, Result, Tokens, statements};
use super::table::table_names;
use super::{CopySource, CreateView, SqlError, Statement, parse_query};
use sqlparser::ast::{Ident, Query, TableAlias, TableFactor, VisitMut, VisitorMut};
use sqlparser::tokenizer::Location;
use std::ops::ControlFlow;

/// Most views that may be read through one another.
pub(crate) const VIEW_DEPTH_MAX: usize = 32;

/// CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v AS query; `sql` is the text that the tokens are of.
pub(super) fn create_view(cursor: &mut Cursor<'_>, sql: &str) -> Result<Statement> {
    cursor.expect(&["CREATE"])?;
    let or_replace = cursor.eat(&["OR", "REPLACE"]);
    cursor.expect(&["VIEW"])?;
    let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
    let position = cursor.position();
    if or_replace && if_not_exists {
        return Err(SqlError::new("OR REPLACE and IF NOT EXISTS exclude each other", position));
    }
    let name = cursor.table_name()?;
    if !cursor.words(&["AS"]) {
        let error = cursor.expected("AS and a query");
        return Err(error.hint("columns take their names in the query: SELECT x AS name"));
    }
    cursor.skip(1);
    let tokens = Tokens { tokens: cursor.rest().to_vec(), end: cursor.end() };
    let text = text_of(&tokens, sql).to_string();
    if text.is_empty() {
        return Err(cursor.expected("a query"));
    }
    let query = parse_query(&tokens)?;
    Ok(Statement::CreateView(CreateView { name, or_replace, if_not_exists, text, query, position }))
}

/// DROP VIEW [IF EXISTS] v, ….
pub(super) fn drop_view(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DROP", "VIEW"])?;
    let if_exists = cursor.eat(&["IF", "EXISTS"]);
    Ok(Statement::DropView { names: table_names(cursor)?, if_exists })
}

/// The part of a text that some of its tokens are.
pub(super) fn text_of<'a>(tokens: &Tokens, sql: &'a str) -> &'a str {
    match (tokens.tokens.first(), tokens.tokens.last()) {
        (Some(first), Some(last)) => &sql[byte_at(sql, first.span.start)..byte_at(sql, last.span.end)],
        _ => "",
    }
}

/// Where a place in a text is, in bytes.
fn byte_at(sql: &str, place: Location) -> usize {
    let line =
        sql.split_inclusive('\n').take(place.line.saturating_sub(1) as usize).map(str::len).sum::<usize>();
    let rest = sql.get(line..).unwrap_or_default();
    let column = rest.char_indices().nth(place.column.saturating_sub(1) as usize);
    line + column.map_or(rest.len(), |(at, _)| at)
}

/// Finds a view by its name in any case: its own spelling and its query.
pub(super) type Views<'a> = dyn Fn(&str) -> Option<(String, String)> + 'a;

/// Puts the query of each view that a statement reads in its place. A name that WITH declares is no view's.
///
/// # Errors
/// [`SqlError`] at the view's name, where its query is none, or views are read through each other without end.
pub fn expand_views(statement: &mut Statement, views: &Views<'_>) -> Result<()> {
    let mut expand = Expand { views, declared: Vec::new(), through: Vec::new() };
    match statement {
        Statement::Query(node) | Statement::Insert(node) => expand.within(node.as_mut()),
        Statement::CreateTable(table) => {
            table.query.as_mut().map_or(Ok(()), |query| expand.within(query.as_mut()))
        }
        Statement::CreateView(view) => {
            // What it would replace must not be read through it.
            expand.through.push(view.name.clone());
            expand.within(view.query.as_mut())
        }
        Statement::CopyTo { source: CopySource::Query(query), .. } => expand.within(query.as_mut()),
        Statement::Change(change) => expand.within(change.query.as_mut()),
        _ => Ok(()),
    }
}

struct Expand<'a> {
    views: &'a Views<'a>,
    /// What WITH declares, around and before where the walk is.
    declared: Vec<Vec<String>>,
    /// The views whose queries the walk is in.
    through: Vec<String>,
}

impl Expand<'_> {
    fn within(&mut self, node: &mut impl VisitMut) -> Result<()> {
        match node.visit(self) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn declare(&mut self, name: String) {
        if let Some(innermost) = self.declared.last_mut() {
            innermost.push(name);
        }
    }

    fn is_declared(&self, name: &str) -> bool {
        self.declared.iter().flatten().any(|declared| declared.eq_ignore_ascii_case(name))
    }

    /// The query of a view as it stands for `ident`.
    fn query(&self, ident: &Ident, name: &str, text: &str) -> Result<Box<Query>> {
        let position = super::cursor::position(ident.span.start).unwrap_or_default();
        let refuse = |message| Err(SqlError::new(message, position).hint("SHOW VIEWS lists their queries"));
        if self.through.iter().any(|outer| outer.eq_ignore_ascii_case(name)) {
            return refuse(format!("view '{name}' reads itself"));
        }
        if self.through.len() >= VIEW_DEPTH_MAX {
            return refuse(format!("view '{name}' is read through more than {VIEW_DEPTH_MAX} others"));
        }
        let mut tokens = statements(text)?.pop().unwrap_or(Tokens { tokens: Vec::new(), end: position });
        // What is wrong in it is wrong here.
        tokens.tokens.iter_mut().for_each(|token| token.span = ident.span);
        tokens.end = position;
        let mut query = parse_query(&tokens)?;
        let through = self.through.iter().cloned().chain([name.to_string()]).collect();
        let mut inner = Expand { views: self.views, declared: Vec::new(), through };
        inner.within(query.as_mut())?;
        Ok(query)
    }

    fn place(&self, factor: &mut TableFactor) -> Result<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return Ok(()) };
        let [part] = name.0.as_slice() else { return Ok(()) };
        let Some(ident) = part.as_ident().filter(|ident| !self.is_declared(&ident.value)) else {
            return Ok(());
        };
        let Some((spelling, text)) = (self.views)(&ident.value) else { return Ok(()) };
        let subquery = self.query(ident, &spelling, &text)?;
        let name = Ident { value: spelling, quote_style: Some('"'), span: ident.span };
        let alias = alias.take().or(Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None }));
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        Ok(())
    }
}

impl VisitorMut for Expand<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.declared.push(Vec::new());
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for table in &mut with.cte_tables {
            // Its own name is declared for what comes after it: within, it is the view's.
            let name = table.alias.name.value.clone();
            if with.recursive {
                self.declare(name.clone());
            }
            if let Err(error) = self.within(table.query.as_mut()) {
                return ControlFlow::Break(error);
            }
            self.declare(name);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.declared.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match self.place(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

//! Views: CREATE VIEW, DROP VIEW, and queries in the place of the views that a statement reads.
//!
//! A view is the text of a query. Before names are resolved each view in FROM becomes a sub-query of that name, so that
//! planning meets nothing new: filters reach the tables below, a designated timestamp is carried through, and a kept
//! plan is one for the view as it is now. What is wrong within a view is said at the view's name in the statement.

use super::cursor::{Cursor, Result, Tokens, statements};
use super::materialized::{StoredView, view_of_stored};
use super::subscribe::{query_of, quoted};
use super::table::dropped_names;
use super::walks::walk_mut;
use super::{CreateView, SqlError, Statement, parse_query};
use sqlparser::ast::{
    Expr, Ident, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, SetExpr,
    TableAlias, TableFactor, VisitMut, VisitorMut,
};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use tickstone_model::format_nanos;

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
    let columns = if cursor.eat_token(&Token::LParen) { names_in_brackets(cursor)? } else { Vec::new() };
    if !cursor.eat(&["AS"]) {
        return Err(cursor.expected("AS and a query"));
    }
    let tokens = Tokens { tokens: cursor.rest().to_vec(), end: cursor.end() };
    let text = text_of(&tokens, sql).to_string();
    if text.is_empty() {
        return Err(cursor.expected("a query"));
    }
    let query = parse_query(&tokens)?;
    if !columns.is_empty() {
        let named = quoted(name.rsplit('.').next().unwrap_or(&name));
        let text = format!("SELECT * FROM (\n{text}\n) AS {named}({})", columns.join(", "));
        let query = query_of(&text, position)?;
        return Ok(Statement::CreateView(CreateView {
            name,
            or_replace,
            if_not_exists,
            text,
            query,
            position,
        }));
    }
    Ok(Statement::CreateView(CreateView { name, or_replace, if_not_exists, text, query, position }))
}

/// Names of columns up to a closing bracket, in quotes.
fn names_in_brackets(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    loop {
        names.push(quoted(&cursor.name("the name of a column")?));
        if !cursor.eat_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    Ok(names)
}

/// DROP [MATERIALIZED] VIEW [IF EXISTS] v, … [CASCADE | RESTRICT].
pub(super) fn drop_view(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DROP"])?;
    let materialized = cursor.eat(&["MATERIALIZED"]);
    cursor.expect(&["VIEW"])?;
    let if_exists = cursor.eat(&["IF", "EXISTS"]);
    let (names, cascades) = dropped_names(cursor)?;
    Ok(Statement::DropView { names, if_exists, materialized, cascades })
}

/// Has a query give its rows in order of a column of what it reads.
pub(crate) fn order_by(query: &mut Query, column: Ident) {
    let expr = OrderByExpr {
        expr: Expr::Identifier(column),
        options: OrderByOptions { asc: None, nulls_first: None },
        with_fill: None,
    };
    query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(vec![expr]), interpolate: None });
}

/// Has a query read only the rows of a table whose `time` is within a stretch (ns since the Unix epoch), wherever the
/// table stands in it.
pub(crate) fn within_times(query: &mut Query, table: &str, time: &str, (from, to): (i64, i64)) -> Result<()> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let instant = |ns: i64| format!("CAST('{}' AS TIMESTAMP)", format_nanos(ns));
    let (name, time) = (quoted(table), quoted(time));
    let mut conditions = Vec::new();
    if from > i64::MIN {
        conditions.push(format!("{time} >= {}", instant(from)));
    }
    if to < i64::MAX {
        conditions.push(format!("{time} < {}", instant(to)));
    }
    if conditions.is_empty() {
        return Ok(());
    }
    place_at(query, table, &format!("SELECT * FROM {name} WHERE {}", conditions.join(" AND ")))
}

/// Has a query read the rows of a table in order of `time`.
pub(crate) fn in_order_of(query: &mut Query, table: &str, time: &str) -> Result<()> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    place_at(query, table, &format!("SELECT * FROM {} ORDER BY {}", quoted(table), quoted(time)))
}

/// The query of a view, whose text was read before.
///
/// # Errors
/// Where it is none: places in it are those of its text.
pub(crate) fn query_of_view(text: &str) -> Result<Box<Query>> {
    parse_query(&statements(text)?.pop().unwrap_or(Tokens { tokens: Vec::new(), end: Default::default() }))
}

/// Whether a name, in any case, stands in a text of SQL.
pub(crate) fn has_name(text: &str, name: &str) -> bool {
    let is_it = |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(name));
    let all = statements(text).unwrap_or_default();
    all.iter().flat_map(|of| &of.tokens).any(|token| is_it(&token.token))
}

/// Puts a query, as text, in the place of a table; also of one that is read by another's rights, or in part.
fn place_at(query: &mut Query, table: &str, text: &str) -> Result<()> {
    let mut tokens =
        statements(text)?.pop().unwrap_or(Tokens { tokens: Vec::new(), end: Default::default() });
    tokens.tokens.iter_mut().for_each(|token| token.span = sqlparser::tokenizer::Span::empty());
    let stretch = parse_query(&tokens)?;
    let mut place = Within { table, stretch };
    match walk_mut(query, &mut place) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Within<'a> {
    table: &'a str,
    stretch: Box<Query>,
}

impl VisitorMut for Within<'_> {
    type Break = SqlError;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let Some(ident) = part.as_ident() else { return ControlFlow::Continue(()) };
        let own = own_of_rightful(&ident.value);
        if !own.unwrap_or(&ident.value).eq_ignore_ascii_case(self.table) {
            return ControlFlow::Continue(());
        }
        let mut subquery = self.stretch.clone();
        if own.is_some() {
            walk_mut(&mut subquery, &mut Renamed { to: &ident.value })?;
        }
        let name = Ident { value: ident.value.clone(), quote_style: Some('"'), span: ident.span };
        let alias = alias.take().or(Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None }));
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        ControlFlow::Continue(())
    }
}

/// Has the one table of a query another name.
struct Renamed<'a> {
    to: &'a str,
}

impl VisitorMut for Renamed<'_> {
    type Break = SqlError;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Table { name, .. } = factor {
            name.0 = vec![ObjectNamePart::Identifier(Ident::with_quote('"', self.to))];
        }
        ControlFlow::Continue(())
    }
}

/// The part of a text that some of its tokens are.
pub(super) fn text_of<'a>(tokens: &Tokens, sql: &'a str) -> &'a str {
    Places::of(sql).text_of(tokens)
}

/// Places of a text in bytes, asked for from first to last: the text is gone through once.
pub(super) struct Places<'a> {
    sql: &'a str,
    /// The place that was asked for last, in bytes, and as line and column.
    byte: usize,
    at: Location,
}

impl<'a> Places<'a> {
    pub(super) fn of(sql: &'a str) -> Self {
        Self { sql, byte: 0, at: Location { line: 1, column: 1 } }
    }

    /// The part of the text that some of its tokens are.
    pub(super) fn text_of(&mut self, tokens: &Tokens) -> &'a str {
        match (tokens.tokens.first(), tokens.tokens.last()) {
            (Some(first), Some(last)) => {
                let begin = self.byte_at(first.span.start);
                &self.sql[begin..self.byte_at(last.span.end)]
            }
            _ => "",
        }
    }

    fn byte_at(&mut self, place: Location) -> usize {
        for c in self.sql[self.byte..].chars() {
            if self.at >= place {
                break;
            }
            self.byte += c.len_utf8();
            self.at = match c {
                '\n' => Location { line: self.at.line + 1, column: 1 },
                _ => Location { line: self.at.line, column: self.at.column + 1 },
            };
        }
        self.byte
    }
}

/// A view.
#[derive(Debug, Clone)]
pub struct FoundView {
    /// Its own spelling.
    pub name: String,
    /// Its query.
    pub query: String,
    /// What is stored of it, where it is materialized.
    pub stored: Option<StoredView>,
    /// Who its query reads as.
    pub reads_as: ReadsAs,
    /// Whether whoever runs the statement may not read all that the query reads: plans know then where it ends.
    pub is_guarded: bool,
}

/// Who reads what a name in FROM stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadsAs {
    /// Who runs the statement.
    #[default]
    Statement,
    /// The owner of the view whose query the name is in; the database's own where it is nobody.
    Owner(Option<u32>),
    /// The database, for a table of which the statement may read some.
    Database,
}

/// What stands before the name of a table that a statement reads by the rights of a view's owner or of a grant. No text
/// has it ([`refuse_rightful`]), so that only this module makes such names.
const RIGHTFUL: char = '\u{1}';

/// The name of a table that is read whatever the session may read by itself.
pub(crate) fn rightful(name: &str) -> String {
    format!("{RIGHTFUL}{name}")
}

/// The table's own name, where one is of [`rightful`].
pub(crate) fn own_of_rightful(name: &str) -> Option<&str> {
    name.strip_prefix(RIGHTFUL)
}

/// A query within another that gives the same rows, under a name by which plans tell what is a view's or a grant's from
/// what users wrote around it.
fn guarded(query: Box<Query>, name: &str, span: Span) -> Result<Box<Query>> {
    let mut around = query_of_view("SELECT * FROM guarded")?;
    if let SetExpr::Select(select) = around.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        let name = Ident { value: rightful(name), quote_style: Some('"'), span };
        let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        from.relation = TableFactor::Derived { lateral: false, subquery: query, alias, sample: None };
    }
    Ok(around)
}

/// A text with such names as the tables have them.
pub(crate) fn without_rightful(text: String) -> String {
    if text.contains(RIGHTFUL) { text.replace(RIGHTFUL, "") } else { text }
}

/// The tables' own names, where a statement's text has such names.
pub(crate) fn read_by_right(text: &str) -> BTreeSet<String> {
    let names = text.split(RIGHTFUL).skip(1);
    let names = names.map(|rest| rest.split('"').next().unwrap_or(rest));
    names.map(|name| view_of_stored(name).unwrap_or(name).to_string()).collect()
}

/// Where a text has a name that only this module makes.
///
/// # Errors
/// There.
pub(super) fn refuse_rightful(tokens: &[TokenWithSpan]) -> Result<()> {
    let is_it = |token: &Token| match token {
        Token::Word(word) => word.value.contains(RIGHTFUL),
        _ => false,
    };
    match tokens.iter().find(|token| is_it(&token.token)) {
        Some(token) => {
            let position = super::cursor::position(token.span.start).unwrap_or_default();
            Err(SqlError::new("a name holds the control character U+0001", position))
        }
        None => Ok(()),
    }
}

/// What a name in FROM stands for, where that is no table of its name.
#[derive(Debug, Clone)]
pub enum Found {
    /// A view.
    View(FoundView),
    /// A table of another name.
    Table(String),
}

/// Finds what a name stands for, in any case.
pub(super) type Finds<'a> = dyn Fn(&str, ReadsAs) -> Option<Found> + 'a;

/// Most views that a statement may read, those that others read counted each time (`views_read_max`): their queries are
/// read anew at each place.
const VIEWS_READ_MAX: usize = 1_000;

/// Puts the query of each view that a statement reads in its place. A name that WITH declares is no view's.
///
/// # Errors
/// [`SqlError`] at the view's name, where its query is none, or views are read through each other without end.
pub fn expand_views(statement: &mut Statement, finds: &dyn Fn(&str, ReadsAs) -> Option<Found>) -> Result<()> {
    let read = Cell::new(0);
    let mut expand = Expand::new(finds, &read);
    expand.as_queries = matches!(statement, Statement::Subscribe(_));
    if let Statement::CreateView(view) = statement {
        // What it would replace must not be read through it.
        expand.through.push(view.name.clone());
    }
    match statement.walk_queries_mut(&mut expand) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Puts what names in FROM stand for in their places; a name that WITH declares stands for itself.
pub(super) struct Expand<'a> {
    finds: &'a Finds<'a>,
    /// What WITH declares, around and before where the walk is.
    declared: Vec<Vec<String>>,
    /// The views whose queries the walk is in.
    through: Vec<String>,
    /// How many views were read so far, all together.
    read: &'a Cell<usize>,
    /// Whether materialized views are their queries, as any others: a subscription hears what changes below.
    as_queries: bool,
    /// Who reads where the walk is.
    reads_as: ReadsAs,
}

impl<'a> Expand<'a> {
    pub(super) fn new(finds: &'a Finds<'a>, read: &'a Cell<usize>) -> Self {
        let (declared, through, reads_as) = (Vec::new(), Vec::new(), ReadsAs::Statement);
        Self { finds, declared, through, read, as_queries: false, reads_as }
    }
}

impl Expand<'_> {
    fn within(&mut self, node: &mut impl VisitMut) -> Result<()> {
        match walk_mut(node, self) {
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
    fn query(&self, ident: &Ident, found: &FoundView) -> Result<Box<Query>> {
        let (name, text) = (&found.name, &found.query);
        let position = super::cursor::position(ident.span.start).unwrap_or_default();
        let refuse = |message| Err(SqlError::new(message, position).hint("SHOW VIEWS lists their queries"));
        let is_through = self.through.iter().any(|outer| outer.eq_ignore_ascii_case(name));
        // What may be read of a view is a query over the view.
        if is_through && self.reads_as != ReadsAs::Database {
            return refuse(format!("view '{name}' reads itself"));
        }
        if self.through.len() >= VIEW_DEPTH_MAX {
            return refuse(format!("view '{name}' is read through more than {VIEW_DEPTH_MAX} others"));
        }
        self.read.set(self.read.get() + 1);
        if self.read.get() > VIEWS_READ_MAX {
            return refuse(format!("the statement reads more than {VIEWS_READ_MAX} views (views_read_max)"));
        }
        let mut tokens = statements(text)?.pop().unwrap_or(Tokens { tokens: Vec::new(), end: position });
        // What is wrong in it is wrong here.
        tokens.tokens.iter_mut().for_each(|token| token.span = ident.span);
        tokens.end = position;
        let mut query = parse_query(&tokens)?;
        if let Some(stored) = found.stored.as_ref().filter(|_| !self.as_queries) {
            query = stored.current(query)?;
        }
        let through = self.through.iter().cloned().chain([name.clone()]).collect();
        let (as_queries, reads_as) = (self.as_queries, found.reads_as);
        let mut inner = Expand { through, as_queries, reads_as, ..Expand::new(self.finds, self.read) };
        inner.within(query.as_mut())?;
        match found.is_guarded {
            true => guarded(query, name, ident.span),
            false => Ok(query),
        }
    }

    fn place(&self, factor: &mut TableFactor) -> Result<()> {
        let TableFactor::Table { name, alias, args: None, sample, .. } = factor else { return Ok(()) };
        // There is one schema, which may be said, and one database, under any name.
        let is_public = |part: &ObjectNamePart| {
            part.as_ident().is_some_and(|schema| schema.value.eq_ignore_ascii_case("public"))
        };
        let is_qualified = match name.0.as_slice() {
            [_] => false,
            [schema, _] | [_, schema, _] if is_public(schema) => true,
            _ => return Ok(()),
        };
        let Some(ObjectNamePart::Identifier(ident)) = name.0.last_mut() else { return Ok(()) };
        if !is_qualified && self.is_declared(&ident.value) {
            return Ok(());
        }
        let Some(found) = (self.finds)(&ident.value, self.reads_as) else { return Ok(()) };
        let named = |name| TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        match found {
            Found::View(found) => {
                let subquery = self.query(ident, &found)?;
                let name = Ident { value: found.name, quote_style: Some('"'), span: ident.span };
                let alias = alias.take().or(Some(named(name)));
                let sample = sample.take();
                *factor = TableFactor::Derived { lateral: false, subquery, alias, sample };
            }
            Found::Table(value) => {
                alias.get_or_insert_with(|| named(ident.clone()));
                let ident = Ident { value, quote_style: Some('"'), span: ident.span };
                name.0 = vec![ObjectNamePart::Identifier(ident)];
            }
        }
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

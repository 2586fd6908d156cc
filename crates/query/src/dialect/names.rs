//! Spelling: unquoted names match in any case, quoted ones exactly.
//!
//! DataFusion compares names exactly (the session turns its own folding to lower case off), so before
//! planning every unquoted name takes the spelling of what it refers to: a table of the catalog, one of
//! its columns, or a name the statement itself declares (alias, CTE). What matches nothing stays as it
//! is, and planning says so.

use super::calls::{self, Callables};
use super::cursor::Result;
use super::digits::KeepDigits;
use super::instants::InArguments;
use super::walks::walk_mut;
use super::work::Work;
use super::{AlterTable, CopySource, Partitions, SqlError, Statement};
use sqlparser::ast::{
    Expr, Ident, Insert, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableObject, TableWithJoins, VisitMut, VisitorMut,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use tickstone_model::is_same_name;

/// Finds a table by its name in any case: its own spelling, and its columns'.
pub(super) type Catalog<'a> = dyn Fn(&str) -> Option<(String, Vec<String>)> + 'a;

/// Puts what calls stand for in their places ([`super::defined`]), gives every unquoted name of a statement the spelling
/// of what it refers to, and keeps the digits of its numbers ([`super::digits`]).
///
/// `catalog` says what tables there are, `callables` what functions.
///
/// # Errors
/// [`SqlError`] at a call with a clause that its function would not heed, and where planning would take too much work.
pub fn resolve_names(
    statement: &mut Statement,
    catalog: &Catalog<'_>,
    callables: &Callables<'_>,
) -> Result<()> {
    let names = Names { catalog, callables };
    match statement {
        Statement::Query(node) | Statement::Insert(node) => names.resolve(node.as_mut()),
        Statement::CreateTable(table) => {
            table.query.as_mut().map_or(Ok(()), |query| names.resolve(query.as_mut()))
        }
        Statement::CreateView(view) => names.resolve(view.query.as_mut()),
        Statement::CopyTo { source: CopySource::Query(query), .. } => names.resolve(query.as_mut()),
        Statement::Change(change) => names.resolve(change.query.as_mut()),
        Statement::Merge(merge) => {
            if let Some((spelling, _)) = catalog(&merge.table) {
                super::merge::spell(merge, &spelling);
            }
            names.resolve(merge.query.as_mut())
        }
        Statement::Subscribe(subscribe) => names.resolve(subscribe.query.as_mut()),
        Statement::Replay(replay) => names.resolve(replay.query.as_mut()),
        Statement::Inspect(inspect) => names.resolve(inspect.query.as_mut()),
        Statement::AlterTable { change: AlterTable::DropPartitions(Partitions::Where(query)), .. } => {
            names.resolve(query.as_mut())
        }
        _ => Ok(()),
    }
}

/// What names may refer to.
struct Names<'a> {
    catalog: &'a Catalog<'a>,
    callables: &'a Callables<'a>,
}

impl Names<'_> {
    fn resolve(&self, node: &mut impl VisitMut) -> Result<()> {
        super::defined::expand(node, self.callables)?;
        let mut spellings = Spellings::default();
        let mut work = Work::new(self.callables);
        // The first visitor never breaks off.
        let _ = walk_mut(
            node,
            &mut Collect { catalog: self.catalog, spellings: &mut spellings, work: &mut work },
        );
        work.done()?;
        if let ControlFlow::Break(error) =
            walk_mut(node, &mut Rewrite { spellings: &spellings, callables: self.callables })
        {
            return Err(error);
        }
        super::outer_names::qualify(node, self.catalog);
        // It never breaks off.
        let _ = walk_mut(node, &mut KeepDigits);
        // Nor does this one.
        let _ = walk_mut(node, &mut InArguments);
        super::listed::place(node, self.catalog)?;
        super::grouping::place(node)?;
        super::volatile::settle(node, self.callables)?;
        super::unnested::mark(node)
    }
}

/// What names a statement can refer to, by their lower-case form.
#[derive(Debug, Default)]
struct Spellings {
    /// Tables, columns, aliases; in the order found, catalog first.
    names: HashMap<String, Vec<String>>,
    /// Names the statement declares.
    declared: HashMap<String, Vec<String>>,
    /// The columns of a table or of an alias of it.
    columns: HashMap<String, Vec<String>>,
    /// Whether the statement reads tables of `information_schema`, all of whose names are in small letters.
    reads_standard: bool,
}

/// The schemas that a table's name may begin with, that of the database's own tables first.
pub(super) const SCHEMAS: [&str; 2] = ["public", STANDARD];

/// The schema whose tables the SQL standard names.
const STANDARD: &str = "information_schema";

/// The schema before the name of a table, as a place in the name.
fn schema_of(name: &ObjectName) -> Option<(usize, &'static str)> {
    let at = name.0.len().checked_sub(2)?;
    let ident = name.0.get(at)?.as_ident()?;
    let known = SCHEMAS.into_iter().find(|schema| match ident.quote_style {
        Some(_) => ident.value == *schema,
        None => ident.value.eq_ignore_ascii_case(schema),
    });
    known.map(|schema| (at, schema))
}

impl Spellings {
    fn add(&mut self, name: &str) {
        let known = self.names.entry(name.to_lowercase()).or_default();
        if !known.iter().any(|k| k == name) {
            known.push(name.to_string());
        }
    }

    fn declare(&mut self, ident: &Ident) {
        self.declared.entry(ident.value.to_lowercase()).or_default().push(ident.value.clone());
    }

    fn spelling<'a>(&'a self, name: &'a str) -> &'a str {
        let folded = name.to_lowercase();
        let found = || self.names.get(&folded).into_iter().chain(self.declared.get(&folded)).flatten();
        let exact = found().find(|k| k.as_str() == name);
        exact.or_else(|| found().next()).map_or(name, String::as_str)
    }

    fn knows(&self, name: &str) -> bool {
        let folded = name.to_lowercase();
        self.names.contains_key(&folded) || self.declared.contains_key(&folded)
    }

    fn fix(&self, ident: &mut Ident) {
        if ident.quote_style.is_none() {
            let spelling = self.spelling(&ident.value);
            if spelling != ident.value {
                ident.value = spelling.to_string();
            } else if self.reads_standard && !self.knows(&ident.value) {
                ident.value = ident.value.to_lowercase();
            }
        }
    }

    /// A column after its qualifier: the table's own spelling if the table is known.
    fn fix_qualified(&self, parts: &mut [Ident]) {
        let [.., qualifier, column] = parts else { return };
        let columns = self.columns.get(&qualifier.value.to_lowercase());
        let known = columns.and_then(|all| {
            all.iter().find(|c| **c == column.value).or_else(|| {
                all.iter().find(|c| column.quote_style.is_none() && is_same_name(c, &column.value))
            })
        });
        match known {
            Some(spelling) => column.value.clone_from(spelling),
            None => self.fix(column),
        }
        self.fix(qualifier);
    }

    fn fix_name(&self, name: &mut ObjectName) {
        for part in &mut name.0 {
            if let sqlparser::ast::ObjectNamePart::Identifier(ident) = part {
                self.fix(ident);
            }
        }
    }
}

struct Collect<'a, 'w> {
    catalog: &'a Catalog<'a>,
    spellings: &'a mut Spellings,
    work: &'a mut Work<'w>,
}

impl Collect<'_, '_> {
    /// Notes a table of the catalog; hands back its columns.
    fn table(&mut self, name: &ObjectName) -> Option<Vec<String>> {
        let ident = name.0.last()?.as_ident()?;
        let (spelling, columns) = (self.catalog)(&ident.value)?;
        for column in &columns {
            self.spellings.add(column);
        }
        self.spellings.add(&spelling);
        self.spellings.columns.entry(spelling.to_lowercase()).or_insert_with(|| columns.clone());
        Some(columns)
    }
}

impl VisitorMut for Collect<'_, '_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        self.spellings.reads_standard |= schema_of(name).is_some_and(|(_, schema)| schema == STANDARD);
        self.table(name);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        self.work.leave_expr();
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.work.leave_query(query);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.work.leave_select(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.work.enter_expr(expr);
        if let Some(alias) = super::series_join::horizon_alias(expr) {
            self.spellings.declare(alias);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.work.enter_query(query);
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.spellings.declare(&cte.alias.name);
            cte.alias.columns.iter().for_each(|column| self.spellings.declare(&column.name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.spellings.declare(alias);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.work.enter_factor(factor);
        super::pivot::names_made(factor).iter().for_each(|name| self.spellings.declare(name));
        let (alias, table) = match factor {
            TableFactor::Table { name, alias, args, .. } => (alias, args.is_none().then_some(&*name)),
            TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::Pivot { alias, .. }
            | TableFactor::Unpivot { alias, .. } => (alias, None),
            _ => return ControlFlow::Continue(()),
        };
        if let Some(alias) = alias {
            self.spellings.declare(&alias.name);
            alias.columns.iter().for_each(|column| self.spellings.declare(&column.name));
            if let Some(columns) = table.and_then(|name| self.table(name)) {
                self.spellings.columns.entry(alias.name.value.to_lowercase()).or_insert(columns);
            }
        }
        ControlFlow::Continue(())
    }
}

struct Rewrite<'a> {
    spellings: &'a Spellings,
    callables: &'a Callables<'a>,
}

impl Rewrite<'_> {
    fn joins(&self, from: &mut TableWithJoins) {
        for join in &mut from.joins {
            if let Some(JoinConstraint::Using(names)) = constraint(&mut join.join_operator) {
                names.iter_mut().for_each(|name| self.spellings.fix_name(name));
            }
        }
    }
}

impl VisitorMut for Rewrite<'_> {
    type Break = SqlError;

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<SqlError> {
        let (schema, length) = (schema_of(name), name.0.len());
        for (at, part) in name.0.iter_mut().enumerate() {
            let sqlparser::ast::ObjectNamePart::Identifier(ident) = part else { continue };
            match schema {
                Some((of, schema)) if at == of => ident.value = schema.to_string(),
                // Its tables are not the database's.
                Some((of, STANDARD)) if at > of && ident.quote_style.is_none() => {
                    ident.value = ident.value.to_lowercase();
                }
                _ if at + 1 == length => self.spellings.fix(ident),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Identifier(ident) => self.spellings.fix(ident),
            Expr::CompoundIdentifier(parts) => {
                if let [schema, _, _] = parts.as_mut_slice()
                    && schema.quote_style.is_none()
                    && !self.spellings.knows(&schema.value)
                    && let Some(known) = SCHEMAS.iter().find(|known| schema.value.eq_ignore_ascii_case(known))
                {
                    schema.value = (*known).to_string();
                }
                self.spellings.fix_qualified(parts);
            }
            Expr::Function(function) => {
                if let Err(error) = calls::check(function, self.callables) {
                    return ControlFlow::Break(error);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
            {
                self.spellings.fix_name(name);
            }
        }
        select.from.iter_mut().for_each(|from| self.joins(from));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut sqlparser::ast::Statement) -> ControlFlow<SqlError> {
        if let sqlparser::ast::Statement::Insert(Insert { table, columns, .. }) = statement {
            if let TableObject::TableName(name) = table {
                self.spellings.fix_name(name);
            }
            columns.iter_mut().for_each(|name| self.spellings.fix_name(name));
        }
        ControlFlow::Continue(())
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(c)
        | JoinOperator::Inner(c)
        | JoinOperator::Left(c)
        | JoinOperator::LeftOuter(c)
        | JoinOperator::Right(c)
        | JoinOperator::RightOuter(c)
        | JoinOperator::FullOuter(c)
        | JoinOperator::AsOf { constraint: c, .. } => Some(c),
        _ => None,
    }
}

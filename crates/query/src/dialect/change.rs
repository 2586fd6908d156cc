//! DELETE and UPDATE as a query for the rows that change.
//!
//! The query yields the number of each row, in a column that only such queries see
//! ([`ROW_NUMBER`]), and for UPDATE its new values. So all of SQL may say which rows they are.

use super::cursor::{Result, parser_error};
use super::marker::place;
use super::{ChangeRows, Position, SqlError, Statement};
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, FromTable, Ident, ObjectName, Query, SelectItem, SetExpr,
    TableAlias, TableFactor, TableWithJoins, UpdateTableFromKind,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// The column with the numbers of rows of the table that changes.
pub(crate) const ROW_NUMBER: &str = "__row_number";

/// DELETE FROM t [alias] [USING …] [WHERE …].
pub(super) fn delete(delete: ast::Delete, position: Position) -> Result<Statement> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = delete.from;
    let [target] = <[TableWithJoins; 1]>::try_from(from)
        .map_err(|_| SqlError::new("DELETE names one table", position).hint("others come after USING"))?;
    let others = delete.using.unwrap_or_default();
    let mut changed = changed(target, others, delete.selection, &[], position)?;
    changed.returning = delete.returning;
    Ok(Statement::Change(Box::new(changed)))
}

/// UPDATE t [alias] SET column = value, … [FROM …] [WHERE …].
pub(super) fn update(update: ast::Update, position: Position) -> Result<Statement> {
    let others = match update.from {
        Some(UpdateTableFromKind::AfterSet(from) | UpdateTableFromKind::BeforeSet(from)) => from,
        None => Vec::new(),
    };
    let mut changed = changed(update.table, others, update.selection, &update.assignments, position)?;
    changed.returning = update.returning;
    Ok(Statement::Change(Box::new(changed)))
}

fn changed(
    target: TableWithJoins,
    others: Vec<TableWithJoins>,
    selection: Option<Expr>,
    assignments: &[Assignment],
    position: Position,
) -> Result<ChangeRows> {
    let (table, qualifier) = target_name(&target, position)?;
    let alias = (qualifier.value != table).then(|| qualifier.value.clone());
    let number = Expr::CompoundIdentifier(vec![qualifier, Ident::with_quote('"', ROW_NUMBER)]);
    let mut projection = vec![SelectItem::UnnamedExpr(number)];
    let mut columns = Vec::with_capacity(assignments.len());
    for (at, assignment) in assignments.iter().enumerate() {
        columns.push(assigned(assignment, position)?);
        let alias = Ident::with_quote('"', format!("value {at}"));
        projection.push(SelectItem::ExprWithAlias { expr: assignment.value.clone(), alias });
    }
    let mut query = template(position)?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(SqlError::new("rows cannot be selected", position));
    };
    let joined = !others.is_empty();
    select.projection = projection;
    select.from = std::iter::once(target).chain(others).collect();
    select.selection = selection;
    Ok(ChangeRows { table, columns, joined, query, returning: None, alias })
}

/// Has the query yield these columns of the table as they are, too, behind the new values.
pub(crate) fn with_old_values<'a>(query: &mut Query, columns: impl Iterator<Item = &'a str>) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(SelectItem::UnnamedExpr(Expr::CompoundIdentifier(number))) = select.projection.first() else {
        return;
    };
    let Some(qualifier) = number.first().cloned() else { return };
    select.projection.extend(columns.enumerate().map(|(at, column)| SelectItem::ExprWithAlias {
        expr: Expr::CompoundIdentifier(vec![qualifier.clone(), Ident::with_quote('"', column)]),
        alias: Ident::with_quote('"', format!("old value {at}")),
    }));
}

/// The query for what RETURNING asks of rows of a table that stand in `rows`.
///
/// # Errors
/// None but a defect.
pub(crate) fn returning_query(items: Vec<SelectItem>, table: &str, rows: &str) -> Result<Box<Query>> {
    let mut query = template(Position::default())?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let quoted = |name: &str| Ident::with_quote('"', name);
        let alias = TableAlias { explicit: true, name: quoted(table), columns: Vec::new(), at: None };
        let relation = TableFactor::Table {
            name: vec![quoted(rows)].into(),
            alias: Some(alias),
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        };
        select.projection = items;
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
    Ok(query)
}

/// A query of one SELECT to be filled.
pub(super) fn template(position: Position) -> Result<Box<Query>> {
    let mut parser = Parser::new(&GenericDialect {})
        .try_with_sql("SELECT 1")
        .map_err(|error| parser_error(error, position))?;
    parser.parse_query().map_err(|error| parser_error(error, position))
}

/// The name of the table, and what its columns are qualified with.
pub(super) fn target_name(target: &TableWithJoins, position: Position) -> Result<(String, Ident)> {
    let wrong = || SqlError::new("expected the name of a table", position);
    let TableFactor::Table { name, alias, args: None, .. } = &target.relation else { return Err(wrong()) };
    if !target.joins.is_empty() {
        return Err(SqlError::new("the table that changes cannot be joined", position)
            .hint("write the others after FROM (UPDATE) or USING (DELETE), and the condition after WHERE"));
    }
    let ident = last_ident(name).ok_or_else(wrong)?;
    let qualifier = alias.as_ref().map_or_else(|| ident.clone(), |alias| alias.name.clone());
    Ok((ident.value.clone(), qualifier))
}

/// The column that an assignment gives a value, and where it stands.
pub(super) fn assigned(assignment: &Assignment, position: Position) -> Result<(String, Position)> {
    let name = match &assignment.target {
        AssignmentTarget::ColumnName(name) => last_ident(name),
        AssignmentTarget::Tuple(_) => None,
    };
    name.map(|ident| (ident.value.clone(), place(&assignment.target)))
        .ok_or_else(|| SqlError::new("SET takes column = value, …", position))
}

pub(super) fn last_ident(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}

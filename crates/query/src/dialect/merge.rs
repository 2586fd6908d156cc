//! MERGE as a query for the rows that it stores.
//!
//! ```text
//! MERGE INTO t USING s ON t.k = s.k                  SELECT clause, a value each for x, k and y,
//!   WHEN MATCHED AND s.x > 0 THEN UPDATE SET x = s.x        t.*, TRUE where there is a row of t
//!   WHEN NOT MATCHED THEN INSERT (k, y) VALUES (s.k, 1)   FROM s LEFT JOIN t ON t.k = s.k
//! ```
//!
//! `clause` is the number of the first clause that a row fulfils, from 0; rows of none are left out. A value is NULL in
//! rows of other clauses.

use super::change::{assigned, last_ident, target_name, template};
use super::cursor::Result;
use super::marker::place;
use super::{MergeRows, MergedClause, Position, SqlError, Statement};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, Merge, MergeAction,
    MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
    WildcardAdditionalOptions,
};

/// TRUE where a row of the source meets one of the table.
const MATCHED: &str = "__matched";

/// MERGE INTO t [alias] USING source ON condition WHEN [NOT] MATCHED [AND condition] THEN ….
pub(super) fn merge(merge: Merge, position: Position) -> Result<Statement> {
    let Merge { table, source, on, clauses, .. } = merge;
    let target = TableWithJoins { relation: table, joins: Vec::new() };
    let (name, qualifier) = target_name(&target, position)?;
    let matched = Expr::CompoundIdentifier(vec![qualifier.clone(), quoted(MATCHED)]);
    let mut merged = Vec::with_capacity(clauses.len());
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    for clause in clauses {
        let MergeClause { clause_kind, predicate, action, .. } = clause;
        let met = match clause_kind {
            MergeClauseKind::Matched => matched.clone(),
            _ => Expr::IsNull(Box::new(matched.clone())),
        };
        let condition = match predicate {
            Some(predicate) => both(met, Expr::Nested(Box::new(predicate))),
            None => met,
        };
        let of = merged.len();
        let (is_update, columns) = match action {
            MergeAction::Update(update) => {
                let columns = update.assignments.iter().map(|assignment| assigned(assignment, position));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                values.extend(update.assignments.into_iter().map(|assignment| (of, assignment.value)));
                (true, columns)
            }
            MergeAction::Insert(MergeInsertExpr { columns, kind: MergeInsertKind::Values(rows), .. }) => {
                let named = columns.iter().map(|name| match last_ident(name) {
                    Some(ident) => Ok((ident.value.clone(), place(name))),
                    None => Err(SqlError::new("expected the name of a column", position)),
                });
                let named = named.collect::<Result<Vec<_>>>()?;
                let [row] = <[_; 1]>::try_from(rows.rows).map_err(|_| {
                    SqlError::new("WHEN NOT MATCHED inserts one row: VALUES (value, …)", position)
                })?;
                if !named.is_empty() && named.len() != row.content.len() {
                    let (names, values) = (named.len(), row.content.len());
                    let message = format!("INSERT names {names} columns and brings {values} values");
                    return Err(SqlError::new(message, position));
                }
                let width = row.content.len();
                values.extend(row.content.into_iter().map(|value| (of, value)));
                let by_place = (0..width).map(|_| (String::new(), position)).collect();
                (false, if named.is_empty() { by_place } else { named })
            }
            // Refused where the syntax is checked.
            MergeAction::Insert(_) | MergeAction::Delete { .. } => {
                return Err(SqlError::new("MERGE updates and inserts", position));
            }
        };
        merged.push(MergedClause { is_update, columns });
        conditions.push(condition);
    }
    let clause = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions
            .into_iter()
            .enumerate()
            .map(|(of, condition)| CaseWhen { condition, result: number(of) })
            .collect(),
        else_result: None,
    };
    let mut projection = vec![named(clause.clone(), "clause".to_string())];
    for (at, (of, value)) in values.into_iter().enumerate() {
        let value = Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: Some(Box::new(clause.clone())),
            conditions: vec![CaseWhen { condition: number(of), result: value }],
            else_result: None,
        };
        projection.push(named(value, format!("value {at}")));
    }
    let all = SelectItemQualifiedWildcardKind::ObjectName(vec![qualifier.clone()].into());
    projection.push(SelectItem::QualifiedWildcard(all, WildcardAdditionalOptions::default()));
    let mut query = template(position)?;
    let wrong = || SqlError::new("rows cannot be merged", position);
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(wrong()) };
    select.projection = projection;
    select.selection = Some(Expr::IsNotNull(Box::new(clause)));
    let join = Join {
        relation: rows_of(target, qualifier, position)?,
        global: false,
        join_operator: JoinOperator::LeftOuter(JoinConstraint::On(*on)),
    };
    select.from = vec![TableWithJoins { relation: source, joins: vec![join] }];
    Ok(Statement::Merge(Box::new(MergeRows { table: name, clauses: merged, query })))
}

/// Has the rows of the table go by its own spelling, where they have no name of the statement's.
pub(super) fn spell(merge: &mut MergeRows, spelling: &str) {
    let SetExpr::Select(select) = merge.query.body.as_mut() else { return };
    let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
    for join in joins {
        if let TableFactor::Derived { alias: Some(TableAlias { name, .. }), .. } = &mut join.relation
            && name.quote_style.is_none()
            && name.value.eq_ignore_ascii_case(&merge.table)
        {
            name.value = spelling.to_string();
        }
    }
}

/// The rows of the table, each with TRUE.
fn rows_of(target: TableWithJoins, qualifier: Ident, position: Position) -> Result<TableFactor> {
    let mut query = template(position)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let is_there = Expr::value(Value::Boolean(true));
        select.projection = vec![
            SelectItem::Wildcard(WildcardAdditionalOptions::default()),
            named(is_there, MATCHED.to_string()),
        ];
        select.from = vec![target];
    }
    Ok(TableFactor::Derived {
        lateral: false,
        subquery: query,
        alias: Some(TableAlias { explicit: true, name: qualifier, columns: Vec::new(), at: None }),
        sample: None,
    })
}

fn both(a: Expr, b: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(a), op: BinaryOperator::And, right: Box::new(b) }
}

fn number(of: usize) -> Expr {
    Expr::value(Value::Number(of.to_string(), false))
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn named(expr: Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

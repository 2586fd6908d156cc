//! PIVOT and UNPIVOT: what the parser reads of them, and which columns they make.
//!
//! The names of a PIVOT's columns are needed twice, where names take their spelling and where the plan is made, so they
//! are made here. GROUP BY, for which the parser has no room, travels as `DEFAULT ON NULL (__pivot_groups(…))`.
//!
//! A PIVOT that is to find its values (`IN (ANY)`, `IN (SELECT …)`) gets them before names are resolved: whoever runs the
//! statement asks for [`values_wanted`], runs that and hands the values over ([`values_found`]), until none is wanted.

use super::cursor::{Cursor, Result, Tokens, span, statements};
use super::marker::place;
use super::walks::walk;
use super::{Position, SqlError, Statement};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    NullInclusion, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, PivotValueSource, Query, SelectItem,
    SetExpr, TableAlias, TableFactor, TableWithJoins, TypedString, UnaryOperator, Value, ValueWithSpan,
    Visitor, VisitorMut, With,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// The function whose arguments are what PIVOT groups by.
pub(super) const GROUPS: &str = "__pivot_groups";

/// table PIVOT (aggregate, … FOR column IN (value, …) [GROUP BY …]) [alias].
#[derive(Debug, Clone)]
pub(crate) struct PivotMarker {
    /// What is turned.
    pub(crate) table: TableFactor,
    /// The name of the result.
    pub(crate) alias: Option<TableAlias>,
    aggregates: Vec<ExprWithAlias>,
    /// What is compared with the values.
    on: Vec<Expr>,
    values: PivotValueSource,
    /// GROUP BY; `None` are all columns that nothing else names.
    pub(crate) groups: Option<Vec<Expr>>,
    /// What stands for NULL in the columns made.
    pub(crate) default: Option<Expr>,
    /// Where FOR's column stands.
    pub(crate) position: Position,
}

/// A column that PIVOT makes.
#[derive(Debug, Clone)]
pub(crate) struct PivotColumn {
    pub(crate) name: String,
    /// The aggregate over the rows of its value.
    pub(crate) aggregate: Function,
}

impl PivotMarker {
    /// The marker a table factor is, or the factor back.
    pub(crate) fn read(factor: TableFactor) -> std::result::Result<Self, Box<TableFactor>> {
        let TableFactor::Pivot {
            table,
            aggregate_functions: aggregates,
            value_column: on,
            value_source: values,
            default_on_null,
            alias,
        } = factor
        else {
            return Err(Box::new(factor));
        };
        let position = on.first().map(place).unwrap_or_default();
        let groups = default_on_null.as_ref().and_then(groups_of);
        let default = default_on_null.filter(|_| groups.is_none());
        Ok(Self { table: *table, alias, aggregates, on, values, groups, default, position })
    }

    /// The columns it makes, value by value.
    ///
    /// # Errors
    /// [`SqlError`] where the values are no list of literals.
    pub(crate) fn columns(&self) -> Result<Vec<PivotColumn>> {
        let mut columns = Vec::new();
        for value in values(&self.values, self.position)? {
            let condition = self.condition(&value.expr)?;
            for aggregate in &self.aggregates {
                let Expr::Function(function) = &aggregate.expr else {
                    return Err(SqlError::new("PIVOT takes aggregates, such as sum(size)", self.position));
                };
                let name = column_name(value, aggregate, self.aggregates.len())?;
                columns.push(PivotColumn { name, aggregate: filtered(function, condition.clone()) });
            }
        }
        Ok(columns)
    }

    /// Whether a row is one of this value.
    fn condition(&self, value: &Expr) -> Result<Expr> {
        let parts = match value {
            Expr::Tuple(parts) => parts.as_slice(),
            Expr::Nested(inner) => return self.condition(inner),
            one => std::slice::from_ref(one),
        };
        if parts.len() != self.on.len() {
            let message = format!("{value} has {} values for {} columns", parts.len(), self.on.len());
            return Err(SqlError::new(message, place(value)));
        }
        let equal = |(on, part): (&Expr, &Expr)| match part {
            Expr::Value(ValueWithSpan { value: Value::Null, .. }) => Expr::IsNull(Box::new(on.clone())),
            _ => binary(on.clone(), BinaryOperator::Eq, part.clone()),
        };
        let all = self.on.iter().zip(parts).map(equal).reduce(|a, b| binary(a, BinaryOperator::And, b));
        all.ok_or_else(|| SqlError::new("PIVOT names no column after FOR", self.position))
    }
}

/// The names of the columns that a PIVOT or UNPIVOT makes, as far as they are known.
pub(super) fn names_made(factor: &TableFactor) -> Vec<Ident> {
    match factor {
        TableFactor::Pivot { aggregate_functions, value_source, .. } => {
            let values = values(value_source, Position::default()).unwrap_or_default().iter();
            let names = values.flat_map(|value| {
                let each = aggregate_functions.iter();
                each.map(move |aggregate| column_name(value, aggregate, aggregate_functions.len()))
            });
            names.filter_map(|name| name.ok().map(Ident::new)).collect()
        }
        TableFactor::Unpivot { value: Expr::Identifier(value), name, .. } => {
            vec![value.clone(), name.clone()]
        }
        _ => Vec::new(),
    }
}

fn values(source: &PivotValueSource, position: Position) -> Result<&[ExprWithAlias]> {
    match source {
        PivotValueSource::List(values) => Ok(values),
        PivotValueSource::Any(_) | PivotValueSource::Subquery(_) => {
            Err(SqlError::new("the values of PIVOT must be written out here", position)
                .hint("FOR symbol IN ('A', 'B'); SELECT DISTINCT finds them"))
        }
    }
}

/// PIVOT t ON column [IN (value, …)], … [USING aggregate, …] [GROUP BY …] [ORDER BY …] [LIMIT …], as DuckDB has it:
/// `SELECT * FROM t PIVOT (aggregate FOR column IN (ANY) GROUP BY …)`.
pub(super) fn pivot(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let position = cursor.position();
    cursor.skip(1);
    let mut part = |words: &[&[&str]]| {
        let (mut taken, mut depth) = (Vec::new(), 0_usize);
        while let Some(token) = cursor.rest().first() {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth == 0 && words.iter().any(|words| cursor.words(words)) => break,
                _ => {}
            }
            taken.push(token.clone());
            cursor.skip(1);
        }
        taken
    };
    let ends: &[&[&str]] = &[&["ORDER", "BY"], &["LIMIT"]];
    let table = part(&[&["ON"]]);
    let mut on = part(&[&["USING"], &["GROUP", "BY"], ends[0], ends[1]]);
    let mut using = part(&[&["GROUP", "BY"], ends[0], ends[1]]);
    let groups = part(ends);
    let rest = part(&[]);
    if table.is_empty() || on.len() < 2 {
        return Err(SqlError::new("PIVOT t ON names no column", position)
            .hint("write PIVOT trades ON symbol USING sum(size) GROUP BY ts"));
    }
    on.remove(0);
    let written = |text: &str| -> Result<Vec<TokenWithSpan>> {
        let mut tokens = statements(text)?.pop().map(|found| found.tokens).unwrap_or_default();
        tokens.iter_mut().for_each(|token| token.span = span(position));
        Ok(tokens)
    };
    if using.is_empty() {
        using = written("count(*)")?;
    } else {
        using.remove(0);
    }
    // IN (…) after the last column lists the values of it.
    let is_in =
        |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::IN);
    let listed = on.iter().position(is_in).map(|at| on.split_off(at));
    let several = on.iter().any(|token| token.token == Token::Comma);
    let on = if several { [written("(")?, on, written(")")?].concat() } else { on };
    let tokens = [
        written("SELECT * FROM")?,
        table,
        written("PIVOT (")?,
        using,
        written("FOR")?,
        on,
        listed.map_or_else(|| written("IN (ANY)"), Ok)?,
        groups,
        written(")")?,
        rest,
    ]
    .concat();
    let query = super::parse_query(&Tokens { tokens, end: cursor.end() })?;
    Ok(Statement::Query(Box::new(sqlparser::ast::Statement::Query(query))))
}

/// The query that finds the values of the first PIVOT, from inside out, which has none yet.
///
/// # Errors
/// Never: what is written here is SQL.
pub(crate) fn values_wanted(statement: &mut Statement) -> Result<Option<Box<Query>>> {
    let mut wanted = Wanted { declared: Vec::new() };
    match statement.walk_queries_mut(&mut wanted) {
        ControlFlow::Break(query) => query.map(Some),
        ControlFlow::Continue(()) => Ok(None),
    }
}

/// Gives that PIVOT its values, each a literal or a tuple of such.
pub(crate) fn values_found(statement: &mut Statement, values: Vec<Expr>) {
    let mut found = Found(Some(values));
    // It breaks off where they are placed.
    let _ = statement.walk_queries_mut(&mut found);
}

/// Whether the values of a PIVOT are still to be found.
fn wants_values(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Pivot { value_source: PivotValueSource::Any(_) | PivotValueSource::Subquery(_), .. }
    )
}

struct Wanted {
    /// What WITH declares around where the walk is.
    declared: Vec<Option<With>>,
}

impl VisitorMut for Wanted {
    type Break = Result<Box<Query>>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.declared.push(query.with.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.declared.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if !wants_values(factor) {
            return ControlFlow::Continue(());
        }
        let TableFactor::Pivot { table, value_column, value_source, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let mut query = match value_source {
            PivotValueSource::Subquery(query) => query.clone(),
            PivotValueSource::Any(order) => {
                let items = value_column.iter().cloned().map(SelectItem::UnnamedExpr).collect();
                let joined = TableWithJoins { relation: (**table).clone(), joins: Vec::new() };
                let place = |at: usize| Expr::value(Value::Number(at.to_string(), false));
                let order = match order.is_empty() {
                    true => (1..=value_column.len()).map(|at| ascending(place(at))).collect(),
                    false => order.clone(),
                };
                match distinct(items, joined, order) {
                    Ok(query) => query,
                    error => return ControlFlow::Break(error),
                }
            }
            PivotValueSource::List(_) => return ControlFlow::Continue(()),
        };
        // Names of WITH mean there what they mean here; what still wants values comes after, or is around it.
        let mut tables = Vec::new();
        for with in self.declared.iter().flatten() {
            tables.extend(with.cte_tables.iter().take_while(|table| !has_unfound(&table.query)).cloned());
        }
        if !tables.is_empty() {
            let recursive = self.declared.iter().flatten().any(|with| with.recursive);
            let own = query.with.take().map(|with| with.cte_tables).unwrap_or_default();
            tables.extend(own);
            query.with = Some(With { with_token: AttachedToken::empty(), recursive, cte_tables: tables });
        }
        ControlFlow::Break(Ok(query))
    }
}

fn has_unfound(query: &Query) -> bool {
    struct Any;
    impl Visitor for Any {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if wants_values(factor) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    walk(query, &mut Any).is_break()
}

fn ascending(expr: Expr) -> OrderByExpr {
    OrderByExpr { expr, options: OrderByOptions { asc: None, nulls_first: None }, with_fill: None }
}

/// SELECT DISTINCT items FROM table ORDER BY order.
fn distinct(items: Vec<SelectItem>, from: TableWithJoins, order: Vec<OrderByExpr>) -> Result<Box<Query>> {
    let mut query = super::view::query_of_view("SELECT DISTINCT 1 FROM t")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = vec![from];
    }
    query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(order), interpolate: None });
    Ok(query)
}

struct Found(Option<Vec<Expr>>);

impl VisitorMut for Found {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if !wants_values(factor) {
            return ControlFlow::Continue(());
        }
        if let (TableFactor::Pivot { value_source, .. }, Some(values)) = (factor, self.0.take()) {
            let value = |expr| ExprWithAlias { expr, alias: None };
            *value_source = PivotValueSource::List(values.into_iter().map(value).collect());
        }
        ControlFlow::Break(())
    }
}

/// The value's name; with that of the aggregate where there are several, or it has one.
fn column_name(value: &ExprWithAlias, aggregate: &ExprWithAlias, aggregates: usize) -> Result<String> {
    let of_value = match &value.alias {
        Some(alias) => alias.value.clone(),
        None => value_name(&value.expr)?,
    };
    Ok(match &aggregate.alias {
        Some(alias) => format!("{of_value}_{}", alias.value),
        None if aggregates > 1 => format!("{of_value}_{}", aggregate.expr),
        None => of_value,
    })
}

/// A literal as it is written, without quotes.
fn value_name(value: &Expr) -> Result<String> {
    let of_value = |value: &Value| match value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        Value::Number(..) | Value::Boolean(_) | Value::Null => Some(value.to_string()),
        _ => None,
    };
    let named = match value {
        Expr::Value(value) => of_value(&value.value),
        Expr::TypedString(TypedString { value, .. }) => of_value(&value.value),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(ValueWithSpan { value: Value::Number(..), .. }) => Some(value.to_string()),
            _ => None,
        },
        Expr::Nested(inner) => Some(value_name(inner)?),
        Expr::Tuple(parts) => Some(parts.iter().map(value_name).collect::<Result<Vec<_>>>()?.join("_")),
        _ => None,
    };
    named.ok_or_else(|| {
        SqlError::new(format!("{value} is no literal, and PIVOT compares with literals"), place(value))
            .hint("text stands in single quotes: FOR symbol IN ('A', 'B')")
    })
}

/// The aggregate over the rows that meet a condition too.
fn filtered(function: &Function, condition: Expr) -> Function {
    let mut function = function.clone();
    let filter = match function.filter.take() {
        Some(other) => binary(Expr::Nested(other), BinaryOperator::And, condition),
        None => condition,
    };
    function.filter = Some(Box::new(filter));
    function
}

fn groups_of(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    let [part] = name.0.as_slice() else { return None };
    if part.as_ident()?.value != GROUPS {
        return None;
    }
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(arg).collect()
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// table UNPIVOT [INCLUDE NULLS] (value FOR name IN (column [AS text], …)) [alias].
#[derive(Debug, Clone)]
pub(crate) struct UnpivotMarker {
    /// What is turned.
    pub(crate) table: TableFactor,
    /// The name of the result.
    pub(crate) alias: Option<TableAlias>,
    /// The name of the column with the values.
    pub(crate) value: String,
    /// The name of the column that says which column a value is of.
    pub(crate) name: String,
    /// The columns that become rows, and what each is called in `name`.
    pub(crate) columns: Vec<(Expr, String)>,
    /// Whether NULL makes a row too.
    pub(crate) with_nulls: bool,
    /// Where the name of the column stands.
    pub(crate) position: Position,
}

impl UnpivotMarker {
    /// The marker a table factor is, or the factor back.
    ///
    /// # Errors
    /// [`SqlError`] where what is listed are no columns.
    pub(crate) fn read(factor: TableFactor) -> std::result::Result<Result<Self>, Box<TableFactor>> {
        let TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } = factor else {
            return Err(Box::new(factor));
        };
        let position = super::cursor::position(name.span.start).unwrap_or_default();
        let Expr::Identifier(value) = value else {
            let error = SqlError::new(format!("UNPIVOT takes a new name, not {value}"), position);
            return Ok(Err(error.hint("write UNPIVOT (value FOR name IN (bid, ask))")));
        };
        let columns: Result<Vec<_>> = columns.into_iter().map(listed_column).collect();
        let with_nulls = null_inclusion == Some(NullInclusion::IncludeNulls);
        let (value, name) = (value.value, name.value);
        Ok(columns.map(|columns| Self { table: *table, alias, value, name, columns, with_nulls, position }))
    }
}

fn listed_column(column: ExprWithAlias) -> Result<(Expr, String)> {
    let named = match &column.expr {
        Expr::Identifier(ident) => Some(&ident.value),
        Expr::CompoundIdentifier(parts) => parts.last().map(|ident| &ident.value),
        _ => None,
    };
    match (named, column.alias) {
        (Some(_), Some(alias)) => Ok((column.expr, alias.value)),
        (Some(name), None) => Ok((column.expr.clone(), name.clone())),
        (None, _) => {
            Err(SqlError::new(format!("UNPIVOT lists columns, not {}", column.expr), place(&column.expr))
                .hint("make the column in a sub-query: FROM (SELECT …) UNPIVOT (…)"))
        }
    }
}

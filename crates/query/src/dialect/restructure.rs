//! From the parsed AST with placeholders to one with marker relations.
//!
//! Children first, so that a clause in a sub-query is in its place before its parent moves:
//! - a SELECT with LATEST ON reads `FROM __latest_on(…)` instead;
//! - a join with an ASOF clause becomes a nested join of all up to there;
//! - `ts IN (interval)` becomes `ts >= from AND ts < to`;
//! - a query that is a SELECT with SAMPLE BY becomes `SELECT * FROM __sample_by(…)`, ORDER BY and LIMIT
//!   inside, WITH outside; one over a WINDOW JOIN likewise `SELECT * FROM __window_select(…)`.

use super::clause::{Clause, IntervalClause, OPEN_INTERVAL, PLACEHOLDER, SampleClause, intervals};
use super::cursor::{Result, parser_error};
use super::marker::{asof_operator, latest_factor, placeholder_of, sample_factor, simple_name, text};
use super::series_join::{self, WindowSelect};
use super::walks::walk_mut;
use super::{Position, SqlError};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::ops::ControlFlow;
use tickstone_model::format_nanos;

/// Puts the clauses that were cut out where their placeholders stand.
pub(super) fn restructure(node: &mut impl VisitMut, clauses: Vec<Clause>) -> Result<()> {
    if clauses.is_empty() {
        return Ok(());
    }
    let mut pass = Restructure { clauses: clauses.into_iter().map(Some).collect() };
    match walk_mut(node, &mut pass) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => pass.all_placed(),
    }
}

/// What a SELECT gives way to.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
enum Wrap {
    Sample(SampleClause),
    Window(Position),
}

impl Wrap {
    fn factor(self, query: Box<Query>) -> TableFactor {
        match self {
            Wrap::Sample(clause) => sample_factor(clause, query),
            Wrap::Window(position) => WindowSelect::factor(query, position),
        }
    }
}

struct Restructure {
    clauses: Vec<Option<Clause>>,
}

impl VisitorMut for Restructure {
    type Break = SqlError;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.nest_joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::InList { expr: tested, list, negated } = expr
            && let [listed] = list.as_slice()
            && let Some(clause) = self.take_interval(listed)
        {
            *expr = inside(tested, &clause, *negated);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match self.query(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Restructure {
    fn query(&mut self, query: &mut Query) -> Result<()> {
        match query.body.as_mut() {
            SetExpr::Select(select) => {
                let Some(wrap) = self.select(select)? else { return Ok(()) };
                let mut outer = all_of_a_table()?;
                outer.with = query.with.take();
                let inner = Box::new(std::mem::replace(query, *outer));
                set_from(query, wrap.factor(inner));
                Ok(())
            }
            body => self.set_operands(body),
        }
    }

    /// SELECTs that are operands of UNION, EXCEPT, INTERSECT (bracketed ones are queries of their own).
    fn set_operands(&mut self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.set_operands(left)?;
                self.set_operands(right)
            }
            SetExpr::Select(select) => {
                let Some(wrap) = self.select(select)? else { return Ok(()) };
                let mut outer = all_of_a_table()?;
                let mut inner = all_of_a_table()?;
                std::mem::swap(inner.body.as_mut(), body);
                set_from(&mut outer, wrap.factor(inner));
                *body = *outer.body;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Places joins and LATEST ON; hands back what concerns the query around.
    fn select(&mut self, select: &mut Select) -> Result<Option<Wrap>> {
        for from in &mut select.from {
            self.nest_joins(from);
        }
        let window = WindowSelect::of(select)?.map(Wrap::Window);
        let GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else { return Ok(window) };
        let [expr] = exprs.as_slice() else { return Ok(window) };
        let Some(clause) = self.take_if(expr, |_| true) else { return Ok(window) };
        let modifiers = modifiers.clone();
        select.group_by = GroupByExpr::Expressions(Vec::new(), modifiers);
        match clause {
            Clause::Sample(clause) => Ok(Some(Wrap::Sample(clause))),
            Clause::Latest(clause) => {
                if select.from.is_empty() {
                    return Err(SqlError::new("LATEST ON needs a table to read FROM", clause.position));
                }
                let mut inner = all_of_a_table()?;
                if let SetExpr::Select(inner) = inner.body.as_mut() {
                    inner.from = std::mem::take(&mut select.from);
                    inner.selection = select.selection.take();
                }
                let relation = latest_factor(clause, inner);
                select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
                Ok(None)
            }
            Clause::AsOf(clause) => Err(SqlError::new("ASOF JOIN stands in FROM", clause.position)),
            Clause::Series(clause) => {
                Err(SqlError::new(format!("{} stands in FROM", clause.kind.word()), clause.position))
            }
            Clause::Interval(clause) => Err(SqlError::new("an interval stands after IN", clause.position)),
        }
    }

    /// Nests `a JOIN b ASOF JOIN c JOIN d` as `(a JOIN b ASOF JOIN c) JOIN d`.
    fn nest_joins(&mut self, from: &mut TableWithJoins) {
        let mut joins = Vec::with_capacity(from.joins.len());
        for mut join in std::mem::take(&mut from.joins) {
            let constraint = match &join.join_operator {
                JoinOperator::Left(JoinConstraint::On(on))
                | JoinOperator::LeftOuter(JoinConstraint::On(on)) => on,
                _ => {
                    joins.push(join);
                    continue;
                }
            };
            let Some(operator) = self.take_join(constraint) else {
                joins.push(join);
                continue;
            };
            join.join_operator = operator;
            joins.push(join);
            let relation = std::mem::replace(&mut from.relation, empty_factor());
            let nested = TableWithJoins { relation, joins: std::mem::take(&mut joins) };
            from.relation = TableFactor::NestedJoin { table_with_joins: Box::new(nested), alias: None };
        }
        from.joins = joins;
    }

    fn take_join(&mut self, expr: &Expr) -> Option<JoinOperator> {
        match self.take_if(expr, |clause| matches!(clause, Clause::AsOf(_) | Clause::Series(_)))? {
            Clause::AsOf(clause) => Some(asof_operator(clause)),
            Clause::Series(clause) => Some(series_join::operator(clause)),
            _ => None,
        }
    }

    fn take_interval(&mut self, expr: &Expr) -> Option<IntervalClause> {
        match self.take_if(expr, |clause| matches!(clause, Clause::Interval(_)))? {
            Clause::Interval(clause) => Some(clause),
            _ => None,
        }
    }

    /// The clause whose placeholder an expression is, where it is one of those wanted.
    fn take_if(&mut self, expr: &Expr, wanted: fn(&Clause) -> bool) -> Option<Clause> {
        self.clauses.get_mut(placeholder(expr)?)?.take_if(|clause| wanted(clause))
    }

    fn all_placed(self) -> Result<()> {
        let position = |clause: &Clause| match clause {
            Clause::Sample(c) => ("SAMPLE BY", c.position),
            Clause::Latest(c) => ("LATEST ON", c.position),
            Clause::AsOf(c) => ("ASOF JOIN", c.position),
            Clause::Series(c) => (c.kind.word(), c.position),
            Clause::Interval(c) => ("an interval", c.position),
        };
        match self.clauses.iter().flatten().map(position).next() {
            Some((name, at)) => Err(SqlError::new(format!("{name} cannot stand here"), at)),
            None => Ok(()),
        }
    }
}

/// `ts IN $1`: what is tested, and the placeholder.
pub(crate) fn open_interval(expr: &Expr) -> Option<(&Expr, &ValueWithSpan, bool)> {
    let Expr::InList { expr: tested, list, negated } = expr else { return None };
    let [Expr::Function(Function { name, args: FunctionArguments::List(args), .. })] = list.as_slice() else {
        return None;
    };
    (simple_name(name) == Some(OPEN_INTERVAL)).then_some(())?;
    match args.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(asked))] => {
            Some((tested, placeholder_of(asked)?, *negated))
        }
        _ => None,
    }
}

/// Whether an expression lies in the intervals of a text.
///
/// # Errors
/// [`SqlError`] where it is none.
pub(crate) fn inside_text(tested: &Expr, text: &str, negated: bool, position: Position) -> Result<Expr> {
    Ok(inside(tested, &intervals(text, position)?, negated))
}

/// Whether an expression lies in one of some intervals.
fn inside(tested: &Expr, clause: &IntervalClause, negated: bool) -> Expr {
    let compare = |op: BinaryOperator, instant: i64| Expr::BinaryOp {
        left: Box::new(tested.clone()),
        op,
        right: Box::new(text(&format_nanos(instant), clause.position)),
    };
    let join = |left: Expr, op: BinaryOperator, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    let each = clause.intervals.iter().map(|(from, to)| {
        let from = compare(BinaryOperator::GtEq, *from);
        match to {
            Some(to) => join(from, BinaryOperator::And, compare(BinaryOperator::Lt, *to)),
            None => from,
        }
    });
    let any =
        each.reduce(|a, b| join(Expr::Nested(Box::new(a)), BinaryOperator::Or, Expr::Nested(Box::new(b))));
    let any = Expr::Nested(Box::new(any.unwrap_or_else(|| tested.clone())));
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(any) } } else { any }
}

/// The index in `__clause(index)`.
fn placeholder(expr: &Expr) -> Option<usize> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    let [part] = name.0.as_slice() else { return None };
    if part.as_ident()?.value != PLACEHOLDER {
        return None;
    }
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::Number(digits, _) => digits.to_string().parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// `SELECT * FROM t`, to be filled in.
///
/// # Errors
/// None that a statement can cause.
pub(super) fn all_of_a_table() -> Result<Box<Query>> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM t");
    parsed.and_then(|mut parser| parser.parse_query()).map_err(|e| parser_error(e, Position::default()))
}

pub(super) fn set_from(query: &mut Query, relation: TableFactor) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
        debug_assert!(matches!(select.projection.as_slice(), [SelectItem::Wildcard(_)]));
    }
}

fn empty_factor() -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(Query {
            with: None,
            body: Box::new(SetExpr::Values(sqlparser::ast::Values {
                explicit_row: false,
                value_keyword: false,
                rows: Vec::new(),
            })),
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        }),
        alias: None,
        sample: None,
    }
}

//! Marker relations: how our clauses travel inside the parser's AST to the relation planner.
//!
//! ```text
//! __sample_by(query => (SELECT …), stride => '1m', from => …, to => …, fill => …, zone => …, offset => …)
//! __sample_by(query => (SELECT …), bar => 'VOLUME', of => …, limit => …)
//! __latest_on(query => (SELECT * FROM … WHERE …), on => ts, key => …)
//! __common(query => (SELECT …))
//! __unkeyed(query => (SELECT unnest(…) …))
//! nbbo((SELECT * FROM quotes), series => …, venue => …, bid => …, ask => …, bid_size => …, ask_size => …)
//! l ASOF JOIN r MATCH_CONDITION (__asof(kind => 'ASOF JOIN', direction => …, condition => …, tolerance => …))
//!     ON … | USING (…)
//! ```
//!
//! Names and arguments keep the places of the clauses they stand for.

use super::clause::{AsOfClause, Every, LatestClause, SampleClause};
pub(crate) use super::clause::{AsOfKind, BarClause, BarKind, Direction, NO_TIME};
pub(crate) use super::cursor::span;
use super::series_join::{WINDOW_SELECT, WindowSelect};
use super::{Position, SqlError};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArgumentList,
    FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Spanned, TableAlias,
    TableFactor, Value, ValueWithSpan,
};

/// The table function that takes a table.
pub(super) const NBBO: &str = "nbbo";

const SAMPLE_BY: &str = "__sample_by";
const LATEST_ON: &str = "__latest_on";
const COMMON: &str = "__common";
const UNKEYED: &str = "__unkeyed";
const AS_OF: &str = "__asof";

/// SAMPLE BY over a SELECT.
#[derive(Debug, Clone)]
pub(crate) struct SampleMarker {
    /// The SELECT with its ORDER BY and LIMIT.
    pub(crate) query: Box<Query>,
    /// What ends a bucket.
    pub(crate) every: SampleEvery,
    /// ALIGN TO FIRST OBSERVATION.
    pub(crate) from_first: bool,
    /// FROM, inclusive.
    pub(crate) from: Option<Expr>,
    /// TO, exclusive.
    pub(crate) to: Option<Expr>,
    /// One FILL for all aggregates or one for each.
    pub(crate) fill: Vec<Expr>,
    /// ALIGN TO CALENDAR TIME ZONE.
    pub(crate) zone: Option<String>,
    /// WITH OFFSET.
    pub(crate) offset: Option<String>,
    /// Where SAMPLE stands.
    pub(crate) position: Position,
}

/// What ends a bucket of SAMPLE BY.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
#[derive(Debug, Clone)]
pub(crate) enum SampleEvery {
    /// A length of time such as "1m".
    Stride(String),
    /// What its rows add up to.
    Bar(BarClause),
}

/// LATEST ON over a FROM and WHERE.
#[derive(Debug, Clone)]
pub(crate) struct LatestMarker {
    /// SELECT * FROM … WHERE ….
    pub(crate) query: Box<Query>,
    /// The time column; `None` is the designated timestamp.
    pub(crate) timestamp: Option<Expr>,
    /// PARTITION BY, at least one.
    pub(crate) keys: Vec<Expr>,
    /// Where LATEST stands.
    pub(crate) position: Position,
}

/// nbbo over a query.
#[derive(Debug, Clone)]
pub(crate) struct NbboMarker {
    /// The quotes.
    pub(crate) query: Box<Query>,
    /// What is given by name, in the order given.
    pub(crate) named: Vec<(Ident, Expr)>,
    /// Where nbbo stands.
    pub(crate) position: Position,
}

impl NbboMarker {
    /// The call that a table factor is, and its alias; `None` for any other factor.
    ///
    /// # Errors
    /// [`SqlError`] where its arguments are not a query and named ones.
    pub(crate) fn read(factor: &TableFactor) -> Option<Result<(Self, Option<TableAlias>), SqlError>> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return None };
        let called = simple_name(name).is_some_and(|name| name.eq_ignore_ascii_case(NBBO));
        called.then(|| Ok((Self::of(&args.args, place(name))?, alias.clone())))
    }

    fn of(args: &[FunctionArg], position: Position) -> Result<Self, SqlError> {
        let wrong = |message: &str, at| {
            SqlError::new(message, at)
                .hint("nbbo(TABLE quotes, series => symbol, venue => venue, bid => bid, ask => ask)")
        };
        let (mut query, mut named) = (None, Vec::new());
        for arg in args {
            match arg {
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    named.push((name.clone(), expr.clone()));
                }
                FunctionArg::ExprNamed {
                    name: Expr::Identifier(name),
                    arg: FunctionArgExpr::Expr(expr),
                    ..
                } => named.push((name.clone(), expr.clone())),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(of))) if query.is_none() => {
                    query = Some(of.clone());
                }
                other => {
                    let message = format!(
                        "nbbo does not take {other}: TABLE and a name, or a query, comes first, the others by name"
                    );
                    return Err(wrong(&message, place(other)));
                }
            }
        }
        let query =
            query.ok_or_else(|| wrong("nbbo needs the quotes: TABLE and a name, or a query", position))?;
        Ok(Self { query, named, position })
    }
}

/// ASOF or LT JOIN: what is not in the join's constraint.
#[derive(Debug, Clone)]
pub(crate) struct AsOfMarker {
    /// How it is written.
    pub(crate) kind: AsOfKind,
    /// DIRECTION.
    pub(crate) direction: Option<Direction>,
    /// MATCH_CONDITION.
    pub(crate) condition: Option<Expr>,
    /// TOLERANCE: a text such as '50T' or an interval.
    pub(crate) tolerance: Option<Expr>,
    /// Where ASOF or LT stands.
    pub(crate) position: Position,
}

/// A table factor or join operator that is one of ours.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
#[derive(Debug, Clone)]
pub(crate) enum Marker {
    /// SAMPLE BY.
    Sample(SampleMarker),
    /// LATEST ON.
    Latest(LatestMarker),
    /// A SELECT over a WINDOW JOIN.
    Window(WindowSelect),
    /// A query of WITH whose rows are made once.
    Common(Box<Query>),
    /// A query that has UNNEST.
    Unkeyed(Box<Query>),
}

impl Marker {
    /// The marker a table factor is, or the factor back.
    pub(crate) fn read(factor: TableFactor) -> Result<Self, Box<TableFactor>> {
        let TableFactor::Function { name, args, .. } = &factor else { return Err(Box::new(factor)) };
        let read = match simple_name(name) {
            Some(SAMPLE_BY) => read_sample(args, place(name)).map(Marker::Sample),
            Some(LATEST_ON) => read_latest(args, place(name)).map(Marker::Latest),
            Some(WINDOW_SELECT) => WindowSelect::read(args, place(name)).map(Marker::Window),
            Some(COMMON) => arguments(args, "query").next().and_then(query_of).map(Marker::Common),
            Some(UNKEYED) => arguments(args, "query").next().and_then(query_of).map(Marker::Unkeyed),
            _ => None,
        };
        read.ok_or_else(|| Box::new(factor))
    }
}

/// The query whose columns a relation of SAMPLE BY, LATEST ON, WITH or UNNEST has; `None` for any other factor.
pub(super) fn queried(factor: &TableFactor) -> Option<&Query> {
    let TableFactor::Function { name, args, .. } = factor else { return None };
    match (simple_name(name)?, arguments(args, "query").next()?) {
        (SAMPLE_BY | LATEST_ON | COMMON | UNKEYED, Expr::Subquery(query)) => Some(query),
        _ => None,
    }
}

/// The table factor that stands for SAMPLE BY.
pub(super) fn sample_factor(clause: SampleClause, query: Box<Query>) -> TableFactor {
    let position = clause.position;
    let mut args = vec![named("query", Expr::Subquery(query))];
    match clause.every {
        Every::Time(length) => args.push(named("stride", length)),
        Every::Bar(bar) => {
            args.push(named("bar", text(bar.kind.word(), position)));
            args.extend(bar.of.map(|e| named("of", e)));
            args.push(named("limit", bar.limit));
        }
    }
    args.extend(clause.from_first.then(|| named("align", text("first", position))));
    args.extend(clause.from.map(|e| named("from", e)));
    args.extend(clause.to.map(|e| named("to", e)));
    args.extend(clause.fill.into_iter().map(|e| named("fill", e)));
    args.extend(clause.zone.map(|z| named("zone", text(&z, position))));
    args.extend(clause.offset.map(|o| named("offset", text(&o, position))));
    factor(SAMPLE_BY, args, position)
}

fn read_sample(args: &[FunctionArg], position: Position) -> Option<SampleMarker> {
    let one = |name: &'static str| arguments(args, name).next();
    let every = match one("stride") {
        Some(stride) => SampleEvery::Stride(text_of(stride)?),
        None => {
            let word = text_of(one("bar")?)?;
            let kind = BarKind::ALL.into_iter().find(|kind| kind.word() == word)?;
            SampleEvery::Bar(BarClause { kind, of: one("of").cloned(), limit: one("limit")?.clone() })
        }
    };
    Some(SampleMarker {
        query: query_of(one("query")?)?,
        every,
        from_first: one("align").is_some(),
        from: one("from").cloned(),
        to: one("to").cloned(),
        fill: arguments(args, "fill").cloned().collect(),
        zone: one("zone").and_then(text_of),
        offset: one("offset").and_then(text_of),
        position,
    })
}

/// The length of SAMPLE BY's buckets, where it is a placeholder.
pub(crate) fn open_stride(factor: &mut TableFactor) -> Option<&mut Expr> {
    let TableFactor::Function { name, args, .. } = factor else { return None };
    let args = (simple_name(name) == Some(SAMPLE_BY)).then_some(args)?;
    args.iter_mut().find_map(|arg| match arg {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. }
            if name.value == "stride" && placeholder_of(expr).is_some() =>
        {
            Some(expr)
        }
        _ => None,
    })
}

/// The tolerance of an as-of join whose condition an expression is, where it is a placeholder.
pub(crate) fn open_tolerance(condition: &Expr) -> Option<&ValueWithSpan> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = condition else {
        return None;
    };
    (simple_name(name) == Some(AS_OF)).then_some(())?;
    arguments(&list.args, "tolerance").next().and_then(placeholder_of)
}

/// The placeholder that an expression is.
pub(crate) fn placeholder_of(expr: &Expr) -> Option<&ValueWithSpan> {
    match expr {
        Expr::Value(value @ ValueWithSpan { value: Value::Placeholder(_), .. }) => Some(value),
        _ => None,
    }
}

/// The table factor that stands for LATEST ON.
pub(super) fn latest_factor(clause: LatestClause, query: Box<Query>) -> TableFactor {
    let mut args = vec![named("query", Expr::Subquery(query))];
    args.extend(clause.timestamp.map(|e| named("on", e)));
    args.extend(clause.keys.into_iter().map(|e| named("key", e)));
    factor(LATEST_ON, args, clause.position)
}

/// The table factor that stands for a query of WITH whose rows are made once.
pub(super) fn common_factor(query: Box<Query>, position: Position) -> TableFactor {
    factor(COMMON, vec![named("query", Expr::Subquery(query))], position)
}

/// The table factor that stands for a query that has UNNEST.
pub(super) fn unkeyed_factor(query: Box<Query>, position: Position) -> TableFactor {
    factor(UNKEYED, vec![named("query", Expr::Subquery(query))], position)
}

fn read_latest(args: &[FunctionArg], position: Position) -> Option<LatestMarker> {
    Some(LatestMarker {
        query: query_of(arguments(args, "query").next()?)?,
        timestamp: arguments(args, "on").next().cloned(),
        keys: arguments(args, "key").cloned().collect(),
        position,
    })
}

/// The join operator that stands for ASOF and LT JOIN.
pub(super) fn asof_operator(clause: AsOfClause) -> JoinOperator {
    let position = clause.position;
    let mut args = vec![named("kind", text(clause.kind.word(), position))];
    args.extend(clause.direction.map(|way| named("direction", text(way.word(), position))));
    args.extend(clause.condition.map(|e| named("condition", e)));
    args.extend(clause.tolerance.map(|e| named("tolerance", e)));
    asof_call(AS_OF, args, clause.keys, position)
}

/// A join operator whose condition is a call that carries a clause.
pub(super) fn asof_call(
    name: &str,
    args: Vec<FunctionArg>,
    constraint: JoinConstraint,
    position: Position,
) -> JoinOperator {
    let match_condition = function(function_name(name, position), args);
    JoinOperator::AsOf { match_condition, constraint }
}

impl AsOfMarker {
    /// The marker in a join's operator.
    pub(crate) fn read(join: &Join) -> Option<(Self, JoinConstraint)> {
        let JoinOperator::AsOf { match_condition: Expr::Function(call), constraint } = &join.join_operator
        else {
            return None;
        };
        let FunctionArguments::List(list) = &call.args else { return None };
        if simple_name(&call.name) != Some(AS_OF) {
            return None;
        }
        let one = |name: &'static str| arguments(&list.args, name).next();
        let word = |name: &'static str| one(name).and_then(text_of);
        let kind = word("kind")?;
        let way = word("direction");
        let marker = Self {
            kind: AsOfKind::ALL.into_iter().find(|known| known.word() == kind)?,
            direction: Direction::ALL.into_iter().find(|known| way.as_deref() == Some(known.word())),
            condition: one("condition").cloned(),
            tolerance: one("tolerance").cloned(),
            position: place(&call.name),
        };
        Some((marker, constraint.clone()))
    }
}

pub(super) fn factor(name: &str, args: Vec<FunctionArg>, position: Position) -> TableFactor {
    let name = function_name(name, position);
    TableFactor::Function { lateral: false, name, args, with_ordinality: false, alias: None }
}

fn function_name(name: &str, position: Position) -> ObjectName {
    vec![Ident::with_span(span(position), name)].into()
}

pub(super) fn named(name: &str, expr: Expr) -> FunctionArg {
    FunctionArg::Named {
        name: Ident::new(name),
        arg: FunctionArgExpr::Expr(expr),
        operator: FunctionArgOperator::RightArrow,
    }
}

pub(super) fn arguments<'a>(args: &'a [FunctionArg], wanted: &'static str) -> impl Iterator<Item = &'a Expr> {
    args.iter().filter_map(move |arg| match arg {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } if name.value == wanted => {
            Some(expr)
        }
        _ => None,
    })
}

pub(super) fn simple_name(name: &ObjectName) -> Option<&str> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(|ident| ident.value.as_str()),
        _ => None,
    }
}

pub(super) fn query_of(expr: &Expr) -> Option<Box<Query>> {
    match expr {
        Expr::Subquery(query) => Some(query.clone()),
        _ => None,
    }
}

/// A quoted text as an expression.
pub(crate) fn text(value: &str, position: Position) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_string()).with_span(span(position)))
}

/// A quoted text's value.
pub(crate) fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text.clone()),
        _ => None,
    }
}

/// Where a piece of the AST stands in the original text, the start of the text if it does not say.
pub(crate) fn place(node: &impl Spanned) -> Position {
    super::cursor::position(node.span().start).unwrap_or_default()
}

/// An error at an AST node as DataFusion carries it; the session finds the [`SqlError`] inside.
pub(crate) fn planning_error(error: SqlError) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::External(Box::new(error))
}

/// `name(args, …)`.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    function(vec![Ident::new(name)].into(), args)
}

/// A call.
pub(super) fn function(name: ObjectName, args: Vec<FunctionArg>) -> Expr {
    Expr::Function(Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

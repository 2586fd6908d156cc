//! `IN (SELECT …)`, `NOT IN (SELECT …)` and `EXISTS (SELECT …)` as SQL has them.
//!
//! `x IN (SELECT y …)` is NULL where x equals no y and x or some y is NULL. DataFusion 55.2 makes a mark join of one below
//! OR, NOT, CASE and the like, whose mark is true or false and never NULL: `NOT` of it takes rows that have none of the y,
//! also beside a NULL. As a condition of its own, or one of several joined by AND, NOT IN is a join that knows of NULLs,
//! but for one column only, and only where the left side is one: a sub-query that reads columns of the query around it is
//! refused there, or its NULLs count in rows it does not read. The rule says the third value in words that mark joins are
//! right for, and leaves what never asks for it: no NULL can be, or NULL is as good as false.
//!
//! An aggregate without groups gives one row, also of no rows; the joins that DataFusion makes have none then. A sub-query
//! of that kind which reads columns of the query around it becomes a scalar one, for which DataFusion knows ([`one_row`]).
//! And outside of conditions, in the list of a SELECT, both become scalar ones that count rows: DataFusion has no join
//! for them there ([`counted`]). `= ANY` is IN, and `<> ALL` is NOT IN; ANY and ALL of the other operators become scalar
//! ones, too ([`compared`]). In aggregates, windows, ORDER BY and JOIN … ON, where DataFusion has no join for any sub-query
//! that is one, they are columns of a list below, or a condition above an inner join.

mod compared;
mod counted;
mod one_row;

pub(super) use one_row::gives_one_row;

use super::correlated_keys::lateral;
use super::dependent::{Common, around, reads_around, subquery_of};
use crate::named::{change_named, has};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Alias, Case, Cast, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    Subquery, lit,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Has the rows of a plan made once, however often it is read.
    common: Common,
}

impl Membership {
    pub(crate) fn new(common: Common) -> Self {
        Self { common }
    }
}

impl AnalyzerRule for Membership {
    fn name(&self) -> &str {
        "membership"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            let plan = match has(&plan, is_member)? {
                true => change_named(plan, |expr| expr.transform_up(as_in))?,
                false => Transformed::no(plan),
            };
            plan.transform_data(|plan| asked(plan, self.common))
        })?;
        Ok(changed.data)
    }
}

fn asked(plan: LogicalPlan, common: Common) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) => filtered(filter, common),
        LogicalPlan::Projection(_) if has(&plan, is_asked)? => listed(plan, common),
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_)
            if has(&plan, is_joined)? =>
        {
            below(plan, common)
        }
        LogicalPlan::Join(_) if has(&plan, is_joined)? => joined(plan, common),
        other => Ok(Transformed::no(other)),
    }
}

fn is_asked(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

/// Whether it is a sub-query that becomes a join.
fn is_joined(expr: &Expr) -> bool {
    is_asked(expr) || matches!(expr, Expr::ScalarSubquery(of) if is_correlated(of))
}

/// Whether it is IN in other words.
fn is_member(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::SetComparison(SetComparison { op: Operator::Eq, quantifier: SetQuantifier::Any, .. })
            | Expr::SetComparison(SetComparison { op: Operator::NotEq, quantifier: SetQuantifier::All, .. })
    )
}

/// `= ANY` as IN and `<> ALL` as NOT IN.
fn as_in(expr: Expr) -> Result<Transformed<Expr>> {
    if !is_member(&expr) {
        return Ok(Transformed::no(expr));
    }
    let Expr::SetComparison(SetComparison { expr, subquery, op, .. }) = expr else {
        return Ok(Transformed::no(expr));
    };
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated: op == Operator::NotEq })))
}

/// `>= ALL`, `< ANY` and the like in other words.
fn compared(expr: Expr, schema: &DFSchema, common: Common) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::SetComparison(of) => Ok(Transformed::yes(compared::compared(of, schema, common)?)),
        other => Ok(Transformed::no(other)),
    })
}

/// EXISTS, IN, ANY and ALL in the list of a SELECT.
fn listed(plan: LogicalPlan, common: Common) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    change_named(plan, |expr| {
        let one =
            compared(expr, &schema, common)?.transform_data(|expr| expr.transform_down(one_row::asked))?;
        one.transform_data(|expr| expr.transform_down(|expr| counted::counted(expr, &schema)))
    })
}

/// Sub-queries in aggregates and their keys, in windows and in ORDER BY: as columns of a list below, where DataFusion has
/// joins for them.
fn below(plan: LogicalPlan, common: Common) -> Result<Transformed<LogicalPlan>> {
    let mut made = Made::default();
    plan.apply_expressions(|expr| made.find(expr))?;
    let inputs = plan.inputs();
    let [input] = inputs.as_slice() else { return Ok(Transformed::no(plan)) };
    let input = match (&plan, *input) {
        // The list of its SELECT.
        (LogicalPlan::Sort(_), LogicalPlan::Projection(list)) => made.with_read(list)?,
        (_, input) => input.clone(),
    };
    let list = made.list(input, |_| true, common)?;
    let shown: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let adds_columns = !matches!(plan, LogicalPlan::Aggregate(_));
    let over = plan.with_new_exprs(plan.expressions(), vec![list])?;
    let over = match over {
        // A key has no name.
        LogicalPlan::Sort(_) => over.map_expressions(|expr| made.by_name(expr))?.data,
        over => change_named(over, |expr| made.by_name(expr))?.data,
    };
    let over = LogicalPlanBuilder::from(over);
    Ok(Transformed::yes(if adds_columns { over.project(shown)?.build()? } else { over.build()? }))
}

/// Sub-queries in the condition of a join: in a condition above an inner one, else as columns of the side that they read;
/// of both sides it stays, and is refused.
fn joined(plan: LogicalPlan, common: Common) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    let Some(filter) = join.filter.take() else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    if join.join_type == JoinType::Inner {
        let has_query = |expr: &Expr| expr.exists(|expr| Ok(is_joined(expr)));
        let (mut above, mut on) = (Vec::new(), Vec::new());
        for part in split_conjunction_owned(filter) {
            if has_query(&part)? { above.push(part) } else { on.push(part) }
        }
        join.filter = conjunction(on);
        let Some(above) = conjunction(above) else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
        let above = Filter::try_new(above, Arc::new(LogicalPlan::Join(join)))?;
        return Ok(Transformed::yes(filtered(above, common)?.data));
    }
    let mut made = Made::default();
    made.find(&filter)?;
    let (mut of_left, mut of_both) = (Vec::with_capacity(made.0.len()), lateral(&join.right).is_some());
    for expr in &made.0 {
        let read = columns_of(expr)?;
        let reads = |side: &LogicalPlan| {
            read.iter().any(|column| side.schema().maybe_index_of_column(column).is_some())
        };
        of_both |= reads(&join.left) && reads(&join.right);
        of_left.push(!reads(&join.right));
    }
    if of_both {
        join.filter = Some(filter);
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let left = made.list(Arc::unwrap_or_clone(join.left), |place| of_left[place], common)?;
    let right = made.list(Arc::unwrap_or_clone(join.right), |place| !of_left[place], common)?;
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on,
        Some(made.by_name(filter)?.data),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let over = LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?;
    Ok(Transformed::yes(over.build()?))
}

/// The columns that an expression and its sub-queries read, where it stands or further out.
fn columns_of(expr: &Expr) -> Result<Vec<Column>> {
    let mut read: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
    expr.apply(|expr| {
        if let Some(of) = subquery_of(expr) {
            let outer = around(&of.subquery)?;
            read.extend(outer.into_iter().filter_map(|expr| match expr {
                Expr::OuterReferenceColumn(_, column) => Some(column),
                _ => None,
            }));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(read)
}

/// Sub-queries that are to be columns, each once.
#[derive(Default)]
struct Made(Vec<Expr>);

impl Made {
    fn find(&mut self, expr: &Expr) -> Result<TreeNodeRecursion> {
        expr.apply(|expr| {
            if !is_joined(expr) {
                return Ok(TreeNodeRecursion::Continue);
            }
            if !self.0.contains(expr) {
                self.0.push(expr.clone());
            }
            Ok(TreeNodeRecursion::Jump)
        })
    }

    /// A list with what only the sub-queries read, of the columns below it.
    fn with_read(&self, list: &Projection) -> Result<LogicalPlan> {
        let mut exprs = list.expr.clone();
        for expr in &self.0 {
            for column in columns_of(expr)? {
                let is_in = |schema: &DFSchema| schema.maybe_index_of_column(&column).is_some();
                let read = Expr::Column(column.clone());
                if is_in(list.input.schema()) && !is_in(&list.schema) && !exprs.contains(&read) {
                    exprs.push(read);
                }
            }
        }
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&list.input))?))
    }

    fn name(place: usize) -> String {
        format!("__in_{}", place + 1)
    }

    /// The columns of a plan, and some of the sub-queries after them.
    fn list(&self, input: LogicalPlan, some: impl Fn(usize) -> bool, common: Common) -> Result<LogicalPlan> {
        let made = self.0.iter().enumerate().filter(|(place, _)| some(*place));
        let made: Vec<Expr> = made.map(|(place, expr)| expr.clone().alias(Self::name(place))).collect();
        if made.is_empty() {
            return Ok(input);
        }
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let list = LogicalPlanBuilder::from(input.clone()).project(columns.chain(made))?.build()?;
        Ok(listed(list, common)?.data)
    }

    /// An expression that reads the columns.
    fn by_name(&self, expr: Expr) -> Result<Transformed<Expr>> {
        expr.transform_down(|expr| match self.0.iter().position(|other| *other == expr) {
            Some(place) => {
                let column = Expr::Column(Column::new_unqualified(Self::name(place)));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(expr)),
        })
    }
}

fn filtered(filter: Filter, common: Common) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema();
    let asked = compared(filter.predicate, schema, common)?
        .transform_data(|expr| expr.transform_down(one_row::asked))?;
    let condition = condition(asked.data, schema, true)?;
    let predicate = condition.data.transform_down(|expr| named_alone(expr, schema))?;
    let changed = asked.transformed || condition.transformed || predicate.transformed;
    let filter = Filter::try_new(predicate.data, filter.input)?;
    Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), changed))
}

/// A condition where NULL is as good as false; `alone` where it is one of those joined by AND.
fn condition(expr: Expr, schema: &DFSchema, alone: bool) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let alone = alone && op == Operator::And;
            let left = condition(*left, schema, alone)?;
            let right = condition(*right, schema, alone)?;
            let changed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let whole = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Ok(Transformed::new_transformed(whole, changed))
        }
        Expr::Not(inner) if alone && matches!(inner.as_ref(), Expr::InSubquery(_)) => {
            let Expr::InSubquery(of) = *inner else { return Ok(Transformed::no(Expr::Not(inner))) };
            condition(Expr::InSubquery(InSubquery { negated: !of.negated, ..of }), schema, alone)
        }
        Expr::InSubquery(of) if !of.negated => Ok(Transformed::no(Expr::InSubquery(of))),
        Expr::InSubquery(of) if alone && !is_correlated(&of.subquery) && is_of_column(&of.expr) => {
            Ok(Transformed::no(Expr::InSubquery(of)))
        }
        other => other.transform_down(|expr| match expr {
            Expr::InSubquery(of) => three_valued(of, schema),
            other => Ok(Transformed::no(other)),
        }),
    }
}

/// Whether it is a column, which stays one in the plan. Of a value that is constant, or becomes so, the join that knows of
/// NULLs has no key: it is made a condition on the sub-query's rows, which leaves none that are NULL.
fn is_of_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::Alias(Alias { expr, .. }) => is_of_column(expr),
        _ => false,
    }
}

/// The column of an IN under a name that no other column has: the joins that DataFusion makes have columns that the
/// conditions of a correlated sub-query read beside it, under the same name where the types of the two sides differ; and
/// without a qualifier, as a UNION's, it is taken twice by mark joins. Both are refused for their names.
fn named_alone(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::InSubquery(of) = expr else { return Ok(Transformed::no(expr)) };
    let plan = of.subquery.subquery.as_ref();
    let fields = plan.schema().fields().len();
    let is_told = matches!(plan, LogicalPlan::Projection(_)) || plan.schema().qualified_field(0).0.is_some();
    if fields != 1 || is_told && !is_correlated(&of.subquery) {
        return Ok(Transformed::no(Expr::InSubquery(of)));
    }
    let of = named(of, schema)?;
    Ok(Transformed::yes(Expr::InSubquery(of)))
}

/// An IN whose column has a name of its own, and the type in which it is compared.
fn named(of: InSubquery, schema: &DFSchema) -> Result<InSubquery> {
    let subquery = typed(of.subquery, &of.expr.get_type(schema)?)?;
    Ok(InSubquery { subquery, ..of })
}

/// A sub-query whose column has a name of its own, and the type in which it is compared with one of type `x`.
fn typed(subquery: Subquery, x: &DataType) -> Result<Subquery> {
    let (plan, column) = (subquery.subquery.as_ref(), first(&subquery));
    let found = plan.schema().field(0).data_type();
    // A cast that planning puts above would have a name without a table again.
    let column = match comparison_coercion(x, found) {
        Some(common) if common != *found => column.cast_to(&common, plan.schema())?,
        _ => column,
    };
    let column = column.alias_qualified(Some("__in"), "__y");
    let plan = LogicalPlanBuilder::from(plan.clone()).project([column])?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..subquery })
}

/// Whether a sub-query reads columns of the query around it.
fn is_correlated(subquery: &Subquery) -> bool {
    reads_around(&subquery.subquery).unwrap_or(true)
}

/// `IN` where NULL and false are two things.
fn three_valued(of: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let cases = match Nulls::of(&of, schema) {
        Some(nulls) => nulls.cases(&of, |only| exists(&of.subquery, only))?,
        // A join by several columns that knows of NULLs is refused, also where there can be none.
        None if of.negated && is_correlated(&of.subquery) => {
            let equal = y(&of).eq(outer(of.expr.as_ref().clone(), schema)?);
            return Ok(Transformed::yes(!exists(&of.subquery, Some(equal))?));
        }
        None => return Ok(Transformed::no(Expr::InSubquery(of))),
    };
    let negated = of.negated;
    Ok(whole(Expr::InSubquery(InSubquery { negated: false, ..of }), cases, negated))
}

/// `found` as IN or NOT IN, NULL in the cases that follow. What is in it is not looked at again.
fn whole(found: Expr, mut cases: Vec<(Box<Expr>, Box<Expr>)>, negated: bool) -> Transformed<Expr> {
    cases.insert(0, (Box::new(found), Box::new(lit(!negated))));
    let case = Case { expr: None, when_then_expr: cases, else_expr: Some(Box::new(lit(negated))) };
    Transformed::new(Expr::Case(case), true, TreeNodeRecursion::Jump)
}

/// Which sides of an IN may be NULL.
struct Nulls {
    x: bool,
    y: bool,
}

impl Nulls {
    /// `None` where neither may, and of what the planner refuses: several columns, or names that are not there.
    fn of(of: &InSubquery, schema: &DFSchema) -> Option<Self> {
        let found = of.subquery.subquery.schema();
        let nulls = Self { x: of.expr.nullable(schema).ok()?, y: found.fields().first()?.is_nullable() };
        (found.fields().len() == 1 && (nulls.x || nulls.y)).then_some(nulls)
    }

    /// When an IN that found nothing is NULL; `any` says whether the sub-query has a row, of those that a condition is
    /// true for.
    fn cases(
        &self,
        of: &InSubquery,
        any: impl Fn(Option<Expr>) -> Result<Expr>,
    ) -> Result<Vec<(Box<Expr>, Box<Expr>)>> {
        let null = || Box::new(null());
        let mut cases = Vec::new();
        if self.y {
            cases.push((Box::new(any(Some(y(of).is_null()))?), null()));
        }
        if self.x {
            let unknown = of.expr.as_ref().clone().is_null().and(any(None)?);
            cases.push((Box::new(unknown), null()));
        }
        Ok(cases)
    }
}

/// The column of the sub-query.
fn y(of: &InSubquery) -> Expr {
    first(&of.subquery)
}

/// The first column of a sub-query.
fn first(subquery: &Subquery) -> Expr {
    Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)))
}

/// Neither true nor false.
pub(super) fn null() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

/// Whether a sub-query has a row, of those that `only` is true for.
pub(super) fn exists(subquery: &Subquery, only: Option<Expr>) -> Result<Expr> {
    let subquery = limited(subquery, only)?;
    Ok(Expr::Exists(Exists { subquery, negated: false }))
}

/// The rows that `only` is true for, or one of them where one says as much as all: not where the first row has to agree
/// with columns of the query around it, which is not known where the limit stands.
fn limited(subquery: &Subquery, only: Option<Expr>) -> Result<Subquery> {
    let mut plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    if let Some(only) = only {
        plan = plan.filter(only)?;
    }
    let plan = plan.build()?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    let plan = match reads_around(&plan)? {
        true => plan,
        false => LogicalPlanBuilder::from(plan).limit(0, Some(1))?.build()?,
    };
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() })
}

/// An expression as it is read from inside a sub-query.
pub(super) fn outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let changed = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(changed.data)
}

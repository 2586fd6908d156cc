//! What a statement takes and gives, before it is run: for protocols whose clients ask first.
//!
//! The types of placeholders are those of what they stand beside: the column of an INSERT or UPDATE that they fill, the
//! other side of a comparison, the type they are cast to. One that stands beside nothing that has a type is a text, which
//! is read as what it meets when the statement runs.

use super::{Outcome, Session};
use crate::dialect::marker::{open_stride, open_tolerance, placeholder_of};
use crate::dialect::{
    ChangeRows, Statement, open_interval, search_in_lists, searched_placeholders, walk_mut,
};
use crate::error::Result;
use crate::live;
use crate::parameters::{ParameterValue, Parameters, placeholders};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::parser::Statement as PlannerStatement;
use sqlparser::ast::{self, SelectItem, SetExpr, Value, ValueWithSpan, VisitMut, VisitorMut};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use tickstone_engine::EngineError;
use tickstone_model::TableSchema;

/// What a statement takes and gives.
#[derive(Debug, Clone)]
pub struct Description {
    /// The types of `$1`, `$2`, ….
    pub parameters: Vec<DataType>,
    /// The columns of its rows; `None` where it gives none.
    pub rows: Option<SchemaRef>,
}

/// Types of placeholders, as far as they are known.
type Types = Vec<Option<DataType>>;

/// Placeholders that are lengths of time or intervals, by place from 0: texts, and one that may stand there.
type Lengths = HashMap<usize, &'static str>;

impl Session {
    /// What a statement takes and gives; `given` are the types of placeholders that the caller knows.
    ///
    /// # Errors
    /// Where it could not be run: a table or a column that is not there, a type that does not fit.
    pub async fn describe(
        &mut self,
        statement: &Statement,
        given: &[Option<DataType>],
    ) -> Result<Description> {
        self.renew()?;
        self.states.know(self.database.user_functions())?;
        self.states.begin();
        // A cursor gives its rows to FETCH.
        let gives_rows = !matches!(statement, Statement::DeclareCursor { .. });
        let mut statement = match statement {
            Statement::Execute { name, values } => self.prepared.bound(name, values)?,
            Statement::DeclareCursor { query, .. } => Statement::Query(query.clone()),
            other => other.clone(),
        };
        let gives_rows = gives_rows && statement.gives_rows();
        self.name_temporaries(&mut statement)?;
        let count = placeholders(&mut statement).into_iter().max().unwrap_or(0);
        let mut types: Types = (0..count).map(|place| given.get(place).cloned().flatten()).collect();
        let mut lengths = Lengths::new();
        // It never breaks off.
        let _ = statement.walk_queries_mut(&mut Measured { lengths: &mut lengths });
        for place in lengths.keys() {
            types[*place].get_or_insert(DataType::Utf8);
        }
        if types.iter().any(Option::is_none) {
            self.infer(&statement, &mut types, &lengths).await;
        }
        let mut rows = None;
        if gives_rows {
            rows = Some(match self.rows_given(statement.clone(), &types, &lengths, false).await {
                Ok(rows) => rows,
                Err(error) if count == 0 => return Err(error),
                // Where NULL cannot stand, a number may.
                Err(error) => match self.rows_given(statement, &types, &lengths, true).await {
                    Ok(rows) => {
                        types
                            .iter_mut()
                            .for_each(|known| *known = Some(known.take().unwrap_or(DataType::Int64)));
                        rows
                    }
                    Err(_) => return Err(error),
                },
            });
        }
        let parameters = types.into_iter().map(|known| known.unwrap_or(DataType::Utf8)).collect();
        Ok(Description { parameters, rows })
    }

    /// The columns of the rows that a statement gives, with NULL in the place of its parameters, or, as `numbers`, 1 for
    /// those that are whole numbers or of a type that is not known.
    async fn rows_given(
        &mut self,
        mut statement: Statement,
        types: &Types,
        lengths: &Lengths,
        numbers: bool,
    ) -> Result<SchemaRef> {
        match statement.kind() {
            "EXPLAIN" => return Ok(LogicalPlan::explain_schema()),
            "SHOW" => match self.run(statement).await? {
                Outcome::Rows { schema, .. } => return Ok(schema),
                Outcome::Done { .. } => return Ok(LogicalPlan::explain_schema()),
            },
            _ => {}
        }
        let nulls = types.iter().enumerate().map(|(place, known)| match known {
            _ if let Some(text) = lengths.get(&place) => ParameterValue::Text(text.to_string()),
            None if numbers => ParameterValue::Integer(1),
            Some(data_type) if numbers && data_type.is_integer() => ParameterValue::Integer(1),
            Some(data_type) => ParameterValue::NullOf(data_type.clone()),
            None => ParameterValue::Null,
        });
        let nulls: Vec<ParameterValue> = nulls.collect();
        if !nulls.is_empty() {
            Parameters::Positional(nulls).bind_some(std::slice::from_mut(&mut statement))?;
        }
        self.prepare(&mut statement).await?;
        match statement {
            Statement::Query(query) => Ok(without_nulls(&self.columns_of(*query).await?)),
            Statement::Subscribe(subscribe) => {
                let query = ast::Statement::Query(subscribe.query);
                Ok(live::message_schema(&without_nulls(&self.columns_of(query).await?)))
            }
            Statement::Inspect(inspect) => Ok(inspected_schema(inspect.summarizes)),
            Statement::Insert(insert) => {
                let ast::Statement::Insert(insert) = insert.as_ref() else {
                    return Ok(LogicalPlan::explain_schema());
                };
                let ast::TableObject::TableName(name) = &insert.table else {
                    return Ok(LogicalPlan::explain_schema());
                };
                let name = name.0.last().and_then(|part| part.as_ident()).map_or("", |part| &part.value);
                let table = self.snapshot().table(name).map(|table| Arc::clone(table.schema()));
                let table = table.ok_or_else(|| EngineError::NoSuchTable { name: name.to_string() })?;
                let items = insert.returning.clone().unwrap_or_default();
                let columns = self.rows_returned(items, table.name(), table.edge(), Vec::new()).await?.0;
                Ok(without_nulls(&columns))
            }
            Statement::Change(change) => {
                let table = self.snapshot().table(&change.table).map(|table| Arc::clone(table.schema()));
                let table = table.ok_or_else(|| EngineError::NoSuchTable { name: change.table.clone() })?;
                let items = change.returning.clone().unwrap_or_default();
                let called = change.alias.as_deref().unwrap_or(table.name());
                let columns = self.rows_returned(items, called, table.edge(), Vec::new()).await?.0;
                Ok(without_nulls(&columns))
            }
            Statement::Accounts(accounts) => {
                let text = |name: &&str| Field::new(*name, DataType::Utf8, true);
                Ok(Arc::new(Schema::new(accounts.token_columns().iter().map(text).collect::<Vec<_>>())))
            }
            Statement::Replay(replay) => {
                let query = ast::Statement::Query(replay.query);
                Ok(live::message_schema(&without_nulls(&self.columns_of(query).await?)))
            }
            _ => Ok(LogicalPlan::explain_schema()),
        }
    }

    /// Finds the types of placeholders that nobody said.
    async fn infer(&mut self, statement: &Statement, types: &mut Types, lengths: &Lengths) {
        match statement {
            Statement::Insert(insert) => {
                if let ast::Statement::Insert(insert) = insert.as_ref() {
                    self.infer_insert(insert, types);
                }
                note_zoned(&mut insert.clone(), types);
            }
            Statement::Change(change) => {
                self.infer_change(change, types);
                note_zoned(&mut change.query.clone(), types);
            }
            Statement::Query(query) => note_zoned(&mut query.clone(), types),
            _ => {}
        }
        // Arrays that the caller knows stay what they are.
        let searched: Vec<String> = match statement {
            Statement::Query(query) => searched_placeholders(&mut query.clone())
                .into_iter()
                .filter(|name| is_open(name, types))
                .collect(),
            _ => Vec::new(),
        };
        if types.iter().all(Option::is_some) {
            return;
        }
        let found = lengths.is_empty() && self.infer_by_plan(statement, types, lengths, None).await;
        for name in &searched {
            // Its type is that of an element so far.
            let place = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
            if let Some(slot) = place.and_then(|place| types.get_mut(place.checked_sub(1)?)) {
                let element = slot.take().unwrap_or(DataType::Utf8);
                *slot = Some(DataType::List(Arc::new(Field::new_list_field(element, true))));
            }
        }
        if !found {
            for place in 0..types.len() {
                if types[place].is_none() {
                    self.infer_by_plan(statement, types, lengths, Some(place)).await;
                }
            }
        }
    }

    /// Those that fill a column by themselves.
    fn infer_insert(&self, insert: &ast::Insert, types: &mut Types) {
        let ast::TableObject::TableName(name) = &insert.table else { return };
        let Some(table) = name.0.last().and_then(|part| part.as_ident()) else { return };
        let Some(table) = self.snapshot().table(&table.value).map(|table| Arc::clone(table.schema())) else {
            return;
        };
        let Some(query) = &insert.source else { return };
        let column = |at: usize| match insert.columns.is_empty() {
            true => table.columns().get(at).map(|column| column.column_type.edge_type()),
            false => {
                let part = insert.columns.get(at)?.0.last()?.as_ident()?;
                type_of(&table, &part.value)
            }
        };
        match query.body.as_ref() {
            SetExpr::Values(values) => {
                for row in &values.rows {
                    row.content.iter().enumerate().for_each(|(at, value)| note(value, column(at), types));
                }
            }
            SetExpr::Select(select) => note_items(select.projection.iter(), column, types),
            _ => {}
        }
    }

    /// Those that are the new value of a column.
    fn infer_change(&self, change: &ChangeRows, types: &mut Types) {
        let Some(table) = self.snapshot().table(&change.table).map(|table| Arc::clone(table.schema())) else {
            return;
        };
        if let SetExpr::Select(select) = change.query.body.as_ref() {
            // The number of the row comes first.
            let column = |at: usize| type_of(&table, &change.columns.get(at)?.0);
            note_items(select.projection.iter().skip(1), column, types);
        }
    }

    /// Those that stand beside something with a type, by a plan in which they stand: all of them, or one with the
    /// others as NULL; whether there is such a plan.
    async fn infer_by_plan(
        &mut self,
        statement: &Statement,
        types: &mut Types,
        lengths: &Lengths,
        only: Option<usize>,
    ) -> bool {
        let changed = match statement {
            Statement::Change(change) => self.snapshot().table(&change.table).map(Arc::clone),
            _ => None,
        };
        let mut statement = match statement {
            Statement::Change(change) => {
                Statement::Query(Box::new(ast::Statement::Query(change.query.clone())))
            }
            Statement::Merge(merge) => Statement::Query(Box::new(ast::Statement::Query(merge.query.clone()))),
            Statement::Insert(insert) => match insert.as_ref() {
                ast::Statement::Insert(ast::Insert { source: Some(query), .. }) => {
                    Statement::Query(Box::new(ast::Statement::Query(query.clone())))
                }
                _ => return true,
            },
            other => other.clone(),
        };
        if let Some(only) = only {
            let nulls: Vec<ParameterValue> = (0..types.len())
                .map(|place| match lengths.get(&place) {
                    _ if place == only => ParameterValue::Open,
                    Some(text) => ParameterValue::Text(text.to_string()),
                    None => ParameterValue::Null,
                })
                .collect();
            if Parameters::Positional(nulls).bind_some(std::slice::from_mut(&mut statement)).is_err() {
                return false;
            }
        }
        let _guard = changed.map(|table| self.pinned.changing(table));
        if let Statement::Query(query) = &mut statement {
            search_in_lists(query);
        }
        if self.prepare_names(&mut statement).is_err() {
            return false;
        }
        let Statement::Query(query) = statement else { return true };
        let state = &self.states.narrow;
        match state.statement_to_plan(PlannerStatement::Statement(query)).await {
            Ok(plan) => {
                note_plan(&plan, types);
                true
            }
            Err(_) => false,
        }
    }
}

/// Columns whose type nothing says as texts.
fn without_nulls(schema: &SchemaRef) -> SchemaRef {
    let text = |field: &Arc<Field>| match field.data_type() {
        DataType::Null => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new_with_metadata(
        schema.fields().iter().map(text).collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

/// Whether the type of a placeholder is not known.
fn is_open(name: &str, types: &Types) -> bool {
    let place = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
    place.and_then(|place| types.get(place.checked_sub(1)?)).is_some_and(Option::is_none)
}

fn type_of(table: &TableSchema, name: &str) -> Option<DataType> {
    Some(table.columns()[table.column_index(name)?].column_type.edge_type())
}

fn note_items<'a>(
    items: impl Iterator<Item = &'a SelectItem>,
    column: impl Fn(usize) -> Option<DataType>,
    types: &mut Types,
) {
    for (at, item) in items.enumerate() {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            note(expr, column(at), types);
        }
    }
}

/// Notes the type of an expression that is a placeholder and nothing else.
fn note(expr: &ast::Expr, known: Option<DataType>, types: &mut Types) {
    if let ast::Expr::Value(value) = expr
        && let Value::Placeholder(name) = &value.value
    {
        note_name(name, known, types);
    }
}

fn note_name(name: &str, known: Option<DataType>, types: &mut Types) {
    let place = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
    if let Some(slot) = place.and_then(|place| types.get_mut(place.checked_sub(1)?))
        && slot.is_none()
    {
        *slot = known;
    }
}

/// Notes placeholders that are cast to a TIMESTAMPTZ: a TIMESTAMP to the planner, which has one type for both.
fn note_zoned(node: &mut impl VisitMut, types: &mut Types) {
    // It never breaks off.
    let _ = walk_mut(node, &mut Zoned { types });
}

struct Zoned<'a> {
    types: &'a mut Types,
}

impl VisitorMut for Zoned<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        use ast::TimezoneInfo::{Tz, WithTimeZone};
        if let ast::Expr::Cast { expr, data_type: ast::DataType::Timestamp(_, Tz | WithTimeZone), .. } = expr
        {
            let zoned = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
            note(expr, Some(zoned), self.types);
        }
        ControlFlow::Continue(())
    }
}

/// Finds placeholders of lengths of time and intervals.
struct Measured<'a> {
    lengths: &'a mut Lengths,
}

impl Measured<'_> {
    fn note(&mut self, placeholder: Option<&ValueWithSpan>, text: &'static str) {
        if let Some(ValueWithSpan { value: Value::Placeholder(name), .. }) = placeholder
            && let Some(place) = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok())
            && let Some(place) = place.checked_sub(1)
        {
            self.lengths.insert(place, text);
        }
    }
}

impl VisitorMut for Measured<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        let length = open_stride(factor);
        self.note(length.as_deref().and_then(placeholder_of), "1s");
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        self.note(open_tolerance(expr), "1s");
        self.note(open_interval(expr).map(|(_, placeholder, _)| placeholder), "2024");
        ControlFlow::Continue(())
    }
}

/// Functions whose arguments are of one type.
const OF_ONE_TYPE: [&str; 5] = ["coalesce", "nullif", "greatest", "least", "nvl"];

/// Notes what the placeholders of a plan stand beside.
fn note_plan(plan: &LogicalPlan, types: &mut Types) {
    let as_bound = |field: &DataType| match field {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    };
    // The closures never fail.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expr in [&limit.skip, &limit.fetch].into_iter().flatten() {
                let expr = match expr.as_ref() {
                    Expr::Cast(cast) => cast.expr.as_ref(),
                    other => other,
                };
                if let Expr::Placeholder(Placeholder { id, .. }) = expr {
                    note_name(id, Some(DataType::Int64), types);
                }
            }
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                match expr {
                    Expr::Placeholder(Placeholder { id, field: Some(field) }) => {
                        note_name(id, Some(as_bound(field.data_type())), types);
                    }
                    Expr::Cast(cast) => {
                        if let Expr::Placeholder(Placeholder { id, field: None }) = cast.expr.as_ref() {
                            note_name(id, Some(as_bound(cast.field.data_type())), types);
                        }
                    }
                    Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.name()) => {
                        let schema = node.inputs().first().map(|input| input.schema());
                        let types_of = call.args.iter().filter(|arg| !matches!(arg, Expr::Placeholder(_)));
                        let known = schema
                            .and_then(|schema| types_of.filter_map(|arg| arg.get_type(schema).ok()).next());
                        for arg in &call.args {
                            if let Expr::Placeholder(Placeholder { id, field: None }) = arg {
                                note_name(id, known.as_ref().map(as_bound), types);
                            }
                        }
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
}

/// The columns of what DESCRIBE or SUMMARIZE of a query gives.
pub(crate) fn inspected_schema(summarizes: bool) -> SchemaRef {
    let field = |name: &str, of: DataType| Field::new(name, of, true);
    let text = |name: &str| field(name, DataType::Utf8);
    let fields = match summarizes {
        true => vec![
            text("column"),
            text("type"),
            text("min"),
            text("max"),
            field("approx_unique", DataType::Int64),
            field("avg", DataType::Float64),
            field("std", DataType::Float64),
            field("q25", DataType::Float64),
            field("q50", DataType::Float64),
            field("q75", DataType::Float64),
            field("count", DataType::Int64),
            field("null_percentage", DataType::Float64),
        ],
        false => vec![
            text("column"),
            text("type"),
            field("designated", DataType::Boolean),
            field("series", DataType::Boolean),
            field("nullable", DataType::Boolean),
        ],
    };
    Arc::new(Schema::new(fields))
}

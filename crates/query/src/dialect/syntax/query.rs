//! Queries: WITH, SELECT and its clauses, set operations, ORDER BY, LIMIT.

use super::super::chains;
use super::super::cursor::{Result, position};
use super::Walk;
use crate::dialect::fields::changes;
use sqlparser::ast::{
    ConnectByKind, Cte, CteAsMaterialized, Distinct, Expr, ExprWithAlias, ExprWithAliasAndOrderBy, Fetch,
    GroupByExpr, GroupByWithModifier, LateralView, LimitClause, LockClause, LockType, NamedWindowDefinition,
    NamedWindowExpr, Offset, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Parens, PipeOperator, Query,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetQuantifier, TableAlias,
    TableAliasColumnDef, Values, WildcardAdditionalOptions, With,
};

impl Walk<'_> {
    pub(super) fn query(&mut self, query: &mut Query) -> Result<()> {
        self.down(&mut |walk| walk.query_here(query))
    }

    fn query_here(&mut self, query: &mut Query) -> Result<()> {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        self.some(with, Self::with)?;
        self.set_expr(body)?;
        let one_select = matches!(body.as_ref(), SetExpr::Select(_));
        if let Some(OrderBy { kind: OrderByKind::All(_), .. }) = order_by
            && !one_select
        {
            return Err(self.refused("ORDER BY ALL of a set operation", "name the columns: ORDER BY 1, 2"));
        }
        self.some(order_by, Self::order_by)?;
        self.fetch(limit_clause, fetch)?;
        self.some(limit_clause, Self::limit)?;
        if let Some(LockClause { lock_type, of: _, nonblock: _ }) = locks.first() {
            let clause = match lock_type {
                LockType::Share => "FOR SHARE",
                LockType::Update => "FOR UPDATE",
            };
            return Err(
                self.refused(clause, "leave it out: a query reads one snapshot, which no writer changes")
            );
        }
        self.never(
            for_clause.is_some(),
            "FOR JSON, FOR XML and FOR BROWSE",
            "COPY (SELECT …) TO 'rows.ndjson' writes JSON",
        )?;
        self.never(settings.is_some(), "SETTINGS", "write SET name = value before the statement")?;
        self.never(
            format_clause.is_some(),
            "FORMAT",
            "COPY (SELECT …) TO 'file.csv' writes a file; the format of output is the program's",
        )?;
        self.each(pipe_operators, Self::pipe)
    }

    fn with(&mut self, with: &mut With) -> Result<()> {
        let With { with_token: _, recursive: _, cte_tables } = with;
        self.each(cte_tables, |walk, cte| {
            let Cte { alias, query, from, materialized, closing_paren_token: _ } = cte;
            walk.alias(alias)?;
            walk.never(from.is_some(), "FROM after the query of WITH", "")?;
            // NOT MATERIALIZED is what happens.
            let kept = matches!(materialized, Some(CteAsMaterialized::Materialized));
            walk.never(kept, "MATERIALIZED", "leave it out: a query of WITH is planned where it is read")?;
            walk.query(query)
        })
    }

    fn set_expr(&mut self, body: &mut SetExpr) -> Result<()> {
        chains::balance_sets(body);
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            // The planner refuses what is no operation: EXCEPT BY NAME.
            SetExpr::SetOperation { left, op: _, set_quantifier: _, right } => self.down(&mut |walk| {
                walk.set_expr(left)?;
                walk.set_expr(right)
            }),
            SetExpr::Values(values) => self.values(values),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => Err(self
                .refused(
                    "a statement that changes rows, after WITH",
                    "put WITH into its query: INSERT INTO t WITH … SELECT …",
                )),
            SetExpr::Table(_) => Err(self.refused("TABLE", "write SELECT * FROM t, or FROM t")),
        }
    }

    pub(super) fn values(&mut self, values: &mut Values) -> Result<()> {
        // VALUES ROW(1, 2) is VALUES (1, 2); the planner refuses VALUE.
        let Values { explicit_row: _, value_keyword: _, rows } = values;
        self.each(rows, |walk, row| {
            let Parens { opening_token: _, content, closing_token: _ } = row;
            walk.exprs(content)
        })
    }

    fn select(&mut self, select: &mut Select) -> Result<()> {
        let Select {
            select_token,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor: _,
        } = select;
        self.near = position(select_token.0.span.start).unwrap_or(self.near);
        self.never(!optimizer_hints.is_empty(), "a hint to the optimizer", "leave it out")?;
        self.never(
            select_modifiers.is_some(),
            "a modifier of SELECT",
            "leave out HIGH_PRIORITY, SQL_NO_CACHE and the like",
        )?;
        self.never(top.is_some(), "TOP", "write LIMIT at the end of the query")?;
        self.never(exclude.is_some(), "EXCLUDE after the columns", "write SELECT * EXCLUDE (column) FROM t")?;
        self.never(into.is_some(), "INTO", "write CREATE TABLE name AS (SELECT …)")?;
        self.never(value_table_mode.is_some(), "AS STRUCT and AS VALUE", "write SELECT struct(a, b)")?;
        if let Some(Distinct::On(exprs)) = distinct {
            self.exprs(exprs)?;
        }
        self.each(projection, Self::select_item)?;
        self.each(from, Self::table_with_joins)?;
        if let Some(LateralView { lateral_view: _, lateral_view_name: _, lateral_col_alias: _, outer: _ }) =
            lateral_views.first()
        {
            return Err(
                self.refused("LATERAL VIEW", "write CROSS JOIN unnest(array), or SELECT unnest(array)")
            );
        }
        self.never(
            prewhere.is_some(),
            "PREWHERE",
            "write WHERE: which columns are read first is decided by the engine",
        )?;
        self.some(selection, Self::expr)?;
        if let Some(ConnectByKind::ConnectBy { .. } | ConnectByKind::StartWith { .. }) = connect_by.first() {
            let clause = if matches!(connect_by[0], ConnectByKind::StartWith { .. }) {
                "START WITH"
            } else {
                "CONNECT BY"
            };
            return Err(self.refused(clause, "write WITH RECURSIVE"));
        }
        self.group_by(group_by)?;
        self.never(!cluster_by.is_empty(), "CLUSTER BY", "write ORDER BY")?;
        self.never(
            !distribute_by.is_empty(),
            "DISTRIBUTE BY",
            "leave it out: rows are spread over cores as their number asks for",
        )?;
        self.never(!sort_by.is_empty(), "SORT BY", "write ORDER BY")?;
        self.some(having, Self::expr)?;
        self.each(named_window, |walk, NamedWindowDefinition(name, window)| {
            walk.ident(name);
            match window {
                NamedWindowExpr::NamedWindow(_) => Ok(()),
                NamedWindowExpr::WindowSpec(spec) => walk.window_spec(spec),
            }
        })?;
        self.some(qualify, Self::expr)
    }

    /// `GROUP BY a, b WITH ROLLUP` is `GROUP BY ROLLUP (a, b)`, WITH CUBE and GROUPING SETS likewise.
    fn group_by(&mut self, group_by: &mut GroupByExpr) -> Result<()> {
        let (keys, modifiers) = match group_by {
            GroupByExpr::All(modifiers) => {
                return self.never(
                    !modifiers.is_empty(),
                    "GROUP BY ALL with ROLLUP, CUBE or TOTALS",
                    "name the columns after GROUP BY",
                );
            }
            GroupByExpr::Expressions(keys, modifiers) => (keys, modifiers),
        };
        self.exprs(keys)?;
        if modifiers.iter().any(|of| matches!(of, GroupByWithModifier::Totals)) {
            return Err(self.refused("WITH TOTALS", "write WITH ROLLUP, whose last row is of all groups"));
        }
        if modifiers.len() > 1 {
            return Err(self.refused("more than one of WITH ROLLUP, WITH CUBE and GROUPING SETS", ""));
        }
        let Some(modifier) = modifiers.pop() else { return Ok(()) };
        let each = |keys: &mut Vec<Expr>| keys.drain(..).map(|key| vec![key]).collect();
        let grouping = match modifier {
            GroupByWithModifier::Rollup => Expr::Rollup(each(keys)),
            GroupByWithModifier::Cube => Expr::Cube(each(keys)),
            GroupByWithModifier::Totals => return Ok(()),
            GroupByWithModifier::GroupingSets(mut sets) => {
                self.expr(&mut sets)?;
                sets
            }
        };
        *keys = vec![grouping];
        Ok(())
    }

    pub(super) fn select_item(&mut self, item: &mut SelectItem) -> Result<()> {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => self.expr(expr),
            SelectItem::ExprWithAliases { expr: _, aliases: _ } => {
                Err(self.refused("AS with several names", "give each column a name of its own"))
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                self.name(name)?;
                self.wildcard(options)
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), options) => {
                self.expr(expr)?;
                let changed = changes(options);
                self.never(
                    changed,
                    "EXCLUDE, REPLACE and RENAME after the fields of an expression",
                    "name the fields",
                )?;
                self.wildcard(options)
            }
            SelectItem::Wildcard(options) => self.wildcard(options),
        }
    }

    pub(super) fn wildcard(&mut self, options: &mut WildcardAdditionalOptions) -> Result<()> {
        let WildcardAdditionalOptions {
            wildcard_token,
            opt_ilike,
            opt_exclude: _,
            opt_except: _,
            opt_replace,
            opt_rename: _,
            opt_alias,
        } = options;
        self.near = position(wildcard_token.0.span.start).unwrap_or(self.near);
        self.never(opt_ilike.is_some(), "ILIKE after *", "name the columns")?;
        self.never(opt_alias.is_some(), "AS after *", "")?;
        let Some(replace) = opt_replace else { return Ok(()) };
        replace.items.iter_mut().try_for_each(|item| self.expr(&mut item.expr))
    }

    pub(super) fn alias(&mut self, alias: &mut TableAlias) -> Result<()> {
        let TableAlias { explicit: _, name, columns, at } = alias;
        self.ident(name);
        self.never(at.is_some(), "AT after an alias", "")?;
        self.each(columns, |walk, column| {
            let TableAliasColumnDef { name, data_type } = column;
            walk.ident(name);
            walk.never(data_type.is_some(), "a type in the columns of an alias", "cast in SELECT: x::DOUBLE")
        })
    }

    fn order_by(&mut self, order_by: &mut OrderBy) -> Result<()> {
        let OrderBy { kind, interpolate } = order_by;
        self.never(interpolate.is_some(), "INTERPOLATE", "SAMPLE BY … FILL(LINEAR) fills gaps")?;
        match kind {
            OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ }) => Ok(()),
            OrderByKind::Expressions(exprs) => self.each(exprs, Self::order_by_expr),
        }
    }

    pub(super) fn order_by_expr(&mut self, order: &mut OrderByExpr) -> Result<()> {
        let OrderByExpr { expr, options: OrderByOptions { asc: _, nulls_first: _ }, with_fill } = order;
        self.never(with_fill.is_some(), "WITH FILL", "SAMPLE BY … FILL(…) makes the rows that are missing")?;
        self.expr(expr)
    }

    /// `FETCH FIRST n ROWS ONLY` is `LIMIT n`.
    fn fetch(&mut self, limit: &mut Option<LimitClause>, fetch: &mut Option<Fetch>) -> Result<()> {
        let Some(Fetch { with_ties, percent, quantity }) = fetch.take() else { return Ok(()) };
        self.never(with_ties, "WITH TIES", "QUALIFY rank() OVER (ORDER BY …) <= n keeps ties")?;
        self.never(percent, "PERCENT in FETCH", "write FETCH FIRST n ROWS ONLY")?;
        let rows =
            quantity.unwrap_or_else(|| Expr::value(sqlparser::ast::Value::Number("1".to_string(), false)));
        match limit {
            None => {
                *limit =
                    Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() })
            }
            Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
            Some(_) => return Err(self.refused("FETCH beside LIMIT", "write one of the two")),
        }
        Ok(())
    }

    fn limit(&mut self, limit: &mut LimitClause) -> Result<()> {
        match limit {
            LimitClause::LimitOffset { limit, offset, limit_by } => {
                self.some(limit, Self::expr)?;
                self.never(
                    !limit_by.is_empty(),
                    "LIMIT BY",
                    "QUALIFY row_number() OVER (PARTITION BY key ORDER BY ts) <= n keeps the first of each",
                )?;
                // ROW and ROWS are the same.
                self.some(offset, |walk, Offset { value, rows: _ }| walk.expr(value))
            }
            // MySQL's second number is how many rows, QuestDB's is the row they end before.
            LimitClause::OffsetCommaLimit { .. } => {
                Err(self.refused("LIMIT of two numbers", "write LIMIT 3 OFFSET 2: rows 3, 4 and 5"))
            }
        }
    }

    fn pipe(&mut self, operator: &mut PipeOperator) -> Result<()> {
        match operator {
            PipeOperator::Limit { expr, offset } => {
                self.expr(expr)?;
                self.some(offset, Self::expr)
            }
            PipeOperator::Where { expr } => self.expr(expr),
            PipeOperator::OrderBy { exprs } => self.each(exprs, Self::order_by_expr),
            PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => {
                self.each(exprs, Self::select_item)
            }
            PipeOperator::As { alias: _ } => Ok(()),
            PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
                self.each(full_table_exprs, Self::aggregated)?;
                self.each(group_by_expr, Self::aggregated)
            }
            PipeOperator::Union { set_quantifier, queries }
            | PipeOperator::Intersect { set_quantifier, queries }
            | PipeOperator::Except { set_quantifier, queries } => {
                let by_name = matches!(
                    set_quantifier,
                    SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
                );
                self.never(by_name, "BY NAME after |>", "")?;
                self.each(queries, Self::query)
            }
            PipeOperator::Join(join) => self.join(join),
            PipeOperator::Set { .. }
            | PipeOperator::Drop { .. }
            | PipeOperator::TableSample { .. }
            | PipeOperator::Rename { .. }
            | PipeOperator::Call { .. }
            | PipeOperator::Pivot { .. }
            | PipeOperator::Unpivot { .. } => Err(self.refused(
                "this operator after |>",
                "|> takes SELECT, EXTEND, WHERE, AGGREGATE, ORDER BY, LIMIT, JOIN, AS and set operations",
            )),
        }
    }

    fn aggregated(&mut self, item: &mut ExprWithAliasAndOrderBy) -> Result<()> {
        let ExprWithAliasAndOrderBy { expr: ExprWithAlias { expr, alias: _ }, order_by } = item;
        let OrderByOptions { asc, nulls_first } = order_by;
        self.never(
            asc.is_some() || nulls_first.is_some(),
            "an order in AGGREGATE",
            "write |> ORDER BY … after it",
        )?;
        self.expr(expr)
    }
}

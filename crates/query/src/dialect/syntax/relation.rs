//! What stands in FROM: tables, sub-queries, table functions, joins.

use super::super::cursor::Result;
use super::Walk;
use sqlparser::ast::{
    ExprWithAlias, Join, JoinConstraint, JoinOperator, PivotValueSource, TableAlias, TableFactor,
    TableFunctionArgs, TableSample, TableSampleKind, TableSampleQuantity, TableSampleSeed, TableWithJoins,
};

impl Walk<'_> {
    pub(super) fn table_with_joins(&mut self, from: &mut TableWithJoins) -> Result<()> {
        let TableWithJoins { relation, joins } = from;
        self.factor(relation)?;
        self.each(joins, Self::join)
    }

    pub(super) fn join(&mut self, join: &mut Join) -> Result<()> {
        let Join { relation, global, join_operator } = join;
        self.never(*global, "GLOBAL", "leave it out: there is one node")?;
        self.factor(relation)?;
        let has_no_condition = matches!(
            join_operator,
            JoinOperator::Join(JoinConstraint::None)
                | JoinOperator::Inner(JoinConstraint::None)
                | JoinOperator::Left(JoinConstraint::None)
                | JoinOperator::LeftOuter(JoinConstraint::None)
                | JoinOperator::Right(JoinConstraint::None)
                | JoinOperator::RightOuter(JoinConstraint::None)
                | JoinOperator::FullOuter(JoinConstraint::None)
                | JoinOperator::Semi(JoinConstraint::None)
                | JoinOperator::LeftSemi(JoinConstraint::None)
                | JoinOperator::RightSemi(JoinConstraint::None)
                | JoinOperator::Anti(JoinConstraint::None)
                | JoinOperator::LeftAnti(JoinConstraint::None)
                | JoinOperator::RightAnti(JoinConstraint::None)
        );
        self.never(
            has_no_condition,
            "JOIN without a condition",
            "write JOIN … ON … or USING (…); CROSS JOIN joins every row with every row",
        )?;
        match join_operator {
            JoinOperator::Semi(constraint) => *join_operator = JoinOperator::LeftSemi(constraint.clone()),
            JoinOperator::Anti(constraint) => *join_operator = JoinOperator::LeftAnti(constraint.clone()),
            _ => {}
        }
        match join_operator {
            JoinOperator::Semi(constraint)
            | JoinOperator::Anti(constraint)
            | JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::RightSemi(constraint)
            | JoinOperator::LeftAnti(constraint)
            | JoinOperator::RightAnti(constraint) => self.constraint(constraint),
            JoinOperator::CrossJoin(JoinConstraint::None) => Ok(()),
            JoinOperator::CrossJoin(_) => {
                Err(self.refused("CROSS JOIN with a condition", "write JOIN … ON …"))
            }
            JoinOperator::CrossApply => Err(self.refused("CROSS APPLY", "write CROSS JOIN LATERAL (…)")),
            JoinOperator::OuterApply => {
                Err(self.refused("OUTER APPLY", "write LEFT JOIN LATERAL (…) ON true"))
            }
            JoinOperator::AsOf { match_condition: _, constraint: _ } => {
                Err(self.refused("this form of ASOF JOIN", ""))
            }
            JoinOperator::StraightJoin(_) => Err(self.refused("STRAIGHT_JOIN", "write JOIN")),
            JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
                Err(self.refused("ARRAY JOIN", "write SELECT unnest(array)"))
            }
        }
    }

    fn constraint(&mut self, constraint: &mut JoinConstraint) -> Result<()> {
        match constraint {
            JoinConstraint::On(expr) => self.expr(expr),
            JoinConstraint::Using(names) => names.iter().try_for_each(|name| self.name(name)),
            JoinConstraint::Natural | JoinConstraint::None => Ok(()),
        }
    }

    pub(super) fn factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        self.down(&mut |walk| walk.factor_here(factor))
    }

    fn factor_here(&mut self, factor: &mut TableFactor) -> Result<()> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                self.name(name)?;
                self.never(
                    !with_hints.is_empty(),
                    "WITH (…) after a table",
                    "leave it out: there are no hints",
                )?;
                self.never(
                    version.is_some(),
                    "a table as of an earlier time",
                    "tickstone backup keeps states of a database",
                )?;
                self.never(*with_ordinality, "WITH ORDINALITY", "row_number() OVER () counts rows")?;
                self.never(
                    !partitions.is_empty(),
                    "PARTITION",
                    "write WHERE ts IN '2024-08': only the partitions it meets are read",
                )?;
                self.never(json_path.is_some(), "a path into JSON after a table", "")?;
                self.never(
                    !index_hints.is_empty(),
                    "USE, IGNORE and FORCE INDEX",
                    "leave it out: there are no hints",
                )?;
                if let Some(TableFunctionArgs { args, settings }) = args {
                    self.never(
                        settings.is_some(),
                        "SETTINGS",
                        "write SET name = value before the statement",
                    )?;
                    self.each(args, Self::argument)?;
                }
                self.relation_alias(alias)?;
                self.some(sample, Self::sample)
            }
            TableFactor::Derived { lateral: _, subquery, alias, sample } => {
                self.query(subquery)?;
                self.relation_alias(alias)?;
                self.some(sample, Self::sample)
            }
            TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
                self.name(name)?;
                self.never(*with_ordinality, "WITH ORDINALITY", "row_number() OVER () counts rows")?;
                self.each(args, Self::argument)?;
                self.relation_alias(alias)
            }
            // The planner refuses WITH OFFSET and WITH ORDINALITY.
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: _,
                with_offset_alias: _,
                with_ordinality: _,
            } => {
                self.exprs(array_exprs)?;
                self.relation_alias(alias)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                self.table_with_joins(table_with_joins)?;
                self.relation_alias(alias)
            }
            TableFactor::Pivot {
                table,
                aggregate_functions,
                value_column,
                value_source,
                default_on_null,
                alias,
            } => {
                self.factor(table)?;
                self.each(aggregate_functions, Self::with_alias)?;
                self.exprs(value_column)?;
                // Other sources are refused where the marker is read.
                if let PivotValueSource::List(values) = value_source {
                    self.each(values, Self::with_alias)?;
                }
                self.some(default_on_null, Self::expr)?;
                self.relation_alias(alias)
            }
            TableFactor::Unpivot { table, value, name: _, columns, null_inclusion: _, alias } => {
                self.factor(table)?;
                self.expr(value)?;
                self.each(columns, Self::with_alias)?;
                self.relation_alias(alias)
            }
            TableFactor::TableFunction { .. } => Err(self.refused("TABLE", "write FROM f(…)")),
            TableFactor::JsonTable { .. } => Err(self.refused("JSON_TABLE", "")),
            TableFactor::OpenJsonTable { .. } => Err(self.refused("OPENJSON", "")),
            TableFactor::MatchRecognize { .. } => Err(self.refused("MATCH_RECOGNIZE", "")),
            TableFactor::XmlTable { .. } => Err(self.refused("XMLTABLE", "")),
            TableFactor::SemanticView { .. } => Err(self.refused("SEMANTIC_VIEW", "")),
        }
    }

    fn with_alias(&mut self, item: &mut ExprWithAlias) -> Result<()> {
        let ExprWithAlias { expr, alias: _ } = item;
        self.expr(expr)
    }

    /// `t FINAL` and the first word of `t POSITIONAL JOIN u` are taken for aliases by the parser.
    fn relation_alias(&mut self, alias: &mut Option<TableAlias>) -> Result<()> {
        let Some(alias) = alias else { return Ok(()) };
        let is_final = !alias.explicit
            && alias.name.quote_style.is_none()
            && alias.name.value.eq_ignore_ascii_case("FINAL");
        let is_positional = !alias.explicit
            && alias.name.quote_style.is_none()
            && alias.name.value.eq_ignore_ascii_case("POSITIONAL");
        self.never(
            is_positional,
            "POSITIONAL JOIN",
            "join on row_number() OVER () of both sides; an alias is AS positional",
        )?;
        self.never(is_final, "FINAL", "leave it out: a table with DEDUP UPSERT KEYS shows the last row of each key; an alias is AS final")?;
        self.alias(alias)
    }

    /// TABLESAMPLE; what it is a sample of, and how large, is read when it is planned ([`super::super::sample`]).
    fn sample(&mut self, kind: &mut TableSampleKind) -> Result<()> {
        let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = kind;
        let TableSample { modifier: _, name: _, quantity, seed, bucket, offset } = sample.as_mut();
        self.never(bucket.is_some(), "BUCKET", "write TABLESAMPLE (10 PERCENT)")?;
        self.never(offset.is_some(), "OFFSET in SAMPLE", "write TABLESAMPLE (10 PERCENT) REPEATABLE (1)")?;
        if let Some(TableSampleSeed { modifier: _, value: _ }) = seed {}
        match quantity {
            Some(TableSampleQuantity { parenthesized: _, value, unit: _ }) => self.expr(value),
            None => Err(self.refused("TABLESAMPLE without a size", "write TABLESAMPLE (10 PERCENT)")),
        }
    }
}

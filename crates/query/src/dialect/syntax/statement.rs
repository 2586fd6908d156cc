//! Statements that the parser reads: queries, INSERT, DELETE, UPDATE, EXPLAIN, some of SHOW.

use super::super::cursor::Result;
use super::Walk;
use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DescribeAlias, DoUpdate, FromTable, Insert, Merge,
    MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, OnConflict,
    OnConflictAction, OnInsert, SqliteOnConflict, Statement, TableObject, Update, UpdateTableFromKind,
};

impl Walk<'_> {
    pub(super) fn statement(&mut self, statement: &mut Statement) -> Result<()> {
        match statement {
            Statement::Query(query) => self.query(query),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Update(update) => self.update(update),
            Statement::Merge(merge) => self.merge(merge),
            Statement::Explain {
                describe_alias,
                analyze: _,
                verbose: _,
                query_plan,
                estimate,
                statement,
                format: _,
                options,
            } => {
                let (DescribeAlias::Describe | DescribeAlias::Explain | DescribeAlias::Desc) = describe_alias;
                self.never(*query_plan, "QUERY PLAN", "write EXPLAIN SELECT …")?;
                self.never(*estimate, "ESTIMATE", "EXPLAIN ANALYZE counts rows")?;
                self.never(
                    options.is_some(),
                    "EXPLAIN with options in brackets",
                    "write EXPLAIN ANALYZE VERBOSE SELECT …",
                )?;
                self.statement(statement)
            }
            // Read by hand, or refused where statements are told apart.
            _ => Ok(()),
        }
    }

    fn insert(&mut self, insert: &mut Insert) -> Result<()> {
        let Insert {
            insert_token: _,
            optimizer_hints,
            or,
            ignore,
            into: _,
            table,
            table_alias,
            columns: _,
            overwrite,
            source,
            assignments,
            partitioned,
            after_columns,
            has_table_keyword: _,
            on,
            returning,
            output,
            replace_into: _,
            priority,
            insert_alias,
            settings,
            format_clause,
            multi_table_insert_type,
            multi_table_into_clauses,
            multi_table_when_clauses,
            multi_table_else_clause,
        } = insert;
        self.never(!optimizer_hints.is_empty(), "a hint to the optimizer", "leave it out")?;
        match or {
            None | Some(SqliteOnConflict::Replace) => {}
            Some(SqliteOnConflict::Ignore) => return Err(self.refused("OR IGNORE", NOTHING)),
            Some(SqliteOnConflict::Rollback | SqliteOnConflict::Abort | SqliteOnConflict::Fail) => {
                return Err(self.refused("OR", "leave it out: a statement that fails stores nothing"));
            }
        }
        self.never(*ignore, "IGNORE", NOTHING)?;
        match table {
            TableObject::TableName(name) => self.name(name)?,
            TableObject::TableFunction(_) => {
                return Err(self.refused("FUNCTION after INSERT INTO", "name a table"));
            }
            TableObject::TableQuery(_) => {
                return Err(self.refused("a query after INSERT INTO", "name a table"));
            }
        }
        self.never(table_alias.is_some(), "AS after the table of INSERT", "leave it out")?;
        self.never(
            *overwrite,
            "OVERWRITE",
            "TRUNCATE t empties a table; DEDUP UPSERT KEYS lets rows replace others",
        )?;
        self.never(!assignments.is_empty(), "SET in INSERT", "write INSERT INTO t (columns) VALUES (…)")?;
        self.never(
            partitioned.is_some() || !after_columns.is_empty(),
            "PARTITION",
            "leave it out: the designated timestamp says which partition a row is of",
        )?;
        self.some(on, Self::on_insert)?;
        self.some(returning, |walk, items| walk.each(items, Self::select_item))?;
        self.never(output.is_some(), "OUTPUT", "write RETURNING at the end")?;
        self.never(priority.is_some(), "a priority of INSERT", "leave it out")?;
        self.never(insert_alias.is_some(), "AS after VALUES", "ON CONFLICT names the new row excluded")?;
        self.never(settings.is_some(), "SETTINGS", "write SET name = value before the statement")?;
        self.never(format_clause.is_some(), "FORMAT", "write COPY t FROM 'file'")?;
        let several = multi_table_insert_type.is_some()
            || !multi_table_into_clauses.is_empty()
            || !multi_table_when_clauses.is_empty()
            || multi_table_else_clause.is_some();
        self.never(
            several,
            "INSERT into several tables",
            "write several statements between BEGIN and COMMIT",
        )?;
        source.as_mut().map_or(Ok(()), |query| self.query(query))
    }

    /// Which of these a table's keys can keep is known with the table ([`crate::statements`]).
    fn on_insert(&mut self, on: &mut OnInsert) -> Result<()> {
        let OnConflict { conflict_target, action } = match on {
            OnInsert::OnConflict(on) => on,
            OnInsert::DuplicateKeyUpdate(_) => {
                return Err(self.refused(
                    "ON DUPLICATE KEY UPDATE",
                    "write ON CONFLICT (keys) DO UPDATE SET column = excluded.column, …",
                ));
            }
            _ => return Err(self.refused("ON", "")),
        };
        match conflict_target {
            None | Some(ConflictTarget::Columns(_)) => {}
            Some(ConflictTarget::OnConstraint(_)) => {
                return Err(self.refused(
                    "ON CONSTRAINT",
                    "name the columns of DEDUP UPSERT KEYS: ON CONFLICT (ts, symbol)",
                ));
            }
        }
        match action {
            OnConflictAction::DoNothing => Err(self.refused("DO NOTHING", NOTHING)),
            OnConflictAction::DoUpdate(DoUpdate { assignments, selection }) => {
                self.never(
                    selection.is_some(),
                    "WHERE after DO UPDATE SET",
                    "leave it out, or write UPDATE",
                )?;
                self.each(assignments, Self::assignment)
            }
        }
    }

    fn assignment(&mut self, assignment: &mut Assignment) -> Result<()> {
        let Assignment { target, value } = assignment;
        match target {
            AssignmentTarget::ColumnName(name) => self.name(name)?,
            AssignmentTarget::Tuple(names) => names.iter().try_for_each(|name| self.name(name))?,
        }
        self.expr(value)
    }

    fn delete(&mut self, delete: &mut Delete) -> Result<()> {
        let Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        self.never(!optimizer_hints.is_empty(), "a hint to the optimizer", "leave it out")?;
        self.never(
            !tables.is_empty(),
            "DELETE of several tables",
            "write one statement a table between BEGIN and COMMIT",
        )?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        self.each(from, Self::table_with_joins)?;
        using.as_mut().map_or(Ok(()), |using| self.each(using, Self::table_with_joins))?;
        self.some(selection, Self::expr)?;
        self.some(returning, |walk, items| walk.each(items, Self::select_item))?;
        self.never(output.is_some(), "OUTPUT", "write RETURNING at the end")?;
        self.never(!order_by.is_empty(), "ORDER BY in DELETE", "say in WHERE which rows go")?;
        self.never(limit.is_some(), "LIMIT in DELETE", "say in WHERE which rows go")
    }

    fn update(&mut self, update: &mut Update) -> Result<()> {
        let Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        self.never(!optimizer_hints.is_empty(), "a hint to the optimizer", "leave it out")?;
        self.table_with_joins(table)?;
        self.each(assignments, Self::assignment)?;
        if let Some(UpdateTableFromKind::AfterSet(from) | UpdateTableFromKind::BeforeSet(from)) = from {
            self.each(from, Self::table_with_joins)?;
        }
        self.some(selection, Self::expr)?;
        self.some(returning, |walk, items| walk.each(items, Self::select_item))?;
        self.never(output.is_some(), "OUTPUT", "write RETURNING at the end")?;
        self.never(or.is_some(), "OR", "leave it out: a statement that fails stores nothing")?;
        self.never(!order_by.is_empty(), "ORDER BY in UPDATE", "say in WHERE which rows change")?;
        self.never(limit.is_some(), "LIMIT in UPDATE", "say in WHERE which rows change")
    }
}

impl Walk<'_> {
    fn merge(&mut self, merge: &mut Merge) -> Result<()> {
        let Merge { merge_token: _, optimizer_hints, into: _, table, source, on, clauses, output } = merge;
        self.never(!optimizer_hints.is_empty(), "a hint to the optimizer", "leave it out")?;
        self.factor(table)?;
        self.factor(source)?;
        self.expr(on)?;
        self.each(clauses, Self::merge_clause)?;
        self.never(output.is_some(), "OUTPUT", "read the rows again with SELECT")
    }

    fn merge_clause(&mut self, clause: &mut MergeClause) -> Result<()> {
        let MergeClause { when_token: _, clause_kind, predicate, action } = clause;
        match clause_kind {
            MergeClauseKind::Matched | MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {}
            MergeClauseKind::NotMatchedBySource => {
                return Err(self.refused(
                    "BY SOURCE",
                    "write DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM source s WHERE s.key = t.key)",
                ));
            }
        }
        self.some(predicate, Self::expr)?;
        match action {
            MergeAction::Insert(MergeInsertExpr {
                insert_token: _,
                columns,
                kind_token: _,
                kind,
                insert_predicate,
            }) => {
                columns.iter().try_for_each(|name| self.name(name))?;
                self.never(insert_predicate.is_some(), "WHERE in INSERT", MERGE_CONDITION)?;
                match kind {
                    MergeInsertKind::Values(values) => self.values(values),
                    MergeInsertKind::Row => {
                        Err(self.refused("ROW", "write INSERT (columns) VALUES (s.a, …)"))
                    }
                }
            }
            MergeAction::Update(MergeUpdateExpr {
                update_token: _,
                assignments,
                update_predicate,
                delete_predicate,
            }) => {
                self.never(update_predicate.is_some(), "WHERE in UPDATE", MERGE_CONDITION)?;
                self.never(delete_predicate.is_some(), "DELETE WHERE", MERGE_DELETE)?;
                self.each(assignments, Self::assignment)
            }
            MergeAction::Delete { delete_token: _ } => Err(self.refused("DELETE", MERGE_DELETE)),
        }
    }
}

/// Where a condition of MERGE stands.
const MERGE_CONDITION: &str = "write WHEN MATCHED AND condition THEN …";

/// What does the work of DELETE in MERGE.
const MERGE_DELETE: &str = "write DELETE FROM t USING source s WHERE t.key = s.key";

/// What to write for rows that are stored only where there is none of their key.
const NOTHING: &str =
    "write INSERT INTO t SELECT … FROM (…) n WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.key = n.key)";

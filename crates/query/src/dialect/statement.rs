//! What [`parse`](super::parse) makes of a text: one [`Statement`] for each of its statements.

use super::accounts::Accounts;
use super::walks::walk_mut;
use crate::error::Position;
use sqlparser::ast::{self, VisitorMut};
use std::ops::ControlFlow;
use tickstone_model::{ColumnType, PartitionBy, StreamFormat, SyncPolicy};

/// A statement, its positions and our own clauses already resolved.
///
/// In `Query`, `Insert` and every nested query our clauses have become marker relations, which the
/// relation planner of [`crate::operators`] turns into nodes; anything else plans as DataFusion does.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// SELECT, WITH, VALUES, EXPLAIN [ANALYZE] of one.
    Query(Box<ast::Statement>),
    /// INSERT INTO t [(columns)] VALUES … or SELECT ….
    Insert(Box<ast::Statement>),
    /// CREATE TABLE, with or without a query that fills it.
    CreateTable(CreateTable),
    /// CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v AS query.
    CreateView(CreateView),
    /// CREATE MATERIALIZED VIEW.
    CreateMaterializedView(Box<CreateMaterializedView>),
    /// REFRESH MATERIALIZED VIEW.
    RefreshView {
        /// The view, spelled as written.
        name: String,
        /// Whether all of it is worked out anew.
        full: bool,
    },
    /// DROP [MATERIALIZED] VIEW [IF EXISTS] v, … [CASCADE | RESTRICT].
    DropView {
        /// The views, as written.
        names: Vec<String>,
        /// Whether a missing view is no error.
        if_exists: bool,
        /// Whether they are materialized ones.
        materialized: bool,
        /// Whether materialized views of them go as well.
        cascades: bool,
    },
    /// SHOW VIEWS.
    ShowViews,
    /// CREATE STREAM [IF NOT EXISTS] s [WITH (option = value, …)].
    CreateStream {
        /// The stream, as written: its case counts.
        name: String,
        /// Whether one that is there is no error.
        if_not_exists: bool,
        /// Names in lower case, and values.
        options: Vec<(String, String)>,
    },
    /// ALTER STREAM s SET (option = value, …).
    AlterStream {
        /// The stream, as written.
        name: String,
        /// Names in lower case, and values.
        options: Vec<(String, String)>,
    },
    /// DROP STREAM [IF EXISTS] s, ….
    DropStream {
        /// The streams, as written.
        names: Vec<String>,
        /// Whether a missing stream is no error.
        if_exists: bool,
    },
    /// SHOW STREAMS.
    ShowStreams,
    /// SUBSCRIBE TO (query) [FROM NOW | FROM BEGINNING | AFTER position] [WITH (option = value, …)].
    Subscribe(Box<Subscribe>),
    /// REPLAY {t, … | (query)} [FROM 'instant'] [TO 'instant'] [SPEED {n | nx | MAX}].
    Replay(Box<Replay>),
    /// SHOW FUNCTIONS [LIKE 'pattern'].
    ShowFunctions {
        /// What their names are like; all where it is missing.
        like: Option<String>,
    },
    /// DROP TABLE [IF EXISTS] t, … [CASCADE | RESTRICT].
    DropTable {
        /// The tables, as written (unquoted names match in any case).
        names: Vec<String>,
        /// Whether a missing table is no error.
        if_exists: bool,
        /// Whether materialized views of them go as well.
        cascades: bool,
    },
    /// ALTER TABLE t …, RENAME TABLE t TO u.
    AlterTable {
        /// The table, as written.
        table: String,
        /// What changes.
        change: AlterTable,
        /// Whether the statement says that it is a materialized view.
        of_view: bool,
    },
    /// DELETE FROM t …, UPDATE t SET ….
    Change(Box<ChangeRows>),
    /// MERGE INTO t USING source ON condition WHEN ….
    Merge(Box<MergeRows>),
    /// TRUNCATE [TABLE] t, ….
    Truncate {
        /// The tables, as written.
        names: Vec<String>,
    },
    /// BEGIN [TRANSACTION] [modes], START TRANSACTION.
    Begin {
        /// READ ONLY or READ WRITE, where it says so.
        read_only: Option<bool>,
    },
    /// SET TRANSACTION modes, SET SESSION CHARACTERISTICS AS TRANSACTION modes.
    SetTransaction {
        /// READ ONLY or READ WRITE, where it says so.
        read_only: Option<bool>,
        /// Whether it is for all transactions to come.
        session: bool,
    },
    /// COMMIT, END.
    Commit,
    /// ROLLBACK, ABORT.
    Rollback,
    /// CHECKPOINT [t]: seal what is in memory.
    Checkpoint {
        /// The one table to seal; all of them where it is missing.
        table: Option<String>,
    },
    /// CHECKPOINT HOLD: keep the state as of now in a folder of its own, to be copied.
    Hold,
    /// CHECKPOINT RELEASE: let go of that.
    Release,
    /// OPTIMIZE TABLE t [ARCHIVE]: seal a table, and merge the parts of each partition.
    Optimize {
        /// The table.
        table: String,
        /// Whether they are archived: stored in the least room.
        archive: bool,
    },
    /// COPY t [(columns)] FROM 'file' or STDIN.
    CopyFrom {
        /// The table to fill.
        table: String,
        /// Its columns in the file's order; empty: all, by name.
        columns: Vec<String>,
        /// Where the rows are.
        end: CopyEnd,
        /// WITH (name value, …), names in lower case.
        options: Vec<(String, String)>,
    },
    /// COPY t [(columns)] TO 'file' or STDOUT, COPY (SELECT …) TO 'file' or STDOUT.
    CopyTo {
        /// What to write.
        source: CopySource,
        /// Where the rows go.
        end: CopyEnd,
        /// WITH (name value, …), names in lower case.
        options: Vec<(String, String)>,
    },
    /// DECLARE name CURSOR FOR query.
    DeclareCursor {
        /// Its name, in lower case unless quoted.
        name: String,
        /// Whether it outlives its transaction (WITH HOLD).
        hold: bool,
        /// What it reads.
        query: Box<ast::Statement>,
    },
    /// FETCH [count] FROM name, MOVE [count] FROM name.
    Fetch {
        /// The cursor.
        name: String,
        /// How many rows; all there are where it is missing.
        rows: Option<u64>,
        /// Whether the rows are only passed over.
        moves: bool,
    },
    /// CLOSE name, CLOSE ALL.
    CloseCursor {
        /// The cursor; all of them where it is missing.
        name: Option<String>,
    },
    /// RESET ALL, RESET name.
    Reset {
        /// The setting, in lower case; all of them where it is missing.
        name: Option<String>,
    },
    /// DISCARD ALL: the session as it began.
    Discard,
    /// LISTEN table.
    Listen {
        /// The table, as written.
        channel: String,
    },
    /// UNLISTEN table, UNLISTEN *.
    Unlisten {
        /// The table, as written; all of them where it is missing.
        channel: Option<String>,
    },
    /// SHOW TABLES.
    ShowTables,
    /// SHOW QUERIES.
    ShowQueries,
    /// SHOW METRICS.
    ShowMetrics,
    /// SHOW CONFIG.
    ShowConfig,
    /// CANCEL QUERY id.
    CancelQuery {
        /// Its number in SHOW QUERIES.
        id: u64,
    },
    /// SHOW CREATE TABLE t.
    ShowCreate {
        /// The table or view, as written.
        table: String,
    },
    /// SHOW PARTITIONS FROM t.
    ShowPartitions {
        /// The table, as written.
        table: String,
    },
    /// DESCRIBE query, SUMMARIZE query, SUMMARIZE t.
    Inspect(Box<Inspect>),
    /// SHOW COLUMNS FROM t, DESCRIBE t.
    ShowColumns {
        /// The table, as written.
        table: String,
    },
    /// PREPARE name [(types)] AS statement.
    Prepare {
        /// Its name, in lower case unless quoted.
        name: String,
        /// A query or an INSERT, with placeholders.
        statement: Box<Statement>,
    },
    /// EXECUTE name [(value, …)].
    Execute {
        /// Its name, in lower case unless quoted.
        name: String,
        /// Literals for `$1`, `$2`, ….
        values: Vec<ast::Expr>,
    },
    /// DEALLOCATE [PREPARE] name, or ALL.
    Deallocate {
        /// Its name, in lower case unless quoted; all of them where it is missing.
        name: Option<String>,
    },
    /// Users, roles, tokens, and what they may do.
    Accounts(Box<Accounts>),
    /// SET name = value.
    Set {
        /// The setting, in lower case, parts joined by points.
        name: String,
        /// Its value, quotes taken off.
        value: String,
    },
}

impl Statement {
    /// Whether what it does is seen by later statements of its session alone.
    pub fn is_of_its_session(&self) -> bool {
        matches!(
            self,
            Statement::Begin { .. }
                | Statement::SetTransaction { .. }
                | Statement::Commit
                | Statement::Rollback
                | Statement::Set { .. }
                | Statement::Prepare { .. }
                | Statement::Execute { .. }
                | Statement::Deallocate { .. }
                | Statement::Reset { .. }
                | Statement::Discard
                | Statement::CreateTable(CreateTable { temporary: true, .. })
        ) || self.is_of_its_connection()
    }

    /// Whether it is carried out by the connection that it comes by, not by a session: its rows come or go over the wire,
    /// or it reads on where an earlier one stopped.
    pub fn is_of_its_connection(&self) -> bool {
        matches!(
            self,
            Statement::DeclareCursor { .. }
                | Statement::Fetch { .. }
                | Statement::CloseCursor { .. }
                | Statement::Listen { .. }
                | Statement::Unlisten { .. }
                | Statement::CopyFrom { end: CopyEnd::Client, .. }
                | Statement::CopyTo { end: CopyEnd::Client, .. }
        )
    }

    /// Has a visitor see its queries, and change them.
    pub(crate) fn walk_queries_mut<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break> {
        match self {
            Statement::Query(node) | Statement::Insert(node) => walk_mut(node.as_mut(), visitor),
            Statement::CreateTable(table) => match &mut table.query {
                Some(query) => walk_mut(query.as_mut(), visitor),
                None => ControlFlow::Continue(()),
            },
            Statement::CreateView(view) => walk_mut(view.query.as_mut(), visitor),
            Statement::CopyTo { source: CopySource::Query(query), .. } => walk_mut(query.as_mut(), visitor),
            Statement::Change(change) => {
                walk_mut(change.query.as_mut(), visitor)?;
                walk_mut(&mut change.returning, visitor)
            }
            Statement::Merge(merge) => walk_mut(merge.query.as_mut(), visitor),
            Statement::Subscribe(subscribe) => walk_mut(subscribe.query.as_mut(), visitor),
            Statement::Replay(replay) => walk_mut(replay.query.as_mut(), visitor),
            Statement::Inspect(inspect) => walk_mut(inspect.query.as_mut(), visitor),
            _ => ControlFlow::Continue(()),
        }
    }

    /// The setting that it shows, in lower case, its parts joined by points: SHOW timezone.
    pub fn shown_setting(&self) -> Option<String> {
        let Statement::Query(node) = self else { return None };
        let ast::Statement::ShowVariable { variable } = node.as_ref() else { return None };
        let words: Vec<String> = variable.iter().map(|word| word.value.to_lowercase()).collect();
        Some(words.join(if words.len() > 1 && words[0] == "transaction" { " " } else { "." }))
    }

    /// What it is called: "SELECT", "CREATE TABLE", ….
    pub fn kind(&self) -> &'static str {
        match self {
            Statement::Query(node) if matches!(**node, ast::Statement::Explain { .. }) => "EXPLAIN",
            Statement::Query(_) => "SELECT",
            Statement::Insert(_) => "INSERT",
            Statement::CreateTable(_) => "CREATE TABLE",
            Statement::CreateView(_) => "CREATE VIEW",
            Statement::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            Statement::RefreshView { .. } => "REFRESH MATERIALIZED VIEW",
            Statement::DropView { materialized: false, .. } => "DROP VIEW",
            Statement::DropView { materialized: true, .. } => "DROP MATERIALIZED VIEW",
            Statement::CreateStream { .. } => "CREATE STREAM",
            Statement::AlterStream { .. } => "ALTER STREAM",
            Statement::DropStream { .. } => "DROP STREAM",
            Statement::Subscribe(_) => "SUBSCRIBE",
            Statement::Replay(_) => "REPLAY",
            Statement::DropTable { .. } => "DROP TABLE",
            Statement::AlterTable { .. } => "ALTER TABLE",
            Statement::Change(change) if change.columns.is_empty() => "DELETE",
            Statement::Change(_) => "UPDATE",
            Statement::Merge(_) => "MERGE",
            Statement::Truncate { .. } => "TRUNCATE",
            Statement::Begin { .. } => "BEGIN",
            Statement::SetTransaction { .. } => "SET",
            Statement::DeclareCursor { .. } => "DECLARE CURSOR",
            Statement::Fetch { moves: false, .. } => "FETCH",
            Statement::Fetch { moves: true, .. } => "MOVE",
            Statement::CloseCursor { .. } => "CLOSE CURSOR",
            Statement::Reset { .. } => "RESET",
            Statement::Discard => "DISCARD ALL",
            Statement::Listen { .. } => "LISTEN",
            Statement::Unlisten { .. } => "UNLISTEN",
            Statement::Commit => "COMMIT",
            Statement::Rollback => "ROLLBACK",
            Statement::Checkpoint { .. } | Statement::Hold | Statement::Release => "CHECKPOINT",
            Statement::Optimize { .. } => "OPTIMIZE",
            Statement::CopyFrom { .. } => "COPY FROM",
            Statement::CopyTo { .. } => "COPY TO",
            Statement::Prepare { .. } => "PREPARE",
            Statement::Execute { .. } => "EXECUTE",
            Statement::Deallocate { .. } => "DEALLOCATE",
            Statement::Set { .. } => "SET",
            Statement::CancelQuery { .. } => "CANCEL QUERY",
            Statement::Accounts(accounts) => accounts.kind(),
            Statement::Inspect(inspect) if inspect.summarizes => "SUMMARIZE",
            Statement::Inspect(_) => "DESCRIBE",
            Statement::ShowTables
            | Statement::ShowViews
            | Statement::ShowStreams
            | Statement::ShowQueries
            | Statement::ShowMetrics
            | Statement::ShowConfig
            | Statement::ShowFunctions { .. }
            | Statement::ShowCreate { .. }
            | Statement::ShowPartitions { .. }
            | Statement::ShowColumns { .. } => "SHOW",
        }
    }

    /// Its text without the password, where it may have one, which is written nowhere.
    pub fn without_secret(&self) -> Option<String> {
        match self {
            Statement::Accounts(accounts) => accounts.without_secret(),
            _ => None,
        }
    }

    /// Whether it is an INSERT of rows that stand in it.
    pub fn inserts_values(&self) -> bool {
        let Statement::Insert(node) = self else { return false };
        let ast::Statement::Insert(insert) = node.as_ref() else { return false };
        let source = insert.source.as_ref().map(|query| query.body.as_ref());
        matches!(source, Some(ast::SetExpr::Values(_)))
    }

    /// Whether it gives rows.
    pub fn gives_rows(&self) -> bool {
        self.only_reads() || self.returns_rows()
    }

    /// Whether it changes rows and gives them: INSERT, UPDATE, DELETE with RETURNING.
    pub fn returns_rows(&self) -> bool {
        match self {
            Statement::Insert(node) => {
                matches!(node.as_ref(), ast::Statement::Insert(ast::Insert { returning: Some(_), .. }))
            }
            Statement::Change(change) => change.returning.is_some(),
            Statement::Accounts(accounts) => matches!(**accounts, Accounts::CreateToken { .. }),
            _ => false,
        }
    }

    /// Whether it gives rows and changes nothing.
    pub fn only_reads(&self) -> bool {
        let asks = matches!(
            self,
            Statement::Query(_) | Statement::Inspect(_) | Statement::Subscribe(_) | Statement::Replay(_)
        );
        asks || self.shows()
    }

    /// Whether it shows what is there, without a query.
    fn shows(&self) -> bool {
        self.kind() == "SHOW"
    }

    /// Whether it is done at once, whatever the database holds.
    pub(crate) fn is_instant(&self) -> bool {
        let of_session = matches!(
            self,
            Statement::Begin { .. }
                | Statement::SetTransaction { .. }
                | Statement::Rollback
                | Statement::Prepare { .. }
                | Statement::Deallocate { .. }
                | Statement::Set { .. }
                | Statement::Reset { .. }
                | Statement::Discard
                | Statement::CancelQuery { .. }
        );
        of_session || self.shows()
    }

    /// Whether it adds rows.
    pub fn adds_rows(&self) -> bool {
        matches!(
            self,
            Statement::Insert(_)
                | Statement::Merge(_)
                | Statement::CreateTable(_)
                | Statement::CopyFrom { .. }
        )
    }

    /// Whether it changes what the database holds.
    pub(crate) fn writes(&self) -> bool {
        matches!(
            self,
            Statement::Insert(_)
                | Statement::CreateTable(_)
                | Statement::CreateView(_)
                | Statement::CreateMaterializedView(_)
                | Statement::RefreshView { .. }
                | Statement::DropView { .. }
                | Statement::CreateStream { .. }
                | Statement::AlterStream { .. }
                | Statement::DropStream { .. }
                | Statement::DropTable { .. }
                | Statement::AlterTable { .. }
                | Statement::Change(_)
                | Statement::Merge(_)
                | Statement::Truncate { .. }
                | Statement::CopyFrom { .. }
        ) || matches!(self, Statement::Accounts(accounts) if !accounts.shows())
    }

    /// Whether it reads rows of tables or files, so that it can end before it has read them all.
    pub(crate) fn reads_rows(&self) -> bool {
        matches!(
            self,
            Statement::Query(_)
                | Statement::Inspect(_)
                | Statement::Execute { .. }
                | Statement::Insert(_)
                | Statement::CreateTable(_)
                | Statement::Change(_)
                | Statement::Merge(_)
                | Statement::CopyFrom { .. }
                | Statement::CopyTo { .. }
                | Statement::RefreshView { .. }
                | Statement::Subscribe(_)
                | Statement::Replay(_)
        )
    }
}

/// DESCRIBE or SUMMARIZE of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspect {
    /// The query.
    pub query: Box<ast::Query>,
    /// Whether it is read, and its columns summed up.
    pub summarizes: bool,
}

/// One change of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterTable {
    /// ADD [COLUMN] [IF NOT EXISTS] name type.
    AddColumn {
        /// The new column.
        name: String,
        /// Its type.
        column_type: ColumnType,
        /// Whether a column of that name is no error.
        if_not_exists: bool,
    },
    /// DROP [COLUMN] [IF EXISTS] name.
    DropColumn {
        /// The column, as written.
        name: String,
        /// Whether a missing one is no error.
        if_exists: bool,
    },
    /// RENAME [COLUMN] from TO to.
    RenameColumn {
        /// The column, as written.
        from: String,
        /// Its new name.
        to: String,
    },
    /// RENAME TO name.
    Rename {
        /// The table's new name.
        to: String,
    },
    /// ADD INDEX (columns), as written.
    AddIndex(Vec<String>),
    /// DROP INDEX (columns), as written.
    DropIndex(Vec<String>),
    /// SET TTL 30 DAYS, SET TTL NONE: as written.
    SetTtl(Option<String>),
    /// DROP PARTITION ….
    DropPartitions(Partitions),
}

/// Which partitions go.
#[derive(Debug, Clone, PartialEq)]
pub enum Partitions {
    /// LIST 'name', …: as `SHOW PARTITIONS` names them.
    List(Vec<String>),
    /// WHERE condition on the designated timestamp: those that lie in it whole. A query of the rows it holds for.
    Where(Box<ast::Query>),
}

/// Rows of a table that go or get new values.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeRows {
    /// The table, as written.
    pub table: String,
    /// The columns that get new values, as written, and where; none where the rows go.
    pub columns: Vec<(String, Position)>,
    /// Whether other tables are joined, so that a row may be found several times.
    pub joined: bool,
    /// Yields the number of each row, then its new values.
    pub query: Box<ast::Query>,
    /// What is asked of the rows that go, or of those that have new values.
    pub returning: Option<Vec<ast::SelectItem>>,
    /// What these call the table, where that is not its name.
    pub alias: Option<String>,
}

/// Rows that are stored where they meet those of a table, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeRows {
    /// The table, as written.
    pub table: String,
    /// What each clause does, in their order.
    pub clauses: Vec<MergedClause>,
    /// Yields the number of a row's clause, from 0, then each clause's values in turn, then the columns of the table,
    /// and TRUE where there is a row of it.
    pub query: Box<ast::Query>,
}

/// What MERGE does with the rows of a clause.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedClause {
    /// Whether the row of the table gets new values; else there is a new row.
    pub is_update: bool,
    /// The columns that get its values, as written, and where. Those of a new row have no names where they go by place.
    pub columns: Vec<(String, Position)>,
}

/// What COPY … TO writes.
#[derive(Debug, Clone, PartialEq)]
pub enum CopySource {
    /// All rows of a table.
    Table {
        /// Its name.
        name: String,
        /// Which columns; all of them where there are none.
        columns: Vec<String>,
    },
    /// The rows of a query.
    Query(Box<ast::Query>),
}

/// Where the rows of COPY come from or go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEnd {
    /// A file, as written.
    File(String),
    /// STDIN, STDOUT: the connection that the statement came by.
    Client,
}

/// CREATE TABLE [IF NOT EXISTS] name (columns) | AS (query), and the clauses after it.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// The new table's name, spelled as written.
    pub name: String,
    /// Whether an existing table of that name is no error.
    pub if_not_exists: bool,
    /// Whether it takes the place of an existing table of that name.
    pub replaces: bool,
    /// Whether it is of this session alone.
    pub temporary: bool,
    /// Names and types; empty where a query gives them.
    pub columns: Vec<(String, ColumnType)>,
    /// TIMESTAMP(column).
    pub timestamp: Option<String>,
    /// SERIES BY (columns); `None`: the default, empty: none at all.
    pub series: Option<Vec<String>>,
    /// PARTITION BY unit.
    pub partition_by: Option<PartitionBy>,
    /// TTL as written, such as "30 DAYS".
    pub ttl: Option<String>,
    /// Columns of DEDUP UPSERT KEYS (…).
    pub dedup: Option<Vec<String>>,
    /// Columns of INDEX (…).
    pub indexed: Option<Vec<String>>,
    /// WITH (sync = '…').
    pub sync: Option<SyncPolicy>,
    /// CREATE TABLE … AS (query).
    pub query: Option<Box<ast::Query>>,
    /// CREATE TABLE … AS STREAM 'name' FORMAT ….
    pub stream: Option<TableStream>,
    /// Where the name stands, for errors about the table.
    pub time_position: Position,
}

/// AS STREAM 'name' FORMAT json | csv | ilp [EPOCH unit] [RENAME 'key=column,…'].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStream {
    /// The stream, as written.
    pub name: String,
    /// How its documents are written.
    pub format: StreamFormat,
    /// The unit of whole numbers that are times; `None` where they are none.
    pub epoch: Option<String>,
    /// Keys of the documents that are columns of another name, and these names.
    pub renames: Vec<(String, String)>,
    /// Where they stand.
    pub renames_position: Position,
}

/// CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name AS query.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// The view's name, spelled as written.
    pub name: String,
    /// Whether a view of that name gets this query.
    pub or_replace: bool,
    /// Whether an existing view of that name is no error, and stays as it is.
    pub if_not_exists: bool,
    /// The query as it was written.
    pub text: String,
    /// The same, read.
    pub query: Box<ast::Query>,
    /// Where the name stands, for errors about the view.
    pub position: Position,
}

/// CREATE MATERIALIZED VIEW [IF NOT EXISTS] name AS query [PARTITION BY unit] [TTL time].
#[derive(Debug, Clone, PartialEq)]
pub struct CreateMaterializedView {
    /// The view's name, spelled as written.
    pub name: String,
    /// Whether an existing view of that name is no error, and stays as it is.
    pub if_not_exists: bool,
    /// The query as it was written.
    pub text: String,
    /// The same, read.
    pub query: Box<ast::Query>,
    /// How long its partitions are.
    pub partition_by: Option<PartitionBy>,
    /// How long its rows are kept, as written.
    pub ttl: Option<String>,
    /// Where the name stands, for errors about the view.
    pub position: Position,
}

/// SUBSCRIBE.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscribe {
    /// What is heard: rows of one table that pass a condition, or its bars.
    pub query: Box<ast::Query>,
    /// Where it begins.
    pub from: SubscribeFrom,
    /// WITH (name = value, …), names in lower case.
    pub options: Vec<(String, String)>,
    /// Where the query begins.
    pub position: Position,
}

/// Where a subscription begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscribeFrom {
    /// With what comes after this moment.
    Now,
    /// With the rows there are, in order of time.
    Beginning,
    /// After a position that an earlier subscription gave.
    After(String),
}

/// REPLAY.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// What is heard, without an order.
    pub query: Box<ast::Query>,
    /// The first instant, as written.
    pub from: Option<String>,
    /// The instant before which it ends, as written.
    pub to: Option<String>,
    /// How many times as fast as it was; `None` for as fast as it can be.
    pub speed: Option<f64>,
    /// Where the query begins.
    pub position: Position,
}

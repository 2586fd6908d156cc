//! Tickstone's SQL text as statements.
//!
//! Owns the clauses that no SQL parser knows (SAMPLE BY, LATEST ON, ASOF JOIN, the tail of CREATE
//! TABLE, …). Never plans and never looks at a catalog: [`resolve_names`] is told what tables there are.
//!
//! ```text
//! text -> cursor (tokens, statements) -> clause (cut ours out) -> sqlparser -> restructure (markers) -> Statement
//!                                     \-> table, copy (statements read by hand) -----------------------^
//! Statement, catalog -> names (spelling) -> listed (columns of lists, USING) -> planning
//! ```
//!
//! Enter at [`parse`]. Marker relations (`marker`) are the contract with [`crate::operators`], which
//! plans them. Every error is a [`SqlError`] with the line and column of the original text.

mod accounts;
mod advice;
mod again;
mod alike;
mod alter;
mod by_name;
mod callable;
mod calls;
mod cancel;
mod chains;
pub(crate) mod change;
mod clause;
mod columns;
mod connection;
mod copy;
mod cursor;
mod defined;
pub(crate) mod digits;
mod distinct;
mod exclude;
mod fby;
mod fields;
mod files;
mod from_first;
mod grammar;
mod grouping;
mod instants;
mod items;
mod limits;
mod listed;
mod long_lists;
pub(crate) mod marker;
pub(crate) mod materialized;
mod merge;
mod names;
mod ordered;
mod outer_names;
mod outside;
pub(crate) mod pivot;
mod prepare;
mod references;
mod repeated;
mod restructure;
mod rows;
pub(crate) mod sample;
pub(crate) mod series_join;
mod settings;
mod show;
mod slips;
mod statement;
mod stream;
mod subscribe;
mod syntax;
mod table;
mod temporary;
mod unnested;
mod using;
mod view;
mod volatile;
mod walks;
mod windows;
mod work;
pub(crate) mod zone;

pub use crate::error::{Position, SqlError};
pub use accounts::{Accounts, On, Secret};
pub(crate) use again::{cast_uuids, has_casts_or_uuids, name_casts};
pub(crate) use callable::is_callable;
pub use calls::{Callable, CallableKind};
pub(crate) use change::{returning_query, with_old_values};
pub(crate) use digits::{kept_as, number_kept};
pub(crate) use fields::{fields_wanted, item_of, place_fields};
pub(crate) use files::{FileCall, OptionValue, place_files};
pub(crate) use long_lists::{Item, bytes_of_long_lists, items as items_of_long_list};
pub use names::resolve_names;
pub(crate) use outside::{mend_catalog, search_in_lists, searched, searched_placeholders};
pub use references::tables_read;
pub(crate) use references::{Met, names_read};
pub(crate) use repeated::unique as unique_names;
pub(crate) use restructure::{inside_text, open_interval};
pub(crate) use rows::ROW;
pub use statement::{
    AlterTable, ChangeRows, CopyEnd, CopySource, CreateMaterializedView, CreateTable, CreateView, Inspect,
    MergeRows, MergedClause, Partitions, Replay, Statement, Subscribe, SubscribeFrom, TableStream,
};
pub(crate) use table::renames_of;
pub(crate) use temporary::{name_temporaries, target_of_insert};
pub use view::{Found, FoundView, ReadsAs, expand_views};
pub(crate) use view::{VIEW_DEPTH_MAX, has_name, in_order_of, order_by, query_of_view, within_times};
pub(crate) use view::{own_of_rightful, read_by_right, rightful, without_rightful};
pub use walks::walk_statement;
pub(crate) use walks::{walk, walk_mut};

use cursor::{Cursor, Tokens};
use grammar::Grammar;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// Reads a text of any number of statements, separated by semicolons.
///
/// # Errors
/// [`SqlError`] for the first statement that is none of the language.
pub fn parse(sql: &str) -> Result<Vec<Statement>, SqlError> {
    cursor::statements(sql)?.iter().map(|tokens| on_stack(tokens, || statement(tokens, sql))).collect()
}

/// As [`parse`], each statement with its own part of the text.
///
/// # Errors
/// As [`parse`].
pub fn parse_with_texts(sql: &str) -> Result<Vec<(Arc<str>, Statement)>, SqlError> {
    let statements = cursor::statements(sql)?;
    let mut places = view::Places::of(sql);
    let one = |tokens: &Tokens| {
        let text = places.text_of(tokens).into();
        on_stack(tokens, || Ok((text, statement(tokens, sql)?)))
    };
    statements.iter().map(one).collect()
}

/// Reads a statement where there is stack for the deepest tree that its tokens can make.
fn on_stack<T>(tokens: &Tokens, read: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
    crate::stack::with_stack(limits::stack_bytes(tokens)?, read)
}

/// Reads a statement by hand.
type Read = fn(&mut Cursor<'_>) -> cursor::Result<Statement>;

/// The first words of statements, and what reads them.
const READ_BY_HAND: [(&[&str], Read); 49] = [
    (&["PIVOT"], pivot::pivot),
    (&["CREATE", "TABLE"], table::create_table),
    (&["CREATE", "OR", "REPLACE", "TABLE"], table::create_table),
    (&["CREATE", "TEMP"], table::create_table),
    (&["CREATE", "TEMPORARY"], table::create_table),
    (&["CREATE", "OR", "REPLACE", "TEMP"], table::create_table),
    (&["CREATE", "OR", "REPLACE", "TEMPORARY"], table::create_table),
    (&["CREATE", "STREAM"], stream::create),
    (&["ALTER", "STREAM"], stream::alter),
    (&["DROP", "STREAM"], stream::drop),
    (&["DROP", "VIEW"], view::drop_view),
    (&["DROP", "MATERIALIZED"], view::drop_view),
    (&["REFRESH"], materialized::refresh),
    (&["DROP", "TABLE"], table::drop_table),
    (&["ALTER", "TABLE"], alter::alter_table),
    (&["ALTER", "MATERIALIZED"], alter::alter_table),
    (&["ALTER", "VIEW"], accounts::alter_view),
    (&["RENAME", "TABLE"], alter::alter_table),
    (&["TRUNCATE"], table::truncate),
    (&["COPY"], copy::copy),
    (&["SET"], settings::set),
    (&["RESET"], settings::reset),
    (&["PREPARE"], prepare::prepare),
    (&["EXECUTE"], prepare::execute),
    (&["DEALLOCATE"], prepare::deallocate),
    (&["CANCEL"], cancel::cancel),
    (&["DESCRIBE"], show::describe),
    (&["DESC"], show::describe),
    (&["SUMMARIZE"], show::summarize),
    (&["BEGIN"], connection::begin),
    (&["START", "TRANSACTION"], connection::begin),
    (&["DECLARE"], connection::declare),
    (&["FETCH"], connection::fetch),
    (&["MOVE"], connection::fetch),
    (&["CLOSE"], connection::close),
    (&["DISCARD"], connection::discard),
    (&["LISTEN"], connection::listen),
    (&["UNLISTEN"], connection::unlisten),
    (&["CREATE", "USER"], accounts::create),
    (&["CREATE", "ROLE"], accounts::create),
    (&["ALTER", "USER"], accounts::alter),
    (&["ALTER", "ROLE"], accounts::alter),
    (&["DROP", "USER"], accounts::drop),
    (&["DROP", "ROLE"], accounts::drop),
    (&["CREATE", "TOKEN"], accounts::create_token),
    (&["DROP", "TOKEN"], accounts::drop_token),
    (&["REASSIGN"], accounts::reassign),
    (&["SUBSCRIBE"], subscribe::subscribe),
    (&["REPLAY"], subscribe::replay),
];

fn statement(tokens: &Tokens, sql: &str) -> Result<Statement, SqlError> {
    let mut cursor = Cursor::new(&tokens.tokens, 0, tokens.end);
    let finish = |mut cursor: Cursor<'_>, words: usize, statement: Statement| {
        cursor.skip(words);
        for filler in ["TRANSACTION", "WORK"] {
            cursor.eat(&[filler]);
        }
        cursor.expect_end().map(|()| statement)
    };
    for words in [&["CREATE", "MATERIALIZED"][..], &["CREATE", "OR", "REPLACE", "MATERIALIZED"]] {
        if cursor.words(words) {
            return materialized::create(&mut cursor, sql);
        }
    }
    if cursor.words(&["GRANT"]) || cursor.words(&["REVOKE"]) {
        return accounts::grant(&mut cursor, sql);
    }
    if cursor.words(&["CREATE", "VIEW"]) || cursor.words(&["CREATE", "OR", "REPLACE", "VIEW"]) {
        return view::create_view(&mut cursor, sql);
    }
    for words in [&["SAVEPOINT"][..], &["RELEASE"], &["ROLLBACK", "TO"], &["ROLLBACK", "WORK", "TO"]] {
        if cursor.words(words) {
            return Err(SqlError::new("savepoints are not supported", cursor.position())
                .hint("a transaction is committed or rolled back as a whole"));
        }
    }
    accounts::refuse_of_others(&cursor)?;
    if let Some((_, read)) = READ_BY_HAND.iter().find(|(words, _)| cursor.words(words)) {
        return read(&mut cursor);
    }
    if cursor.words(&["COMMIT"]) || cursor.words(&["END"]) {
        return finish(cursor, 1, Statement::Commit);
    }
    if cursor.words(&["ROLLBACK"]) || cursor.words(&["ABORT"]) {
        return finish(cursor, 1, Statement::Rollback);
    }
    if cursor.eat(&["CHECKPOINT"]) {
        for (word, statement) in [("HOLD", Statement::Hold), ("RELEASE", Statement::Release)] {
            if cursor.eat(&[word]) {
                return cursor.expect_end().map(|()| statement);
            }
        }
        let table = if cursor.is_end() { None } else { Some(cursor.table_name()?) };
        cursor.expect_end()?;
        return Ok(Statement::Checkpoint { table });
    }
    if cursor.eat(&["OPTIMIZE"]) {
        cursor.expect(&["TABLE"])?;
        let (table, archive) = (cursor.table_name()?, cursor.eat(&["ARCHIVE"]));
        cursor.expect_end()?;
        return Ok(Statement::Optimize { table, archive });
    }
    if cursor.words(&["SHOW"])
        && let Some(statement) = show::show(&mut cursor)?
    {
        return Ok(statement);
    }
    query_or_insert(tokens)
}

/// Everything that the parser reads once our clauses are out.
fn query_or_insert(tokens: &Tokens) -> Result<Statement, SqlError> {
    let (mut cut, clauses) = clause::cut(tokens).map_err(|e| advice::advise(e, tokens))?;
    join_words(&mut cut.tokens);
    let length = cut.tokens.len();
    let grammar = Grammar::new(length);
    let mut parser = grammar.parser(cut.tokens.clone());
    let parsed = parser.parse_statement();
    let mut parsed = grammar.told(parsed, cut.end).map_err(|e| advice::advise(e, tokens))?;
    if parser.index() < length {
        let mut cursor = Cursor::new(&cut.tokens, 0, cut.end);
        cursor.skip(parser.index());
        return Err(advice::advise(cursor.expected("the end of the statement"), tokens));
    }
    outside::mend(&mut parsed);
    windows::place(&mut parsed);
    syntax::check_statement(&mut parsed, &tokens.tokens)?;
    distinct::place(&mut parsed);
    zone::place(&mut parsed);
    rows::place(&mut parsed)?;
    slips::mend(&mut parsed)?;
    alike::tell_apart(&mut parsed)?;
    restructure::restructure(&mut parsed, clauses)?;
    match parsed {
        ast::Statement::Insert(_) => Ok(Statement::Insert(Box::new(parsed))),
        ast::Statement::Delete(delete) => change::delete(delete, start(tokens)),
        ast::Statement::Update(update) => change::update(update, start(tokens)),
        ast::Statement::Merge(of) => merge::merge(of, start(tokens)),
        ast::Statement::Explain { ref statement, .. } if !matches!(**statement, ast::Statement::Query(_)) => {
            let error = SqlError::new("EXPLAIN is of a query, and this is none", start(tokens));
            Err(error.hint("EXPLAIN the SELECT that it reads"))
        }
        ast::Statement::Query(_) | ast::Statement::Explain { .. } | ast::Statement::ShowVariable { .. } => {
            Ok(Statement::Query(Box::new(parsed)))
        }
        ast::Statement::ShowFunctions { filter: None } => Ok(Statement::ShowFunctions { like: None }),
        ast::Statement::ShowFunctions { filter: Some(ast::ShowStatementFilter::Like(like)) } => {
            Ok(Statement::ShowFunctions { like: Some(like) })
        }
        _ => Err(SqlError::new("this statement is not supported", start(tokens)).hint(instead(tokens))),
    }
}

/// What does the work of a statement that other databases have.
fn instead(tokens: &Tokens) -> &'static str {
    let cursor = Cursor::new(&tokens.tokens, 0, tokens.end);
    if cursor.words(&["CREATE", "INDEX"]) {
        "SERIES BY (symbol) in CREATE TABLE stores the rows of a symbol together; nothing else is indexed"
    } else if cursor.words(&["USE"])
        || cursor.words(&["CREATE", "DATABASE"])
        || cursor.words(&["SHOW", "DATABASES"])
    {
        "a directory is one database: open another with --data"
    } else {
        "see the list of statements in the SQL reference"
    }
}

/// Where a statement begins.
fn start(tokens: &Tokens) -> Position {
    Cursor::new(&tokens.tokens, 0, tokens.end).position()
}

/// Makes words that the parser does not know in this order such that it does.
fn join_words(tokens: &mut Vec<TokenWithSpan>) {
    outside::join_words(tokens);
    distinct::join_words(tokens);
    grouping::join_words(tokens);
    sample::join_words(tokens);
    join_stars(tokens);
    unwrap_rows(tokens);
    from_first::join_words(tokens);
    from_first::name_columns(tokens);
}

/// `INSERT INTO t (VALUES …)`, and a query in brackets, as one without.
fn unwrap_rows(tokens: &mut Vec<TokenWithSpan>) {
    let Some(end) = tokens.last().map(|token| token.span.end) else { return };
    let end = Position { line: end.line, column: end.column };
    let (open, close) = {
        let mut cursor = Cursor::new(tokens, 0, end);
        if !cursor.eat(&["INSERT", "INTO"]) || cursor.table_name().is_err() {
            return;
        }
        let open = tokens.len() - cursor.rest().len();
        let is_query = |cursor: &Cursor<'_>| {
            ["VALUES", "SELECT", "WITH", "FROM"].iter().any(|word| cursor.words(&[word]))
        };
        if !cursor.eat_token(&Token::LParen) || !is_query(&cursor) {
            return;
        }
        let Some(length) = cursor.closing() else { return };
        (open, open + 1 + length)
    };
    tokens.remove(close);
    tokens.remove(open);
}

/// `a ** b` as `a ^ b`.
fn join_stars(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 1 < tokens.len() {
        let (first, second) = (&tokens[at], &tokens[at + 1]);
        let adjoin =
            first.token == Token::Mul && second.token == Token::Mul && first.span.end == second.span.start;
        if adjoin {
            tokens[at].token = Token::Caret;
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// A query on its own, such as the one in CREATE TABLE … AS (…).
fn parse_query(tokens: &Tokens) -> Result<Box<ast::Query>, SqlError> {
    let (mut cut, clauses) = clause::cut(tokens).map_err(|e| advice::advise(e, tokens))?;
    join_words(&mut cut.tokens);
    let grammar = Grammar::new(cut.tokens.len());
    let mut parser = grammar.parser(cut.tokens.clone());
    let parsed = parser.parse_query();
    let mut query = grammar.told(parsed, cut.end).map_err(|e| advice::advise(e, tokens))?;
    let mut cursor = Cursor::new(&cut.tokens, 0, cut.end);
    cursor.skip(parser.index());
    if !matches!(cursor.peek(), None | Some(Token::EOF)) {
        return Err(cursor.expected("the end of the query"));
    }
    outside::mend(query.as_mut());
    windows::place(query.as_mut());
    syntax::check_query(&mut query, &tokens.tokens)?;
    distinct::place(query.as_mut());
    zone::place(query.as_mut());
    rows::place(query.as_mut())?;
    slips::mend(query.as_mut())?;
    alike::tell_apart(query.as_mut())?;
    restructure::restructure(query.as_mut(), clauses)?;
    Ok(query)
}

#[cfg(test)]
mod tests;

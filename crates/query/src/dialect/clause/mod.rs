//! The token pass: cuts our clauses out of a statement and leaves what the parser accepts.
//!
//! ```text
//! SAMPLE BY 1m FILL(PREV)                      ->  GROUP BY __clause(0)
//! SAMPLE BY VOLUME(amount) 100                 ->  GROUP BY __clause(0)
//! LATEST ON ts PARTITION BY symbol             ->  GROUP BY __clause(1)
//! ts IN '2024-08'                              ->  ts IN (__clause(3))
//! nbbo(TABLE quotes, …)                        ->  nbbo((SELECT * FROM quotes), …)
//! PIVOT (… IN (…) GROUP BY ts, symbol)         ->  PIVOT (… IN (…) DEFAULT ON NULL (__pivot_groups(ts, symbol)))
//! a ASOF JOIN b ON (symbol) TOLERANCE 5s       ->  a LEFT JOIN b ON __clause(2)     (LT JOIN alike)
//! ROWS … AND CURRENT ROW EXCLUDE CURRENT ROW   ->  ROWS BETWEEN … AND 1 PRECEDING     (exclude)
//! a WINDOW JOIN b ON (symbol) RANGE BETWEEN …  ->  a LEFT JOIN b ON __clause(4)     (HORIZON, SPLICE alike)
//! ```
//!
//! One walk from left to right, aware of brackets, so that clauses may stand in sub-queries, CTEs,
//! unions and joins. Tokens keep their places; a placeholder takes that of the clause it stands for.

mod asof;
mod interval;
mod joins;
mod latest_on;
mod lengths;
mod nbbo;
mod pivot;
mod sample_by;
mod series_join;

use super::cursor::{Cursor, Result, Tokens, is_word, span};
use super::{Position, SqlError, exclude};
use sqlparser::tokenizer::{Token, TokenWithSpan};

pub(super) use asof::AsOfClause;
pub(crate) use asof::{AsOfKind, Direction};
pub(super) use interval::{IntervalClause, OPEN_INTERVAL, intervals};
use joins::{JoinKind, Pending};
pub(super) use latest_on::LatestClause;
pub(crate) use lengths::NO_TIME;
use pivot::Pivot;
pub(crate) use sample_by::{BarClause, BarKind};
pub(super) use sample_by::{Every, SampleClause};
pub(crate) use series_join::SeriesJoinKind;
pub(super) use series_join::{SeriesJoinClause, side_of};

/// The function whose only argument is the index of a clause that was cut out.
pub(super) const PLACEHOLDER: &str = "__clause";

/// A clause that was cut out.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
#[derive(Debug, Clone)]
pub(super) enum Clause {
    Sample(SampleClause),
    Latest(LatestClause),
    AsOf(AsOfClause),
    Series(SeriesJoinClause),
    Interval(IntervalClause),
}

/// Cuts the clauses out of a statement.
pub(super) fn cut(statement: &Tokens) -> Result<(Tokens, Vec<Clause>)> {
    let mut pass = Pass {
        cursor: Cursor::new(&statement.tokens, 0, statement.end),
        out: Vec::with_capacity(statement.tokens.len()),
        clauses: Vec::new(),
        pending: Vec::new(),
        depth: 0,
        positions: Vec::new(),
        pivots: Vec::new(),
    };
    pass.run()?;
    Ok((Tokens { tokens: pass.out, end: statement.end }, pass.clauses))
}

struct Pass<'t> {
    cursor: Cursor<'t>,
    out: Vec<TokenWithSpan>,
    clauses: Vec<Clause>,
    pending: Vec<Pending>,
    depth: usize,
    /// Depths inside the brackets of POSITION(text IN text).
    positions: Vec<usize>,
    pivots: Vec<Pivot>,
}

impl<'t> Pass<'t> {
    fn run(&mut self) -> Result<()> {
        while !self.cursor.is_end() {
            self.finish_joins(false)?;
            // The clause of a join may be the last before a bracket, or the end.
            let Some(token) = self.cursor.peek() else { break };
            if !self.clause()? {
                self.token(token);
            }
        }
        self.finish_joins(true)
    }

    /// Takes the clause that begins here; says whether one does.
    fn clause(&mut self) -> Result<bool> {
        let cursor = &self.cursor;
        if cursor.words(&["SAMPLE", "BY"]) {
            self.grouping("SAMPLE BY", sample_by::read)?;
        } else if latest_on::begins(cursor) {
            self.grouping("LATEST ON", latest_on::read)?;
        } else if let Some((kind, words)) = AsOfKind::begins(cursor) {
            self.join(JoinKind::AsOf(kind), words)?;
        } else if let (Some(kind), false) = (SeriesJoinKind::begins(cursor), self.out.is_empty()) {
            self.join(JoinKind::Series(kind), 2)?;
        } else if let (true, Some(Token::SingleQuotedString(text))) = (cursor.words(&["IN"]), cursor.ahead(1))
            && self.positions.last() != Some(&self.depth)
        {
            self.interval(text)?;
        } else if self.cursor.words(&["IN"])
            && self.cursor.is_placeholder(1)
            && self.positions.last() != Some(&self.depth)
        {
            self.open_interval();
        } else if exclude::begins(cursor) {
            exclude::clause(&mut self.cursor, &mut self.out)?;
        } else if cursor.words(&["TABLE"]) && self.is_in_nbbo() {
            self.table_argument()?;
        } else {
            self.refuse_placeholder()?;
            return self.pivot_group();
        }
        Ok(true)
    }

    /// Takes a token that is the parser's, and counts brackets.
    fn token(&mut self, token: &Token) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.depth += 1;
                let after = |word: &str| self.out.last().is_some_and(|before| is_word(&before.token, word));
                if after("POSITION") {
                    self.positions.push(self.depth);
                } else if after("PIVOT") {
                    self.open_pivot();
                }
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                self.positions.pop_if(|depth| *depth == self.depth);
                self.close_pivot(self.cursor.position());
                self.depth = self.depth.saturating_sub(1);
            }
            _ => {}
        }
        self.copy(1);
    }

    /// A clause that stands where GROUP BY does.
    fn grouping(&mut self, name: &str, read: fn(&mut Cursor<'t>) -> Result<Clause>) -> Result<()> {
        let position = self.cursor.position();
        self.refuse_before(name, position)?;
        let clause = read(&mut self.cursor)?;
        self.refuse_after(name)?;
        self.keywords(&["GROUP", "BY"], position);
        self.placeholder(position, clause);
        Ok(())
    }

    /// ORDER BY and LIMIT of the same query stand after the clause.
    fn refuse_before(&self, clause: &str, position: Position) -> Result<()> {
        let mut depth = 0_usize;
        for token in self.out.iter().rev().map(|token| &token.token) {
            match token {
                Token::RParen => depth += 1,
                Token::LParen if depth == 0 => return Ok(()),
                Token::LParen => depth -= 1,
                token if depth == 0 && (is_word(token, "SELECT") || is_word(token, "UNION")) => return Ok(()),
                token if depth == 0 && (is_word(token, "ORDER") || is_word(token, "LIMIT")) => {
                    return Err(SqlError::new(format!("{clause} stands before {token}"), position)
                        .hint(format!("write … FROM t WHERE … {clause} … ORDER BY … LIMIT …")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse_after(&self, clause: &str) -> Result<()> {
        if self.cursor.words(&["WHERE"]) {
            return Err(SqlError::new(format!("WHERE stands before {clause}"), self.cursor.position())
                .hint(format!("write … FROM t WHERE … {clause} …")));
        }
        if self.cursor.peek() == Some(&Token::Comma) {
            return Err(self.cursor.expected("the end of the statement"));
        }
        if self.cursor.words(&["GROUP", "BY"]) {
            let message = format!("{clause} and GROUP BY exclude each other");
            return Err(SqlError::new(message, self.cursor.position())
                .hint("put one of them into a sub-query; SAMPLE BY groups by every selected non-aggregate"));
        }
        Ok(())
    }

    fn refuse_placeholder(&self) -> Result<()> {
        if let Some(Token::Word(word)) = self.cursor.peek()
            && word.value == PLACEHOLDER
        {
            return Err(SqlError::new(format!("{PLACEHOLDER} is reserved"), self.cursor.position()));
        }
        Ok(())
    }

    /// Takes tokens as they are.
    fn copy(&mut self, count: usize) {
        self.out.extend(self.cursor.rest().iter().take(count).cloned());
        self.cursor.skip(count);
    }

    fn keywords(&mut self, words: &[&str], position: Position) {
        for word in words {
            self.push(Token::make_keyword(word), position);
        }
    }

    fn placeholder(&mut self, position: Position, clause: Clause) {
        self.push(Token::make_word(PLACEHOLDER, None), position);
        self.push(Token::LParen, position);
        self.push(Token::Number(self.clauses.len().to_string(), false), position);
        self.push(Token::RParen, position);
        self.clauses.push(clause);
    }

    fn push(&mut self, token: Token, position: Position) {
        self.out.push(TokenWithSpan { token, span: span(position) });
    }
}

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

use super::cursor::{Cursor, Result, Tokens, is_word};
use super::exclude;
use super::pivot::GROUPS;
use super::series_join::{self, SeriesJoinClause, SeriesJoinKind};
use super::{Position, SqlError};
use crate::functions::stride::{STRIDE_HINT, Stride};
use crate::literals::interval::{INTERVAL_HINT, Interval, parse_intervals};
use sqlparser::ast::{Expr, Value};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// The function whose only argument is the index of a clause that was cut out.
pub(super) const PLACEHOLDER: &str = "__clause";

/// A tolerance of nothing: rows of the same time.
pub(crate) const NO_TIME: &str = "0n";

/// The table function that takes a table.
pub(super) const NBBO: &str = "nbbo";

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

/// SAMPLE BY stride [FROM t0 TO t1] [FILL(…)] [ALIGN TO …], SAMPLE BY VOLUME(x) 100.
#[derive(Debug, Clone)]
pub(super) struct SampleClause {
    pub(super) position: Position,
    pub(super) every: Every,
    /// ALIGN TO FIRST OBSERVATION.
    pub(super) from_first: bool,
    pub(super) from: Option<Expr>,
    pub(super) to: Option<Expr>,
    pub(super) fill: Vec<Expr>,
    pub(super) zone: Option<String>,
    pub(super) offset: Option<String>,
}

/// What ends a bucket.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
#[derive(Debug, Clone)]
pub(super) enum Every {
    /// Time.
    Time(Stride),
    /// What its rows add up to.
    Bar(BarClause),
}

/// VOLUME(x) limit, VALUE(x) limit, TICKS limit.
#[derive(Debug, Clone)]
pub(crate) struct BarClause {
    pub(crate) kind: BarKind,
    /// What each row adds; `None` for TICKS.
    pub(crate) of: Option<Expr>,
    /// The size at which a bar is full.
    pub(crate) limit: Expr,
}

/// How bars of a size are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum BarKind {
    /// VOLUME(x).
    Volume,
    /// VALUE(x): the same by another name.
    Value,
    /// TICKS: each row adds 1.
    Ticks,
}

impl BarKind {
    pub(crate) const ALL: [Self; 3] = [Self::Volume, Self::Value, Self::Ticks];

    /// The word after SAMPLE BY.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Volume => "VOLUME",
            Self::Value => "VALUE",
            Self::Ticks => "TICKS",
        }
    }
}

/// LATEST ON ts PARTITION BY keys, LATEST BY keys.
#[derive(Debug, Clone)]
pub(super) struct LatestClause {
    pub(super) position: Position,
    pub(super) timestamp: Option<Expr>,
    pub(super) keys: Vec<Expr>,
}

/// Which way from a left row's time its right row is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// The last row not after it.
    Backward,
    /// The first row not before it.
    Forward,
    /// The nearer of these two, of equally near ones the earlier.
    Nearest,
}

impl Direction {
    pub(crate) const ALL: [Self; 3] = [Self::Backward, Self::Forward, Self::Nearest];

    /// The word after DIRECTION.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Backward => "BACKWARD",
            Self::Forward => "FORWARD",
            Self::Nearest => "NEAREST",
        }
    }
}

/// How a join with the prevailing row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsOfKind {
    /// ASOF [LEFT] JOIN.
    Left,
    /// ASOF INNER JOIN.
    Inner,
    /// LT JOIN: like ASOF JOIN, to strictly earlier rows.
    Lt,
    /// ASOF SEMI JOIN: the left rows that have a right one.
    Semi,
    /// ASOF ANTI JOIN: the left rows that have none.
    Anti,
    /// ASOF RIGHT JOIN: also the right rows that stand for no left one, and not the left rows without a match.
    Right,
    /// ASOF FULL JOIN: the rows of both sides.
    Full,
}

impl AsOfKind {
    pub(crate) const ALL: [Self; 7] =
        [Self::Left, Self::Inner, Self::Lt, Self::Semi, Self::Anti, Self::Right, Self::Full];

    /// What errors call it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Left => "ASOF JOIN",
            Self::Inner => "ASOF INNER JOIN",
            Self::Lt => "LT JOIN",
            Self::Semi => "ASOF SEMI JOIN",
            Self::Anti => "ASOF ANTI JOIN",
            Self::Right => "ASOF RIGHT JOIN",
            Self::Full => "ASOF FULL JOIN",
        }
    }
}

/// What follows the right side of an ASOF or LT JOIN.
#[derive(Debug, Clone)]
pub(super) struct AsOfClause {
    pub(super) position: Position,
    pub(super) kind: AsOfKind,
    pub(super) direction: Option<Direction>,
    pub(super) condition: Option<Expr>,
    pub(super) on: Option<Expr>,
    pub(super) using: Vec<String>,
    pub(super) tolerance: Option<Expr>,
}

/// The text after IN.
#[derive(Debug, Clone)]
pub(super) struct IntervalClause {
    pub(super) position: Position,
    /// At least one.
    pub(super) intervals: Vec<Interval>,
}

/// A join of ours whose right side is being read.
struct Pending {
    depth: usize,
    position: Position,
    kind: PendingKind,
}

#[derive(Clone, Copy)]
enum PendingKind {
    AsOf(AsOfKind),
    Series(SeriesJoinKind),
}

/// Words that end the right side of a join.
const JOIN_ENDS: [&str; 27] = [
    "ON",
    "USING",
    "MATCH_CONDITION",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "QUALIFY",
    "WINDOW",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "FULL",
    "CROSS",
    "NATURAL",
    "ASOF",
    "LT",
    "RETURNING",
    "FOR",
];

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

/// The brackets of a PIVOT that is being read.
struct Pivot {
    depth: usize,
    /// Whether GROUP BY came.
    grouped: bool,
    /// Whether DEFAULT ON NULL came.
    defaulted: bool,
}

impl Pass<'_> {
    fn run(&mut self) -> Result<()> {
        while !self.cursor.is_end() {
            self.finish_joins(false)?;
            // The clause of a join may be the last before a bracket, or the end.
            let Some(token) = self.cursor.peek() else { break };
            let cursor = &self.cursor;
            if cursor.words(&["SAMPLE", "BY"]) {
                self.sample()?;
                continue;
            }
            if cursor.words(&["LATEST", "BY"]) || self.is_latest_on() {
                self.latest()?;
                continue;
            }
            if let Some((kind, words)) = asof_join(cursor) {
                self.join(PendingKind::AsOf(kind), words, kind.word())?;
                continue;
            }
            if let (Some(kind), false) = (SeriesJoinKind::begins(cursor), self.out.is_empty()) {
                self.join(PendingKind::Series(kind), 2, kind.word())?;
                continue;
            }
            if let (true, Some(Token::SingleQuotedString(text))) = (cursor.words(&["IN"]), cursor.ahead(1))
                && self.positions.last() != Some(&self.depth)
            {
                self.interval(text)?;
                continue;
            }
            if exclude::begins(cursor) {
                exclude::clause(&mut self.cursor, &mut self.out)?;
                continue;
            }
            if cursor.words(&["TABLE"]) && self.is_in_nbbo() {
                self.table_argument()?;
                continue;
            }
            self.refuse_placeholder()?;
            if self.pivots.last().is_some_and(|pivot| pivot.depth == self.depth) && self.pivot_group()? {
                continue;
            }
            match token {
                Token::LParen | Token::LBracket | Token::LBrace => {
                    self.depth += 1;
                    if self.out.last().is_some_and(|before| is_word(&before.token, "POSITION")) {
                        self.positions.push(self.depth);
                    }
                    if self.out.last().is_some_and(|before| is_word(&before.token, "PIVOT")) {
                        self.pivots.push(Pivot { depth: self.depth, grouped: false, defaulted: false });
                    }
                }
                Token::RParen | Token::RBracket | Token::RBrace => {
                    self.positions.pop_if(|depth| *depth == self.depth);
                    if self.pivots.pop_if(|pivot| pivot.depth == self.depth).is_some_and(|p| p.grouped) {
                        let position = self.cursor.position();
                        self.push(Token::RParen, position);
                        self.push(Token::RParen, position);
                    }
                    self.depth = self.depth.saturating_sub(1);
                }
                _ => {}
            }
            self.out.extend(self.cursor.rest().first().cloned());
            self.cursor.skip(1);
        }
        self.finish_joins(true)
    }

    /// Reads the clauses of every pending join whose right side ends here.
    fn finish_joins(&mut self, at_end: bool) -> Result<()> {
        while let Some(pending) = self.pending.pop_if(|p| {
            let closes = self.depth == p.depth && ends_join(&self.cursor);
            at_end || closes || self.depth < p.depth
        }) {
            let (cursor, position) = (&mut self.cursor, pending.position);
            let clause = match pending.kind {
                PendingKind::AsOf(kind) => Clause::AsOf(asof_clause(cursor, kind, position)?),
                PendingKind::Series(kind) => Clause::Series(series_join::clause(cursor, kind, position)?),
            };
            self.place("ON", None, position, clause);
        }
        Ok(())
    }

    /// Joins of ours become `LEFT JOIN`; their clauses follow the right side.
    fn join(&mut self, kind: PendingKind, words: usize, word: &str) -> Result<()> {
        let position = self.cursor.position();
        self.cursor.skip(words);
        if self.cursor.is_end() || self.cursor.words(&["ON"]) || self.cursor.words(&["USING"]) {
            let error = self.cursor.expected(&format!("the table that {word} joins"));
            return Err(error.hint(format!("the table stands before its keys: t {word} q ON (symbol)")));
        }
        self.pending.push(Pending { depth: self.depth, position, kind });
        self.push(Token::make_keyword("LEFT"), position);
        self.push(Token::make_keyword("JOIN"), position);
        Ok(())
    }

    /// `IN 'text'` becomes `IN (placeholder)`.
    fn interval(&mut self, text: &str) -> Result<()> {
        self.out.extend(self.cursor.rest().first().cloned());
        self.cursor.skip(1);
        let position = self.cursor.position();
        let intervals = parse_intervals(text).ok_or_else(|| {
            SqlError::new(format!("'{text}' is no interval of time"), position).hint(INTERVAL_HINT)
        })?;
        self.cursor.skip(1);
        self.push(Token::LParen, position);
        self.placeholder(position, Clause::Interval(IntervalClause { position, intervals }));
        self.push(Token::RParen, position);
        Ok(())
    }

    /// `GROUP BY a, b` of a PIVOT becomes `DEFAULT ON NULL (__pivot_groups(a, b))`, closed with its brackets. Says
    /// whether it stood here.
    fn pivot_group(&mut self) -> Result<bool> {
        let (groups, defaults) =
            (self.cursor.words(&["GROUP", "BY"]), self.cursor.words(&["DEFAULT", "ON", "NULL"]));
        let Some(pivot) = self.pivots.last_mut() else { return Ok(false) };
        if !groups && !defaults {
            return Ok(false);
        }
        let position = self.cursor.position();
        if (pivot.grouped && defaults) || (pivot.defaulted && groups) {
            let error = SqlError::new("PIVOT takes GROUP BY or DEFAULT ON NULL, not both", position);
            return Err(error.hint("write coalesce(column, 0) in SELECT"));
        }
        (pivot.grouped, pivot.defaulted) = (pivot.grouped || groups, pivot.defaulted || defaults);
        if defaults {
            return Ok(false);
        }
        self.cursor.skip(2);
        for word in ["DEFAULT", "ON", "NULL"] {
            self.push(Token::make_keyword(word), position);
        }
        self.push(Token::LParen, position);
        self.push(Token::make_word(GROUPS, None), position);
        self.push(Token::LParen, position);
        Ok(true)
    }

    /// Whether the last tokens are `nbbo (`.
    fn is_in_nbbo(&self) -> bool {
        match self.out.as_slice() {
            [.., name, bracket] => is_word(&name.token, NBBO) && bracket.token == Token::LParen,
            _ => false,
        }
    }

    /// `TABLE quotes` becomes `(SELECT * FROM quotes)`.
    fn table_argument(&mut self) -> Result<()> {
        let position = self.cursor.position();
        self.cursor.expect(&["TABLE"])?;
        self.push(Token::LParen, position);
        self.push(Token::make_keyword("SELECT"), position);
        self.push(Token::Mul, position);
        self.push(Token::make_keyword("FROM"), position);
        let name = self.cursor.rest();
        self.cursor.table_name()?;
        let words = name.len() - self.cursor.rest().len();
        self.out.extend(name.iter().take(words).cloned());
        self.push(Token::RParen, position);
        Ok(())
    }

    fn sample(&mut self) -> Result<()> {
        let position = self.cursor.position();
        self.refuse_before("SAMPLE BY", position)?;
        let clause = sample_clause(&mut self.cursor)?;
        self.refuse_after("SAMPLE BY")?;
        self.place("GROUP", Some("BY"), position, Clause::Sample(clause));
        Ok(())
    }

    fn latest(&mut self) -> Result<()> {
        let position = self.cursor.position();
        self.refuse_before("LATEST ON", position)?;
        let clause = latest_clause(&mut self.cursor)?;
        self.refuse_after("LATEST ON")?;
        self.place("GROUP", Some("BY"), position, Clause::Latest(clause));
        Ok(())
    }

    /// `LATEST ON path PARTITION BY`: a table may be called latest, so the whole is looked for.
    fn is_latest_on(&self) -> bool {
        let mut ahead = self.cursor.clone();
        if !ahead.eat(&["LATEST", "ON"]) || ahead.name("a column").is_err() {
            return false;
        }
        while ahead.eat_token(&Token::Period) {
            if ahead.name("a column").is_err() {
                return false;
            }
        }
        ahead.words(&["PARTITION", "BY"])
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
            return Err(SqlError::new(
                format!("{clause} and GROUP BY exclude each other"),
                self.cursor.position(),
            )
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

    fn place(&mut self, first: &str, second: Option<&str>, position: Position, clause: Clause) {
        self.push(Token::make_keyword(first), position);
        if let Some(second) = second {
            self.push(Token::make_keyword(second), position);
        }
        self.placeholder(position, clause);
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

/// The span of one place.
pub(crate) fn span(position: Position) -> Span {
    let location = Location { line: position.line, column: position.column };
    Span { start: location, end: location }
}

/// The join that begins here, and of how many words.
fn asof_join(cursor: &Cursor<'_>) -> Option<(AsOfKind, usize)> {
    let spellings: [(&[&str], AsOfKind); 12] = [
        (&["ASOF", "JOIN"], AsOfKind::Left),
        (&["ASOF", "LEFT", "JOIN"], AsOfKind::Left),
        (&["ASOF", "LEFT", "OUTER", "JOIN"], AsOfKind::Left),
        (&["ASOF", "INNER", "JOIN"], AsOfKind::Inner),
        (&["ASOF", "SEMI", "JOIN"], AsOfKind::Semi),
        (&["ASOF", "ANTI", "JOIN"], AsOfKind::Anti),
        (&["ASOF", "RIGHT", "JOIN"], AsOfKind::Right),
        (&["ASOF", "RIGHT", "OUTER", "JOIN"], AsOfKind::Right),
        (&["ASOF", "FULL", "JOIN"], AsOfKind::Full),
        (&["ASOF", "FULL", "OUTER", "JOIN"], AsOfKind::Full),
        (&["LT", "JOIN"], AsOfKind::Lt),
        (&["LT", "LEFT", "JOIN"], AsOfKind::Lt),
    ];
    spellings.iter().find(|(words, _)| cursor.words(words)).map(|(words, kind)| (*kind, words.len()))
}

fn ends_join(cursor: &Cursor<'_>) -> bool {
    match cursor.peek() {
        Some(Token::Comma | Token::RParen | Token::SemiColon) => true,
        Some(token) => {
            JOIN_ENDS.iter().any(|word| is_word(token, word))
                || cursor.words(&["SAMPLE", "BY"])
                || cursor.words(&["LATEST", "ON"])
                || cursor.words(&["LATEST", "BY"])
                || is_tolerance(cursor)
                || is_direction(cursor)
                || series_join::begins_tail(cursor)
        }
        None => true,
    }
}

/// TOLERANCE and a length; alone the word may be an alias.
fn is_tolerance(cursor: &Cursor<'_>) -> bool {
    cursor.words(&["TOLERANCE"])
        && match cursor.ahead(1) {
            Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::Minus) => true,
            Some(token) => is_word(token, "INTERVAL"),
            None => false,
        }
}

fn is_direction(cursor: &Cursor<'_>) -> bool {
    Direction::ALL.iter().any(|way| cursor.words(&["DIRECTION", way.word()]))
}

fn asof_clause(cursor: &mut Cursor<'_>, kind: AsOfKind, position: Position) -> Result<AsOfClause> {
    let mut clause = AsOfClause {
        position,
        kind,
        direction: None,
        condition: None,
        on: None,
        using: Vec::new(),
        tolerance: None,
    };
    loop {
        if cursor.words(&["MATCH_CONDITION"]) && clause.condition.is_none() {
            cursor.skip(1);
            cursor.expect_token(&Token::LParen)?;
            clause.condition = Some(cursor.expression()?);
            cursor.expect_token(&Token::RParen)?;
        } else if cursor.words(&["ON"]) && clause.on.is_none() && clause.using.is_empty() {
            cursor.skip(1);
            clause.on = Some(cursor.expression()?);
        } else if cursor.words(&["USING"]) && clause.on.is_none() && clause.using.is_empty() {
            cursor.skip(1);
            clause.using = cursor.names("a column of both sides")?;
        } else if is_tolerance(cursor) && clause.tolerance.is_none() {
            cursor.skip(1);
            clause.tolerance = Some(length(cursor, "a tolerance")?);
        } else if is_direction(cursor) && clause.direction.is_none() {
            if kind == AsOfKind::Lt {
                return Err(SqlError::new("LT JOIN looks back and takes no DIRECTION", cursor.position())
                    .hint(
                        "write ASOF JOIN … DIRECTION …, or MATCH_CONDITION (l.ts < r.ts) for later rows only",
                    ));
            }
            cursor.skip(1);
            clause.direction = Direction::ALL.into_iter().find(|way| cursor.eat(&[way.word()]));
        } else {
            return Ok(clause);
        }
    }
}

/// A length of time: `50T` as text, or an expression such as INTERVAL '5 seconds'.
pub(super) fn length(cursor: &mut Cursor<'_>, what: &str) -> Result<Expr> {
    match cursor.peek() {
        Some(Token::Number(digits, _)) if what == "a tolerance" && digits == "0" => {
            let position = cursor.position();
            cursor.skip(1);
            let unit = cursor.name("a unit such as s")?;
            // Any unit that there is: nothing is as long in all of them.
            Stride::parse(&unit)
                .map(|_| text(NO_TIME, position))
                .ok_or_else(|| SqlError::new(format!("'0{unit}' is no duration"), position).hint(STRIDE_HINT))
        }
        Some(Token::Number(..) | Token::SingleQuotedString(_)) => {
            let position = cursor.position();
            let stride = stride(cursor)?;
            if stride.nanos().is_none() {
                let message = format!("{what} has a fixed length, not months or years");
                return Err(SqlError::new(message, position));
            }
            Ok(text(&stride.to_string(), position))
        }
        Some(Token::Minus) if what != "a tolerance" => {
            Err(SqlError::new(format!("{what} has no sign"), cursor.position())
                .hint("PRECEDING and FOLLOWING say on which side it lies"))
        }
        Some(Token::Minus) => Err(SqlError::new(
            "a tolerance is not negative: it says how old a match may be",
            cursor.position(),
        )
        .hint("write TOLERANCE 5s, or leave it out for a match of any age")),
        _ => cursor.expression(),
    }
}

/// A quoted text as an expression.
pub(super) fn text(value: &str, position: Position) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_string()).with_span(span(position)))
}

/// `5m` or `'5m'`.
fn stride(cursor: &mut Cursor<'_>) -> Result<Stride> {
    let position = cursor.position();
    let written = match (cursor.peek(), cursor.ahead(1)) {
        (Some(Token::Number(digits, _)), Some(Token::Word(unit))) => {
            cursor.skip(2);
            format!("{digits}{}", unit.value)
        }
        (Some(Token::SingleQuotedString(text)), _) => {
            cursor.skip(1);
            text.clone()
        }
        _ => return Err(cursor.expected("a duration such as 5m").hint(STRIDE_HINT)),
    };
    Stride::parse(&written)
        .ok_or_else(|| SqlError::new(format!("'{written}' is no duration"), position).hint(STRIDE_HINT))
}

fn sample_clause(cursor: &mut Cursor<'_>) -> Result<SampleClause> {
    let position = cursor.position();
    cursor.expect(&["SAMPLE", "BY"])?;
    let every = match BarKind::ALL.into_iter().find(|kind| cursor.words(&[kind.word()])) {
        Some(kind) => Every::Bar(bar(cursor, kind)?),
        None => Every::Time(stride(cursor)?),
    };
    let mut clause = SampleClause {
        position,
        every,
        from_first: false,
        from: None,
        to: None,
        fill: Vec::new(),
        zone: None,
        offset: None,
    };
    if cursor.eat(&["FROM"]) {
        clause.from = Some(cursor.expression()?);
    }
    if cursor.eat(&["TO"]) {
        clause.to = Some(cursor.expression()?);
    }
    if cursor.eat(&["FILL"]) {
        cursor.expect_token(&Token::LParen)?;
        loop {
            clause.fill.push(cursor.expression()?);
            if cursor.eat_token(&Token::RParen) {
                break;
            }
            cursor.expect_token(&Token::Comma)?;
        }
    }
    align(cursor, &mut clause)?;
    Ok(clause)
}

/// `VOLUME(x) 100`, `VALUE(x) 1e6`, `TICKS 1000`.
fn bar(cursor: &mut Cursor<'_>, kind: BarKind) -> Result<BarClause> {
    let word = kind.word();
    cursor.expect(&[word])?;
    let of = match kind {
        BarKind::Ticks => None,
        BarKind::Volume | BarKind::Value => {
            if cursor.peek() != Some(&Token::LParen) {
                return Err(cursor.expected("'('").hint(format!(
                    "say what each row adds to a bar: SAMPLE BY {word}({}) 1000",
                    if kind == BarKind::Volume { "amount" } else { "price * amount" }
                )));
            }
            cursor.skip(1);
            let of = cursor.expression()?;
            cursor.expect_token(&Token::RParen)?;
            Some(of)
        }
    };
    if !matches!(cursor.peek(), Some(Token::Number(..) | Token::Minus | Token::Plus | Token::Placeholder(_)))
    {
        return Err(cursor
            .expected("the size of a bar")
            .hint("write a number: VOLUME(amount) 100, TICKS 1000 or VALUE(price * amount) 1e6"));
    }
    let limit = cursor.expression()?;
    refuse_of_time(cursor, word)?;
    Ok(BarClause { kind, of, limit })
}

/// Refuses what only buckets of time have.
fn refuse_of_time(cursor: &Cursor<'_>, word: &str) -> Result<()> {
    let (clause, hint) = if cursor.words(&["FROM"]) || cursor.words(&["TO"]) {
        ("FROM … TO", "write WHERE ts >= … AND ts < … before SAMPLE BY")
    } else if cursor.words(&["FILL"]) {
        ("FILL", "there are no gaps to fill: a bar is there because rows are")
    } else if cursor.words(&["ALIGN"]) {
        ("ALIGN TO", "each bar begins with the row after the one that filled the last")
    } else {
        return Ok(());
    };
    Err(SqlError::new(format!("SAMPLE BY {word} takes no {clause}"), cursor.position()).hint(hint))
}

fn align(cursor: &mut Cursor<'_>, clause: &mut SampleClause) -> Result<()> {
    if !cursor.words(&["ALIGN"]) {
        return Ok(());
    }
    let position = cursor.position();
    cursor.expect(&["ALIGN", "TO"])?;
    if cursor.eat(&["FIRST", "OBSERVATION"]) {
        if clause.from.is_some() || clause.to.is_some() {
            return Err(SqlError::new("ALIGN TO FIRST OBSERVATION takes no FROM … TO", position)
                .hint("the first row says where buckets begin: choose it with WHERE before SAMPLE BY"));
        }
        for words in [["TIME", "ZONE"], ["WITH", "OFFSET"]] {
            if cursor.words(&words) {
                let message = format!("ALIGN TO FIRST OBSERVATION takes no {}", words.join(" "));
                return Err(SqlError::new(message, cursor.position())
                    .hint("buckets count from the first row, whatever the calendar says"));
            }
        }
        clause.from_first = true;
        return Ok(());
    }
    if !cursor.eat(&["CALENDAR"]) {
        return Err(cursor.expected("CALENDAR or FIRST OBSERVATION"));
    }
    if cursor.eat(&["TIME", "ZONE"]) {
        clause.zone = Some(cursor.text("the name of a time zone")?);
    }
    if cursor.eat(&["WITH", "OFFSET"]) {
        clause.offset = Some(cursor.text("an offset such as +09:30")?);
    }
    if let Every::Time(stride) = clause.every {
        crate::functions::bucket::Bucketing::parse(
            &stride.to_string(),
            clause.zone.as_deref(),
            clause.offset.as_deref(),
        )
        .map_err(|message| SqlError::new(message, position))?;
    }
    Ok(())
}

fn latest_clause(cursor: &mut Cursor<'_>) -> Result<LatestClause> {
    let position = cursor.position();
    cursor.expect(&["LATEST"])?;
    let timestamp = if cursor.eat(&["BY"]) {
        None
    } else {
        cursor.expect(&["ON"])?;
        let timestamp = cursor.expression()?;
        cursor.expect(&["PARTITION", "BY"])?;
        Some(timestamp)
    };
    let mut keys = vec![cursor.expression()?];
    while cursor.eat_token(&Token::Comma) {
        keys.push(cursor.expression()?);
    }
    Ok(LatestClause { position, timestamp, keys })
}

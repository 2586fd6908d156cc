//! A place in a list of tokens, for the statements and clauses that are read by hand.

use super::grammar::Grammar;
use super::{Position, SqlError, limits, long_lists, syntax};
use sqlparser::ast::Expr;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

pub(super) type Result<T> = std::result::Result<T, SqlError>;

/// One statement's tokens without white space.
#[derive(Debug, Clone)]
pub(super) struct Tokens {
    pub(super) tokens: Vec<TokenWithSpan>,
    /// Where the statement ends, for errors about what is missing there.
    pub(super) end: Position,
}

/// Cuts a text into its statements at semicolons; empty ones are left out.
pub(super) fn statements(sql: &str) -> Result<Vec<Tokens>> {
    // A text of one statement, which may be a long list of values, stays where it is.
    let mut all = long_lists::tokens(sql).map_err(|e| {
        SqlError::new(e.message.trim().to_string(), position(e.location).unwrap_or_default())
            .hint("a quote or comment that is opened must be closed")
    })?;
    all.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    super::view::refuse_rightful(&all)?;
    let mut end = Position::default();
    let ends = all.iter().filter(|token| token.token == Token::SemiColon).count();
    if let (0, Some(last)) = (ends, all.last()) {
        end = position(last.span.end).unwrap_or(end);
        return Ok(vec![Tokens { tokens: all, end }]);
    }
    let mut found = Vec::new();
    let mut tokens = Vec::new();
    for token in all {
        match token.token {
            Token::SemiColon => {
                end = position(token.span.start).unwrap_or(end);
                found.push(Tokens { tokens: std::mem::take(&mut tokens), end });
            }
            _ => {
                end = position(token.span.end).unwrap_or(end);
                tokens.push(token);
            }
        }
    }
    found.push(Tokens { tokens, end });
    found.retain(|statement| !statement.tokens.is_empty());
    Ok(found)
}

/// The place after a part of a text that begins at `from`.
pub(super) fn location_after(part: &str, from: Location) -> Location {
    let Location { line, column } = from;
    match part.rfind('\n') {
        None => Location { line, column: column + part.chars().count() as u64 },
        Some(last) => {
            let lines = memchr::memchr_iter(b'\n', part.as_bytes()).count() as u64;
            Location { line: line + lines, column: part[last + 1..].chars().count() as u64 + 1 }
        }
    }
}

pub(super) fn position(location: Location) -> Option<Position> {
    (location.line > 0).then_some(Position { line: location.line, column: location.column })
}

/// The span of one place.
pub(crate) fn span(position: Position) -> Span {
    let location = Location { line: position.line, column: position.column };
    Span { start: location, end: location }
}

/// What the parser says, with its position as numbers.
pub(super) fn parser_error(error: ParserError, end: Position) -> SqlError {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => limits::too_nested(),
    };
    let (message, place) = match text.rfind(" at Line: ") {
        Some(at) => (text[..at].to_string(), read_place(&text[at..])),
        None => (text, None),
    };
    let message = message.replace("found: EOF", "found the end of the statement");
    let message =
        message.strip_prefix("Expected: ").map(|rest| format!("expected {rest}")).unwrap_or(message);
    SqlError::new(message, place.unwrap_or(end))
}

fn read_place(text: &str) -> Option<Position> {
    let (line, column) = text.strip_prefix(" at Line: ")?.split_once(", Column: ")?;
    Some(Position { line: line.parse().ok()?, column: column.trim().parse().ok()? })
}

/// Reads tokens from first to last.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'t> {
    tokens: &'t [TokenWithSpan],
    at: usize,
    end: Position,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(tokens: &'t [TokenWithSpan], at: usize, end: Position) -> Self {
        Self { tokens, at, end }
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.tokens.len());
    }

    pub(super) fn rest(&self) -> &'t [TokenWithSpan] {
        &self.tokens[self.at.min(self.tokens.len())..]
    }

    pub(super) fn ahead(&self, count: usize) -> Option<&'t Token> {
        self.tokens.get(self.at + count).map(|t| &t.token)
    }

    pub(super) fn peek(&self) -> Option<&'t Token> {
        self.ahead(0)
    }

    /// Whether a placeholder comes after so many tokens: `$1`, `:name`.
    pub(super) fn is_placeholder(&self, after: usize) -> bool {
        matches!(self.ahead(after), Some(Token::Placeholder(_) | Token::Colon))
    }

    pub(super) fn is_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Where the next token starts, or the statement ends.
    pub(super) fn position(&self) -> Position {
        self.tokens.get(self.at).and_then(|t| position(t.span.start)).unwrap_or(self.end)
    }

    /// The statement's end.
    pub(super) fn end(&self) -> Position {
        self.end
    }

    /// Whether the next words are these keywords, in any case and unquoted.
    pub(super) fn words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, word)| self.ahead(i).is_some_and(|t| is_word(t, word)))
    }

    /// Takes these keywords if they come next.
    pub(super) fn eat(&mut self, words: &[&str]) -> bool {
        let found = self.words(words);
        if found {
            self.at += words.len();
        }
        found
    }

    pub(super) fn eat_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.at += 1;
        }
        found
    }

    pub(super) fn expect(&mut self, words: &[&str]) -> Result<()> {
        if self.eat(words) { Ok(()) } else { Err(self.expected(&words.join(" "))) }
    }

    pub(super) fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.eat_token(token) { Ok(()) } else { Err(self.expected(&format!("'{token}'"))) }
    }

    pub(super) fn expect_end(&self) -> Result<()> {
        if self.is_end() { Ok(()) } else { Err(self.expected("the end of the statement")) }
    }

    /// An error: the next token is not what the text needs here.
    pub(super) fn expected(&self, what: &str) -> SqlError {
        let found = match self.peek() {
            Some(token) => format!("{token}"),
            None => "the end of the statement".to_string(),
        };
        SqlError::new(format!("expected {what}, found {found}"), self.position())
    }

    /// A name, quotes taken off.
    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word.value.clone())
            }
            Some(Token::DoubleQuotedString(text)) => {
                self.at += 1;
                Ok(text.clone())
            }
            _ => Err(self.expected(what)),
        }
    }

    /// A name, in lower case unless it is quoted.
    pub(super) fn folded_name(&mut self, what: &str) -> Result<String> {
        let quoted = !matches!(self.peek(), Some(Token::Word(word)) if word.quote_style.is_none());
        let name = self.name(what)?;
        Ok(if quoted { name } else { name.to_lowercase() })
    }

    /// The name of a table: Tickstone has no schemas, so it has one part.
    pub(super) fn table_name(&mut self) -> Result<String> {
        let position = self.position();
        let mut parts = vec![self.name("the name of a table")?];
        while parts.len() < 3 && self.eat_token(&Token::Period) {
            parts.push(self.name("the name of a table")?);
        }
        let name = parts.pop().unwrap_or_default();
        // The first of three is the database, which has as many names as its clients give it.
        match parts.last() {
            Some(schema) if !schema.eq_ignore_ascii_case("public") => {
                Err(SqlError::new("a table's name has one part", position)
                    .hint("leave out what comes before the point: there are no schemas"))
            }
            _ => Ok(name),
        }
    }

    /// `( name, … )`.
    pub(super) fn names(&mut self, what: &str) -> Result<Vec<String>> {
        self.expect_token(&Token::LParen)?;
        if self.eat_token(&Token::RParen) {
            return Ok(Vec::new());
        }
        self.list(|cursor| cursor.name(what))
    }

    /// `one, … )`, at least one.
    pub(super) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while !self.eat_token(&Token::RParen) {
            self.expect_token(&Token::Comma)?;
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// How many tokens stand before the bracket that closes the one before them.
    pub(super) fn closing(&self) -> Option<usize> {
        let mut depth = 0_usize;
        self.rest().iter().position(|token| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => return true,
                Token::RParen => depth -= 1,
                _ => {}
            }
            false
        })
    }

    /// A quoted string.
    pub(super) fn text(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => {
                self.at += 1;
                Ok(text.clone())
            }
            _ => Err(self.expected(&format!("{what} in quotes"))),
        }
    }

    /// A word, number or string as plain text.
    pub(super) fn scalar(&mut self) -> Result<String> {
        let minus = self.eat_token(&Token::Minus);
        let text = match self.peek() {
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::Number(digits, _)) => digits.clone(),
            Some(
                Token::SingleQuotedString(text)
                | Token::DoubleQuotedString(text)
                | Token::EscapedStringLiteral(text),
            ) => text.clone(),
            _ => return Err(self.expected("a value")),
        };
        self.at += 1;
        Ok(if minus { format!("-{text}") } else { text })
    }

    /// An expression, as far as it goes.
    pub(super) fn expression(&mut self) -> Result<Expr> {
        /// How far past an expression the parser may look to see that it ends.
        const AHEAD: usize = 16;
        let rest = self.rest();
        // The parser takes tokens of its own: not all that follow, since there may be many expressions.
        let mut length = 64;
        loop {
            let some = &rest[..length.min(rest.len())];
            let grammar = Grammar::new(some.len());
            let mut parser = grammar.parser(some.to_vec());
            let parsed = parser.parse_expr();
            let whole = some.len() == rest.len();
            if !whole && (parsed.is_err() || parser.index() + AHEAD > some.len()) {
                length = some.len() * 8;
                continue;
            }
            let index = parser.index();
            let mut expr = grammar.told(parsed, self.end)?;
            syntax::check_expression(&mut expr, &some[..index.min(some.len())])?;
            self.skip(index);
            return Ok(expr);
        }
    }
}

/// Whether a token is this keyword, in any case and unquoted.
pub(super) fn is_word(token: &Token, keyword: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword))
}

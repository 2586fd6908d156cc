//! The grammar that statements are read with: the parser's generic one, with an end to how much it may try.
//!
//! Where the parser meets what it does not expect it goes back and tries another reading, at each word and bracket
//! around: `CAST(CAST(… wrong …))` is read twice as often for each CAST. So the places where an expression begins are
//! counted (`parser_steps_max`), of which a text has fewer than words.

use super::cursor::{Result, parser_error};
use super::{Position, SqlError};
use sqlparser::ast::{Expr, UnaryOperator};
use sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::any::TypeId;
use std::cell::Cell;

/// Most beginnings of expressions for each word or sign, of those that are read again and again.
const STEPS_PER_TOKEN: usize = 4;

/// Most of a short text.
const STEPS_MIN: usize = 20_000;

/// How tightly operators bind that have no place of their own, as in PostgreSQL: after sums, before comparisons.
fn other_operators() -> u8 {
    GenericDialect.prec_value(Precedence::PlusMinus) - 1
}

/// The generic dialect, counting.
#[derive(Debug)]
pub(super) struct Grammar {
    steps_max: usize,
    steps: Cell<usize>,
}

impl Grammar {
    /// For a text of so many tokens.
    pub(super) fn new(tokens: usize) -> Self {
        let steps_max = STEPS_MIN.max(tokens.saturating_mul(STEPS_PER_TOKEN));
        Self { steps_max, steps: Cell::new(0) }
    }

    pub(super) fn parser(&self, tokens: Vec<TokenWithSpan>) -> Parser<'_> {
        Parser::new(self).with_tokens_with_locations(tokens)
    }

    /// What the parser gave, or why it gave up.
    pub(super) fn told<T>(&self, parsed: std::result::Result<T, ParserError>, end: Position) -> Result<T> {
        parsed.map_err(|error| {
            if !self.is_spent() {
                return parser_error(error, end);
            }
            let max = self.steps_max;
            SqlError::new(format!("the text can be read in more than {max} ways (parser_steps_max)"), end)
                .hint("it is wrong somewhere within brackets, CAST or CASE that are nested deeply")
        })
    }

    fn is_spent(&self) -> bool {
        self.steps.get() > self.steps_max
    }
}

/// `x ISNULL`, which is no word of the parser's; NOTNULL is one.
fn null_test(parser: &mut Parser<'_>, left: &Expr) -> Option<std::result::Result<Expr, ParserError>> {
    is_null_operator(parser).then(|| {
        parser.advance_token();
        Ok(Expr::IsNull(Box::new(left.clone())))
    })
}

fn is_null_operator(parser: &Parser<'_>) -> bool {
    matches!(&parser.peek_token_ref().token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull"))
}

/// `x IN ((SELECT …), 2)` is a list, where the parser takes what begins with a bracket for a query.
fn bracket_in(parser: &mut Parser<'_>, left: &Expr) -> Option<std::result::Result<Expr, ParserError>> {
    let negated = usize::from(is_keyword(parser, 0, Keyword::NOT));
    let opens = |at: usize| parser.peek_nth_token_ref(at).token == Token::LParen;
    if !is_keyword(parser, negated, Keyword::IN) || !opens(negated + 1) || !opens(negated + 2) {
        return None;
    }
    for _ in 0..=negated {
        parser.advance_token();
    }
    let is_negated = negated == 1;
    match parser.maybe_parse(|parser| parser.parse_in(left.clone(), is_negated)) {
        Ok(Some(found)) => Some(Ok(found)),
        Ok(None) => Some(in_list(parser, left, is_negated)),
        Err(error) => Some(Err(error)),
    }
}

/// `NOT EXISTS (…) IS NULL` is `NOT (EXISTS (…) IS NULL)`: the parser's own takes NOT EXISTS for one operator.
fn not_exists(parser: &mut Parser<'_>) -> std::result::Result<Expr, ParserError> {
    parser.expect_keyword_is(Keyword::NOT)?;
    let mut expr = parser.parse_subexpr(GenericDialect.prec_value(Precedence::UnaryNot))?;
    if let Expr::Exists { negated, .. } = &mut expr {
        *negated = true;
        return Ok(expr);
    }
    Ok(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) })
}

fn is_keyword(parser: &Parser<'_>, at: usize, keyword: Keyword) -> bool {
    matches!(&parser.peek_nth_token_ref(at).token, Token::Word(word) if word.keyword == keyword)
}

/// The list after IN.
fn in_list(parser: &mut Parser<'_>, left: &Expr, negated: bool) -> std::result::Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::InList { expr: Box::new(left.clone()), list, negated })
}

/// IS [NOT] DISTINCT FROM, whose right side ends where a looser operator follows. The parser takes all that follows for
/// it, `x IS DISTINCT FROM 1 AND y` as `x IS DISTINCT FROM (1 AND y)` (sqlparser #2436).
fn distinct_from(
    parser: &mut Parser<'_>,
    left: &Expr,
    precedence: u8,
) -> Option<std::result::Result<Expr, ParserError>> {
    use Keyword::{DISTINCT, FROM, IS, NOT};
    let is_not = parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
    if !is_not && !parser.parse_keywords(&[IS, DISTINCT, FROM]) {
        return None;
    }
    let compared = |right: Expr| match is_not {
        true => Expr::IsNotDistinctFrom(Box::new(left.clone()), Box::new(right)),
        false => Expr::IsDistinctFrom(Box::new(left.clone()), Box::new(right)),
    };
    Some(parser.parse_subexpr(precedence).map(compared))
}

/// Hands what the generic dialect says on.
macro_rules! as_generic {
    ($($name:ident,)*) => {
        $(fn $name(&self) -> bool {
            GenericDialect.$name()
        })*
    };
}

impl Dialect for Grammar {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    /// `~` takes sums, as in PostgreSQL: `~1 + 2` is `~(1 + 2)`. So does NOT take what follows `EXISTS (…)`.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<std::result::Result<Expr, ParserError>> {
        self.steps.set(self.steps.get() + 1);
        if self.is_spent() {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        if is_keyword(parser, 0, Keyword::NOT) && is_keyword(parser, 1, Keyword::EXISTS) {
            return Some(not_exists(parser));
        }
        parser.consume_token(&Token::Tilde).then(|| {
            let expr = Box::new(parser.parse_subexpr(other_operators())?);
            Ok(Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr })
        })
    }

    /// As in PostgreSQL: a power comes before products. `||`, `->`, `~` and those of bits are alike, one after the other.
    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<std::result::Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Caret => Some(Ok(GenericDialect.prec_value(Precedence::MulDivModOp) + 5)),
            Token::Arrow
            | Token::LongArrow
            | Token::StringConcat
            | Token::Pipe
            | Token::Ampersand
            | Token::Sharp
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk => Some(Ok(other_operators())),
            _ if is_null_operator(parser) => Some(Ok(GenericDialect.prec_value(Precedence::Is))),
            _ => None,
        }
    }

    /// As in PostgreSQL: LIKE and its kin come before `=`.
    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Like => GenericDialect.prec_value(Precedence::Eq) + 1,
            other => GenericDialect.prec_value(other),
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<std::result::Result<Expr, ParserError>> {
        null_test(parser, left)
            .or_else(|| bracket_in(parser, left))
            .or_else(|| distinct_from(parser, left, precedence))
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_trailing_commas(&self) -> bool {
        true
    }

    fn supports_select_expr_star(&self) -> bool {
        true
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    as_generic! {
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    }
}

//! `a IS [NOT] DISTINCT FROM b`, bound as IS does.
//!
//! The parser reads everything up to the end of the expression as the right side, so that
//! `a IS DISTINCT FROM b AND c` would become `a IS DISTINCT FROM (b AND c)`. It is given an operator of
//! our own instead, whose precedence is right, and the operator becomes the comparison afterwards.

use super::walks::each_expr;
use sqlparser::ast::{BinaryOperator, Expr, Value, VisitMut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

const DISTINCT: &str = "IS DISTINCT FROM";
const NOT_DISTINCT: &str = "IS NOT DISTINCT FROM";

/// Puts one operator in the place of the words.
pub(super) fn join_words(tokens: &mut Vec<TokenWithSpan>) {
    for (words, operator) in [
        (&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM][..], DISTINCT),
        (&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM][..], NOT_DISTINCT),
    ] {
        let is_here = |tokens: &[TokenWithSpan]| {
            tokens.len() >= words.len()
                && tokens.iter().zip(words).all(
                    |(token, keyword)| matches!(&token.token, Token::Word(word) if word.keyword == *keyword),
                )
        };
        if !(0..tokens.len()).any(|at| is_here(&tokens[at..])) {
            continue;
        }
        let (mut joined, mut at) = (Vec::with_capacity(tokens.len()), 0);
        while at < tokens.len() {
            if is_here(&tokens[at..]) {
                let span = Span::new(tokens[at].span.start, tokens[at + words.len() - 1].span.end);
                joined.push(TokenWithSpan::new(Token::CustomBinaryOperator(operator.to_string()), span));
                at += words.len();
            } else {
                joined.push(tokens[at].clone());
                at += 1;
            }
        }
        *tokens = joined;
    }
}

/// Makes the operators the comparisons that they stand for.
pub(super) fn place(node: &mut impl VisitMut) {
    each_expr(node, &mut |expr| {
        let Expr::BinaryOp { left, op: BinaryOperator::Custom(operator), right } = expr else {
            return;
        };
        let make = match operator.as_str() {
            DISTINCT => Expr::IsDistinctFrom,
            NOT_DISTINCT => Expr::IsNotDistinctFrom,
            _ => return,
        };
        let nothing = || Box::new(Expr::value(Value::Null));
        *expr = make(std::mem::replace(left, nothing()), std::mem::replace(right, nothing()));
    });
}

//! `EXCLUDE` in the frame of a window, which the parser does not know.
//!
//! ```text
//! ROWS BETWEEN 5 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW   ->  ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING
//! ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW   ->  … AND __beside_current(2) FOLLOWING
//! … EXCLUDE NO OTHERS                                            ->  …
//! ```
//!
//! Of a frame with rows on both sides the function becomes what both sides make together ([`split`]), which is known of
//! those that are made of parts.

use super::cursor::{Cursor, Result, is_word, parser_error, position};
use super::marker::place;
use super::walks::each_expr;
use super::{Position, SqlError};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, NamedWindowExpr, ObjectName,
    Select, Value, WindowFrameBound, WindowFrameUnits, WindowType,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Stands around the end of a frame that has the rows on both sides of the current one, without it.
const BESIDE: &str = "__beside_current";

const HINT: &str =
    "write ROWS BETWEEN 5 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW, which is AND 1 PRECEDING";

/// Whether a clause stands here.
pub(super) fn begins(cursor: &Cursor<'_>) -> bool {
    cursor.words(&["EXCLUDE"])
        && [["CURRENT", "ROW"].as_slice(), &["NO", "OTHERS"], &["GROUP"], &["TIES"]].into_iter().any(|what| {
            let mut after = cursor.clone();
            after.skip(1);
            after.eat(what) && after.peek() == Some(&Token::RParen)
        })
}

/// Reads the clause; `out` ends with the frame before it, which is changed.
///
/// # Errors
/// Where it is of another frame than one of ROWS, of peers, or leaves no row.
pub(super) fn clause(cursor: &mut Cursor<'_>, out: &mut Vec<TokenWithSpan>) -> Result<()> {
    let position = cursor.position();
    cursor.skip(1);
    if cursor.eat(&["NO", "OTHERS"]) {
        return Ok(());
    }
    let unknown = |what: &str| Err(SqlError::new(what.to_string(), position).hint(HINT));
    if !cursor.eat(&["CURRENT", "ROW"]) {
        return unknown("EXCLUDE GROUP and EXCLUDE TIES are not known, only EXCLUDE CURRENT ROW");
    }
    let starts = out
        .iter()
        .rposition(|token| ["ROWS", "RANGE", "GROUPS"].into_iter().any(|unit| is_word(&token.token, unit)));
    let Some(starts) = starts.filter(|at| is_word(&out[*at].token, "ROWS")) else {
        return unknown("EXCLUDE CURRENT ROW is known of frames of ROWS only");
    };
    let frame: Vec<TokenWithSpan> = out.drain(starts + 1..).collect();
    // Of another window, where this one has none.
    let mut depth = 0_i32;
    let closes = frame.iter().any(|token| {
        depth += i32::from(token.token == Token::LParen) - i32::from(token.token == Token::RParen);
        depth < 0
    });
    let between = frame.first().is_some_and(|token| is_word(&token.token, "BETWEEN"));
    let and = frame.iter().position(|token| is_word(&token.token, "AND"));
    let (start, end) = match (between, and) {
        (true, Some(and)) if !closes => (&frame[1..and], &frame[and + 1..]),
        (false, None) if !closes => (&frame[..], [].as_slice()),
        _ => return unknown("EXCLUDE CURRENT ROW stands after a frame"),
    };
    let span = frame.first().map_or(Span::empty(), |token| token.span);
    let mut push = |token: Token| out.push(TokenWithSpan { token, span });
    let one = |push: &mut dyn FnMut(Token), side: &str| {
        push(Token::Number("1".into(), false));
        push(Token::make_keyword(side));
    };
    let (from, to) = (side_of(start), if end.is_empty() { Side::Current } else { side_of(end) });
    let tokens = |of: &[TokenWithSpan]| of.iter().map(|token| token.token.clone()).collect::<Vec<_>>();
    push(Token::make_keyword("BETWEEN"));
    match (from, to) {
        (Side::Before, Side::Current) => {
            tokens(start).into_iter().for_each(&mut push);
            push(Token::make_keyword("AND"));
            one(&mut push, "PRECEDING");
        }
        (Side::Current, Side::After) => {
            one(&mut push, "FOLLOWING");
            push(Token::make_keyword("AND"));
            tokens(end).into_iter().for_each(&mut push);
        }
        (Side::Before, Side::After) => {
            tokens(start).into_iter().for_each(&mut push);
            push(Token::make_keyword("AND"));
            push(Token::make_word(BESIDE, None));
            push(Token::LParen);
            match &tokens(end)[..] {
                [word, ..] if is_word(word, "UNBOUNDED") => push(Token::make_keyword("NULL")),
                bound => bound[..bound.len() - 1].iter().cloned().for_each(&mut push),
            }
            push(Token::RParen);
            push(Token::make_keyword("FOLLOWING"));
        }
        // It is not among the rows.
        (Side::Before, Side::Before) | (Side::After, Side::After) => {
            tokens(start).into_iter().for_each(&mut push);
            push(Token::make_keyword("AND"));
            tokens(end).into_iter().for_each(&mut push);
        }
        _ => return unknown("EXCLUDE CURRENT ROW leaves no row of this frame"),
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Before,
    Current,
    After,
}

/// On which side of the current row a bound lies.
fn side_of(bound: &[TokenWithSpan]) -> Side {
    let is_zero = |token: &TokenWithSpan| matches!(&token.token, Token::Number(digits, _) if digits.bytes().all(|b| b == b'0'));
    match bound {
        [zero, _] if is_zero(zero) => Side::Current,
        [.., side] if is_word(&side.token, "PRECEDING") => Side::Before,
        [.., side] if is_word(&side.token, "FOLLOWING") => Side::After,
        _ => Side::Current,
    }
}

/// The end of a frame around the current row; `None` of another frame. The end itself is `None` where it is open.
#[expect(clippy::option_option, reason = "no such frame and one without end are two things")]
fn end_beside(bound: Option<&WindowFrameBound>) -> Option<Option<Expr>> {
    let Some(WindowFrameBound::Following(Some(end))) = bound else { return None };
    let Expr::Function(Function { name, .. }) = end.as_ref() else { return None };
    if !matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == BESIDE)) {
        return None;
    }
    match arguments(end).as_slice() {
        [Expr::Value(value)] if value.value == Value::Null => Some(None),
        [end] => Some(Some(end.clone())),
        _ => None,
    }
}

/// The plain arguments of a call.
fn arguments(call: &Expr) -> Vec<Expr> {
    let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = call else {
        return Vec::new();
    };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().filter_map(plain).collect()
}

/// What a window function of such a frame is called where nothing names it: as it was written.
pub(super) fn name_of(expr: &Expr) -> Option<String> {
    let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = expr else { return None };
    end_beside(spec.window_frame.as_ref()?.end_bound.as_ref())?;
    let text =
        expr.to_string().replace(&format!("{BESIDE}(NULL)"), "UNBOUNDED").replace(&format!("{BESIDE}("), "");
    Some(text.replacen(") FOLLOWING", " FOLLOWING", 1).replacen(
        " FOLLOWING",
        " FOLLOWING EXCLUDE CURRENT ROW",
        1,
    ))
}

/// A window function of a frame around the current row, as what its rows before and after it make together.
///
/// # Errors
/// Where the function is not made of parts.
pub(super) fn split(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = &*expr else { return Ok(()) };
    let Some(WindowType::WindowSpec(spec)) = &function.over else { return Ok(()) };
    let Some(frame) = &spec.window_frame else { return Ok(()) };
    let Some(end) = end_beside(frame.end_bound.as_ref()) else { return Ok(()) };
    let one = || Some(Box::new(number("1")));
    let over = |function: &Function, before: bool| {
        let mut function = function.clone();
        if let Some(WindowType::WindowSpec(spec)) = &mut function.over
            && let Some(frame) = &mut spec.window_frame
        {
            frame.units = WindowFrameUnits::Rows;
            match before {
                true => frame.end_bound = Some(WindowFrameBound::Preceding(one())),
                false => {
                    frame.start_bound = WindowFrameBound::Following(one());
                    frame.end_bound = Some(WindowFrameBound::Following(end.clone().map(Box::new)));
                }
            }
        }
        Expr::Function(function)
    };
    let sides = |function: &Function| [over(function, true), over(function, false)];
    let name = match function.name.0.as_slice() {
        [part] => part.as_ident().map(|name| name.value.to_ascii_lowercase()).unwrap_or_default(),
        _ => String::new(),
    };
    let called = |name: &str| Function { name: ObjectName::from(vec![Ident::new(name)]), ..function.clone() };
    let distinct =
        matches!(&function.args, FunctionArguments::List(list) if list.duplicate_treatment.is_some());
    let whole = match name.as_str() {
        "sum" if !distinct => together(sides(function), "coalesce({0} + {1}, {0}, {1})", place(expr))?,
        "count" if !distinct => together(sides(function), "{0} + {1}", place(expr))?,
        "min" => together(sides(function), "least({0}, {1})", place(expr))?,
        "max" => together(sides(function), "greatest({0}, {1})", place(expr))?,
        "avg" | "mean" if !distinct => {
            let [sums, counts] = ["sum", "count"].map(|name| sides(&called(name)));
            let all = [sums, counts].concat();
            let form = "coalesce({0} + {1}, {0}, {1})::DOUBLE / nullif({2} + {3}, 0)";
            together(all, form, place(expr))?
        }
        _ => {
            let message = format!("EXCLUDE CURRENT ROW of rows on both sides is not known of {name}");
            let hint = "sum, avg, count, min and max have it; any function has it where the frame ends, or begins, at CURRENT ROW";
            return Err(SqlError::new(message, place(expr)).hint(hint));
        }
    };
    *expr = whole;
    Ok(())
}

/// Refuses a frame around the current row in WINDOW, where it is not known which functions have it.
///
/// # Errors
/// Where there is one.
pub(super) fn refuse_named(select: &Select) -> Result<()> {
    for window in &select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = &window.1
            && let Some(frame) = &spec.window_frame
            && end_beside(frame.end_bound.as_ref()).is_some()
        {
            let message = "EXCLUDE CURRENT ROW of rows on both sides stands in OVER (…), not in WINDOW";
            return Err(SqlError::new(message, position(window.0.span.start).unwrap_or_default())
                .hint("write the frame in OVER (…)"));
        }
    }
    Ok(())
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.into(), false).with_empty_span())
}

/// A form with expressions in its places `{0}`, `{1}`, …
fn together(parts: impl AsRef<[Expr]>, form: &str, at: Position) -> Result<Expr> {
    let parts = parts.as_ref();
    let mut text = form.to_string();
    for part in 0..parts.len() {
        text = text.replace(&format!("{{{part}}}"), &format!("__part_{part}"));
    }
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(&text);
    let mut form =
        parsed.and_then(|mut parser| parser.parse_expr()).map_err(|error| parser_error(error, at))?;
    each_expr(&mut form, &mut |expr| {
        if let Expr::Identifier(name) = &*expr
            && let Some(part) = name.value.strip_prefix("__part_").and_then(|at| at.parse::<usize>().ok())
        {
            *expr = parts[part].clone();
        }
    });
    Ok(Expr::Nested(Box::new(form)))
}

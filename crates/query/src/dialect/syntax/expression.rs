//! Expressions.

use super::super::chains;
use super::super::cursor::{Result, position};
use super::Walk;
use sqlparser::ast::{
    AccessExpr, Array, ArrayElemTypeDef, CaseWhen, CastFormat, CeilFloorKind, DataType, DateTimeField,
    DictionaryField, Expr, Interval, LambdaFunction, LambdaFunctionParameter, Map, MapEntry,
    OneOrManyWithParens, StructField, Subscript, TypedString, ValueWithSpan,
};

impl Walk<'_> {
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        chains::balance(expr);
        self.down(&mut |walk| walk.expr_here(expr))
    }

    fn boxed(&mut self, expr: &mut Option<Box<Expr>>) -> Result<()> {
        expr.as_mut().map_or(Ok(()), |expr| self.expr(expr))
    }

    fn both(&mut self, left: &mut Expr, right: &mut Expr) -> Result<()> {
        self.expr(left)?;
        self.expr(right)
    }

    fn expr_here(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(ident) => {
                self.ident(ident);
                Ok(())
            }
            Expr::CompoundIdentifier(idents) => {
                idents.first().into_iter().for_each(|ident| self.ident(ident));
                Ok(())
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.expr(root)?;
                self.each(access_chain, Self::access)
            }
            Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr)
            | Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsNull(expr)
            | Expr::IsNotNull(expr)
            | Expr::IsUnknown(expr)
            | Expr::IsNotUnknown(expr)
            | Expr::Nested(expr) => self.expr(expr),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.both(left, right)
            }
            Expr::InList { expr, list, negated: _ } => {
                self.expr(expr)?;
                self.exprs(list)
            }
            Expr::InSubquery { expr, subquery, negated: _ } => {
                self.expr(expr)?;
                self.query(subquery)
            }
            Expr::Between { expr, negated: _, low, high } => {
                self.expr(expr)?;
                self.both(low, high)
            }
            Expr::BinaryOp { left, op: _, right } => self.both(left, right),
            // The planner refuses what is no escape character.
            Expr::Like { negated: _, any, expr, pattern, escape_char: _ }
            | Expr::ILike { negated: _, any, expr, pattern, escape_char: _ } => {
                self.never(*any, "LIKE ANY", "write x LIKE 'a%' OR x LIKE 'b%'")?;
                self.both(expr, pattern)
            }
            Expr::SimilarTo { negated: _, expr, pattern, escape_char: _ } => self.both(expr, pattern),
            // SOME is ANY.
            Expr::AnyOp { left, compare_op: _, right, is_some: _ } => self.both(left, right),
            Expr::AllOp { left, compare_op: _, right } => self.both(left, right),
            Expr::UnaryOp { op: _, expr } => self.expr(expr),
            Expr::Cast { kind: _, expr, data_type, array, format } => {
                self.expr(expr)?;
                self.data_type(data_type)?;
                self.never(*array, "ARRAY after the type of CAST", "write x::BIGINT[]")?;
                match format {
                    None => Ok(()),
                    Some(CastFormat::Value(_) | CastFormat::ValueAtTimeZone(..)) => {
                        Err(self.refused("FORMAT", "to_char and to_timestamp take a format"))
                    }
                }
            }
            Expr::AtTimeZone { timestamp, time_zone } => self.both(timestamp, time_zone),
            Expr::Extract { field: _, syntax: _, expr } => self.expr(expr),
            Expr::Ceil { expr, field } | Expr::Floor { expr, field } => {
                let plain = matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime));
                self.never(
                    !plain,
                    "a unit in ceil and floor",
                    "write time_bucket('1 day', ts) or round(x, 2)",
                )?;
                self.expr(expr)
            }
            Expr::Position { expr, r#in } => self.both(expr, r#in),
            Expr::Substring { expr, substring_from, substring_for, special: _, shorthand: _ } => {
                self.expr(expr)?;
                self.boxed(substring_from)?;
                self.boxed(substring_for)
            }
            Expr::Trim { trim_where: _, trim_what, expr, trim_characters } => {
                self.boxed(trim_what)?;
                self.expr(expr)?;
                trim_characters.as_mut().map_or(Ok(()), |characters| self.exprs(characters))
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                self.both(expr, overlay_what)?;
                self.expr(overlay_from)?;
                self.boxed(overlay_for)
            }
            Expr::Value(ValueWithSpan { value: _, span }) => {
                self.near = position(span.start).unwrap_or(self.near);
                Ok(())
            }
            Expr::TypedString(TypedString { data_type, value: _, uses_odbc_syntax: _ }) => {
                self.data_type(data_type)
            }
            Expr::Function(function) => self.function(function),
            Expr::Case { case_token, end_token: _, operand, conditions, else_result } => {
                self.near = position(case_token.0.span.start).unwrap_or(self.near);
                self.boxed(operand)?;
                self.each(conditions, |walk, CaseWhen { condition, result }| walk.both(condition, result))?;
                self.boxed(else_result)
            }
            Expr::Exists { subquery, negated: _ } => self.query(subquery),
            Expr::Subquery(query) => self.query(query),
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                sets.iter_mut().try_for_each(|set| self.exprs(set))
            }
            Expr::Tuple(values) => self.exprs(values),
            Expr::Struct { values, fields } => {
                if let Some(StructField { field_name: _, field_type: _, options: _ }) = fields.first() {
                    return Err(self.refused("STRUCT with types", "write struct(a, b)"));
                }
                self.exprs(values)
            }
            Expr::Named { expr, name: _ } => self.expr(expr),
            Expr::Dictionary(fields) => {
                self.each(fields, |walk, DictionaryField { key: _, value }| walk.expr(value))
            }
            Expr::Map(Map { entries }) => {
                self.each(entries, |walk, MapEntry { key, value }| walk.both(key, value))
            }
            Expr::Array(Array { elem, named: _ }) => self.exprs(elem),
            Expr::Interval(Interval {
                value,
                leading_field: _,
                leading_precision,
                last_field,
                fractional_seconds_precision,
            }) => {
                let precise = leading_precision.is_some() || fractional_seconds_precision.is_some();
                self.never(precise, "INTERVAL with a precision", "leave it out: INTERVAL '5.25' SECOND")?;
                self.never(last_field.is_some(), "INTERVAL … TO", "write INTERVAL '1 year 2 months'")?;
                self.expr(value)
            }
            Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => Ok(()),
            Expr::Lambda(LambdaFunction { params, body, syntax: _ }) => {
                let params = match params {
                    OneOrManyWithParens::One(param) => std::slice::from_ref(param),
                    OneOrManyWithParens::Many(params) => params.as_slice(),
                };
                for LambdaFunctionParameter { name, data_type } in params {
                    self.ident(name);
                    self.never(data_type.is_some(), "the type of a lambda's parameter", "leave it out")?;
                }
                self.expr(body)
            }
            other => Err(self.unknown(other)),
        }
    }

    /// What no statement can do anything with.
    fn unknown(&mut self, expr: &Expr) -> super::SqlError {
        match expr {
            Expr::JsonAccess { .. } => self.refused("a path into JSON (x:y)", "a cast is x::type"),
            Expr::IsNormalized { .. } => self.refused("NORMALIZED", ""),
            Expr::InUnnest { .. } => {
                self.refused("IN UNNEST", "write x = ANY(array), or array_has(array, x)")
            }
            Expr::RLike { .. } => self.refused("RLIKE and REGEXP", "write x ~ 'pattern'"),
            Expr::Convert { .. } => self.refused("CONVERT", "write CAST(x AS type)"),
            Expr::Collate { .. } => {
                self.refused("COLLATE", "text is compared by its bytes; lower(x) folds case")
            }
            Expr::Prefixed { .. } => self.refused("a prefix before a text", ""),
            Expr::MatchAgainst { .. } => self.refused("MATCH", "write x LIKE '%word%'"),
            Expr::OuterJoin(_) => self.refused("(+)", "write LEFT JOIN"),
            Expr::Prior(_) => self.refused("PRIOR", "write WITH RECURSIVE"),
            Expr::MemberOf(_) => self.refused("MEMBER OF", "write array_has(array, x)"),
            _ => self.refused("this expression", ""),
        }
    }

    fn access(&mut self, access: &mut AccessExpr) -> Result<()> {
        match access {
            AccessExpr::Dot(expr) | AccessExpr::Subscript(Subscript::Index { index: expr }) => {
                self.expr(expr)
            }
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
                self.some(lower_bound, Self::expr)?;
                self.some(upper_bound, Self::expr)?;
                self.some(stride, Self::expr)
            }
        }
    }

    /// Types of types are nested too; what a type is, planning says.
    fn data_type(&mut self, data_type: &mut DataType) -> Result<()> {
        match data_type {
            DataType::Array(
                ArrayElemTypeDef::AngleBracket(inner)
                | ArrayElemTypeDef::SquareBracket(inner, _)
                | ArrayElemTypeDef::Parenthesis(inner),
            )
            | DataType::Nullable(inner)
            | DataType::LowCardinality(inner) => self.down(&mut |walk| walk.data_type(inner)),
            DataType::Map(key, value) => self.down(&mut |walk| {
                walk.data_type(key)?;
                walk.data_type(value)
            }),
            _ => Ok(()),
        }
    }
}

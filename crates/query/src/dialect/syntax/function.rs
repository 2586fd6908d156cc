//! Calls of functions. Which clauses a function takes is known when its name is ([`super::super::calls`]).

use super::super::cursor::Result;
use super::Walk;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, WindowFrame, WindowFrameBound, WindowSpec, WindowType,
};

impl Walk<'_> {
    pub(super) fn function(&mut self, function: &mut Function) -> Result<()> {
        let Function {
            name,
            uses_odbc_syntax: _,
            parameters,
            args,
            filter,
            null_treatment: _,
            over,
            within_group,
        } = function;
        self.name(name)?;
        let curried = !matches!(parameters, FunctionArguments::None);
        self.never(curried, "a function with two lists of arguments", "write quantile(x, 0.5)")?;
        self.arguments(args)?;
        if let Some(filter) = filter {
            self.expr(filter)?;
        }
        self.each(within_group, Self::order_by_expr)?;
        match over {
            Some(WindowType::WindowSpec(spec)) => self.window_spec(spec),
            Some(WindowType::NamedWindow(_)) | None => Ok(()),
        }
    }

    fn arguments(&mut self, args: &mut FunctionArguments) -> Result<()> {
        match args {
            FunctionArguments::None => Ok(()),
            FunctionArguments::Subquery(_) => Err(self.refused(
                "a query as a function's arguments",
                "write array_agg in a sub-query: (SELECT array_agg(x) FROM t)",
            )),
            FunctionArguments::List(FunctionArgumentList { duplicate_treatment: _, args, clauses }) => {
                self.each(args, Self::argument)?;
                self.each(clauses, Self::argument_clause)
            }
        }
    }

    fn argument_clause(&mut self, clause: &mut FunctionArgumentClause) -> Result<()> {
        match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(_) => Ok(()),
            FunctionArgumentClause::OrderBy(exprs) => self.each(exprs, Self::order_by_expr),
            FunctionArgumentClause::Limit(_) => Err(self.refused(
                "LIMIT in a function's arguments",
                "write array_slice(array_agg(x ORDER BY y), 1, n)",
            )),
            FunctionArgumentClause::OnOverflow(_) => {
                Err(self.refused("ON OVERFLOW", "leave it out: texts are as long as they get"))
            }
            FunctionArgumentClause::Having(_) => {
                Err(self.refused("HAVING in a function's arguments", "write max(x) FILTER (WHERE …)"))
            }
            FunctionArgumentClause::Separator(_) => {
                Err(self.refused("SEPARATOR", "write string_agg(x, ', ')"))
            }
            FunctionArgumentClause::JsonNullClause(_) => {
                Err(self.refused("NULL ON NULL and ABSENT ON NULL", ""))
            }
            FunctionArgumentClause::JsonReturningClause(_) => {
                Err(self.refused("RETURNING in a function's arguments", ""))
            }
        }
    }

    pub(super) fn argument(&mut self, argument: &mut FunctionArg) -> Result<()> {
        match argument {
            FunctionArg::Named { name: _, arg, operator: _ } | FunctionArg::Unnamed(arg) => {
                self.argument_expr(arg)
            }
            FunctionArg::ExprNamed { name, arg, operator: _ } => {
                self.expr(name)?;
                self.argument_expr(arg)
            }
        }
    }

    fn argument_expr(&mut self, argument: &mut FunctionArgExpr) -> Result<()> {
        match argument {
            FunctionArgExpr::Expr(expr) => self.expr(expr),
            FunctionArgExpr::QualifiedWildcard(name) => self.name(name),
            FunctionArgExpr::Wildcard => Ok(()),
            FunctionArgExpr::WildcardWithOptions(options) => self.wildcard(options),
        }
    }

    pub(super) fn window_spec(&mut self, spec: &mut WindowSpec) -> Result<()> {
        let WindowSpec { window_name, partition_by, order_by, window_frame } = spec;
        self.never(
            window_name.is_some(),
            "a window that begins with another's name",
            "write all of it: OVER (PARTITION BY … ORDER BY …)",
        )?;
        self.exprs(partition_by)?;
        self.each(order_by, Self::order_by_expr)?;
        let Some(WindowFrame { units: _, start_bound, end_bound }) = window_frame else { return Ok(()) };
        self.bound(start_bound)?;
        self.some(end_bound, Self::bound)
    }

    fn bound(&mut self, bound: &mut WindowFrameBound) -> Result<()> {
        let expr: &mut Option<Box<Expr>> = match bound {
            WindowFrameBound::CurrentRow => return Ok(()),
            WindowFrameBound::Preceding(expr) | WindowFrameBound::Following(expr) => expr,
        };
        expr.as_mut().map_or(Ok(()), |expr| self.expr(expr))
    }
}

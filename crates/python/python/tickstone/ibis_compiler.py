"""Expressions of Ibis as SQL of Tickstone, whose nearest relative there is DuckDB's.

What is not said here is said as DuckDB says it; what Tickstone cannot do, or would do in another way, is refused by
name.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import ibis.common.exceptions as com
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import sqlglot as sg
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import NULL, STAR
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.backends.sql.datatypes import DuckDBType
from sqlglot.dialects import DuckDB
from sqlglot.generator import Generator

__all__ = ["Tickstone", "TickstoneCompiler", "compiler"]

_ORIGIN = "1970-01-01"
_PLACES = (ops.RankBase, ops.NTile)
_KINDS_OF_JOIN = ("inner", "left", "right", "outer", "cross", "semi", "anti", "asof")


class Tickstone(DuckDB):
    """The dialect."""

    NULL_ORDERING = "nulls_are_large"

    class Generator(DuckDB.Generator):
        """Text of it."""

        def lambda_sql(self, expression: sge.Lambda, arrow_sep: str = "->", wrap: bool = True) -> str:
            """A function of the elements of an array, with an arrow."""
            return Generator.lambda_sql(self, expression, arrow_sep, wrap)


class TickstoneType(DuckDBType):
    """Types as CAST names them."""

    dialect = "tickstone"

    @classmethod
    def _from_ibis_JSON(cls, dtype: dt.JSON) -> sge.DataType:
        return sge.DataType(this=sge.DataType.Type.VARCHAR)

    @classmethod
    def _from_ibis_Timestamp(cls, dtype: dt.Timestamp) -> sge.DataType:
        return sge.DataType(this=sge.DataType.Type.TIMESTAMP)


def refused(what: str, instead: str = "") -> com.UnsupportedOperationError:
    """The error about something that Tickstone cannot do."""
    return com.UnsupportedOperationError(f"Tickstone has no {what}{f'; {instead}' if instead else ''}")


def need_utc(dtype: dt.DataType, what: str) -> None:
    """Refuses times whose parts would be those of another zone."""
    if dtype.is_timestamp() and dtype.timezone not in (None, "UTC"):
        raise refused(f"{what} in the zone {dtype.timezone!r}", "its times are in UTC: convert before")


def need_cast(source: dt.DataType, target: dt.DataType) -> None:
    """Refuses casts that would not mean what they say."""
    number = source.is_numeric()
    moment = target.is_temporal() and not target.is_interval()
    if (
        (number and moment and not (source.is_integer() and target.is_timestamp()))
        or (source.is_temporal() and target.is_numeric())
        or (number and (target.is_binary() or target.is_uuid()))
        or (target.is_interval() and not (source.is_integer() or source.is_interval()))
        or (target.is_json() and not (source.is_string() or source.is_json()))
        or (target.is_struct() and source != target)
    ):
        raise refused(f"cast of {source} to {target}")
    need_utc(target, "timestamps")


def has_tolerance(link: ops.JoinLink) -> bool:
    """Whether it is what Ibis makes of a tolerance: the left rows joined again with those that match in time."""
    found = getattr(link.table, "parent", None)
    if link.how != "left" or not isinstance(found, ops.Filter) or not isinstance(found.parent, ops.JoinChain):
        return False
    bounds = [(type(each), type(each.right)) for each in found.predicates if isinstance(each, ops.Comparison)]
    wanted = [(ops.LessEqual, ops.TimestampAdd), (ops.GreaterEqual, ops.TimestampSub)]
    return bounds == wanted and found.parent.rest[-1].how == "asof"


class TickstoneCompiler(DuckDBCompiler):
    """What Tickstone says in another way than DuckDB."""

    __slots__ = ()

    dialect = Tickstone
    type_mapper = TickstoneType

    UNSUPPORTED_OPS = (
        ops.ArrayAll,
        ops.ArrayAny,
        ops.ArrayMode,
        ops.ArrayZip,
        ops.Hash,
        ops.MapMerge,
        ops.RowID,
        ops.TimeDelta,
        ops.TimeDiff,
        ops.TimestampRange,
        *(value for name, value in vars(ops).items() if name.startswith("Geo") and isinstance(value, type)),
    )

    SIMPLE_OPS = {
        ops.ArgMax: "arg_max",
        ops.ArgMin: "arg_min",
        ops.ArrayDistinct: "array_distinct",
    }

    # Numbers.

    def visit_Divide(self, op: Any, *, left: Any, right: Any) -> Any:
        """Whole numbers are divided as doubles, by zero too."""
        return self.binop(sge.Div, self.cast(left, dt.float64), self.cast(right, dt.float64))

    def visit_FloorDivide(self, op: Any, *, left: Any, right: Any) -> Any:
        """Of whole numbers exactly: what is cut off towards zero, and one less where that was above."""
        if not (op.left.dtype.is_integer() and op.right.dtype.is_integer()):
            return self.cast(self.f.floor(self.visit_Divide(op, left=left, right=right)), op.dtype)
        left, right = sge.paren(left), sge.paren(right)
        above = sg.and_((left % right).neq(0), sge.paren(left < 0).neq(sge.paren(right < 0)))
        return self.cast(sge.paren(left / right - self.if_(above, 1, 0)), op.dtype)

    def visit_Power(self, op: Any, *, left: Any, right: Any) -> Any:
        """A power, of doubles."""
        return self.f.pow(self.cast(left, dt.float64), self.cast(right, dt.float64))

    # Types and literals.

    def visit_Cast(self, op: Any, *, arg: Any, to: dt.DataType) -> Any:
        """A cast; a whole number is so many seconds after 1970, or an interval of so many units."""
        need_cast(op.arg.dtype, to)
        if to.is_interval():
            return arg if op.arg.dtype.is_interval() else self.visit_IntervalFromInteger(op, arg=arg, unit=to.unit)
        if to.is_timestamp() and op.arg.dtype.is_integer():
            return self.f.anon.timestamp_s(arg)
        return self.cast(arg, to)

    def visit_TryCast(self, op: Any, *, arg: Any, to: dt.DataType) -> Any:
        """A cast that is NULL where a value does not fit."""
        need_cast(op.arg.dtype, to)
        if to.is_timestamp() and op.arg.dtype.is_integer():
            raise refused(f"TryCast of {op.arg.dtype} to {to}", "cast(…) has it")
        return super().visit_TryCast(op, arg=arg, to=to)

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: dt.DataType) -> Any:
        """Times to the nanosecond, bytes, intervals in all units."""
        if dtype.is_timestamp() or dtype.is_time():
            need_utc(dtype, "timestamps")
            return self.cast(value.isoformat(), dtype)
        if dtype.is_date():
            return self.cast(value.isoformat(), dtype)
        if dtype.is_binary():
            return self.cast(f"\\x{value.hex()}", dtype)
        if dtype.is_interval():
            return self._interval(value, dtype.unit)
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    @staticmethod
    def _interval(value: Any, unit: Any) -> Any:
        """An interval that is written in the text."""
        months = unit.short == "Q"
        word = "MONTH" if months else unit.singular.upper()
        return sge.Interval(this=sge.convert(str(value * 3 if months else value)), unit=sge.Var(this=word))

    # Times.

    def visit_IntervalFromInteger(self, op: Any, *, arg: Any, unit: Any) -> Any:
        """So many units."""
        if isinstance(op.arg, ops.Literal):
            return self._interval(op.arg.value, unit)
        return sge.paren(self.binop(sge.Mul, arg, self._interval(1, unit)))

    def visit_TimestampBucket(self, op: Any, *, arg: Any, interval: Any, offset: Any) -> Any:
        """Buckets that are counted from 1970 on."""
        if offset is not None and op.interval.dtype.unit.short in "YQM":
            raise refused("TimestampBucket of months with an offset")
        if offset is not None:
            arg = sge.paren(self.binop(sge.Sub, arg, offset))
        start = self.f.anon.date_bin(interval, arg, self.cast(_ORIGIN, dt.timestamp))
        return start if offset is None else self.binop(sge.Add, start, offset)

    def visit_DateTruncate(self, op: Any, *, arg: Any, unit: Any) -> Any:
        """The first day of a unit."""
        return self.cast(self.visit_TimestampTruncate(op, arg=arg, unit=unit), dt.date)

    def visit_DateAdd(self, op: Any, *, left: Any, right: Any) -> Any:
        """A day so much later."""
        return self.cast(self.binop(sge.Add, left, right), op.dtype)

    def visit_DateSub(self, op: Any, *, left: Any, right: Any) -> Any:
        """A day so much earlier."""
        return self.cast(self.binop(sge.Sub, left, right), op.dtype)

    def visit_DateDiff(self, op: Any, *, left: Any, right: Any) -> Any:
        """How much time lies between two days."""
        return self.binop(sge.Sub, self.cast(left, dt.timestamp), self.cast(right, dt.timestamp))

    def visit_ExtractEpochSeconds(self, op: Any, *, arg: Any) -> Any:
        """Whole seconds since 1970, rounded down."""
        return self.cast(self.f.epoch(self.f.date_trunc("second", self.cast(arg, dt.timestamp))), op.dtype)

    def visit_TimestampFromUNIX(self, op: Any, *, arg: Any, unit: Any) -> Any:
        """The instant so many units after 1970."""
        return self.f.anon[f"timestamp_{unit.short}"](arg)

    # Texts.

    def visit_StringSlice(self, op: Any, *, arg: Any, start: Any, end: Any) -> Any:
        """The characters between two places; negative ones count from the end."""
        length = self.f.length(arg)

        def place(at: Any) -> Any:
            return self.if_(at < 0, self.f.greatest(length + at, 0), at)

        first = sge.convert(0) if start is None else place(start)
        last = length if end is None else place(end)
        return self.f.substr(arg, first + 1, self.f.greatest(sge.paren(last) - sge.paren(first), 0))

    def visit_HexDigest(self, op: Any, *, arg: Any, how: str) -> Any:
        """A digest in hexadecimal digits."""
        if how == "md5":
            return self.f.md5(arg)
        if how in ("sha256", "sha512"):
            return self.f.anon.encode(self.f.anon[how](arg), "hex")
        raise refused(f"HexDigest by {how!r}")

    # Arrays.

    def visit_Array(self, op: Any, *, exprs: Any) -> Any:
        """An array; one of structs has the types of its elements."""
        made = self.f.array(*exprs)
        return made if op.dtype.value_type.is_struct() else self.cast(made, op.dtype)

    def visit_ArrayConcat(self, op: Any, *, arg: Any) -> Any:
        """Arrays one after the other, NULL where one is."""
        missing = sg.or_(*(each.is_(NULL) for each in arg))
        return self.if_(missing, NULL, reduce(self.f.list_concat, arg))

    def visit_ArrayLength(self, op: Any, *, arg: Any) -> Any:
        """How many elements there are, as a number with a sign."""
        return self.cast(self.f.array_length(arg), op.dtype)

    def visit_ArrayPosition(self, op: Any, *, arg: Any, other: Any) -> Any:
        """Where an element is, as a number with a sign."""
        return self.cast(super().visit_ArrayPosition(op, arg=arg, other=other), op.dtype)

    def visit_ArraySum(self, op: Any, *, arg: Any) -> Any:
        """The sum of doubles."""
        if not op.arg.dtype.value_type.is_floating():
            raise refused(f"ArraySum of {op.arg.dtype}", "cast it to array<float64>")
        return self.f.anon.list_sum(arg)

    def visit_ArrayUnion(self, op: Any, *, left: Any, right: Any) -> Any:
        """The different elements of two arrays."""
        return self.f.array_distinct(self.f.list_concat(left, right))

    def visit_ArrayRepeat(self, op: Any, *, arg: Any, times: Any) -> Any:
        """An array so often."""
        return self.f.flatten(self.f.array_repeat(arg, times))

    def visit_ArraySort(self, op: Any, *, arg: Any) -> Any:
        """The elements in order, NULLs last."""
        return self.f.anon.array_sort(arg, "ASC", "NULLS LAST")

    def visit_ArrayMap(self, op: Any, *, arg: Any, body: Any, param: Any, index: Any) -> Any:
        """A function of each element."""
        if index is not None:
            raise refused("ArrayMap with an index")
        return self.f.anon.list_transform(arg, sge.Lambda(this=body, expressions=[param]))

    def visit_ArrayFilter(self, op: Any, *, arg: Any, body: Any, param: Any, index: Any) -> Any:
        """The elements for which a condition holds."""
        if index is not None:
            raise refused("ArrayFilter with an index")
        return super().visit_ArrayFilter(op, arg=arg, body=body, param=param, index=index)

    def visit_TableUnnest(
        self, op: Any, *, parent: Any, column: Any, column_name: str, offset: str | None, keep_empty: bool
    ) -> Any:
        """A row for each element."""
        lengths = self.f.array_length(column)
        places = self.f.range(lengths)
        if keep_empty:
            nothing = self.f.array(NULL)
            column = self.if_(lengths > 0, column, self.cast(nothing, op.column.dtype))
            places = self.if_(lengths > 0, places, self.cast(nothing, dt.Array(dt.int64)))
        made = {column_name: sge.Explode(this=column)}
        if offset is not None:
            made[offset] = sge.Explode(this=places)
        kept = {
            name: sg.column(name, table=parent.alias_or_name, quoted=self.quoted)
            for name in op.schema.names
            if name not in made
        }
        values = {name: {**kept, **made}[name] for name in op.schema.names}
        return sg.select(*self._cleanup_names(values)).from_(parent)

    # Aggregates and windows.

    def visit_WindowFunction(self, op: Any, **parts: Any) -> Any:
        """A function over a window; places are numbers with a sign."""
        made = super().visit_WindowFunction(op, **parts)
        return self.cast(made, op.dtype) if op.dtype.is_integer() and isinstance(op.func, _PLACES) else made

    def visit_First(self, op: Any, *, arg: Any, where: Any, order_by: Any, include_null: bool) -> Any:
        """The first or the last value in an order."""
        if not include_null:
            known = arg.is_(sg.not_(NULL, copy=False))
            where = known if where is None else sg.and_(known, where)
        return self.agg[f"{type(op).__name__.lower()}_value"](arg, where=where, order_by=order_by)

    visit_Last = visit_First

    def visit_ArrayCollect(self, op: Any, *, where: Any, **parts: Any) -> Any:
        """An array of many rows."""
        return super().visit_ArrayCollect(op, where=None if where is None else sge.paren(where), **parts)

    def visit_MultiQuantile(self, op: Any, *, arg: Any, quantile: Any, where: Any) -> Any:
        """An array of quantiles."""
        if not isinstance(op.quantile, ops.Literal):
            raise refused("MultiQuantile of parts that are not constants")
        parts = (self.visit_Quantile(op, arg=arg, quantile=sge.convert(part), where=where) for part in op.quantile.value)
        return self.f.array(*parts)

    def visit_ApproxQuantile(self, op: Any, *, arg: Any, quantile: Any, where: Any) -> Any:
        """An estimated quantile, of numbers."""
        if not op.arg.dtype.is_numeric():
            raise refused(f"{type(op).__name__} of {op.arg.dtype}", "quantile(…) and median() have it exactly")
        return super().visit_ApproxQuantile(op, arg=arg, quantile=quantile, where=where)

    def visit_ApproxMultiQuantile(self, op: Any, **_: Any) -> Any:
        """Refused: one at a time."""
        raise refused("ApproxMultiQuantile", "approx_quantile(…) of one part has it")

    def visit_ApproxMedian(self, op: Any, *, arg: Any, where: Any) -> Any:
        """An estimated median, of numbers."""
        return self.visit_ApproxQuantile(op, arg=arg, quantile=sge.convert(0.5), where=where)

    def visit_ApproxCountDistinct(self, op: Any, *, arg: Any, where: Any) -> Any:
        """About how many different values, of numbers by their texts."""
        counted = self.cast(arg, dt.string) if op.arg.dtype.is_numeric() else arg
        return self.agg.approx_distinct(counted, where=where)

    def visit_Kurtosis(self, op: Any, *, arg: Any, where: Any, how: str) -> Any:
        """Of a sample."""
        if how == "pop":
            raise refused("Kurtosis with how='pop'", "how='sample' has it")
        return super().visit_Kurtosis(op, arg=arg, where=where, how=how)

    # Relations.

    def translate(self, op: Any, *, params: Any) -> Any:
        """The whole expression. Ibis makes two joins of a tolerance, in which rows of one time and key come twice."""
        if any(map(has_tolerance, op.find(ops.JoinLink))):
            raise refused("asof_join with a tolerance as Ibis makes it", "ASOF JOIN … TOLERANCE in sql(…) has it")
        return super().translate(op, params=params)

    def visit_InMemoryTable(self, op: Any, *, name: str, schema: Any, data: Any) -> Any:
        """A frame, by its name."""
        for column, dtype in schema.items():
            need_utc(dtype, f"column {column!r}")
        return super().visit_InMemoryTable(op, name=name, schema=schema, data=data)

    def visit_JoinLink(self, op: Any, *, how: str, table: Any, predicates: Any) -> Any:
        """A join; ASOF JOIN keeps the rows of the left side."""
        if how not in _KINDS_OF_JOIN:
            raise refused(f"JoinLink of the kind {how!r}")
        return super().visit_JoinLink(op, how=how, table=table, predicates=predicates)

    def visit_Limit(self, op: Any, *, parent: Any, n: Any, offset: Any) -> Any:
        """So many rows, which is a number."""
        if not (n is None or isinstance(n, int)) or not isinstance(offset, int):
            raise refused("Limit by an expression", "execute it first")
        return super().visit_Limit(op, parent=parent, n=n, offset=offset)

    def visit_SQLQueryResult(self, op: Any, *, query: str, schema: Any, source: Any) -> Any:
        """A query in Tickstone's SQL, as it is written."""
        return self.written(query)

    def visit_SQLStringView(self, op: Any, *, query: str, parent: Any, schema: Any) -> Any:
        """A query in Tickstone's SQL over an expression with a name."""
        return self.written(query)

    def written(self, query: str) -> sge.Select:
        """All rows of a query that stays as it is written."""
        text = query.strip().rstrip(";")
        inner = sge.Subquery(this=sge.Var(this=f"{text}\n"), alias=sge.TableAlias(this=sg.to_identifier("written")))
        return sg.select(STAR).from_(inner)

    def add_query_to_expr(self, *, name: str, table: Any, query: str) -> str:
        """A query over an expression, which it calls by a name."""
        below = self.to_sqlglot(table)
        made = self.written(query).with_(sg.to_identifier(name, quoted=self.quoted), as_=below)
        return made.sql(self.dialect)


compiler = TickstoneCompiler()

//! Functions that are others in other words: what users of DuckDB, PostgreSQL and QuestDB type, as calls of what there
//! is. A statement is rewritten before it is planned ([`crate::dialect`]); its columns keep the names that were typed.
//!
//! A function of the session's own of the same name comes first.

/// A function, and what it stands for.
#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) name: &'static str,
    pub(crate) is: Is,
    /// Whether there is a function of the name, which takes other numbers of arguments.
    pub(crate) beside: bool,
}

/// What a function stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Is {
    /// Another name of a function; DISTINCT, ORDER BY, FILTER and OVER are those of that.
    Named(&'static str),
    /// An expression of its arguments `__1`, `__2`, …, of which there are so many.
    Of(usize, &'static str),
    /// A function with one more argument, the text that is its last; DISTINCT, ORDER BY, FILTER and OVER are those of that.
    Filled(usize, &'static str, &'static str),
}

impl Is {
    /// Whether it has so many arguments.
    pub(crate) fn takes(self, count: usize) -> bool {
        match self {
            Is::Named(_) => true,
            Is::Of(arguments, _) | Is::Filled(arguments, ..) => arguments == count,
        }
    }
}

const fn named(name: &'static str, of: &'static str) -> Defined {
    Defined { name, is: Is::Named(of), beside: false }
}

const fn of(name: &'static str, arguments: usize, expression: &'static str) -> Defined {
    Defined { name, is: Is::Of(arguments, expression), beside: false }
}

const fn filled(name: &'static str, arguments: usize, of: &'static str, last: &'static str) -> Defined {
    Defined { name, is: Is::Filled(arguments, of, last), beside: false }
}

const fn beside(of: Defined) -> Defined {
    Defined { beside: true, ..of }
}

/// All of them, by name.
pub(crate) static DEFINED: &[Defined] = &[
    of("age", 1, "__age(date_trunc('day', now()), __1)"),
    of("age", 2, "__age(__1, __2)"),
    named("approx_count_distinct", "approx_distinct"),
    named("arbitrary", "any_value"),
    beside(of(
        "arg_max",
        3,
        "array_slice(array_agg(__1 ORDER BY __2 DESC) FILTER (WHERE __2 IS NOT NULL), 1, __3)",
    )),
    of("arg_max_null", 2, "first_value(__1 ORDER BY __2 DESC) FILTER (WHERE __2 IS NOT NULL)"),
    beside(of(
        "arg_min",
        3,
        "array_slice(array_agg(__1 ORDER BY __2) FILTER (WHERE __2 IS NOT NULL), 1, __3)",
    )),
    of("arg_min_null", 2, "first_value(__1 ORDER BY __2) FILTER (WHERE __2 IS NOT NULL)"),
    named("argmax", "arg_max"),
    named("argmin", "arg_min"),
    of("base64", 1, "encode(__1, 'base64')"),
    named("ceiling", "ceil"),
    of("century", 1, "date_part('century', __1)"),
    of("count_if", 1, "count(CASE WHEN __1 THEN 1 END)"),
    of("count_star", 0, "count(*)"),
    of("countif", 1, "count(CASE WHEN __1 THEN 1 END)"),
    of("current_localtimestamp", 0, "now()"),
    of("date", 1, "CAST(__1 AS DATE)"),
    of("date_add", 2, "__1 + __2"),
    named("datediff", "date_diff"),
    named("datepart", "date_part"),
    named("datesub", "date_sub"),
    named("datetrunc", "date_trunc"),
    of("day", 1, "date_part('day', __1)"),
    of("dayname", 1, "strftime(__1, '%A')"),
    of("dayofmonth", 1, "date_part('day', __1)"),
    of("dayofweek", 1, "date_part('dow', __1)"),
    of("dayofyear", 1, "date_part('doy', __1)"),
    of("decade", 1, "date_part('decade', __1)"),
    beside(of("ema", 2, "ema(__1, 'period', __2)")),
    of("epoch", 1, "date_part('epoch', __1)"),
    of("era", 1, "date_part('era', __1)"),
    named("every", "bool_and"),
    of("favg", 1, "ksum(__1) / count(__1)"),
    of("from_base64", 1, "decode(__1, 'base64')"),
    of("from_hex", 1, "decode(__1, 'hex')"),
    named("fsum", "ksum"),
    named("gen_random_uuid", "uuid"),
    of("geomean", 1, "exp(avg(ln(__1)))"),
    of("geometric_mean", 1, "exp(avg(ln(__1)))"),
    named("get_current_timestamp", "now"),
    named("group_concat", "string_agg"),
    filled("group_concat", 1, "string_agg", ","),
    of("hour", 1, "date_part('hour', __1)"),
    of("if", 3, "CASE WHEN __1 THEN __2 ELSE __3 END"),
    of("iif", 3, "CASE WHEN __1 THEN __2 ELSE __3 END"),
    of("isnull", 1, "__1 IS NULL"),
    of("isodow", 1, "date_part('isodow', __1)"),
    of("isoyear", 1, "date_part('isoyear', __1)"),
    named("json_extract_path", "json_extract"),
    named("json_extract_path_text", "json_extract_string"),
    named("kahan_sum", "ksum"),
    of(
        "last_day",
        1,
        "CAST(CAST(__1 AS DATE) - (date_part('day', __1) - 1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
    ),
    named("lcase", "lower"),
    named("list", "array_agg"),
    named("list_max", "array_max"),
    named("list_min", "array_min"),
    named("list_pack", "make_array"),
    named("list_value", "make_array"),
    named("listagg", "string_agg"),
    filled("listagg", 1, "string_agg", ","),
    of("make_timestamp_ns", 1, "timestamp_ns(__1)"),
    of("make_timestamptz", 1, "make_timestamp(__1)"),
    of("make_timestamptz", 6, "make_timestamp(__1, __2, __3, __4, __5, __6)"),
    of("make_timestamptz", 7, "to_utc(make_timestamp(__1, __2, __3, __4, __5, __6), __7)"),
    beside(of(
        "max",
        2,
        "array_slice(array_agg(__1 ORDER BY __1 DESC) FILTER (WHERE __1 IS NOT NULL), 1, __2)",
    )),
    of("microsecond", 1, "date_part('microsecond', __1)"),
    of("millennium", 1, "date_part('millennium', __1)"),
    of("millisecond", 1, "date_part('millisecond', __1)"),
    beside(of("min", 2, "array_slice(array_agg(__1 ORDER BY __1) FILTER (WHERE __1 IS NOT NULL), 1, __2)")),
    of("minute", 1, "date_part('minute', __1)"),
    of("mod", 2, "__1 % __2"),
    of("month", 1, "date_part('month', __1)"),
    of("monthname", 1, "strftime(__1, '%B')"),
    of("nanosecond", 1, "date_part('nanosecond', __1)"),
    of("nvl2", 3, "CASE WHEN __1 IS NOT NULL THEN __2 ELSE __3 END"),
    named("ord", "ascii"),
    named("prefix", "starts_with"),
    of("quarter", 1, "date_part('quarter', __1)"),
    of("regexp_full_match", 2, "regexp_like(__1, concat('^(?:', __2, ')$'))"),
    named("regexp_matches", "regexp_like"),
    of("second", 1, "CAST(trunc(date_part('second', __1)) AS INT)"),
    of("sem", 1, "stddev_pop(__1) / sqrt(count(__1))"),
    named("split", "string_split"),
    named("str_split", "string_split"),
    named("str_split_regex", "regexp_split_to_array"),
    beside(filled("string_agg", 1, "string_agg", ",")),
    named("string_split_regex", "regexp_split_to_array"),
    named("strlen", "octet_length"),
    named("struct_extract", "get_field"),
    named("suffix", "ends_with"),
    named("sumkahan", "ksum"),
    of("timezone", 2, "at_time_zone(__2, __1)"),
    of("to_base64", 1, "encode(__1, 'base64')"),
    of("to_days", 1, "INTERVAL '1 day' * __1"),
    of("to_hours", 1, "INTERVAL '1 hour' * __1"),
    of("to_microseconds", 1, "INTERVAL '1 microsecond' * __1"),
    of("to_milliseconds", 1, "INTERVAL '1 millisecond' * __1"),
    of("to_minutes", 1, "INTERVAL '1 minute' * __1"),
    of("to_months", 1, "INTERVAL '1 month' * __1"),
    of("to_quarters", 1, "INTERVAL '3 months' * __1"),
    of("to_seconds", 1, "INTERVAL '1 second' * __1"),
    named("to_timestamp_ms", "timestamp_ms"),
    named("to_timestamp_ns", "timestamp_ns"),
    named("to_timestamp_s", "timestamp_s"),
    named("to_timestamp_us", "timestamp_us"),
    of("to_weeks", 1, "INTERVAL '7 days' * __1"),
    of("to_years", 1, "INTERVAL '1 year' * __1"),
    named("transaction_timestamp", "now"),
    named("ucase", "upper"),
    of("unhex", 1, "decode(__1, 'hex')"),
    named("unicode", "ascii"),
    named("variance", "var_samp"),
    of("week", 1, "date_part('week', __1)"),
    of("weekday", 1, "date_part('dow', __1)"),
    of("weekofyear", 1, "date_part('week', __1)"),
    of("xor", 2, "(__1 | __2) - (__1 & __2)"),
    of("year", 1, "date_part('year', __1)"),
    of("yearweek", 1, "date_part('yearweek', __1)"),
];

/// What calls of a name stand for, by their number of arguments.
pub(crate) fn defined(name: &str) -> &'static [Defined] {
    let from = DEFINED.partition_point(|of| of.name < name);
    let to = from + DEFINED[from..].partition_point(|of| of.name == name);
    &DEFINED[from..to]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_in_order_and_found() {
        assert!(DEFINED.is_sorted_by_key(|of| of.name), "binary search needs the order");
        for of in DEFINED {
            assert!(defined(of.name).iter().any(|found| std::ptr::eq(found, of)), "{}", of.name);
        }
        assert!(defined("nope").is_empty() && defined("").is_empty() && defined("zzz").is_empty());
        assert_eq!(defined("listagg").len(), 2);
    }
}

"""What to write here for a name of DuckDB, pandas or Polars."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

__all__ = ["ON_DATABASE", "ON_ROWS", "unknown"]

#: Names that a frame or a relation has elsewhere, and what does it here.
ON_ROWS: Mapping[str, str] = {
    **dict.fromkeys(["to_df", "fetch_df", "toPandas", "as_pandas"], "df()"),
    **dict.fromkeys(["as_polars", "collect", "lazy"], "pl()"),
    **dict.fromkeys(["to_arrow", "fetch_arrow", "arrow_table", "as_arrow"], "arrow()"),
    **dict.fromkeys(["fetch_numpy", "to_numpy", "values"], "numpy()"),
    **dict.fromkeys(
        ["fetch_arrow_reader", "to_arrow_reader", "fetch_record_batch", "record_batch", "to_batches", "iter_slices"],
        "batches()",
    ),
    **dict.fromkeys(["rows", "iter_rows", "itertuples", "to_dicts", "to_dict", "to_list", "fetch_all"], "fetchall()"),
    **dict.fromkeys(["fetch_one", "fetchone", "first"], "head(1).fetchone()"),
    **dict.fromkeys(["fetch_many", "fetchmany"], "select().fetchmany(n), of a relation that is kept"),
    **dict.fromkeys(["group_by", "groupby", "agg", "value_counts"], 'aggregate("symbol, count(*) AS n")'),
    **dict.fromkeys(["sum", "mean", "avg", "min", "max", "median", "std", "nunique"], 'aggregate("sum(size) AS size")'),
    **dict.fromkeys(["resample", "group_by_dynamic", "sample_by", "ohlc"], 'sample("1m", "last(price) AS price")'),
    **dict.fromkeys(["join_asof", "merge_asof", "asofjoin"], "asof_join(other, on=…)"),
    **dict.fromkeys(["cross", "cross_join"], 'join(other, how="cross")'),
    **dict.fromkeys(["pivot", "unpivot", "unnest", "melt", "explode"], "db.sql(…): what has no method is SQL"),
    **dict.fromkeys(["merge", "leftjoin", "inner_join", "left_join"], 'join(other, on, "left")'),
    **dict.fromkeys(["order_by", "orderby", "sort_values", "sort_by"], "order(…)"),
    **dict.fromkeys(["query", "loc", "filter_by"], "filter(…)"),
    **dict.fromkeys(["iloc", "slice", "offset"], "limit(n, offset)"),
    **dict.fromkeys(["unique", "drop_duplicates"], "distinct(…)"),
    **dict.fromkeys(["with_columns", "with_column", "assign", "eval"], 'select("*", "price * size AS value")'),
    **dict.fromkeys(["drop", "exclude"], 'select("* EXCLUDE (price)")'),
    **dict.fromkeys(["rename"], 'select("price AS px")'),
    **dict.fromkeys(["union_all", "vstack", "concat", "union_by_name"], "union(other)"),
    **dict.fromkeys(["intersect_all"], "intersect(other)"),
    **dict.fromkeys(["except_all", "subtract", "minus"], "except_(other)"),
    **dict.fromkeys(["info", "summary", "summarize"], "describe()"),
    **dict.fromkeys(["height", "size", "num_rows"], "count()"),
    **dict.fromkeys(["width", "num_columns"], "shape[1]"),
    **dict.fromkeys(["print", "glimpse", "preview"], "show()"),
    **dict.fromkeys(["sql_query", "query_string"], "sql"),
    **dict.fromkeys(["execute", "persist", "materialize", "checkpoint"], "cache()"),
    **dict.fromkeys(["set_alias"], "alias(name)"),
    **dict.fromkeys(["to_sql", "saveAsTable"], "create(name) or insert_into(name)"),
    **dict.fromkeys(["append", "insert", "update"], "db.append(table, rows) or db.sql(…)"),
    **dict.fromkeys(["tail", "last"], 'order("ts DESC").limit(n)'),
    **dict.fromkeys(["to_view"], "create_view(name)"),
    **dict.fromkeys(["sink_parquet"], "to_parquet(path)"),
    **dict.fromkeys(["sink_csv"], "to_csv(path)"),
    **dict.fromkeys(["to_json", "write_json", "write_ipc", "to_feather", "to_excel"], "write(path)"),
    **dict.fromkeys(["hist", "line", "hvplot"], "plot()"),
}
#: The same of connections.
ON_DATABASE: Mapping[str, str] = {
    **dict.fromkeys(["fetchall", "fetchone", "fetchdf", "df", "pl", "arrow", "query_df"], "db.sql(…).df(), and so on"),
    **dict.fromkeys(["from_df", "from_arrow", "from_query", "values"], 'sql("FROM frame") sees the variables around it'),
    "from_csv_auto": "read_csv(path)",
    "from_parquet": "read_parquet(path)",
    **dict.fromkeys(["begin", "commit", "rollback"], "transaction(), in a with block"),
    **dict.fromkeys(["cursor", "executemany"], "tickstone.dbapi.connect(database=db).cursor()"),
    **dict.fromkeys(["insert", "insert_df", "write", "insert_into"], "append(table, frame)"),
    **dict.fromkeys(["list_tables", "table_names", "show_tables"], "tables()"),
    **dict.fromkeys(["checkpoint", "flush"], "seal()"),
    **dict.fromkeys(["register_function", "create_udf"], "create_function(…)"),
    **dict.fromkeys(["interrupt"], "Ctrl-C, or CANCEL QUERY from another thread"),
}


def unknown(owner: object, name: str, foreign: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that is not there, with what does it or has a name like it."""
    kind = next(each.__name__ for each in type(owner).__mro__ if not each.__name__.startswith("_"))
    message = f"'{kind}' object has no attribute '{name}'"
    if name.startswith("_"):
        return AttributeError(message)
    if name in foreign:
        return AttributeError(f"{message}: here it is {foreign[name]}")
    known = [each for each in dir(type(owner)) if not each.startswith("_")]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return AttributeError(f"{message}: did you mean '{near[0]}'?" if near else message)

"""Every operator that reads rows by series and time, against DuckDB, Polars and pandas."""

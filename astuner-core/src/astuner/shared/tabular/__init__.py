"""Rows of files (JSON lines, JSON, csv, tsv, parquet) and the tasks made from them, for all readers of tabular data."""

"""Rows of files (JSON lines, JSON, csv, tsv, parquet) and the tasks that they become: shared by every reader of tabular data."""

"""Task readers for astuner: where tasks come from, other than a local file of JSON rows."""

"""Task readers for astuner: sources of tasks other than a local file of JSON rows."""

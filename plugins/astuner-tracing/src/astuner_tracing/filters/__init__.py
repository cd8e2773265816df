"""Filters of tasks: by feedback, duplicates, and an LLM's verdict."""

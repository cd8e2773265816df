"""Tunes system prompts by GEPA, over the reader, the workflow, the judge and the validation of a run on weights."""

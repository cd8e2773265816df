"""Scoring the stored episodes of a run again, without an engine: by another judge, other weights, another estimator."""

"""Measuring how well a judge agrees with labels, before a run trusts it."""

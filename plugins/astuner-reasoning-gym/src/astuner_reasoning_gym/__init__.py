"""Reasoning Gym: its reader, judge and environment."""

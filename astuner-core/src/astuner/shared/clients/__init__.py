"""Clients of services outside the run, shared by readers, judges and trackers."""

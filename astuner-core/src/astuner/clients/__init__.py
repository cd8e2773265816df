"""Clients of services outside of the run, shared by readers, judges and trackers."""

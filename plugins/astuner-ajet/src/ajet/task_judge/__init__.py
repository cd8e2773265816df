"""The base class of judges, and the judge of environment services."""

"""The server: HTTP in front, one process per instance behind, forked from one that has everything imported."""

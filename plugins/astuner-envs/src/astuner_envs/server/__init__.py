"""The server: HTTP in front, one process per instance, forked from one that has imported everything."""

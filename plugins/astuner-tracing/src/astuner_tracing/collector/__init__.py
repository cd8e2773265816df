"""The collector: a small OTLP/HTTP server that writes traces of agents, and feedback of users, to a file."""

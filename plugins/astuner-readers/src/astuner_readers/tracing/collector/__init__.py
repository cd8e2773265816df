"""The collector: a small OTLP/HTTP server that writes what agents report, and what users say, into a file."""

"""Between messages and token ids: rendering, and the server that records."""

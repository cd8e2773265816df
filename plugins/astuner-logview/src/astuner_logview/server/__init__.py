"""The server of the viewer: pages and JSON answers, on loopback, for the holder of a one-time address."""

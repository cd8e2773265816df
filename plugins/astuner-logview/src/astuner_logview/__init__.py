"""The viewer of runs: an index, a server on loopback, and pages in the browser."""

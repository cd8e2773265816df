"""Tasks from the traces of a deployed agent and from what its users said of its answers; and the collector that records both."""

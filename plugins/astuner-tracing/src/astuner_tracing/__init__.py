"""Tasks from the traces of a deployed agent and the feedback of its users; and the collector that records both."""

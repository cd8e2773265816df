"""What a run holds in memory, computed from the shape of its model before anything is loaded."""

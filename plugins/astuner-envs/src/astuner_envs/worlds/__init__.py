"""The environments of this package. Each is played in process, and served, by the same class."""

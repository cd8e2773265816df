"""The environments of this package. The same class is played in process and served."""

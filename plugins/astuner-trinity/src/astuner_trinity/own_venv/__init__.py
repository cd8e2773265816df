"""A virtual environment for libraries that exclude the user's: made by `astuner setup`, with uv and from a lock."""

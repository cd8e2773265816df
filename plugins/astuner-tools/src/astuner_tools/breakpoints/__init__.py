"""The debuggers that `astuner.breakpoint` stops in: an editor's, Ray's, or pdb on the terminal."""

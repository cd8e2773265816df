"""What `astuner plugin new` writes: a small, living package for each kind of component, out of template files."""

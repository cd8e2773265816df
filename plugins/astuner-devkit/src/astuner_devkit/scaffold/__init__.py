"""What `astuner plugin new` writes: a small working package for each kind of component, from template files."""

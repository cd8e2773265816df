"""Built-in components, one folder per kind. They are registered through entry points like those of any plugin."""

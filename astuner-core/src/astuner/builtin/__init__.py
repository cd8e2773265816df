"""Components that every install has, one folder per kind. They come in through entry points like those of any plugin."""

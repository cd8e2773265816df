"""Virtual environments of backbones that cannot share the user's: made by `astuner setup`, entered by what uses the backbone."""

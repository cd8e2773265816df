"""The training loop shared by backbones that have none from their trainer: play, compute advantages, update, validate, save."""

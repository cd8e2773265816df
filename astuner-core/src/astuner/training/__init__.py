"""The training loop that every backbone with a loop of its own shares: play, weigh, update, validate, save."""

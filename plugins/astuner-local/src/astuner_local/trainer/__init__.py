"""The trainer: from rows with advantages to an update of the weights. Its modules import torch; import them where it is needed."""

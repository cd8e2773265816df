"""The trainer: from rows with advantages to an update of the weights.

Its modules import torch: import them inside the function that trains.
"""

"""Rollouts in several processes: players with a share of the groups each, and the pool in the driver that leads them."""

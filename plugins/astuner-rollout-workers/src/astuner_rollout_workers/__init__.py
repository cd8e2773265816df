"""Rollouts in several processes: workers, each with a share of the groups, and the pool in the driver that leads them."""

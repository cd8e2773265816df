"""The local backbone of astuner: rollouts and training on one machine, without any service."""

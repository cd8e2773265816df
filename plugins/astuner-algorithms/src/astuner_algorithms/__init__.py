"""Algorithms for astuner: losses of the policy gradient and advantage estimators of the literature."""

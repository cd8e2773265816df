"""From episodes to rewards to advantages: simple judges, composition, judging a group, failures, estimators."""

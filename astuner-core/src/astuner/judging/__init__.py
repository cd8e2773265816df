"""From episodes to rewards to advantages: the simple form of a judge, composition, judging a group, failures, estimators."""

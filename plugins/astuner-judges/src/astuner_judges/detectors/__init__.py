"""Detectors of abnormal behaviour; each is opt-in (`rollout.compute_madness_checklist`)."""

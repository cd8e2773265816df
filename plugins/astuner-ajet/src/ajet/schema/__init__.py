"""What travels between readers, workflows and judges."""

"""Judges for astuner: the answer to a math question, against the right one."""

from astuner_judges.math_judge import MathAnswerAsJudge

__all__ = ["MathAnswerAsJudge"]

"""Rubrics learnt from labelled examples, and the judge that grades by them."""

"""Core's own trackers keep the rules that all trackers must."""

from __future__ import annotations

from typing import ClassVar

from astuner.episodes.builtin.trackers.auto_context import AutoContextTracker
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.linear_think import LinearThinkTracker
from astuner.episodes.builtin.trackers.sliding_window import SlidingWindowTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner_devkit.contracts.tracker import TrackerContract


class TestTimeline(TrackerContract):
    component = TimelineTracker


class TestLinear(TrackerContract):
    component = LinearTracker


class TestSlidingWindow(TrackerContract):
    component = SlidingWindowTracker
    options: ClassVar = {"max_turns": 4, "keep_turns": 2}


class TestAutoContext(TrackerContract):
    component = AutoContextTracker
    options: ClassVar = {"train_sp_action": True, "token_num_trigger_clip": 100}


class TestLinearThink(TrackerContract):
    component = LinearThinkTracker


class TestLinearThinkOfLastAnswers(TrackerContract):
    component = LinearThinkTracker
    options: ClassVar = {"train_history_infer_token": False}

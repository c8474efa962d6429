"""Holistic recall: one read across several scopes, rendered as one budgeted context pack."""

from tinymemory.recall.holistic import holistic_recall
from tinymemory.recall.pack import ContextPack, PackSection, SkippedSection
from tinymemory.recall.request import Answer, Fetch, HolisticRecall, Latest, ScopeSection, ThreadWindow

__all__ = [
    "Answer",
    "ContextPack",
    "Fetch",
    "HolisticRecall",
    "Latest",
    "PackSection",
    "ScopeSection",
    "SkippedSection",
    "ThreadWindow",
    "holistic_recall",
]

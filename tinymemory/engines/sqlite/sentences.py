"""Sentences, and whether a later one says the same thing anew.

The rules are English: elsewhere a statement is still a statement, only corrections go unnoticed.
"""

import re
from itertools import pairwise

from tinymemory.engines.sqlite.words import telling, words
from tinymemory.text import is_blank, trimmed

_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f]+[\"'\u201d\u2019)\]]*(?=\s)|\n+|\Z")
_LEAST_WORDS = 3
_GREETING = re.compile(
    r"^(?:hello|hi|hey|dear|thanks|thank you|good (?:morning|afternoon|evening)|great|sorry|ok|okay|"
    r"welcome)\b",
    re.IGNORECASE,
)
_LONGEST_GREETING = 5

_CUE = re.compile(
    r"\b(actually|correction|corrected|no longer|not any ?more|instead|changed?|now|moved|wrong|mistaken?|"
    r"meant|scratch that|update[ds]?|from now on|after all|rather than|switched|make that|postponed|"
    r"rescheduled)\b"
)
_LEAD = re.compile(
    r"^(?:(?:actually|correction|update|sorry|no|wait|oh|well|and|but|so|ok|okay|hi|hello|hey|by the way|"
    r"please|note|fyi|as of \w+|from now on)\b[\s,:;.!\u2013\u2014-]*)+"
)
_VERB = (
    r"(?:is|are|was|were|isn't|aren't|am|will be|would be|should be|has been|have been|costs?|starts?|ends?|"
    r"(?:has |have |was |were |is |are )?(?:moved|changed|postponed|rescheduled|set|raised|lowered|"
    r"increased|reduced)(?: (?:back|up|down|out))? (?:to|for|until)|begins?|"
    r"lives? in|works? (?:at|for)|moved to|equals?)"
)
_FRAME = re.compile(rf"^(?P<subject>.{{1,80}}?)\s+(?P<verb>{_VERB})\b")
_PERSON = frozenset({"i", "we", "he", "she", "they", "you"})
_NO_SUBJECT = _PERSON | frozenset(
    {"it", "this", "that", "there", "here", "what", "who", "which", "these", "those"}
)
_PLACE = re.compile(r"(lives? in|moved to)$")
_OF_A_PERSON = re.compile(r"(lives? in|works? (?:at|for))$")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, in order; lines end sentences too."""
    ends = [match.end() for match in _END.finditer(text)]
    return [(start, end) for start, end in pairwise([0, *ends]) if not is_blank(text[start:end])]


def first_statement(text: str) -> str | None:
    """The first sentence that states something, on one line; None when all ask, greet or thank."""
    for start, end in sentence_spans(text):
        sentence = " ".join(trimmed(text[start:end]).split())
        if not sentence.rstrip("\"'\u201d\u2019)]").endswith(("?", "\uff1f")) and _says_something(sentence):
            return sentence
    return None


def replaces(newer: str, older: str) -> bool:
    """Whether the newer statement gives another value to what the older one is about."""
    new, old = newer.casefold(), older.casefold()
    frame = _frame(new)
    if frame is not None and frame == _frame(old):
        return True
    if not _CUE.search(new):
        return False
    subject, other = _topic_words(new), _topic_words(old)
    shared = set(subject) & set(other)
    # The first one is the verb of a request, "deliver to ...", or what somebody prefers, likes, wants.
    return bool(shared) and (subject[0] == other[0] or 2 * len(shared) >= min(len(subject), len(other)))


def _says_something(sentence: str) -> bool:
    found = words(sentence)
    if len(found) <= _LONGEST_GREETING and _GREETING.match(sentence):
        return False
    # A language without spaces has one word a sentence.
    return len(found) >= _LEAST_WORDS or (not sentence.isascii() and len(sentence) > 2 * _LEAST_WORDS)


def _frame(sentence: str) -> tuple[str, ...] | None:
    """What a sentence of the form `subject verb value` gives a value to; None for any other."""
    match = _FRAME.match(_LEAD.sub("", sentence))
    if match is None:
        return None
    subject, verb = words(match["subject"]), match["verb"]
    if len(subject) == 1 and subject[0] in _PERSON:
        return _frame_of_a_person(subject[0], verb)
    named = [word for word in telling(subject) if word not in _NO_SUBJECT and not _CUE.fullmatch(word)]
    return ("", *sorted(named)) if named and subject[0] not in _NO_SUBJECT else None


def _frame_of_a_person(person: str, verb: str) -> tuple[str, ...] | None:
    # One lives at one place, but likes, has and is many things.
    if _PLACE.search(verb):
        return (person, "lives")
    return (person, verb.rstrip("s")) if _OF_A_PERSON.search(verb) else None


def _topic_words(sentence: str) -> list[str]:
    bare = _CUE.sub(" ", _LEAD.sub("", sentence))
    return [word.removesuffix("s") for word in telling(words(bare)) if not any(map(str.isdigit, word))]

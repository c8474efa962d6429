"""How much of what a question needs is among the first hits: the embedded engine beside a plain BM25.

    python benchmarks/recall.py FOLDER [--limit N]

FOLDER holds conversations of the LoCoMo benchmark, one JSON each:
`{id, speakers, sessions: [{session, at, turns: [{id, speaker, text}]}], questions: [{question, evidence:
[turn id], category}]}`.  Each turn is stored as its own conversation, as an agent host does it, and each
question is asked in its conversation's reach.  Evidence recall at k is the share of a question's
evidence among the first k hits, averaged over the questions that have any.

The peer is Okapi BM25 (k1 1.5, b 0.75) over lower-cased words, one index a conversation, in this process.

One run over 2,760 turns and 997 questions, on two cores of an AMD EPYC shared with a load of 12, Python 3.11:

                  @5     @10     @20   ms p50
    plain bm25  0.474   0.553   0.618    11.2
    keyword     0.552   0.621   0.684    16.6
    vector      0.408   0.488   0.560    82.4
    hybrid      0.610   0.718   0.792    12.2
"""

import argparse
import asyncio
import json
import math
import re
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinymemory import Conversation, FetchMode, FetchRequest, MetaFilter, Reach, SqliteEngine

CUTS = (5, 10, 20)
_BATCH = 100
_WORD = re.compile(r"\w+")

Ranker = Callable[[str, str], Awaitable[list[str]]]
"""Conversation and question in, ids of turns out, best first."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked in one conversation, and the turns that answer it."""

    conversation: str
    text: str
    evidence: frozenset[str]
    category: str


class Bm25:
    """Okapi BM25, as plain as it is written in textbooks."""

    def __init__(self, texts: dict[str, str], *, k1: float = 1.5, b: float = 0.75) -> None:
        self._counts = {id_: Counter(_WORD.findall(text.lower())) for id_, text in texts.items()}
        self._lengths = {id_: counts.total() for id_, counts in self._counts.items()}
        self._mean = statistics.fmean(self._lengths.values())
        self._holders = Counter(word for counts in self._counts.values() for word in counts)
        self._k1, self._b = k1, b

    def ranked(self, query: str) -> list[str]:
        """The ids of the texts with a word of the query, best first."""
        scores: dict[str, float] = defaultdict(float)
        for word in _WORD.findall(query.lower()):
            holders = self._holders[word]
            rarity = math.log(1 + (len(self._counts) - holders + 0.5) / (holders + 0.5))
            for id_, counts in self._counts.items():
                if count := counts[word]:
                    length = 1 - self._b + self._b * self._lengths[id_] / self._mean
                    scores[id_] += rarity * count * (self._k1 + 1) / (count + self._k1 * length)
        return sorted(scores, key=lambda id_: -scores[id_])


@dataclass
class Tally:
    """What one ranker found, and how long it took."""

    recalls: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list[float])

    def row(self, name: str) -> str:
        """A line of the table."""
        cells = [f"{self._at(place):>8.3f}" for place in range(len(CUTS))]
        groups = [f"{self._mean(category, 1):>11.3f}" for category in sorted(self.recalls) if category != ""]
        median = 1000 * statistics.median(self.seconds)
        slow = 1000 * statistics.quantiles(self.seconds, n=20)[-1]
        return f"{name:<12}{''.join(cells)}{''.join(groups)}{median:>9.1f}{slow:>9.1f}"

    def _at(self, place: int) -> float:
        return self._mean("", place)

    def _mean(self, category: str, place: int) -> float:
        return statistics.fmean(recalls[place] for recalls in self.recalls[category])


async def tally(rank: Ranker, questions: list[Question]) -> Tally:
    """Ask every question."""
    result = Tally()
    for question in questions:
        started = time.perf_counter()
        ids = await rank(question.conversation, question.text)
        result.seconds.append(time.perf_counter() - started)
        recalls = [len(question.evidence.intersection(ids[:cut])) / len(question.evidence) for cut in CUTS]
        result.recalls[""].append(recalls)
        result.recalls[question.category].append(recalls)
    return result


def turns_of(conversation: dict[str, Any]) -> Iterator[Conversation]:
    """The turns as a host stores them; the speaker's name is part of what is said."""
    agent = f"c{conversation['id']}"
    for session in conversation["sessions"]:
        for index, turn in enumerate(session["turns"]):
            role = "user" if turn["speaker"] == conversation["speakers"][0] else "assistant"
            said = {"role": role, "text": f"{turn['speaker']}: {turn['text']}", "at": session["at"]}
            meta = {
                "namespace": f"team:locomo/agent:{agent}",
                "thread_id": f"session-{session['session']}",
                "turns": {"first": index, "last": index},
                "agent_id": agent,
                "source": {"kind": "conversation", "id": turn["id"]},
                "observed_at": session["at"],
            }
            yield Conversation.model_validate({"turns": [said], "meta": meta})


def engine_ranker(engine: SqliteEngine, mode: FetchMode) -> Ranker:
    """Ask the engine in one mode."""

    async def rank(conversation: str, question: str) -> list[str]:
        reach = Reach.exact(f"team:locomo/agent:c{conversation}")
        page = await engine.fetch(
            FetchRequest(query=question, mode=mode, filter=MetaFilter(reach=reach), limit=max(CUTS))
        )
        return [hit.meta.source.id or "" for hit in page.hits]

    return rank


def peer_ranker(conversations: list[dict[str, Any]]) -> Ranker:
    """Ask the plain BM25 over the same texts."""
    indexes = {
        conversation["id"]: Bm25(
            {turn.meta.source.id or "": turn.render_text() for turn in turns_of(conversation)}
        )
        for conversation in conversations
    }

    async def rank(conversation: str, question: str) -> list[str]:
        return indexes[conversation].ranked(question)

    return rank


async def main() -> None:
    """Store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, help="ask only so many questions, spread evenly")
    arguments = parser.parse_args()
    conversations: list[dict[str, Any]] = [
        json.loads(path.read_text()) for path in sorted(arguments.folder.glob("*.json"))
    ]
    questions = [
        Question(conversation["id"], asked["question"], frozenset(asked["evidence"]), asked["category"])
        for conversation in conversations
        for asked in conversation["questions"]
        if asked["evidence"]
    ]
    if arguments.limit:
        questions = questions[:: max(1, len(questions) // arguments.limit)]

    with tempfile.TemporaryDirectory() as folder:
        async with SqliteEngine(Path(folder) / "memory.db") as engine:
            await report(engine, conversations, questions)


async def report(
    engine: SqliteEngine, conversations: list[dict[str, Any]], questions: list[Question]
) -> None:
    """Fill the engine and print one line a ranker."""
    turns = [turn for conversation in conversations for turn in turns_of(conversation)]
    started = time.perf_counter()
    for start in range(0, len(turns), _BATCH):
        await engine.store_many(turns[start : start + _BATCH])
    seconds = time.perf_counter() - started
    print(f"{len(turns)} turns stored, {len(turns) / seconds:.0f} a second; {len(questions)} questions\n")
    categories = sorted({question.category for question in questions})
    cuts = "".join(f"{f'@{cut}':>8}" for cut in CUTS)
    print(f"{'':<12}{cuts}{''.join(f'{name[:10]:>11}' for name in categories)}{'ms p50':>9}{'ms p95':>9}")
    print((await tally(peer_ranker(conversations), questions)).row("plain bm25"), flush=True)
    for mode in FetchMode:
        print((await tally(engine_ranker(engine, mode), questions)).row(mode.value), flush=True)
    print("\nEvidence recall; the categories' at 10.")


if __name__ == "__main__":
    asyncio.run(main())

"""The ledger against a small model of its promises, over thousands of random steps.

The model knows what was enqueued and what the spec makes of each step; the ledger's keys are read
raw after every one.  Time stands still between steps, so both agree on it to the millisecond.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from tinymemory.namespace import Namespace, Reach
from workers.ledger import (
    Coverage,
    Failure,
    FailureKind,
    JobError,
    JobState,
    Lease,
    LedgerOptions,
    NewJob,
    Outcome,
    Party,
    Run,
    Success,
    SyncLedger,
    keeping,
    readings,
)
from workers.ledger.testing import START_MS
from workers.ledger.transitions import Transitions
from workers.testing import RedisServer

P = "{tinymemory}:"
OPTIONS = LedgerOptions(
    build_max_wait=300.0,
    lease=60.0,
    doorbell_lease=200.0,
    max_attempts=3,
    max_losses=2,
    breaker_threshold=4,
    newer_envelope_grace=500.0,
    root_concurrency=2,
    max_in_flight=5,
    history_limit=40,
    dead_limit=4,
)
BELIEFS, INGEST = "beliefs", "ingest"
QUEUES = (BELIEFS, INGEST)
LIVE = ("waiting", "queued", "running", "parked")
ENDINGS = (None, None, FailureKind.ATTEMPT, FailureKind.ATTEMPT, FailureKind.TRANSIENT, FailureKind.SHUTDOWN)
DUMP = """
local all = {}
for _, key in ipairs(redis.call("KEYS", "*")) do
  local kind, value = redis.call("TYPE", key).ok, nil
  if kind == "hash" then value = redis.call("HGETALL", key)
  elseif kind == "zset" then value = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
  elseif kind == "set" then value = redis.call("SMEMBERS", key)
  else value = redis.call("GET", key) end
  all[#all + 1] = { key, kind, value }
end
return all
"""


def reach_of(coverage: Coverage) -> Reach:
    return Reach(Namespace.parse(coverage.at), coverage.inherit, coverage.descendants)


def holds(wide: Coverage, narrow: Coverage) -> bool:
    """Whether one build covers another, by the library's own word."""
    kinds = set(wide.kinds) >= set(narrow.kinds) if wide.kinds and narrow.kinds else not wide.kinds
    return kinds and reach_of(wide).covers(reach_of(narrow))


def jobs() -> list[NewJob]:
    """Every job there is: two tenants and the root of all, two profiles, narrow and wide builds."""
    coverages: list[tuple[str, Coverage]] = []
    for root in ("team:a", "team:b"):
        for agent in ("x", "y"):
            at = f"{root}/agent:{agent}"
            coverages.append((root, Coverage(at, False, False, ("conversation",))))
        coverages.append((root, Coverage(f"{root}/agent:x", False, False, ("document", "conversation"))))
        coverages.append((root, Coverage(f"{root}/agent:x", False, True, ("conversation",))))
        coverages.append((root, Coverage(root, False, True)))
    # Under the root of all, reaches may inherit: two cover each other, one covers from below.
    coverages.append(("root", Coverage("root", True, False)))
    coverages.append(("root", Coverage("root", False, False)))
    coverages.append(("root", Coverage("team:a/agent:x", True, False)))
    coverages.append(("root", Coverage("team:a", False, False, ("learning",))))
    found: list[NewJob] = []
    for number, (root, coverage) in enumerate(coverages):
        for profile in ("default", "other") if root == "team:a" else ("default",):
            key = f"build:{root}:{number:x}{'0f'[profile == 'other']}"
            found.append(NewJob(key, BELIEFS, profile, coverage.at, "{}", coverage=coverage))
    for number, root in enumerate(("team:a", "team:b")):
        found.append(
            NewJob(f"ingest:{root}:{number:x}", INGEST, "default", "source:pdf", "{}", batch=root[-1])
        )
    return found


JOBS = {job.key: job for job in jobs()}
KEYS = sorted(JOBS)
PARTIES = sorted({(job.key.split(":", 1)[1].rsplit(":", 1)[0], job.profile) for job in JOBS.values()})


def root_of(key: str) -> str:
    return key.split(":", 1)[1].rsplit(":", 1)[0]


@dataclass
class Job:
    """What the model holds of one key."""

    state: str = "unknown"
    due: int = 0
    first: int = 0
    last: int = 0
    delay: int = 0
    not_before: int = 0
    merged: int = 0
    attempts: int = 0
    losses: int = 0
    forced: bool = False
    token: int = 0
    claimed: int = 0
    lease_ends: int = 0
    newer_since: int | None = None
    since_claim: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Enqueues since the claim: when, and the delay asked."""
    unserved: list[int] = field(default_factory=list[int])
    """Enqueues nothing has answered for yet (I1)."""


class LedgerMachine(RuleBasedStateMachine):
    client: Redis
    scripts = Transitions(OPTIONS, clock="test_clock")

    @initialize()
    def start(self) -> None:
        self.client.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        self.ledger = SyncLedger(self.client, calls=self.scripts)
        self.now = START_MS
        self.client.set(P + "test:now", self.now)
        self.jobs = {key: Job() for key in KEYS}
        self.leases: list[Lease] = []
        self.tokens = 0
        self.breakers: set[tuple[str, str]] = set()
        self.trials: dict[tuple[str, str], int] = {}
        self.streaks: dict[str, list[str]] = defaultdict(list)

    # -- hosts and time

    @rule(
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=8),
        delay=st.sampled_from((0, 0, 0, 20, 100)),
    )
    def enqueue(self, keys: list[str], delay: int) -> None:
        self.enqueue_jobs(keys, delay)

    def enqueue_jobs(self, keys: list[str], delay: int) -> None:
        batch = [with_delay(JOBS[key], delay) for key in keys]
        for job, answer in zip(batch, self.ledger.enqueue(batch), strict=True):
            state, due = self.accept(job)
            assert (answer.state, round(answer.due_at.timestamp() * 1000)) == (state, due)

    @precondition(lambda self: self.live())
    @rule(data=st.data(), delay=st.sampled_from((0, 20, 100)))
    def write_again(self, data: st.DataObject, delay: int) -> None:
        """Enqueue what is owed already: merging is where the rules are."""
        self.enqueue_jobs([data.draw(st.sampled_from(self.live())) for _ in range(3)], delay)

    @rule(seconds=st.sampled_from((0, 1, 15, 15, 70, 70, 210)), reap=st.booleans())
    def pass_time(self, seconds: int, *, reap: bool) -> None:
        self.now += seconds * 1000
        self.client.set(P + "test:now", self.now)
        if reap:
            self.reap()

    # -- workers; a crash is a lease nobody uses, a zombie one that is used late

    @precondition(lambda self: any(job.state == "waiting" for job in self.jobs.values()))
    @rule(n=st.integers(1, 6), begin=st.booleans())
    def claim(self, n: int, *, begin: bool) -> None:
        for queue in QUEUES:
            self.claim_from(queue, n)
        for lease in self.leases[-6:] if begin else ():
            self.begin_with(lease)

    @precondition(lambda self: any(job.state in ("waiting", "queued") for job in self.jobs.values()))
    @rule(queue=st.sampled_from((BELIEFS, BELIEFS, INGEST)), times=st.integers(1, 4))
    def claim_and_begin(self, queue: str, times: int) -> None:
        for _ in range(times):
            self.claim_from(queue, 1, begins=True)

    def claim_from(self, queue: str, n: int, *, begins: bool = False) -> None:
        queued = [key for key in KEYS if self.jobs[key].state == "queued" and JOBS[key].queue == queue]
        could = {key for key in KEYS if JOBS[key].queue == queue and self.is_claimable(key)}
        if begins:
            run, answer = self.ledger.run(self.scripts.claim_and_begin(queue, worker="w"))
            room = (1 if queued else 2) - (run is not None)
        else:
            run, answer = None, self.ledger.claim(queue, n)
            room = min(n, OPTIONS.max_in_flight - len(queued))
        due = [key for key in could if self.has_slot(root_of(key))]
        begun = [] if run is None else self.note_begun(run, could)
        claimed = [doorbell.lease for doorbell in answer.doorbells]
        assert len(queued) + len(claimed) <= OPTIONS.max_in_flight, "I9: the backlog stays in the ledger"
        for doorbell in answer.doorbells:
            job = self.jobs[doorbell.lease.key]
            assert doorbell.lease.key in could, "I4: never early, and not past a breaker"
            assert doorbell.priority == ("high" if job.forced else "normal")
            assert doorbell.lease.token > self.tokens, "I2: a token is new"
            self.tokens = doorbell.lease.token
            job.state, job.token, job.claimed = "queued", doorbell.lease.token, self.now
            job.lease_ends = self.now + 200_000
        self.leases += claimed
        self.follow_folds(answer.folded)
        self.follow_parks(queue, answer.parked)
        if run is not None and not begun:
            # Not what was folded into a run that serves it.
            due = [key for key in due if self.jobs[key].state == "waiting"]
            passed_by = self.tokens - run.lease.token >= OPTIONS.max_in_flight // 2
            assert passed_by or not due, "I5: what is due comes before what has a doorbell"
        room -= len(claimed)
        left = [key for key in could if self.jobs[key].state == "waiting" and self.has_slot(root_of(key))]
        assert room <= 0 or not left, f"I5: {left} could run and was not claimed"
        self.check_fair(begun + claimed, left)

    def note_begun(self, run: Run, could: set[str]) -> list[Lease]:
        """A job that was begun as it was claimed, if it was claimed just now."""
        job, lease = self.jobs[run.lease.key], run.lease
        was_queued = job.state == "queued"
        if was_queued:
            assert lease.token == job.token, "I2: its doorbell's token, which is stale from here on"
            assert job.forced or not self.is_held(lease.key)
        else:
            assert lease.key in could, "I4: never early, and not past a breaker"
            assert lease.token > self.tokens, "I2: a token is new"
            self.tokens = job.token = lease.token
            job.claimed = self.now
            self.leases.append(lease)
        job.state, job.attempts, job.lease_ends = "running", job.attempts + 1, self.now + 60_000
        assert (run.attempts, run.losses, run.merged) == (job.attempts, job.losses, job.merged)
        return [] if was_queued else [lease]

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.begin_with(self.some_lease(data, "queued"))

    def begin_with(self, lease: Lease) -> None:
        job, run = self.jobs[lease.key], self.ledger.run(self.scripts.begin(lease, worker="w"))
        if not self.is_valid(lease, "queued"):
            assert run is None, "I2: a stale doorbell does nothing"
            return
        if self.is_held(lease.key) and not job.forced:
            assert run is None
            self.return_unserved(lease.key, "parked")
            return
        assert run is not None
        job.state, job.attempts, job.lease_ends = "running", job.attempts + 1, self.now + 60_000
        assert (run.attempts, run.losses, run.merged) == (job.attempts, job.losses, job.merged)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        lease = self.some_lease(data, "running")
        [renewed] = self.ledger.run(self.scripts.renew([lease]))
        assert renewed == self.is_valid(lease, "running"), "I2: a void run learns of it"
        if renewed:
            self.jobs[lease.key].lease_ends = self.now + 60_000

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        follow=st.lists(st.sampled_from(KEYS), max_size=2),
        outcome=st.sampled_from(("done", "skipped")),
    )
    def settle(self, data: st.DataObject, follow: list[str], outcome: str) -> None:
        self.settle_with(self.some_lease(data, "running"), follow, outcome)

    def settle_with(self, lease: Lease, follow: list[str], outcome: str) -> None:
        root = root_of(lease.key)
        more = tuple(with_delay(JOBS[key], 20) for key in follow if root_of(key) == root and key != lease.key)
        valid = self.is_valid(lease, "running")
        answer = self.ledger.run(self.scripts.settle(lease, Success(Outcome(outcome), follow_ups=more)))
        assert (answer is not None) == valid, "I2: what a void run would settle is discarded"
        if answer is None:
            return
        for job, follow_up in zip(more, answer.follow_ups, strict=True):
            assert follow_up.state == self.accept(job)[0]
        job = self.jobs[lease.key]
        job.unserved = [at for at in job.unserved if at > job.claimed or (at, 0) in job.since_claim]
        self.note_success(lease.key)
        if job.since_claim:
            self.start_over(lease.key)
        else:
            job.state = "done"
        assert answer.state == self.jobs[lease.key].state, "I3: the last write is built"

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        kind=st.sampled_from(list(FailureKind)),
        retry_after=st.sampled_from((None, None, 40.0)),
    )
    def fail(self, data: st.DataObject, kind: FailureKind, retry_after: float | None) -> None:
        self.fail_with(self.some_lease(data, "running"), kind, retry_after)

    def fail_with(self, lease: Lease, kind: FailureKind, retry_after: float | None) -> None:
        valid = self.is_valid(lease, "running")
        failure = Failure(kind, JobError("kind", "message"), retry_after)
        answer = self.ledger.run(self.scripts.fail(lease, failure))
        assert (answer is not None) == valid, "I2: what a void run would settle is discarded"
        if answer is None:
            return
        self.model_failure(lease.key, kind, retry_after)
        assert answer.state == self.jobs[lease.key].state

    @precondition(lambda self: any(job.state == "running" for job in self.jobs.values()))
    @rule(kinds=st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=4))
    def end_runs(self, kinds: list[FailureKind | None]) -> None:
        running = [lease for lease in self.leases if self.is_valid(lease, "running")]
        for lease, kind in zip(running, kinds, strict=False):
            if kind is None:
                self.settle_with(lease, [], "done")
            else:
                self.fail_with(lease, kind, None)

    @precondition(lambda self: any(job.state == "waiting" for job in self.jobs.values()))
    @rule(kind=st.sampled_from((FailureKind.ATTEMPT, None, None)))
    def whole_round(self, kind: FailureKind | None) -> None:
        """What is due runs, and all of it fails; None: every worker dies."""
        self.claim(6, begin=True)
        if kind is None:
            self.pass_time(60, reap=True)
        else:
            self.end_runs([kind] * len(KEYS))
            self.pass_time(15, reap=False)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        lease = self.some_lease(data, "queued")
        valid = self.is_valid(lease, "queued")
        assert self.ledger.run(self.scripts.give_back([lease])) == int(valid)
        if valid:
            self.return_unserved(lease.key, "waiting")

    # -- the beat

    def reap(self) -> None:
        answer = self.ledger.follow(keeping.reap(self.scripts))
        returned = lost = 0
        for key, job in self.jobs.items():
            if job.state in ("queued", "running") and job.lease_ends <= self.now:
                if job.state == "queued":
                    returned += 1
                    self.return_unserved(key, "waiting")
                else:
                    lost += 1
                    job.losses += 1
                    if job.losses >= OPTIONS.max_losses:
                        self.die(key)
                    else:
                        self.return_served(key, "waiting")
        assert (answer.returned, answer.lost) == (returned, lost)
        self.forget_trials({id_ for id_, ends in self.trials.items() if ends <= self.now})
        # What a forced run's success closed: nobody else has unparked yet.
        self.unpark()

    @precondition(lambda self: not self.breakers)
    @rule(party=st.sampled_from(PARTIES), whole=st.booleans())
    def open_breaker(self, party: tuple[str, str], whole: bool) -> None:
        id_ = ("*" if whole else party[0], party[1])
        opened = self.ledger.run(self.scripts.open_breaker(Party(*party), "why", whole_profile=whole))
        assert opened == (id_ not in self.breakers)
        self.open(id_)

    @precondition(lambda self: self.breakers)
    @rule(data=st.data())
    def close_breaker(self, data: st.DataObject) -> None:
        root, profile = data.draw(st.sampled_from(sorted(self.breakers)))
        self.ledger.follow(keeping.close_breaker(self.scripts, profile, None if root == "*" else root))
        self.close((root, profile))
        self.unpark()

    # -- operators

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=8, unique=True), act=st.integers(0, 11))
    def operate(self, keys: list[str], act: int) -> None:
        match act:
            case 0:
                self.erase(root_of(keys[0]))
            case 1 | 2:
                self.drop(keys[0])
            case 3 | 4 | 5 | 6:
                self.retry(keys)
            case _:
                self.run_now(keys[0])

    def run_now(self, key: str) -> None:
        job = self.jobs[key]
        found = self.ledger.run(self.scripts.run_now(key))
        if job.state == "buried":
            assert found is JobState.DEAD
            return
        assert found == JobState(job.state)
        if found in ("waiting", "parked", "dead"):
            if found == "dead":
                job.attempts = job.losses = 0
            job.state, job.due, job.forced, job.not_before = "waiting", self.now, True, 0

    def retry(self, keys: list[str]) -> None:
        for key, done in zip(keys, self.ledger.run(self.scripts.retry(keys)), strict=True):
            job = self.jobs[key]
            assert done == (job.state == "dead")
            if done:
                job.state, job.due, job.attempts, job.losses, job.not_before = "waiting", self.now, 0, 0, 0

    def drop(self, key: str) -> None:
        job = self.jobs[key]
        found = self.ledger.run(self.scripts.drop(key))
        if job.state == "buried":
            assert found is JobState.DEAD
            return
        assert found == JobState(job.state)
        if found in (*LIVE, "dead"):
            self.jobs[key] = Job("cancelled")

    def erase(self, root: str) -> None:
        self.ledger.follow(keeping.erase(self.scripts, root))
        for key in KEYS:
            if root_of(key) == root:
                self.jobs[key] = Job()
        self.breakers = {id_ for id_ in self.breakers if id_[0] != root}
        self.forget_trials({id_ for id_ in self.trials if id_[0] == root})
        for name, _, value in self.dump():
            # A profile's breaker names the root to probe through.
            if not name.startswith(P + "breaker:*"):
                assert not re.search(rf"(^|[:|']){root}([:|']|$)", f"{name} {value}"), name

    # -- what the spec makes of each step

    def accept(self, new: NewJob) -> tuple[str, int]:
        job, build = self.jobs[new.key], new.key.startswith("build")
        delay = round(new.delay * 1000) if build else 0
        job.unserved.append(self.now)
        if job.state in ("queued", "running"):
            if not build:
                job.merged, job.last = job.merged + 1, self.now
                job.unserved.pop()
                return "merged", job.due
            job.since_claim.append((self.now, delay))
            return "rerun", max(job.not_before, self.due_since_claim(job))
        if job.state in ("waiting", "parked"):
            job.merged, job.last = job.merged + 1, self.now
            if build:
                job.delay = min(job.delay, delay)
                job.due = max(job.not_before, min(job.first + 300_000, self.now + job.delay))
            return "merged", job.due
        self.jobs[new.key] = Job("waiting", self.now + delay, self.now, self.now, delay, unserved=[self.now])
        return "new", self.now + delay

    def due_since_claim(self, job: Job) -> int:
        first, last = job.since_claim[0][0], job.since_claim[-1][0]
        return min(first + 300_000, last + min(delay for _, delay in job.since_claim))

    def return_unserved(self, key: str, state: str, not_before: int = 0) -> None:
        """Back as if never claimed."""
        job = self.jobs[key]
        if job.since_claim:
            job.last = job.since_claim[-1][0]
            job.delay = min(job.delay, *(delay for _, delay in job.since_claim))
            job.due = min(job.first + 300_000, job.last + job.delay)
        self.go_back(job, state, not_before)

    def return_served(self, key: str, state: str, not_before: int = 0) -> None:
        """Back after a run that failed: the enqueues since the claim set the pace."""
        job = self.jobs[key]
        if job.since_claim:
            job.due = self.due_since_claim(job)
            job.first, job.last = job.since_claim[0][0], job.since_claim[-1][0]
            job.delay = min(delay for _, delay in job.since_claim)
        self.go_back(job, state, not_before)

    def go_back(self, job: Job, state: str, not_before: int) -> None:
        job.state, job.forced = state, False
        job.merged += len(job.since_claim)
        job.since_claim = []
        job.not_before = not_before or job.not_before
        job.due = max(job.due, job.not_before)

    def start_over(self, key: str) -> None:
        job = self.jobs[key]
        self.jobs[key] = Job(
            "waiting",
            self.due_since_claim(job),
            job.since_claim[0][0],
            job.since_claim[-1][0],
            min(delay for _, delay in job.since_claim),
            merged=len(job.since_claim) - 1,
            unserved=[at for at, _ in job.since_claim],
        )

    def die(self, key: str) -> None:
        job = self.jobs[key]
        if job.since_claim:
            self.start_over(key)
        else:
            job.state, job.forced, job.not_before, job.newer_since = "dead", False, 0, None

    def model_failure(self, key: str, kind: FailureKind, retry_after: float | None) -> None:
        job, profile = self.jobs[key], JOBS[key].profile
        stored = int(self.client.hget(f"{P}job:{key}", "nb") or 0)
        match kind:
            case FailureKind.PERMANENT:
                return self.die(key)
            case FailureKind.SHUTDOWN:
                job.attempts -= 1
                return self.return_unserved(key, "waiting")
            case FailureKind.NEWER:
                since = job.newer_since if job.newer_since is not None else self.now
                if self.now - since >= 500_000:
                    return self.die(key)
                job.attempts, job.newer_since = job.attempts - 1, since
                return self.return_unserved(key, "waiting", self.now + 30_000)
            case FailureKind.CREDENTIAL | FailureKind.UNREACHABLE:
                self.open((root_of(key) if kind is FailureKind.CREDENTIAL else "*", profile))
                job.attempts -= 1
                return self.return_served(key, "parked")
            case FailureKind.TRANSIENT | FailureKind.THROTTLED:
                self.streaks[profile].append(key)
                streak = self.streaks[profile]
                if len(streak) >= OPTIONS.breaker_threshold and len(set(streak)) >= 3:
                    self.streaks[profile] = []
                    self.open(("*", profile))
                if self.is_held(key):
                    job.attempts -= 1
                    return self.return_served(key, "parked")
            case FailureKind.ATTEMPT:
                pass
        if kind is FailureKind.THROTTLED:
            ceiling = 10_000 * 2 ** (job.attempts - 1)
            job.attempts -= 1
        elif job.attempts >= OPTIONS.max_attempts:
            return self.die(key)
        else:
            ceiling = 10_000 * 2 ** (job.attempts - 1)
        least = round((retry_after or 0) * 1000)
        assert self.now + least <= stored <= self.now + max(least, min(ceiling, 900_000))
        return self.return_served(key, "waiting", stored)

    def note_success(self, key: str) -> None:
        party = (root_of(key), JOBS[key].profile)
        self.streaks[party[1]] = []
        for id_ in (party, ("*", party[1])):
            if self.jobs[key].forced:
                self.close(id_)
            self.forget_trials({id_} & set(self.trials))

    def forget_trials(self, ids: set[tuple[str, str]]) -> None:
        for id_ in ids:
            del self.trials[id_]

    def open(self, id_: tuple[str, str]) -> None:
        self.breakers.add(id_)
        self.trials.pop(id_, None)

    def close(self, id_: tuple[str, str]) -> None:
        if id_ in self.breakers:
            self.breakers.remove(id_)
            self.trials[id_] = self.now + 1_800_000

    def unpark(self) -> None:
        for key, job in self.jobs.items():
            if job.state == "parked" and not self.is_held(key):
                job.state = "waiting"

    def follow_folds(self, folded: int) -> None:
        entries = self.ledger.follow(readings.history(self.scripts, root=None, key=None, limit=folded + 10))
        folds = [entry for entry in entries if entry.outcome is Outcome.FOLDED][:folded]
        assert len(folds) == folded or folded > 30
        for entry in folds:
            assert entry.into is not None
            job, into = self.jobs[entry.key], self.jobs[entry.into]
            narrow, wide = JOBS[entry.key].coverage, JOBS[entry.into].coverage
            assert narrow is not None
            assert wide is not None
            assert holds(wide, narrow), "only what is covered is folded"
            assert root_of(entry.key) == root_of(entry.into), "I7: within its tenant"
            assert JOBS[entry.key].profile == JOBS[entry.into].profile
            assert job.state == "waiting"
            assert job.due <= into.claimed, "folded when due, not before"
            assert into.state in ("queued", "running"), "into a run that is still to end"
            into.unserved += job.unserved
            self.jobs[entry.key] = Job("done")

    def follow_parks(self, queue: str, parked: int) -> None:
        found = 0
        for key, job in self.jobs.items():
            if JOBS[key].queue != queue or job.state not in ("waiting", "queued") or not self.is_held(key):
                continue
            if self.client.hget(f"{P}job:{key}", "state") != "parked":
                continue
            found += 1
            if job.state == "queued":
                self.return_unserved(key, "parked")
            else:
                assert job.due <= self.now
                assert not job.forced, "an operator's run waits for no breaker"
                job.state = "parked"
        assert found == parked

    # -- what the checks ask

    def live(self) -> list[str]:
        return [key for key in KEYS if self.jobs[key].state in LIVE]

    def some_lease(self, data: st.DataObject, state: str) -> Lease:
        """One that is good for something, mostly; else any there ever was."""
        good = [lease for lease in self.leases if self.is_valid(lease, state)]
        return data.draw(st.sampled_from(good if good and data.draw(st.integers(0, 4)) else self.leases))

    def is_valid(self, lease: Lease, state: str) -> bool:
        job = self.jobs[lease.key]
        return job.state == state and job.token == lease.token

    def is_held(self, key: str) -> bool:
        return (root_of(key), JOBS[key].profile) in self.breakers or ("*", JOBS[key].profile) in self.breakers

    def has_slot(self, root: str, profile: str | None = None) -> bool:
        held = sum(
            root_of(key) == root and job.state in ("queued", "running") for key, job in self.jobs.items()
        )
        trial = any(id_ in self.trials for id_ in ((root, p) for _, p in PARTIES)) or any(
            id_[0] == "*" for id_ in self.trials
        )
        return held < (1 if trial else OPTIONS.root_concurrency)

    def is_claimable(self, key: str) -> bool:
        job = self.jobs[key]
        return job.state == "waiting" and (job.forced or (job.due <= self.now and not self.is_held(key)))

    def check_fair(self, claimed: list[Lease], left: list[str]) -> None:
        rounds = Counter((root_of(lease.key), JOBS[lease.key].profile) for lease in claimed)
        forced = any(self.jobs[lease.key].forced for lease in claimed)
        for key in left:
            mine = rounds[root_of(key), JOBS[key].profile]
            assert forced or mine >= max(rounds.values(), default=0) - 1, (
                "I6: no root gets a second job before all have one"
            )

    def dump(self) -> list[list[Any]]:
        return self.client.eval(DUMP, 0)

    # -- after every step

    @invariant()
    def agrees(self) -> None:
        raw = {name.removeprefix(P): (kind, value) for name, kind, value in self.dump()}
        stored = {name[4:]: pairs(value) for name, (_, value) in raw.items() if name.startswith("job:")}
        for key, job in self.jobs.items():
            self.check_job(key, job, stored.get(key, {}))
        check_indexes(raw, stored)
        assert len(raw.get("history", ("", []))[1]) // 2 <= OPTIONS.history_limit, "I9"
        assert len(raw.get("dead", ("", []))[1]) // 2 <= OPTIONS.dead_limit, "I9"

    def check_job(self, key: str, job: Job, stored: dict[str, str]) -> None:
        state = stored.get("state", "unknown")
        if job.state in ("done", "cancelled") and state == "unknown":
            job.state = "unknown"  # the history forgot it
        if job.state == "dead" and not self.client.zscore(P + "dead", key):
            assert self.client.zcard(P + "dead") >= OPTIONS.dead_limit
            self.jobs[key] = job = Job("buried")  # a newer letter pushed it out
        if job.state == "buried":
            assert state in ("dead", "unknown")
            job.state = "buried" if state == "dead" else "unknown"
            return
        assert state == job.state or (job.state == "done" and state == "folded"), key
        if job.state in LIVE:
            due = (job.due, job.first, job.last, job.attempts, job.losses, job.merged)
            names = ("due", "first", "last", "attempts", "losses", "merged")
            assert tuple(int(stored.get(name, 0)) for name in names) == due, key
        assert not job.unserved or state in (*LIVE, "dead", "done"), "I1: nothing accepted is lost"
        if state == "done":
            job.unserved = []


def with_delay(job: NewJob, delay: int) -> NewJob:
    return NewJob(job.key, job.queue, job.profile, job.scope, job.envelope, delay, job.coverage, job.batch)


def pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def check_indexes(raw: dict[str, tuple[str, Any]], stored: dict[str, dict[str, str]]) -> None:
    """Every job is in the index of its state, there alone, and nothing else is."""
    found: dict[str, list[str]] = defaultdict(list)
    counts: Counter[str] = Counter()
    flight: dict[str, set[str]] = defaultdict(set)
    for name, (_, value) in raw.items():
        kind, _, rest = name.partition(":")
        if kind in ("due", "parked"):
            _, root, profile = rest.split("|", 2)
            for id_, due in pairs(value).items():
                key = f"{'build' if id_[0] == 'b' else 'ingest'}:{root}:{id_[1:]}"
                found[key].append("waiting" if kind == "due" else "parked")
                assert stored[key]["due"] == due
                assert stored[key]["profile"] == profile
        elif kind in ("queued", "running"):
            for key in pairs(value):
                found[key].append(kind)
                flight[root_of(key)].add(key)
        elif kind == "dead":
            for key in pairs(value):
                found[key].append("dead")
    for key, job in stored.items():
        expected = [job["state"]] if job["state"] in LIVE or key in found else []
        assert found[key] == expected, f"{key} is {job['state']} and found as {found[key]}"
        if expected:
            counts[f"{job['state']}|{job['queue']}|{job['profile']}"] += 1
    assert set(found) <= set(stored)
    tallied = {name: int(n) for name, n in pairs(raw.get("counts", ("", []))[1]).items()}
    assert {name: n for name, n in tallied.items() if n} == dict(counts)
    held = {name[5:]: set(value) for name, (_, value) in raw.items() if name.startswith("held:")}
    assert held == dict(flight)
    assert all(len(keys) <= OPTIONS.root_concurrency for keys in held.values()), "I6: capped"
    check_turns(raw, held)
    check_texts(raw, stored, found)


def check_turns(raw: dict[str, tuple[str, Any]], held: dict[str, set[str]]) -> None:
    """A party with waiting jobs is where claim finds it."""
    for queue in QUEUES:

        def zset(name: str, queue: str = queue) -> dict[str, str]:
            return pairs(raw.get(f"{name}:{queue}", ("", []))[1])

        prefix = f"due:{queue}|"
        lanes = {
            name.removeprefix(prefix): pairs(v) for name, (_, v) in raw.items() if name.startswith(prefix)
        }
        heads = {party: str(min(map(int, jobs.values()))) for party, jobs in lanes.items()}
        assert zset("heads") == heads
        for party, head in heads.items():
            root, profile = party.split("|", 1)
            capped = f"{queue}|{profile}" in raw.get(f"capped:{root}", ("", []))[1]
            asleep, ring = zset("asleep").get(party), zset("ring").get(party)
            assert not (asleep and ring)
            sleeps = asleep is not None and int(asleep) <= int(head)
            assert ring or sleeps or (capped and held.get(root)), party
        assert set(zset("asleep")) | set(zset("ring")) <= set(heads)


def check_texts(
    raw: dict[str, tuple[str, Any]], stored: dict[str, dict[str, str]], found: dict[str, list[str]]
) -> None:
    """A payload is kept as long as it may be run, and no longer."""
    texts = {
        f"{'build' if id_[0] == 'b' else 'ingest'}:{name[5:]}:{id_[1:]}"
        for name, (_, value) in raw.items()
        if name.startswith("text:")
        for id_ in pairs(value)
    }
    assert texts == {key for key in stored if found.get(key)}
    wide = {
        member.rsplit("|", 1)[1] + "|" + name[5:]
        for name, (_, value) in raw.items()
        if name.startswith("wide:")
        for member in pairs(value)
    }
    expected = {
        f"b{key.rsplit(':', 1)[1]}|{root_of(key)}|{job['profile']}"
        for key, job in stored.items()
        if "coverage" in job and found.get(key)
    }
    assert wide == expected


def test_i1_to_i9_hold_over_random_steps(redis_server: RedisServer) -> None:
    class Bound(LedgerMachine):
        client = Redis(port=redis_server.port, decode_responses=True)

    # Each step is checked in full: that the file is synced as often is not what this is about.
    Bound.client.config_set("appendfsync", "no")  # pyright: ignore[reportUnknownMemberType]  # as above
    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=40,
            stateful_step_count=50,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
            ],
        ),
    )
    Bound.client.config_set("appendfsync", "always")  # pyright: ignore[reportUnknownMemberType]  # as above

"""The ledger: what is owed, as atomic Lua scripts on Redis.

A job is `waiting`, `queued` (claimed, its doorbell published), `running`, `parked` (an open breaker
holds it), or over: `done`, `dead` (a letter kept for an operator), `cancelled`, or folded into a
wider build.  The first four are owed.

    enqueue     unknown, over, dead -> waiting; else merged, or flagged to run again
    claim       waiting -> queued with a token and a lease; -> parked; -> folded; for a worker that
                begins one at once also waiting -> running, or queued -> running or parked
    give_back   queued -> waiting, as if never claimed
    begin       queued -> running; -> parked when a breaker opened meanwhile
    renew       running, for another lease
    settle      running -> done, or waiting when enqueues came since the claim
    fail        running -> waiting, parked or dead
    reap        expired queued -> waiting; expired running -> waiting with a loss, at last dead
    unpark      parked -> waiting, once nothing holds it
    run_now     waiting, parked, dead -> waiting, next in turn
    retry       dead -> waiting
    drop        any but over -> cancelled

Each is one script in `lua/`, whose header is its contract; it refuses before its first write, goes by
Redis's clock alone, and bounds its loops.  A run proves itself by its token, a number that only grows.

Keys, each behind the prefix.  A party is `<root>|<profile>`, a lane `<queue>|<party>`, an id `b` or
`i` and the hex digits of a key.

    job:<key>            hash    state, queue, profile, due, first, last, delay (ms), merged, attempts,
                                 losses, nb (not before), forced (an operator's run), token, claimed,
                                 begun, worker, rfirst rlast rdelay rcount (enqueues since the claim),
                                 ekind error (of the last failure), newer (since), served srun (claim
                                 and token of the last success), batch, scope (an ingest's), coverage (a
                                 wide build's); once over: history, ended, outcome, into, since
                                 ends when the history forgets its last entry, or the letter is evicted
    text:<root>          hash    id -> coverage, scope, envelope, a line each; ends with the job or letter
    due:<lane>           zset    id -> due: the waiting jobs
    heads:<queue>        zset    party -> its earliest due, of all with waiting jobs
    asleep:<queue>       zset    party -> when to look at it; not those in the ring
    ring:<queue>         zset    party -> turn: those claim goes round
    capped:<root>        set     `<queue>|<profile>` to place again when a slot frees or a trial ends
    express:<queue>      zset    key -> asked at: an operator's runs
    queued:<queue>       zset    key -> end of lease
    running:<queue>      zset    key -> end of lease
    held:<root>          set     keys queued or running
    wide:<party>         zset    `<node>|<flags>|<id>` of live builds that can cover others
    parked:<lane>        zset    id -> due;  parkings: lane -> since
    breakers, trials     zset    `<party>` or `*|<profile>` -> next probe, or end of trial
    breaker:<id>         hash    reason, since, pause, via
    streak:<profile>     hash    failures in a row, and three hashed keys; expires after a day
    dead                 zset    key -> died at; the newest `dead_limit`
    history              zset    one run as JSON -> number; the newest `history_limit`
    lanes:<root>         set     `<queue>|<profile>` it was ever in; until pruned or erased
    roots                zset    party -> last reconciled; until pruned or erased
    active, resting      zset    party -> last enqueue by a host, before and after its nightly build
    queues               set     every queue there ever was
    counts, totals       hash    `<name>|<queue>|<profile>` -> jobs now, and ever
    counter              hash    token, turn, history: the last number given
    batch:<id>           set     keys of an ingest's parts; expires a week after the last enqueue
    batches:<root>       set     ids of its batches; the same
"""

from workers.ledger.jobs import (
    OWED,
    Claimed,
    Coverage,
    Doorbell,
    Enqueued,
    EnqueueState,
    JobKey,
    JobState,
    Lease,
    NewJob,
    Priority,
    Run,
)
from workers.ledger.ledger import Ledger, SyncLedger
from workers.ledger.options import LedgerOptions
from workers.ledger.outcomes import (
    SERVED,
    Failed,
    Failure,
    FailureKind,
    JobError,
    Outcome,
    Reaped,
    Settled,
    Success,
)
from workers.ledger.scripts import Call
from workers.ledger.views import (
    Active,
    BatchProgress,
    BreakerView,
    ErrorView,
    HistoryView,
    JobDetail,
    JobStatus,
    JobView,
    LaneStats,
    Party,
    Probe,
    RootStats,
    StatsView,
)

__all__ = [
    "OWED",
    "SERVED",
    "Active",
    "BatchProgress",
    "BreakerView",
    "Call",
    "Claimed",
    "Coverage",
    "Doorbell",
    "EnqueueState",
    "Enqueued",
    "ErrorView",
    "Failed",
    "Failure",
    "FailureKind",
    "HistoryView",
    "JobDetail",
    "JobError",
    "JobKey",
    "JobState",
    "JobStatus",
    "JobView",
    "LaneStats",
    "Lease",
    "Ledger",
    "LedgerOptions",
    "NewJob",
    "Outcome",
    "Party",
    "Priority",
    "Probe",
    "Reaped",
    "RootStats",
    "Run",
    "Settled",
    "StatsView",
    "Success",
    "SyncLedger",
]

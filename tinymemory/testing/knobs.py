"""What a test can turn on a loopback server, before and while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tinymemory.testing.raw import READY_MADE, RawAnswer


@dataclass(slots=True, kw_only=True)
class Knobs:
    """Everything that can be made to go wrong; each is off unless turned.

    A counter ("that many") takes one off for each request it spoils and falls to 0.  Faults of an append
    apply to every event of a bulk.  Both wires, unless it says otherwise.
    """

    extraction_delay: float = 0.0
    """Seconds between an event and its fact."""
    auto_build: bool | None = None
    """Each fact becomes a belief the moment it is there; by default on the hosted wire only."""
    answer_text: str | None = None
    """What the answer route says instead of quoting the question."""

    accept_token: str | None = None
    """The one bearer accepted; any, when None."""
    fail_all: tuple[int, str] | None = None
    """Every request fails with this status and code."""
    whoami_caller: str | None = "user:local"
    """The caller `whoami` names; the route is missing when None.  Direct."""
    whoami_status: int | None = None
    """The status `whoami` fails with.  Direct."""
    capabilities: Sequence[str] = ("refers_to_v1", "temporal_lenient_v1")
    """What the version route lists.  Direct."""
    version_status: int | None = None
    """The status the version route fails with.  Direct."""

    rate_limit_events: int = 0
    """That many listings answer 429."""
    rate_limit_writes: int = 0
    """That many appends answer 429, and no claim is taken."""
    rate_limit_forgets: int = 0
    """That many forgets answer 429."""
    rate_limit_recalls: int = 0
    """That many recalls answer 429."""
    rate_limit_per_minute: int | None = None
    """A real budget: so many requests a bearer in each minute, 429 beyond."""
    rate_limit_window: float = 60.0
    """Seconds that make the minute of that budget: a test lives through several shorter ones."""
    rate_limit_headers: Mapping[str, int | str | None] = field(default_factory=dict[str, int | str | None])
    """The headers of every 429 (`Retry-After`, `RateLimit-Reset`) and their seconds; None for the seconds
    that are really left of the window."""
    state_change_events: int = 0
    """That many listings answer 503 `AUTHORIZATION_STATE_CHANGED`."""

    hide_listing: int = 0
    """That many listings come back empty and complete."""
    arm_after_write: tuple[int, int] | None = None
    """(limited, hidden): once the next append is applied, `rate_limit_events` and `hide_listing` become
    these.  Aims at the reads after a write, not at the lookup before it."""
    apply_then_fail: int = 0
    """That many appends are applied and then answered 503."""
    claim_then_fail: int = 0
    """That many appends take the claim, are not applied, and answer 502."""
    fail_nth_write: int = 0
    """The nth event written from now on is refused with 400 and not applied; counts down to 0."""
    forget_apply_then_fail: int = 0
    """That many forgets are applied and then answered 503."""
    forget_missing_404: bool = False
    """A forget none of whose ids exist is 404."""

    recall_down: bool = False
    """Every recall is 500."""
    answer_down: bool = False
    """Every answer is 503 `ANSWER_UNAVAILABLE`."""
    refuse_temporal: bool = False
    """A recall with `temporal` is 422 `INVALID_BODY`."""
    refuse_recall: bool = False
    """Every recall is 422."""
    expire_packs: int = 0
    """That many answers are 404, every pack dropped."""
    recall_role_prefix: bool = False
    """Events in packs render their text as `[<role>] <text>`, as old servers do."""

    conflict_status: int = 400
    """How the back-end relays a conflict: 400 or 409.  Hosted."""
    tenant_prefix: str = "org:t1"
    """What every path read back starts with.  Hosted."""

    string_prefix_scopes: bool = False
    """A scope listing's prefix matches as a plain string: `user:ann` lists `user:anna` too."""
    padding_scopes: int = 0
    """That many more registered, empty scopes."""
    scope_listing_missing: bool = False
    """The scope listing is 404."""
    stuck_cursor: bool = False
    """A listing repeats the cursor it was given."""
    endless_listing: bool = False
    """A listing never ends, and always names a new cursor."""
    listing_delay: float = 0.0
    """Real seconds each event listing is held."""
    recall_delay: float = 0.0
    """Real seconds each recall is held."""

    erasure_running_for: int = 0
    """Polls before an erasure is over.  Direct."""
    erasure_status: str = "completed"
    """How an erasure ends.  Direct."""
    erasure_incomplete_for: int = 0
    """That many erasures answer 502 `ERASURE_INCOMPLETE` and erase nothing."""
    erase_all_missing: bool = False
    """`DELETE memory` does not exist.  Hosted."""
    scoped_erase_missing: bool = False
    """The erasures route does not exist."""

    raw_answers: dict[str, list[RawAnswer | str]] = field(default_factory=dict[str, list[RawAnswer | str]])
    """By prefix of `METHOD /path`: what the next such requests get instead of the route's answer, one
    each; a `RawAnswer` or the name of a ready-made one.  `whoami` takes those of its own path only."""

    def take(self, counter: str) -> bool:
        """Use up one of a counter; False when none is left."""
        left: int = getattr(self, counter)
        if left > 0:
            setattr(self, counter, left - 1)
        return left > 0

    def nth_write_is_due(self) -> bool:
        """Count one write towards `fail_nth_write`; True when it is the one to refuse."""
        due = self.fail_nth_write == 1
        self.take("fail_nth_write")
        return due

    def take_raw(self, method_and_path: str, *, at_least: str = "") -> RawAnswer | None:
        """The next raw answer for a request, longest prefix first; None when none is waiting.

        Prefixes that do not begin with `at_least` do not count.
        """
        for prefix in sorted(self.raw_answers, key=len, reverse=True):
            waiting = self.raw_answers[prefix]
            if waiting and prefix.startswith(at_least) and method_and_path.startswith(prefix):
                raw = waiting.pop(0)
                return READY_MADE[raw] if isinstance(raw, str) else raw
        return None

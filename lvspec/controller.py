"""How many tokens to draft in the next round: pure functions over what was seen so far.

The best length has the most tokens per second: expected emitted tokens over the measured cost of
a round. 0, plain decoding, is one of the lengths; from there a short draft is tried now and then,
more rarely each time that it does not pay, so that a useless draft costs next to nothing.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

_MEMORY = 0.95  # what a round's evidence weighs after one round more
_PRIOR = 1.0  # slots' worth of belief that a slot is kept as often as all are
_FADED = 1.0  # slots' worth that old evidence keeps while nothing is drafted: a trial outweighs it
_TRIAL = 4  # tokens drafted to see whether drafting pays again
_PATIENCE = 16, 1024  # plain rounds before a trial: at first, at most
_BETTER = 1.01  # a change must promise so much more: measurements are noisy


@dataclass(frozen=True)
class Acceptance:
    """What the controller remembers; a value, handed in and out.

    judged, kept: float [longest], how often a drafted slot was reached (all before it were kept),
        and was kept itself; recent rounds weigh more.
    length: tokens drafted in the latest round. idle: plain rounds since a draft. patience: plain
        rounds to go without one.
    """

    judged: npt.NDArray[np.float64]
    kept: npt.NDArray[np.float64]
    length: int
    idle: int = 0
    patience: int = _PATIENCE[0]


def start(longest: int) -> Acceptance:
    """Nothing seen yet: drafts of full length."""
    return Acceptance(np.zeros(longest), np.zeros(longest), longest)


def learn(state: Acceptance, accepted: npt.NDArray[np.int64], drafted: int) -> Acceptance:
    """After a round that drafted `drafted` tokens per row, of which accepted [B] were kept."""
    if not drafted:
        fade = min(1.0, max(_MEMORY, _FADED / max(float(state.judged[0]), 1e-9)))
        judged, kept = fade * state.judged, fade * state.kept
        return replace(state, judged=judged, kept=kept, idle=state.idle + 1)
    slots = np.arange(len(state.judged))
    judged = ((accepted[:, None] >= slots) & (slots < drafted)).sum(0)
    kept = (accepted[:, None] > slots).sum(0)
    return replace(
        state, judged=_MEMORY * state.judged + judged, kept=_MEMORY * state.kept + kept, idle=0
    )


def expected_tokens(state: Acceptance) -> npt.NDArray[np.float64]:
    """Tokens that a round emits per row if it drafts 0..longest, float [longest + 1]."""
    overall = (state.kept.sum() + _PRIOR) / (state.judged.sum() + 2 * _PRIOR)
    chance = (state.kept + _PRIOR * overall) / (state.judged + _PRIOR)
    return 1 + np.concatenate([[0.0], np.cumsum(np.cumprod(chance))])


def choose(state: Acceptance, round_s: npt.NDArray[np.float64] | None) -> Acceptance:
    """The state with the next round's `length`.

    round_s: seconds of a round that drafts 0..longest tokens; None while unknown.
    """
    longest = len(state.judged)
    if round_s is None:
        return replace(state, length=longest)
    rate = expected_tokens(state) / round_s
    best, now = int(rate.argmax()), state.length
    if state.idle and best == 0 and state.idle >= state.patience:
        return replace(state, length=min(_TRIAL, longest))
    if state.idle == 0 and now and best == 0:  # a draft that did not pay
        patience = min(2 * state.patience, _PATIENCE[1])
        return replace(state, length=0, patience=patience)
    if best and rate[best] < _BETTER * rate[now]:
        best = now
    patience = state.patience if best == 0 else _PATIENCE[0]
    return replace(state, length=best, patience=patience)

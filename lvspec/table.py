"""Bookkeeping of the rows being decoded, on the host, as arrays with one row per slot.

Pure numpy: what a verify pass decided comes in, which rows are finished and why comes out.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lvspec.types import REASONS, STOPS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

_LOOSE, _SHIFT, _TARGET = (REASONS.index(r) for r in ("loose", "shift", "target"))
_END = STOPS.index("end")

_LAST_TWO = np.array([-1, 0])


@dataclass(frozen=True)
class Block:
    """What one round emitted: the tokens of row b are tokens[b, :counts[b]].

    tokens, reasons: [B, K + 1]. counts: [B], 1..K + 1. accepted: [B], drafted tokens among them.
    stops: [B], why no more of the drafted tokens stayed, index into `lvspec.types.STOPS`.
    ended: bool [B], the last token is an end token.
    relevance: float32 [B, K], of the slots that were drafted for; None where nobody asked.
    """

    tokens: Ints
    reasons: Ints
    counts: Ints
    accepted: Ints
    stops: Ints
    ended: npt.NDArray[np.bool_]
    relevance: Floats | None = None


def emit(
    drafted: Ints,
    next_token: Ints,
    accepted: Ints,
    reasons: Ints,
    stops: Ints,
    eos: Ints,
    room: Ints,
    relevance: Floats | None = None,
) -> Block:
    """The accepted prefix and the target's token after it, cut at an end token and at `room`.

    drafted, reasons, relevance: [B, K]. next_token, accepted, stops: [B], as the policy decided.
    room: [B], tokens still allowed, >= 1.
    """
    if not drafted.shape[1]:  # plain decoding says one token: a fifth of the work below
        tokens = next_token[:, None]
        ended = (tokens == eos).any(axis=1)
        return Block(tokens, np.full_like(tokens, _TARGET), accepted + 1, accepted, stops, ended)
    slots = np.arange(drafted.shape[1] + 1)
    own = slots >= accepted[:, None]  # [B, K + 1]: slots the target speaks at
    following = next_token[:, None]
    tokens = np.where(own, following, np.concatenate([drafted, following], axis=1))
    why = np.where(own, _TARGET, np.concatenate([reasons, following], axis=1))
    counts = np.minimum(accepted + 1, room)
    ends = (tokens[..., None] == eos).any(axis=-1) & (slots < counts[:, None])
    ended = ends.any(axis=1)
    counts = np.where(ended, ends.argmax(axis=1) + 1, counts)
    stops = np.where(counts <= accepted, _END, stops)
    return Block(tokens, why, counts, np.minimum(accepted, counts), stops, ended, relevance)


class Table:
    """Tokens and counters of every slot.

    Column 0 of `tokens` is the prompt's last token, so that the last two committed tokens exist
    from the start; the caption's token i stands in column i + 1.
    """

    def __init__(self, slots: int) -> None:
        self.tokens: Ints = np.zeros((slots, 64), np.int64)
        self.reasons: Ints = np.zeros((slots, 64), np.int64)
        self.relevance: Floats = np.zeros((slots, 64), np.float32)  # NaN where it is unknown
        self.generated: Ints = np.zeros(slots, np.int64)
        self.limit: Ints = np.zeros(slots, np.int64)
        self.rounds: Ints = np.zeros(slots, np.int64)
        self.drafted: Ints = np.zeros(slots, np.int64)
        self.accepted: Ints = np.zeros(slots, np.int64)
        self.loose: Ints = np.zeros(slots, np.int64)
        self.shifted: Ints = np.zeros(slots, np.int64)
        self.stops: Ints = np.zeros((slots, len(STOPS)), np.int64)
        self.finished = np.zeros(slots, np.bool_)
        self.decode_s = np.zeros(slots)
        self.began = np.zeros(slots)  # when the row was admitted, on the caller's clock of seconds
        # tokens emitted while n rows were active, in column n: what plain decoding would have cost
        self.emitted_at: Ints = np.zeros((slots, slots + 1), np.int64)

    def admit(
        self,
        slot: int,
        last_prompt_token: int,
        first_token: int,
        limit: int,
        began: float,
        *,
        ended: bool,
    ) -> None:
        """Start a row: its first token comes from prefill, so it is the target's own. ended: it is
        an end token.
        """
        for array in vars(self).values():
            array[slot] = 0
        self.relevance[slot] = np.nan
        self._reserve(limit + 1)
        self.tokens[slot, :2] = last_prompt_token, first_token
        self.reasons[slot, 1] = _TARGET
        self.generated[slot], self.limit[slot], self.began[slot] = 1, limit, began
        self.finished[slot] = ended or limit <= 1

    def _reserve(self, columns: int) -> None:
        missing = columns - self.tokens.shape[1]
        if missing > 0:
            self.tokens = np.pad(self.tokens, ((0, 0), (0, missing)))
            self.reasons = np.pad(self.reasons, ((0, 0), (0, missing)))
            unknown = np.full((len(self.relevance), missing), np.nan, np.float32)
            self.relevance = np.concatenate([self.relevance, unknown], axis=1)

    def tail(self, rows: int) -> Ints:
        """The last two committed tokens of the rows 0..rows-1, [B, 2]."""
        columns = self.generated[:rows, None] + _LAST_TWO
        return self.tokens[np.arange(rows)[:, None], columns]

    def said(self, slot: int) -> Ints:
        """The caption's tokens so far."""
        return self.tokens[slot, 1 : self.generated[slot] + 1]

    def commit(self, block: Block, draft_length: int, seconds: float) -> None:
        """Append a round's block."""
        rows, slots = block.tokens.shape
        fresh = np.arange(slots) < block.counts[:, None]
        row, slot = fresh.nonzero()
        column = self.generated[row] + 1 + slot
        self.tokens[row, column] = block.tokens[fresh]
        self.reasons[row, column] = block.reasons[fresh]
        if block.relevance is not None:  # of the target's own token after a whole block: unknown
            known = slot < block.relevance.shape[1]
            row, slot, column = row[known], slot[known], column[known]
            self.relevance[row, column] = block.relevance[row, slot]
        self.generated[:rows] += block.counts
        self.rounds[:rows] += 1
        if draft_length:
            self.drafted[:rows] += draft_length
            self.accepted[:rows] += block.accepted
            self.loose[:rows] += ((block.reasons == _LOOSE) & fresh).sum(axis=1)
            self.shifted[:rows] += ((block.reasons == _SHIFT) & fresh).sum(axis=1)
            self.stops[np.arange(rows), block.stops] += 1
        self.decode_s[:rows] += seconds
        self.emitted_at[:rows, rows] += block.counts
        self.finished[:rows] = block.ended | (self.generated[:rows] >= self.limit[:rows])

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        for array in vars(self).values():
            array[target] = array[source]

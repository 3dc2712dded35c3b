"""The one decode loop: propose, verify, decide, commit; slots are refilled as captions finish.

Plain decoding is this loop with nothing drafted. A new policy, drafter or family needs no edit.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isnan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvspec import controller
from lvspec.attention import VideoAttention
from lvspec.config import DecodeSettings, Exact, SettingError
from lvspec.costs import StepCosts
from lvspec.drafters import Arrival, Round, make_drafter
from lvspec.judge import Judge
from lvspec.models.base import Prepared
from lvspec.pair import Pair
from lvspec.pieces import token_texts
from lvspec.slots import SlotModel, num_compiled
from lvspec.table import Block, Ints, Table, emit
from lvspec.types import REASONS, Generation, GenerationStats, Refusal, Request, Stops


@dataclass(frozen=True)
class _Admitted:
    """What a slot must remember of its request."""

    request: Request
    prompt_tokens: int
    video_tokens: int
    draft_video_tokens: int
    prefill_s: float


class Engine:
    """Captions requests with a loaded pair. Holds the slots; one `run` at a time, one thread.

    What a `run` raises (out of memory, a lost device) ends that run only: the next one starts with
    new slots.

    >>> import lvspec, numpy as np
    >>> clip = np.full((8, 112, 112, 3), 128, np.uint8)
    >>> requests = (lvspec.Request(str(i), clip, np.arange(8) / 2) for i in range(3))
    >>> engine = lvspec.Engine(lvspec.load(), lvspec.DecodeSettings(slots=2))
    >>> sorted(result.request_id for result in engine.run(requests))
    ['0', '1', '2']
    """

    def __init__(self, pair: Pair, settings: DecodeSettings | None = None) -> None:
        self.settings = settings = settings or DecodeSettings()
        self.pair = pair
        self._longest = 0 if settings.drafter == "none" else settings.draft_length
        self._drafting = controller.start(self._longest)
        self._adaptive = settings.adaptive and self._longest > 0
        # with nothing drafted there is nothing to be loose about
        self._policy = settings.policy if self._longest else Exact()
        self._costs = StepCosts()
        self._plain = self._traced = False  # what the current run was asked for
        self._eos: Ints = np.array(pair.eos_token_ids, np.int64)
        self._open(settings.slots)

    def _open(self, slots: int) -> None:
        """Make all that has a row per slot, and let go of what was there before."""
        pair, settings = self.pair, replace(self.settings, slots=slots)
        self._is_broken = True  # until all of it is there
        self._slots = slots
        self._active = 0  # the slots 0..active-1 hold running captions
        self._target = SlotModel(pair.target, slots, compiled=settings.compiled)
        self._drafter = make_drafter(settings, pair)
        self._judge = Judge(pair, self._policy, slots)
        self._table = Table(slots)
        self._admitted: list[_Admitted | None] = [None] * slots
        self._max_context = min(settings.max_context or pair.max_context, self._reserve())
        self._is_broken = False

    @torch.inference_mode()
    def _reserve(self) -> int:
        """Take the stated memory; the tokens per slot that it holds. With fewer slots than the
        settings say each holds as many tokens as ever, and less memory is taken.
        """
        settings, target = self.settings, self.pair.target
        if settings.cache_gib is None:
            return self.pair.max_context
        width = target.embed(torch.zeros(1, dtype=torch.int64, device=target.device))
        per_token = target.cache_bytes + self._drafter.cache_bytes
        per_token += width.nbytes if self._policy.needs_relevance else 0
        beyond = self._longest + 1  # a caption's last round may write so much past its end
        fits = int(settings.cache_gib * 2**30 / settings.slots / per_token) - beyond
        if fits < settings.max_new_tokens + 2:
            allowed = (
                f"room for captions of max_new_tokens ({settings.max_new_tokens}) and their "
                f"prompts in {settings.slots} slots at {per_token} bytes a token; this holds "
                f"{fits} tokens a slot: raise it, or lower slots"
            )
            raise SettingError("cache_gib", settings.cache_gib, allowed)
        size = min(fits, settings.max_context or self.pair.max_context)
        self._target.reserve(size + beyond)
        self._drafter.reserve(size + beyond)
        self._judge.reserve(size, width)
        return size

    def run(
        self,
        requests: Iterable[Request],
        *,
        reasons: bool = False,
        relevance: bool = False,
        plain: bool = False,
        slots: int | None = None,
    ) -> Iterator[Generation | Refusal]:
        """Caption requests; results come as they finish, each with its request's id.

        A free slot takes the next request at once. `requests` may be a generator: it is asked only
        when a slot is free. reasons: also say why each token was emitted. relevance: also how much
        each depends on the video. plain: nothing is drafted in this run; its `decode_s` is then
        plain decoding itself, and `plain_s` what the other runs' measurements say of it. slots:
        rows decoded together in this run, at most those of the settings; fewer take less memory,
        and compiled passes are compiled anew for them.
        """
        rows = min(slots or self.settings.slots, self.settings.slots)
        if self._is_broken or rows != self._slots:
            self._open(rows)
        self._plain, self._traced = plain, relevance
        self._active = 0
        try:
            yield from self._run(iter(requests), reasons)
        except (Exception, KeyboardInterrupt):
            self._is_broken = True  # a pass that ended in the middle may leave half of its work
            raise

    def _run(self, queue: Iterator[Request], reasons: bool) -> Iterator[Generation | Refusal]:
        while True:
            while self._active < self._slots and (request := next(queue, None)):
                refusal = self._admit(request)
                if refusal:
                    yield refusal
            if not self._active:
                return
            for slot in self._finished():
                yield self._release(slot, reasons)

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """A caption in pieces, one per token: see `lvspec.pieces.token_texts`. May be called from
        any thread while the engine runs.
        """
        return token_texts(self._own_tokenizer, token_ids)

    @cached_property
    def _own_tokenizer(self) -> Any:
        """A copy: a tokenizer that encodes on one thread must not be read on another."""
        return deepcopy(self.pair.target.tokenizer)

    @torch.inference_mode()
    def _admit(self, request: Request) -> Refusal | None:
        """Prefill target and draft into the next slot; the target says the first token."""
        began, pair, slot = time.perf_counter(), self.pair, self._active
        prompt_text = request.prompt or self.settings.prompt
        try:
            prepared = pair.target.prepare(request.frames, request.times_s, prompt_text)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            return Refusal(request.id, "bad_request", f"the model does not take it: {error}")
        limit = request.max_new_tokens or self.settings.max_new_tokens
        size = len(prepared.input_ids)
        if size + limit > self._max_context:
            return Refusal(
                request.id,
                "too_long",
                f"prompt of {size} tokens and caption of up to {limit} exceed the context of "
                f"{self._max_context} tokens: lower frames.count, frames.max_pixels or "
                "max_new_tokens" + (", or raise cache_gib" if self.settings.cache_gib else ""),
            )
        prompt = pair.target.encode(prepared)
        drafts = not self._plain
        watched = drafts and self._drafter.needs_attention
        seen = VideoAttention(prompt.is_video) if watched else None
        with self._judge.watch(), seen or nullcontext():
            hidden = self._target.prefill(slot, prompt, self.settings.prefill_chunk)
        ids, sampling = prepared.input_ids, request.sampling or self.settings.sampling
        chosen = self._judge.admit(slot, ids, prompt, hidden, limit, sampling)
        for_draft = partial(self._prepare_draft, prepared, request, prompt_text)
        weights = seen.weights() if seen else None
        arrival = Arrival(prepared, prompt, for_draft, weights)
        kept = self._drafter.admit(slot, arrival) if drafts else 0
        first, last = torch.stack([chosen, ids[-1]]).tolist()
        self._table.admit(slot, last, first, limit, began, ended=first in self._eos)
        seconds = time.perf_counter() - began
        video = int(prompt.is_video.sum())
        self._admitted[slot] = _Admitted(request, size, video, kept, seconds)
        self._active += 1
        return None

    def _prepare_draft(self, prepared: Prepared, request: Request, prompt: str) -> Prepared:
        """The target's pixels serve the draft where the two processors agree."""
        if self.pair.draft is None or self.pair.shares_preparation:
            return prepared
        return self.pair.draft.prepare(request.frames, request.times_s, prompt)

    def _finished(self) -> list[int]:
        """Slots that are done, the last first: by their first token, or after one round more. Also
        those whose time is up.
        """
        table, rows = self._table, self._active
        done = table.finished[:rows]
        if not done.any():
            started, compiled = time.perf_counter(), num_compiled()
            self._round()
            now = time.perf_counter()
            if num_compiled() > compiled:
                table.began[:rows] += now - started  # compiling is no caption's fault
            done = table.finished[:rows] | (now - table.began[:rows] > self.settings.deadline_s)
        return done.nonzero()[0][::-1].tolist()

    @torch.inference_mode()
    def _round(self) -> None:
        """Draft, verify, decide, commit for all active slots."""
        rows, table = self._active, self._table
        known = np.concatenate([table.tail(rows), table.generated[:rows, None]], axis=1)
        on_device = torch.from_numpy(known).to(self.pair.target.device)
        tail, place = on_device[:, :2], on_device[:, 2:]  # [B, 2], [B, 1]
        self._measure_plain_step(rows, tail, place)
        began = time.perf_counter()
        lengths = self._target.lengths[:rows].copy()
        drafted = self._draft(rows, tail, place)  # [B, K]
        block, kept = self._verify(rows, tail, place, drafted)
        self._target.lengths[:rows] = lengths + block.counts
        self._judge.commit(block.counts)
        seconds, size = time.perf_counter() - began, drafted.shape[1]
        if self._adaptive and not self._plain:
            self._drafting = controller.learn(self._drafting, kept, size)
        if not self._plain:  # an audit must not price what it is compared with
            self._costs.add(rows, size, seconds)
        table.commit(block, size, seconds)

    def _verify(
        self, rows: int, tail: Tensor, place: Tensor, drafted: Tensor
    ) -> tuple[Block, Ints]:
        """One pass of the target over drafted [B, K] and what comes of it: the block to commit, and
        how many drafted tokens the policy would keep, [B].
        """
        with self._judge.watch():
            tokens = torch.cat([tail[:, 1:], drafted], dim=1)
            hidden = self._target.extend(rows, tokens)  # [B, K + 1, D]
        verdict, scores = self._judge.decide(hidden, drafted, place, self._table.said)
        each = (verdict.next_token, verdict.accepted, verdict.stops)
        columns = [*(x[:, None] for x in each), drafted, verdict.reasons]
        if self._traced and scores is not None:  # as bits: one array, one transfer
            columns.append(scores.float().view(torch.int32))
        host = torch.cat(columns, dim=1).cpu().numpy()  # the round's one wait for the device
        size = drafted.shape[1]
        following, kept, stops = host[:, :3].T
        tokens, why, bits = np.split(host[:, 3:], [size, 2 * size], axis=1)
        relevance = bits.astype(np.int32).view(np.float32) if bits.size else None
        room = self._table.limit[:rows] - self._table.generated[:rows]
        return emit(tokens, following, kept, why, stops, self._eos, room, relevance), kept

    def _draft(self, rows: int, tail: Tensor, place: Tensor) -> Tensor:
        """What the drafter proposes for this round, int64 [B, K]; K may be 0."""
        length = 0 if self._plain else self._longest
        if self._adaptive and length:
            self._drafting = controller.choose(self._drafting, self._costs.round_s(rows, length))
            length = self._drafting.length
        if not length:
            return tail.new_empty(rows, 0)
        generated, rounds = self._table.generated[:rows], self._table.rounds[:rows]

        def choose(logits: Tensor, number: int) -> Tensor:
            return self._judge.choose(logits, place + number)

        so_far = Round(rows, length, tail, generated, rounds, self._table.said, choose)
        return self._drafter.propose(so_far)

    def _measure_plain_step(self, rows: int, tail: Tensor, place: Tensor) -> None:
        """Now and then, time a plain step in place, and take it back: the second of two, as plain
        decoding would have it, whose steps follow each other with no draft between them.
        """
        if not self._longest or self._plain or not self._costs.due(rows):
            return
        if self._adaptive and not self._drafting.length:
            return  # rounds are plain steps now, and measured anyway
        nothing, seconds = tail.new_empty(rows, 0), 0.0
        for _ in range(2):
            began = time.perf_counter()
            self._verify(rows, tail, place, nothing)
            seconds = time.perf_counter() - began
            self._target.lengths[:rows] -= 1
        self._costs.add(rows, 0, seconds)

    @torch.inference_mode()
    def _release(self, slot: int, reasons: bool) -> Generation | Refusal:
        """Take a caption out, finished or too late; the last active slot moves into its place."""
        is_late = not self._table.finished[slot]
        result = self._too_late(slot) if is_late else self._generation(slot, reasons)
        self._active -= 1
        if slot != self._active:
            for store in (self._target, self._drafter, self._judge, self._table):
                store.move(self._active, slot)
            self._admitted[slot] = self._admitted[self._active]
        self._admitted[self._active] = None
        return result

    def _too_late(self, slot: int) -> Refusal:
        table, admitted = self._table, self._admitted[slot]
        assert admitted is not None
        message = (
            f"not done after deadline_s ({self.settings.deadline_s:g} s): "
            f"{table.generated[slot]} of at most {table.limit[slot]} tokens in "
            f"{table.rounds[slot]} rounds; lower slots or max_new_tokens, or raise deadline_s"
        )
        return Refusal(admitted.request.id, "generation_timeout", message)

    def _generation(self, slot: int, reasons: bool) -> Generation:
        table, admitted = self._table, self._admitted[slot]
        assert admitted is not None
        tokens = table.said(slot)
        why = table.reasons[slot, 1 : len(tokens) + 1]
        scores = table.relevance[slot, 1 : len(tokens) + 1].tolist()
        decode_s = float(table.decode_s[slot])
        stats = GenerationStats(
            num_prompt_tokens=admitted.prompt_tokens,
            num_video_tokens=admitted.video_tokens,
            num_draft_video_tokens=admitted.draft_video_tokens,
            num_generated_tokens=len(tokens),
            num_spec_steps=int(table.rounds[slot]),
            num_draft_tokens=int(table.drafted[slot]),
            num_accepted_draft_tokens=int(table.accepted[slot]),
            num_loose_tokens=int(table.loose[slot]),
            num_shift_tokens=int(table.shifted[slot]),
            prefill_s=admitted.prefill_s,
            decode_s=decode_s,
            plain_s=self._plain_s(slot, decode_s),
            stops=Stops(*table.stops[slot].tolist()),
        )
        return Generation(
            request_id=admitted.request.id,
            text=self.pair.target.tokenizer.decode(tokens, skip_special_tokens=True).strip(),
            token_ids=tuple(tokens.tolist()),
            finish_reason="stop" if tokens[-1] in self._eos else "length",
            stats=stats,
            reasons=tuple(REASONS[i] for i in why) if reasons else None,
            relevance=tuple(None if isnan(x) else x for x in scores) if self._traced else None,
        )

    def _plain_s(self, slot: int, decode_s: float) -> float:
        """What plain decoding would have taken for a slot's tokens, 0 while unmeasured."""
        if not self._longest:
            return decode_s
        emitted = self._table.emitted_at[slot]
        costs = [(int(n), self._costs.plain_step_s(int(n))) for n in emitted.nonzero()[0]]
        return sum(float(emitted[n]) * (cost or 0.0) for n, cost in costs)

"""From the target's hidden states to what is said: the checkpoint's logits rules, sampling,
relevance and the policy, each with what it must remember of every slot."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from torch import Tensor

from lvspec.config import Lvspec, PolicySettings, Sampling
from lvspec.models.base import Prompt
from lvspec.pair import Pair
from lvspec.policies import POLICIES, Evidence, Verdict
from lvspec.processors import LogitsRules
from lvspec.sampling import Sampler
from lvspec.scorer import Scorer
from lvspec.table import Ints


class Judge:
    """Says the first token of a caption and decides on drafted blocks. Never waits for the device.

    Every pass of the target whose states it is to see is made inside `watch()`.
    """

    def __init__(self, pair: Pair, policy: PolicySettings, slots: int) -> None:
        self._target = pair.target
        self._policy = policy
        self._decide = POLICIES[type(policy)]
        self._rules = LogitsRules(pair.target, slots)
        self._sampler = Sampler(slots, pair.target.device)
        self._scorer = Scorer(policy, pair.target, slots) if isinstance(policy, Lvspec) else None
        self._special = pair.special_mask()

    def reserve(self, count: int, like: Tensor) -> None:
        """Take the memory for `count` visual states like `like` [.., D] in every slot now."""
        if self._scorer:
            self._scorer.reserve(count, like)

    def watch(self) -> AbstractContextManager[None]:
        """Around a pass of the target over a prompt or a block."""
        return self._scorer.watch() if self._scorer else nullcontext()

    def admit(
        self, slot: int, ids: Tensor, prompt: Prompt, hidden: Tensor, limit: int, sampling: Sampling
    ) -> Tensor:
        """A request enters a slot; the caption's first token, int64 [].

        ids: int64 [P]. hidden: [P, D]. limit: the caption's most tokens.
        """
        self._rules.admit(slot, ids, limit)
        self._sampler.admit(slot, sampling)
        if self._scorer:
            self._scorer.admit(slot, prompt, hidden)
        nothing = ids.new_empty(1, 0)
        logits = self._target.logits(hidden[None, -1:])
        logits = self._rules.apply(slot, logits, [np.empty(0, np.int64)], nothing)
        return self._sampler.choose(logits, nothing.new_zeros(1, 1), slot)[0, 0]

    def choose(self, logits: Tensor, place: Tensor) -> Tensor:
        """What a model says at logits [B, q, V] with the slots' sampling, int64 [B, q].

        place: int64 [B, 1], which token of its caption the first is.
        """
        return self._sampler.choose(logits, place)

    def decide(
        self, hidden: Tensor, drafted: Tensor, place: Tensor, said: Callable[[int], Ints]
    ) -> tuple[Verdict, Tensor | None]:
        """Which drafted tokens stay in the slots 0..B-1, and the relevance [B, K] that the policy
        saw, where it looks at any.

        hidden: [B, K + 1, D], of the verify pass. drafted: [B, K]. place: [B, 1], where in its
        caption each block begins. said: the caption of a slot so far.
        """
        logits = self._target.logits(hidden)
        if self._rules.active:
            so_far = [said(slot) for slot in range(len(drafted))]
            logits = self._rules.apply(0, logits, so_far, drafted)
        chosen = self._sampler.choose(logits, place)
        if not drafted.shape[1]:  # a plain step: no policy has anything to decide
            if self._scorer and self._scorer.remembers:
                self._scorer.score(hidden)
            nothing = place.new_zeros(len(place))
            return Verdict(nothing, chosen[:, 0], drafted, nothing), None
        relevance, past = self._scorer.score(hidden) if self._scorer else (None, None)
        evidence = Evidence(drafted, logits, chosen, relevance, self._special, past)
        return self._decide(evidence, self._policy), relevance

    def commit(self, counts: Ints) -> None:
        """Of the latest pass, the first counts[b] tokens of each row stay: 1..K + 1."""
        if self._scorer:
            self._scorer.commit(counts)

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        self._rules.move(source, target)
        self._sampler.move(source, target)
        if self._scorer:
            self._scorer.move(source, target)

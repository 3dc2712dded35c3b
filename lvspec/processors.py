"""The checkpoint's own logits processors (repetition penalty, n-gram bans, ...) on a verify pass.

`generate` applies them to one new token at a time, given all before it. A verify pass has K + 1
slots per row, each with its own history: the sequence so far and the drafted tokens before it.
"""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor

from lvspec.models.base import VideoModel


class LogitsRules:
    """What shapes a checkpoint's greedy output, per slot; `active` is false when nothing does.

    The processors are built by transformers from the checkpoint's `generation_config`. A repetition
    penalty alone (every Qwen2.5-VL has one) asks only which ids occurred, so all slots go through
    one batched call; the others read the order of tokens and are called slot by slot.
    """

    def __init__(self, target: VideoModel, slots: int) -> None:
        self._model = target.model
        self._config = copy.deepcopy(target.generation_config)
        self._config.do_sample = False
        self._model._prepare_special_tokens(self._config, True, device=target.device)
        probe = self._build(torch.zeros(1, 1, dtype=torch.int64, device=target.device), 1)
        self.active = len(probe) > 0
        penalty_only = all(isinstance(p, RepetitionPenaltyLogitsProcessor) for p in probe)
        self._penalty = self._config.repetition_penalty if penalty_only and self.active else None
        self._rules: list[LogitsProcessorList] = [probe] * slots
        self._prompts: list[Tensor] = [torch.empty(0, dtype=torch.int64)] * slots

    def _build(self, prompt_ids: Tensor, max_new_tokens: int) -> LogitsProcessorList:
        size = prompt_ids.shape[1]
        self._config.max_length = size + max_new_tokens
        return self._model._get_logits_processor(
            generation_config=self._config,
            input_ids_seq_length=size,
            encoder_input_ids=prompt_ids,
            device=prompt_ids.device,
            model_kwargs={},
        )

    def admit(self, slot: int, prompt_ids: Tensor, max_new_tokens: int) -> None:
        """Remember a slot's prompt, int64 [P]."""
        if not self.active:
            return
        if self._penalty is not None:
            self._prompts[slot] = prompt_ids.unique()  # which ids, not where: video ids are many
        else:
            self._prompts[slot] = prompt_ids
            self._rules[slot] = self._build(prompt_ids[None], max_new_tokens)

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        self._rules[target], self._prompts[target] = self._rules[source], self._prompts[source]

    def apply(self, first: int, logits: Tensor, said: list[np.ndarray], drafted: Tensor) -> Tensor:
        """Process the logits [B, K + 1, V] of the slots first..first+B-1.

        said: per row, the caption's tokens so far. drafted: int64 [B, K].
        """
        if not self.active:
            return logits
        histories = [
            torch.cat([self._prompts[first + row], torch.from_numpy(tokens).to(logits.device)])
            for row, tokens in enumerate(said)
        ]
        if self._penalty is not None:
            return _penalise(logits, histories, drafted, self._penalty)
        out = logits.float()
        for row, history in enumerate(histories):
            for slot in range(logits.shape[1]):
                ids = torch.cat([history, drafted[row, :slot]])[None]
                rules: Any = self._rules[first + row]
                out[row, slot] = rules(ids, out[row, slot][None])[0]
        return out


def _penalise(logits: Tensor, histories: list[Tensor], drafted: Tensor, penalty: float) -> Tensor:
    """One call for all slots: histories are padded by repeating an id, which changes no set."""
    rows, slots, vocab = logits.shape
    longest = max(map(len, histories))
    said = torch.stack([torch.cat([h, h[:1].expand(longest - len(h))]) for h in histories])
    ids = said[:, None].expand(-1, slots, -1)  # [B, K + 1, n]
    if slots > 1:
        later = torch.ones(slots, slots - 1, dtype=torch.bool, device=logits.device).triu()
        block = drafted[:, None].expand(-1, slots, -1)
        block = torch.where(later, said[:, :1, None], block)  # [B, K + 1, K]: only those before
        ids = torch.cat([ids, block], dim=-1)
    processor: Any = RepetitionPenaltyLogitsProcessor(penalty)
    flat = logits.float().reshape(rows * slots, vocab)
    return processor(ids.reshape(rows * slots, -1), flat).view(rows, slots, vocab)

"""Relevance of drafted slots, as the settings of the `lvspec` policy ask for it: of which states,
against what, and what the caption has been like so far."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from lvspec.layers import LayerStates
from lvspec.models.base import Prompt, VideoModel
from lvspec.policy_settings import Lvspec
from lvspec.relevance import VisualMemory, append
from lvspec.setting_error import SettingError
from lvspec.table import Ints


class Scorer:
    """One per engine; holds the video and the latest relevance of every slot, on the device."""

    def __init__(self, settings: Lvspec, target: VideoModel, slots: int) -> None:
        self._settings = settings
        self._memory = VisualMemory(slots)
        self._layer = _layer_states(settings.relevance_layer, target)
        self._recent: Tensor | None = None  # [slots, H], infinite where a caption is shorter
        if settings.scope == "running":
            shape = (slots, settings.running_window)
            self._recent = torch.full(shape, torch.inf, device=target.device)
        self._read: Tensor | None = None  # [B, K + 1], of the states of the latest pass

    @property
    def remembers(self) -> bool:
        """Whether steps without a draft are of interest, too."""
        return self._recent is not None

    def reserve(self, count: int, like: Tensor) -> None:
        """Take the memory for `count` visual states like `like` [.., D] in every slot now."""
        self._memory.reserve(count, like)

    def watch(self) -> AbstractContextManager[None]:
        """Around every pass of the target whose hidden states come to `admit` or `score`."""
        return self._layer.watch() if self._layer else nullcontext()

    def admit(self, slot: int, prompt: Prompt, hidden: Tensor) -> None:
        """Keep what stands for the video of a slot. hidden: [P, D], of the prompt's prefill."""
        states = self._states(hidden)
        source = prompt.embeds if self._settings.relevance_source == "features" else states
        self._memory.admit(slot, source[prompt.is_video])
        if self._recent is not None:
            self._recent[slot] = torch.inf

    def score(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """Relevance of the drafted slots, float32 [B, K], and for scope "running" of the committed
        slots before them, [B, H]. hidden: [B, K + 1, D], of the verify pass.
        """
        states, top = self._states(hidden), self._settings.relevance_top
        # state i has read drafted token i and predicts token i + 1; state 0 has read the last one
        first, drafted = int(self._settings.relevance_slot == "own"), hidden.shape[1] - 1
        if self._recent is None:
            return self._memory.score(states.narrow(1, first, drafted), top), None
        self._read = self._memory.score(states, top)
        return self._read.narrow(1, first, drafted), self._recent[: len(hidden)]

    def commit(self, counts: Ints) -> None:
        """Remember the relevance of the first counts[b] states of the latest pass: they stay."""
        if self._recent is not None and self._read is not None:
            rows, device = len(counts), self._recent.device
            stay = torch.from_numpy(counts).to(device, non_blocking=True)
            self._recent[:rows] = append(self._recent[:rows], self._read, stay)

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        self._memory.move(source, target)
        if self._recent is not None:
            self._recent[target] = self._recent[source]

    def _states(self, hidden: Tensor) -> Tensor:
        return self._layer.take(like=hidden) if self._layer else hidden


def _layer_states(layer: int | None, target: VideoModel) -> LayerStates | None:
    if layer is None:
        return None
    if layer >= target.num_layers:
        allowed = f"0 to {target.num_layers - 1}, or null for the last hidden states"
        raise SettingError("policy.relevance_layer", layer, allowed)
    return LayerStates(target.decoder, layer)

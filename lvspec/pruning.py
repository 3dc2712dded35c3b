"""Which visual tokens the draft keeps: pure functions from a count to kept indices.

A kept token keeps its *original* position (M-RoPE ids), so the draft sees the same video with holes
in it, not a shorter video. To add a way of pruning: one function here, one line in `PRUNERS`, its
name in `DecodeSettings.pruning`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lvspec.models.base import Prepared, Prompt, VideoModel


def uniform(num_video_tokens: int, keep: float) -> Tensor:
    """Evenly spaced indices, ascending: the share `keep` of the tokens, at least one.

    >>> uniform(10, 0.3).tolist()
    [1, 5, 8]
    """
    kept = max(1, round(num_video_tokens * keep))
    centres = (torch.arange(kept, dtype=torch.float64) + 0.5) * (num_video_tokens / kept)
    return centres.long()


def none(num_video_tokens: int, keep: float) -> Tensor:
    """All of them."""
    return torch.arange(num_video_tokens)


PRUNERS: dict[str, Callable[[int, float], Tensor]] = {"uniform": uniform, "none": none}


class Pruner:
    """A way of pruning, applied to prompts."""

    def __init__(self, name: str, keep: float) -> None:
        self._indices = PRUNERS[name]
        self._keep = keep

    def encode(self, model: VideoModel, prepared: Prepared) -> Prompt:
        """The pruned prompt as `model` sees it."""
        return self.prune(model.encode(prepared))

    def prune(self, prompt: Prompt) -> Prompt:
        """A prompt without the tokens that are not kept."""
        return prompt.keep_video(self._indices(int(prompt.is_video.sum()), self._keep))

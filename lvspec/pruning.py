"""Which visual tokens the draft keeps: pure functions from counts to kept indices, ascending.

A kept token keeps its *original* position (M-RoPE ids), so the draft sees the same video with holes
in it, not a shorter video. To add a way of pruning: one function here, one line in `PRUNERS`, its
name in `DecodeSettings.pruning`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lvspec.models.base import Select

FOCUS = 0.4
"""SpecVLM's share of the attention that its first stage keeps (arXiv 2508.16201)."""


def uniform(num_video_tokens: int, keep: float) -> Tensor:
    """Evenly spaced indices: the share `keep` of the tokens, at least one.

    >>> uniform(10, 0.3).tolist()
    [1, 5, 8]
    """
    return _evenly(num_video_tokens, _budget(num_video_tokens, keep))


def frames(num_video_tokens: int, num_patches: int, keep: float) -> Tensor:
    """All tokens of evenly spaced temporal patches: the share `keep` of the patches, at least one.

    >>> frames(12, 6, 1 / 3).tolist()
    [2, 3, 8, 9]
    """
    per_patch = num_video_tokens // num_patches
    starts = uniform(num_patches, keep) * per_patch
    return (starts[:, None] + torch.arange(per_patch)).flatten()


def attention(weights: Tensor, keep: float) -> Tensor:
    """SpecVLM's two stages (arXiv 2508.16201), the share `keep` of the tokens in all.

    First the smallest set of tokens that holds `FOCUS` of the attention, or as much of it as may be
    kept; then evenly spaced ones of the others.

    weights: float [V], the attention that the prompt's text pays to each video token.

    >>> attention(torch.tensor([0.0, 0.1, 0.0, 0.0, 0.5, 0.0, 0.4, 0.0]), 0.5).tolist()
    [1, 3, 4, 6]
    """
    budget = _budget(len(weights), keep)
    weights = weights.double().cpu()
    order = weights.argsort(descending=True, stable=True)
    reached = weights[order].cumsum(0) >= FOCUS * weights.sum()
    focus = order[: min(int((~reached).sum()) + 1, budget)]
    others = torch.ones(len(weights), dtype=torch.bool)
    others[focus] = False
    rest = others.nonzero()[:, 0]
    spread = rest[_evenly(len(rest), budget - len(focus))]
    return torch.cat([focus, spread]).sort().values


def _budget(count: int, keep: float) -> int:
    return max(1, round(count * keep))


def _evenly(count: int, kept: int) -> Tensor:
    """The centres of `kept` equal parts of 0..count-1."""
    centres = (torch.arange(kept, dtype=torch.float64) + 0.5) * (count / max(1, kept))
    return centres.long()


@dataclass(frozen=True)
class Shown:
    """A video in a prompt.

    tokens: V. patches: temporal patches, of which the tokens show one after the other.
    attention: float [V], see `lvspec.attention`; None where it was not asked for.
    """

    tokens: int
    patches: int
    attention: Tensor | None = None


def _attention(video: Shown, keep: float) -> Tensor:
    assert video.attention is not None and len(video.attention) == video.tokens
    return attention(video.attention, keep)


PRUNERS: dict[str, Callable[[Shown, float], Tensor]] = {
    "uniform": lambda video, keep: uniform(video.tokens, keep),
    "frames": lambda video, keep: frames(video.tokens, video.patches, keep),
    "attention": _attention,
    "none": lambda video, keep: torch.arange(video.tokens),
}


class Pruner:
    """A way of pruning and how much it keeps.

    needs_attention: it wants to know what the target's text looks at.
    """

    def __init__(self, name: str, keep: float) -> None:
        self.needs_attention = name == "attention"
        self._kept = PRUNERS[name]
        self._keep = keep

    def select(self, attention: Tensor | None) -> Select:
        """What to keep of a video to whose tokens the text pays this attention [V]."""
        return lambda tokens, patches: self._kept(Shown(tokens, patches, attention), self._keep)

"""How much attention a prompt's text pays to each token of its video, seen while it is read.

Only the rows of the tokens after the video are computed, a bounded block at a time: memory grows
with the prompt's length, not with its square. No layer is touched for it: the decoder of every
family runs on PyTorch's scaled dot-product attention (see `check_attention`), and torch shows its
queries and keys to a function mode on their way.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lvspec.models.base import VideoModel
from lvspec.slots import SlotModel
from lvspec.types import LoadError

BLOCK = 2**24
"""Weights computed at a time: 64 MiB in float32."""


class VideoAttention(TorchFunctionMode):
    """Watches the prefill of one prompt, in one pass or in chunks, that runs inside its `with`.

    is_video: bool [P], with tokens after the video.
    rows: attention rows seen so far; one is of one layer and one token after the video.
    """

    def __init__(self, is_video: Tensor) -> None:
        super().__init__()
        self._video = is_video.nonzero()[:, 0]
        self._first = int(self._video[-1]) + 1
        self._total = torch.zeros(len(self._video), dtype=torch.float32, device=is_video.device)
        self.rows = 0

    def weights(self) -> Tensor:
        """float32 [V]: softmax weight of each video token, the mean over layers, heads and the
        tokens after the video.
        """
        return self._total / self.rows

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            self._watch(*args, **kwargs)
        return func(*args, **kwargs)

    def _watch(
        self, query: Tensor, key: Tensor, *_: Any, scale: float | None = None, **__: Any
    ) -> None:
        """query [1, H, q, d]: the last q of the n tokens read so far, key [1, G, n, d]."""
        before = key.shape[2] - query.shape[2]
        first = max(self._first - before, 0)
        if first >= query.shape[2]:  # a chunk of the prompt before that text
            return
        factor = query.shape[3] ** -0.5 if scale is None else scale
        for weights in _rows(query[0, :, first:] * factor, key[0], before + first):
            self._total += weights.mean(0).sum(0).to(self._total.device)[self._video]
            self.rows += weights.shape[1]


def _rows(queries: Tensor, keys: Tensor, first: int) -> Iterator[Tensor]:
    """Causal softmax weights float32 [H, t, n], block by block.

    queries [H, T, d], scaled: of the tokens from `first` on. keys [G, n, d]: each is shared by
    H / G heads in a row.
    """
    heads, groups, size = queries.shape[0], *keys.shape[:2]
    for block in queries.split(max(1, BLOCK // (heads * size)), dim=1):
        rows = block.shape[1]
        logits = block.reshape(groups, -1, block.shape[2]) @ keys.mT  # [G, H / G * t, n]
        own = torch.arange(first, first + rows, device=keys.device)[:, None]
        later = torch.arange(size, device=keys.device) > own  # [t, n]
        logits = logits.view(heads, rows, size).masked_fill_(later, float("-inf"))
        yield logits.softmax(-1, dtype=torch.float32)
        first += rows


@torch.inference_mode()
def check_watched(model: VideoModel) -> None:
    """LoadError unless the attention of every layer is seen: a pass over two tokens tells."""
    tokens = torch.zeros(1, 2, dtype=torch.int64, device=model.device)
    with VideoAttention(torch.tensor([True, False], device=model.device)) as seen:
        SlotModel(model, 1).extend(1, tokens)
    if seen.rows != model.num_layers:
        raise LoadError(
            f"{model.model.config.model_type}: {seen.rows} of the decoder's {model.num_layers} "
            "layers call torch's scaled_dot_product_attention, so what its text looks at cannot "
            'be seen: set pruning to "uniform" or "frames"'
        )

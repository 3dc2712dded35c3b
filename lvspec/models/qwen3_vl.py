"""Qwen3-VL (`model_type` qwen3_vl, and its mixture of experts qwen3_vl_moe).

Every pair of frames stands between its own time, written as text, and an end token. Features of
earlier layers of the vision tower are added to the video tokens after the first decoder layers
(DeepStack, arXiv 2406.04334). M-RoPE's axes are interleaved, which only the stock model needs to
know. The experts replace MLPs of the decoder; nothing here differs for them.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.video_utils import VideoMetadata

from lvspec.models.base import Prompt
from lvspec.models.qwen2_vl import Qwen2VL
from lvspec.models.timing import at_their_times
from lvspec.video import FrameSpec


class Qwen3VL(Qwen2VL):
    """`Qwen3VL[Moe]ForConditionalGeneration` with `Qwen3VLProcessor`."""

    @staticmethod
    def metadata(times_s: np.ndarray) -> VideoMetadata:
        return at_their_times(times_s)

    @staticmethod
    def frame_spec(
        processor: Any, count: int, min_pixels: int | None, max_pixels: int | None
    ) -> FrameSpec:
        """The processor's budget is of all frames together, padded to whole temporal patches."""
        video = processor.video_processor
        factor = video.patch_size * video.merge_size
        padded = -(-count // video.temporal_patch_size) * video.temporal_patch_size
        most = max_pixels or max(video.size["longest_edge"] // padded, factor**2)
        least = min_pixels or -(-video.size["shortest_edge"] // count)
        return FrameSpec(count, factor, min_pixels=min(least, most), max_pixels=most)

    def deepstack(self, features: Any) -> Tensor | None:
        # one tensor per layer before transformers 5.2x, one per layer and video since
        layers = (f if isinstance(f, Tensor) else torch.cat(f) for f in features.deepstack_features)
        return torch.stack(list(layers))

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        assert prompt.deepstack is not None
        return {
            "visual_pos_masks": prompt.is_video[None],
            "deepstack_visual_embeds": list(prompt.deepstack),
        }

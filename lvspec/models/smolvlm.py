"""SmolVLM2 (`model_type` smolvlm).

A video's frames are images of one tile each, every one after its time ("Frame from 00:03:"), the
clip's length in words before them, and encoded on its own. The placeholder is the images';
positions are plain.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.video_utils import VideoMetadata

from lvspec.models.base import Features, Prepared
from lvspec.models.internvl import InternVL
from lvspec.models.sizes import square_of
from lvspec.models.timing import at_their_times
from lvspec.video import FrameSpec


class SmolVLM(InternVL):
    """`SmolVLMForConditionalGeneration` with `SmolVLMProcessor` (which needs num2words)."""

    @property
    def decoder(self) -> nn.Module:
        return self.model.model.text_model

    @staticmethod
    def metadata(times_s: np.ndarray) -> VideoMetadata:
        return at_their_times(times_s)

    @staticmethod
    def frame_spec(
        processor: Any, count: int, min_pixels: int | None, max_pixels: int | None
    ) -> FrameSpec:
        """The processor stretches to `max_image_size` (by way of `size`, where they differ)."""
        side = processor.video_processor.max_image_size["longest_edge"]
        return square_of(count, side, side, min_pixels, max_pixels)

    def num_patches(self, prepared: Prepared) -> int:
        return prepared.inputs["pixel_values"].shape[1]

    def features(self, prepared: Prepared, patches: Tensor | None) -> Features:
        names = ("pixel_values", "pixel_attention_mask")  # [1, frames, ...] both
        pixels, shown = (prepared.inputs[name] for name in names)
        if patches is not None:
            pixels, shown = (x[:, patches.to(x.device)] for x in (pixels, shown))
        seen = self.model.model.get_image_features(pixels, shown, return_dict=True)
        # [frames, tokens, D] before transformers 5.2x, a list with one [frames * tokens, D] since
        return Features(torch.cat(list(seen.pooler_output)))

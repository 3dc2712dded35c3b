"""InternVL 2.5, 3 and 3.5 in their `-hf` form (`model_type` internvl).

A video's frames are images of one tile each, every one after its number ("Frame1: ") and between
its start and end tokens. The placeholder is the images'; positions are plain.
"""

from typing import Any

import torch
from torch import Tensor, nn

from lvspec.models.base import Prepared, Prompt, VideoModel
from lvspec.models.sizes import one_size
from lvspec.video import FrameSpec


class InternVL(VideoModel):
    """`InternVLForConditionalGeneration` with `InternVLProcessor`."""

    @property
    def decoder(self) -> nn.Module:
        return self.model.model.language_model

    @property
    def video_token_id(self) -> int:
        return self.model.config.image_token_id

    @staticmethod
    def frame_spec(
        processor: Any, count: int, min_pixels: int | None, max_pixels: int | None
    ) -> FrameSpec:
        return one_size(processor, count, min_pixels, max_pixels)

    def encode(self, prepared: Prepared) -> Prompt:
        inputs = prepared.inputs
        ids = inputs["input_ids"]
        embeds: Tensor = self.embed(ids)[0]
        is_video = ids[0] == self.video_token_id
        embeds[is_video] = self.features(inputs).to(embeds.device, embeds.dtype)
        size = ids.shape[1]
        return Prompt(embeds, torch.arange(size, device=ids.device)[None], is_video, size)

    def features(self, inputs: Any) -> Tensor:
        """[V, D]."""
        pixels = inputs["pixel_values"]
        features = self.model.model.get_image_features(pixels, return_dict=True).pooler_output
        return features.flatten(0, 1)

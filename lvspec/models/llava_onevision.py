"""LLaVA-OneVision (`model_type` llava_onevision).

A video's frames are stretched to one square each (no anyres tiles, which are for images), their
features pooled to a quarter; one learned newline ends the video. Positions are plain.
"""

from typing import Any

import torch
from torch import Tensor, nn

from lvspec.models.base import Prepared, Prompt, VideoModel
from lvspec.models.sizes import one_size
from lvspec.video import FrameSpec


class LlavaOnevision(VideoModel):
    """`LlavaOnevisionForConditionalGeneration` with `LlavaOnevisionProcessor`."""

    @property
    def decoder(self) -> nn.Module:
        return self.model.model.language_model

    @property
    def video_token_id(self) -> int:
        return self.model.config.video_token_id

    @staticmethod
    def frame_spec(
        processor: Any, count: int, min_pixels: int | None, max_pixels: int | None
    ) -> FrameSpec:
        return one_size(processor, count, min_pixels, max_pixels)

    def encode(self, prepared: Prepared) -> Prompt:
        inputs, model = prepared.inputs, self.model.model
        ids = inputs["input_ids"]
        embeds: Tensor = self.embed(ids)[0]
        where = (ids[0] == self.video_token_id).nonzero()[:, 0]
        newline, where = where[-1], where[:-1]
        pixels = inputs["pixel_values_videos"]
        features = model.get_video_features(pixels, return_dict=True).pooler_output[0]
        # the newline comes with the features since transformers 5.2x, and without them before
        features = features[: len(where)]
        embeds[where] = features.to(embeds.device, embeds.dtype)
        embeds[newline] = model.image_newline.to(embeds.device, embeds.dtype)
        # the newline is no picture: pruning keeps it, relevance does not look at it
        is_video = torch.zeros_like(ids[0], dtype=torch.bool)
        is_video[where] = True
        size = ids.shape[1]
        return Prompt(embeds, torch.arange(size, device=ids.device)[None], is_video, size)

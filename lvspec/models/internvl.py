"""InternVL 2.5, 3 and 3.5 in their `-hf` form (`model_type` internvl).

A video's frames are images of one tile each, every one after its number ("Frame1: ") and between
its start and end tokens. The placeholder is the images'; positions are plain.
"""

from typing import Any

from torch import Tensor, nn

from lvspec.models.base import Features, Prepared, VideoModel
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

    def num_patches(self, prepared: Prepared) -> int:
        return prepared.inputs["pixel_values"].shape[0]

    def features(self, prepared: Prepared, patches: Tensor | None) -> Features:
        pixels = prepared.inputs["pixel_values"]  # [frames, 3, side, side]
        if patches is not None:
            pixels = pixels[patches.to(pixels.device)]
        seen = self.model.model.get_image_features(pixels, return_dict=True).pooler_output
        return Features(seen.flatten(0, 1))

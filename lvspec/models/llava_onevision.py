"""LLaVA-OneVision (`model_type` llava_onevision).

A video's frames are stretched to one square each (no anyres tiles, which are for images), their
features pooled to a quarter; one learned newline ends the video. Every frame is encoded on its own.
Positions are plain.
"""

from typing import Any

from torch import Tensor, nn

from lvspec.models.base import Features, Prepared, Prompt, VideoModel
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

    def place(self, prepared: Prepared) -> Prompt:
        # the newline is no picture: pruning keeps it, relevance does not look at it
        prompt = super().place(prepared)
        newline = prompt.is_video.nonzero()[-1, 0]
        embeds, is_video = prompt.embeds, prompt.is_video
        embeds[newline] = self.model.model.image_newline.to(embeds.device, embeds.dtype)
        is_video[newline] = False
        return prompt

    def num_patches(self, prepared: Prepared) -> int:
        return prepared.inputs["pixel_values_videos"].shape[1]

    def features(self, prepared: Prepared, patches: Tensor | None) -> Features:
        pixels = prepared.inputs["pixel_values_videos"]  # [1, frames, 3, side, side]
        if patches is not None:
            pixels = pixels[:, patches.to(pixels.device)]
        seen = self.model.model.get_video_features(pixels, return_dict=True).pooler_output[0]
        placeholders = int((prepared.input_ids == self.video_token_id).sum())
        per_frame = (placeholders - 1) // self.num_patches(prepared)
        # the newline comes with the features since transformers 5.2x, and without them before
        return Features(seen[: pixels.shape[1] * per_frame])

"""Qwen2-VL (`model_type` qwen2_vl): M-RoPE with three axes; time counts temporal patches."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import BatchFeature

from lvspec.models.base import Prepared, Prompt, VideoModel
from lvspec.video import FrameSpec


class Qwen2VL(VideoModel):
    """`Qwen2VLForConditionalGeneration` with `Qwen2VLProcessor`; base of the later Qwen-VLs."""

    position_axes: ClassVar[int] = 3

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
        video = processor.video_processor
        return FrameSpec(
            count=count,
            factor=video.patch_size * video.merge_size,
            min_pixels=min_pixels or video.size["shortest_edge"],
            max_pixels=max_pixels or video.size["longest_edge"],
        )

    def encode(self, prepared: Prepared) -> Prompt:
        inputs = prepared.inputs
        ids = inputs["input_ids"]
        embeds: Tensor = self.embed(ids)[0]
        is_video = ids[0] == self.video_token_id
        features = self.model.model.get_video_features(
            inputs["pixel_values_videos"], inputs["video_grid_thw"], return_dict=True
        )
        embeds[is_video] = torch.cat(features.pooler_output).to(embeds.device, embeds.dtype)
        positions, deltas = self.model.model.get_rope_index(
            ids,
            mm_token_type_ids=inputs["mm_token_type_ids"],
            video_grid_thw=inputs["video_grid_thw"],
            **self.clock(inputs),
        )
        next_position = ids.shape[1] + int(deltas[0])
        return Prompt(embeds, positions[:, 0], is_video, next_position, self.deepstack(features))

    def clock(self, inputs: BatchFeature) -> dict[str, Tensor]:
        """What else decides positions in time, by the names of `get_rope_index`."""
        return {}

    def deepstack(self, features: Any) -> Tensor | None:
        """[L, V, D] of what the vision tower returned, in the families that have it."""
        return None

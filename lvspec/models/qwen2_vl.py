"""Qwen2-VL (`model_type` qwen2_vl): M-RoPE with three axes; time counts temporal patches.

A temporal patch is two frames. Pixels come as rows of patches, in time order; the vision tower
attends within one temporal patch (windows within it in Qwen2.5-VL) and knows no time.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import BatchFeature

from lvspec.models.base import Features, Prepared, Prompt, VideoModel
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

    def place(self, prepared: Prepared) -> Prompt:
        inputs = prepared.inputs
        ids = inputs["input_ids"]
        positions, deltas = self.model.model.get_rope_index(
            ids,
            mm_token_type_ids=inputs["mm_token_type_ids"],
            video_grid_thw=inputs["video_grid_thw"],
            **self.clock(inputs),
        )
        next_position = ids.shape[1] + int(deltas[0])
        is_video = ids[0] == self.video_token_id
        return Prompt(self.embed(ids[0]), positions[:, 0], is_video, next_position)

    def num_patches(self, prepared: Prepared) -> int:
        return int(prepared.inputs["video_grid_thw"][0, 0])

    def features(self, prepared: Prepared, patches: Tensor | None) -> Features:
        pixels, grid = (prepared.inputs[k] for k in ("pixel_values_videos", "video_grid_thw"))
        if patches is not None:
            rows = pixels.unflatten(0, (self.num_patches(prepared), -1))
            pixels = rows[patches.to(pixels.device)].flatten(0, 1)
            grid = torch.cat([torch.full_like(grid[:, :1], len(patches)), grid[:, 1:]], dim=1)
        seen = self.model.model.get_video_features(pixels, grid, return_dict=True)
        return Features(torch.cat(seen.pooler_output), self.deepstack(seen))

    def clock(self, inputs: BatchFeature) -> dict[str, Tensor]:
        """What else decides positions in time, by the names of `get_rope_index`."""
        return {}

    def deepstack(self, features: Any) -> Tensor | None:
        """[L, V, D] of what the vision tower returned, in the families that have it."""
        return None

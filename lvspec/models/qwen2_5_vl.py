"""Qwen2.5-VL (`model_type` qwen2_5_vl): M-RoPE with three axes, window attention in the vision
tower, temporal positions from the seconds between frames."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers.video_utils import VideoMetadata

from lvspec.models.base import Prepared, Prompt, VideoModel
from lvspec.video import FrameSpec


class Qwen25VL(VideoModel):
    """`Qwen2_5_VLForConditionalGeneration` with `Qwen2_5_VLProcessor`."""

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

    def prepare(self, frames: np.ndarray, times_s: np.ndarray, prompt: str) -> Prepared:
        content = [{"type": "video"}, {"type": "text", "text": prompt}]
        text = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        video = torch.from_numpy(frames).to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        inputs = self.processor(
            text=[text],
            videos=[video],
            video_metadata=[_metadata(times_s)],
            do_sample_frames=False,
            do_resize=False,  # frames come at the model's size (see frame_spec)
            return_tensors="pt",
        )
        return Prepared(inputs.to(self.device))

    def encode(self, prepared: Prepared) -> Prompt:
        inputs, model = prepared.inputs, self.model.model
        ids = inputs["input_ids"]
        embeds: Tensor = self.embed(ids)[0]
        is_video = ids[0] == self.video_token_id
        features = model.get_video_features(
            inputs["pixel_values_videos"], inputs["video_grid_thw"], return_dict=True
        ).pooler_output
        embeds[is_video] = torch.cat(features).to(embeds.device, embeds.dtype)
        positions, deltas = model.get_rope_index(
            ids,
            mm_token_type_ids=inputs["mm_token_type_ids"],
            video_grid_thw=inputs["video_grid_thw"],
            second_per_grid_ts=torch.as_tensor(inputs["second_per_grid_ts"]),
        )
        return Prompt(embeds, positions[:, 0], is_video, ids.shape[1] + int(deltas[0]))


def _metadata(times_s: np.ndarray) -> VideoMetadata:
    """Frames at these times, in the processor's words: their rate is one over their mean gap."""
    count = len(times_s)
    span = float(times_s[-1] - times_s[0])
    fps = (count - 1) / span if span > 0 else 1.0
    return VideoMetadata(
        total_num_frames=count, fps=fps, duration=count / fps, frames_indices=list(range(count))
    )

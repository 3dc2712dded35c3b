"""Qwen2.5-VL (`model_type` qwen2_5_vl): as Qwen2-VL, with window attention in the vision tower and
temporal positions from the seconds between frames."""

import torch
from torch import Tensor
from transformers import BatchFeature

from lvspec.models.qwen2_vl import Qwen2VL


class Qwen25VL(Qwen2VL):
    """`Qwen2_5_VLForConditionalGeneration` with `Qwen2_5_VLProcessor`."""

    def clock(self, inputs: BatchFeature) -> dict[str, Tensor]:
        return {"second_per_grid_ts": torch.as_tensor(inputs["second_per_grid_ts"])}

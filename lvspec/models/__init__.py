"""Model families: the only place that knows the inside of a Hugging Face model.

To add one: a file named after the `model_type`, with a subclass of `VideoModel`; a line in
`FAMILIES`; its case in `tests/lvspec/models`, which holds every family to the same proofs.
"""

from lvspec.models.base import Prepared, Prompt, VideoModel
from lvspec.models.qwen2_5_vl import Qwen25VL

FAMILIES: dict[str, type[VideoModel]] = {"qwen2_5_vl": Qwen25VL}

__all__ = ["FAMILIES", "Prepared", "Prompt", "VideoModel"]

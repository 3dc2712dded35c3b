"""Model families: the only place that knows the inside of a Hugging Face model.

To add one: a file named after the `model_type`, with a subclass of `VideoModel`; a line in
`FAMILIES`; its builder in `tests/lvspec/tiny`, which puts it through the same proofs as all others
(`tests/lvspec/models`). Two types with the same class may be target and draft of one another.
"""

from lvspec.models.base import Prepared, Prompt, VideoModel
from lvspec.models.internvl import InternVL
from lvspec.models.llava_onevision import LlavaOnevision
from lvspec.models.qwen2_5_vl import Qwen25VL
from lvspec.models.qwen2_vl import Qwen2VL
from lvspec.models.qwen3_vl import Qwen3VL
from lvspec.models.smolvlm import SmolVLM

FAMILIES: dict[str, type[VideoModel]] = {
    "qwen2_vl": Qwen2VL,
    "qwen2_5_vl": Qwen25VL,
    "qwen3_vl": Qwen3VL,
    "qwen3_vl_moe": Qwen3VL,
    "llava_onevision": LlavaOnevision,
    "internvl": InternVL,
    "smolvlm": SmolVLM,
}

__all__ = ["FAMILIES", "Prepared", "Prompt", "VideoModel"]

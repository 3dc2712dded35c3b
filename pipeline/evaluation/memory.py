"""What a pair of models should need of GPU memory, from the dimensions of its checkpoints.

An estimate to size machines by: weights and caches follow from the dimensions exactly, activations
are the widest moment of a prefill pass of the text decoder. Not in it: the vision tower's pass, the
allocator's slack and the CUDA context (a few GiB together).
"""

from dataclasses import dataclass

_BYTES = 2  # of a bfloat16


@dataclass(frozen=True)
class Dimensions:
    """Of a Qwen2 text decoder, and its vision tower's parameters and tokens of a frame."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int
    vision_parameters: int
    tokens_per_frame: float

    @property
    def head(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def text_parameters(self) -> int:
        """Parameters of the text decoder, input and output embeddings apart from each other."""
        kv = self.kv_heads * self.head
        attention = 2 * self.width**2 + 2 * self.width * kv + self.width + 2 * kv
        layer = attention + 3 * self.width * self.feed_forward + 2 * self.width
        return self.layers * layer + self.width + 2 * self.vocabulary * self.width

    @property
    def cache_bytes(self) -> int:
        """Keys and values of one token."""
        return 2 * self.layers * self.kv_heads * self.head * _BYTES


# 200,704 pixels a frame make 256 tokens of two frames; LLaVA-OneVision pools a frame to 196.
_QWEN_VISION, _SIGLIP = 676_550_144, 428_000_000
_QWEN_7B = Dimensions(28, 3584, 18944, 28, 4, 152064, _QWEN_VISION, 128)
_LLAVA_7B = Dimensions(28, 3584, 18944, 28, 4, 152000, _SIGLIP, 196)
PAIRS: dict[str, tuple[Dimensions, Dimensions]] = {
    "qwen2_5_vl_32b": (Dimensions(64, 5120, 27648, 40, 8, 152064, _QWEN_VISION, 128), _QWEN_7B),
    "llava_onevision_72b": (Dimensions(80, 8192, 29568, 64, 8, 152000, _SIGLIP, 196), _LLAVA_7B),
}
"""Target and draft, from the checkpoints' own config.json."""


@dataclass(frozen=True)
class Need:
    """Bytes. weights: of target and draft. cache: keys, values and the target's visual states of
    all slots. activations: of the widest pass.
    """

    weights: int
    cache: int
    activations: int

    @property
    def gib(self) -> float:
        """All of it."""
        return (self.weights + self.cache + self.activations) / 2**30


def need(
    target: Dimensions,
    draft: Dimensions,
    frames: int,
    max_new_tokens: int,
    keep: float,
    slots: int = 1,
    prefill_chunk: int | None = None,
) -> Need:
    """The memory of decoding `slots` videos of `frames` frames with the draft seeing the share
    `keep` of their tokens; bfloat16, prompts of 100 tokens beside the video.
    """
    video = round(frames * target.tokens_per_frame)
    text = 100 + max_new_tokens
    parameters = sum(m.text_parameters + m.vision_parameters for m in (target, draft))
    row = (video + text) * target.cache_bytes + video * target.width * _BYTES
    row += (round(video * keep) + text) * draft.cache_bytes
    at_once = min(prefill_chunk or video + text, video + text)
    # residual, queries, keys, values and attention beside two feed-forward halves and their product
    pass_bytes = at_once * (6 * target.width + 3 * target.feed_forward) * _BYTES
    mask = at_once * (video + text) * _BYTES
    return Need(parameters * _BYTES, slots * row, pass_bytes + mask)

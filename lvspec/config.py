"""Settings of models, frames and decoding: frozen, validated on construction, free of torch.

Bad values raise `SettingError` with the key, the value and what is allowed.
"""

from dataclasses import dataclass, field
from typing import Literal

from lvspec.policy_settings import (
    POLICY_SETTINGS,
    Entropy,
    Exact,
    Fly,
    Gate,
    Lvspec,
    PolicySettings,
)
from lvspec.setting_error import SettingError, require

__all__ = [
    "DRAFTERS",
    "POLICY_SETTINGS",
    "PRUNINGS",
    "DecodeSettings",
    "Entropy",
    "Exact",
    "Fly",
    "FrameSettings",
    "Gate",
    "Lvspec",
    "ModelSettings",
    "PolicySettings",
    "Sampling",
    "SettingError",
]


@dataclass(frozen=True)
class ModelSettings:
    """Which target and draft, and how they are loaded.

    target, draft: a name or folder for `from_pretrained`, or "demo" for the embedded pair.
        draft None: no draft is loaded (plain decoding only).
    target_revision, draft_revision: branch, tag or commit on the hub; None is its main one.
    dtype: "auto" is the checkpoint's own on an accelerator and float32 on a CPU.
    device: "auto" is CUDA where there is one.
    device_map: for targets larger than one device, handed to `from_pretrained` ("auto" spreads the
        target over the devices that are visible); the draft stays on `device`.
    attn_implementation: of the vision tower, as transformers names it; "sdpa" needs nothing
        installed. The text decoder always runs on "sdpa", which takes the engine's masks.

    >>> ModelSettings(target="Qwen/Qwen2.5-VL-32B-Instruct", draft="Qwen/Qwen2.5-VL-7B-Instruct",
    ...               device_map="auto").dtype
    'auto'
    """

    target: str = "demo"
    draft: str | None = "demo"
    target_revision: str | None = None
    draft_revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    device_map: str | None = None
    attn_implementation: str = "sdpa"

    def __post_init__(self) -> None:
        dtypes = ("auto", "float32", "bfloat16", "float16")
        require(self.dtype in dtypes, "dtype", self.dtype, "one of " + ", ".join(dtypes))
        require(bool(self.target), "target", self.target, "a checkpoint name or folder")


@dataclass(frozen=True)
class FrameSettings:
    """How many frames of a clip the models see, and at which size.

    count: frames per clip, at the centres of `count` equal parts of it.
    min_pixels, max_pixels: budget per frame; None takes the target's processor.

    >>> FrameSettings(count=64, max_pixels=448 * 448).count
    64
    """

    count: int = 8
    min_pixels: int | None = None
    max_pixels: int | None = None

    def __post_init__(self) -> None:
        require(1 <= self.count <= 4096, "count", self.count, "1 to 4096 frames")
        for key in ("min_pixels", "max_pixels"):
            value = getattr(self, key)
            require(value is None or value >= 1, key, value, "pixels per frame, at least 1")
        if self.min_pixels and self.max_pixels:
            allowed = f"at most max_pixels ({self.max_pixels})"
            require(self.min_pixels <= self.max_pixels, "min_pixels", self.min_pixels, allowed)


@dataclass(frozen=True)
class Sampling:
    """How the target's choice is made from its probabilities. The default is greedy.

    temperature: 0 is greedy; above, logits are divided by it.
    top_k: only so many of the likeliest tokens; None is all of them.
    top_p: only the smallest set of the likeliest tokens that holds this probability.
    seed: the same seed gives the same caption, whatever the batch; under `Exact` also whatever the
        draft and its length. What the other policies keep of the target's distribution stands with
        each of them, and in `lvspec.sampling`.

    >>> Sampling(temperature=0.7, top_p=0.9, seed=42).top_k is None
    True
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        ok = 0 <= self.temperature < float("inf")
        require(ok, "temperature", self.temperature, "0 (greedy) or above")
        ok = self.top_k is None or self.top_k >= 1
        require(ok, "top_k", self.top_k, "at least 1, or null for off")
        require(0 < self.top_p <= 1, "top_p", self.top_p, "a probability above 0, up to 1 (off)")
        require(abs(self.seed) < 2**63, "seed", self.seed, "an integer of 64 bits")


DRAFTERS = ("model", "self", "lookup", "lookup+model", "none")
PRUNINGS = ("uniform", "frames", "attention", "none")


@dataclass(frozen=True)
class DecodeSettings:
    """How captions are decoded.

    policy: which drafted tokens stay: `Exact()`, `Lvspec(...)` or `Gate(...)`.
    sampling: how the target chooses; greedy by default. A request may bring its own.
    drafter: who proposes tokens. "model" is the draft model; "self" the target itself with a pruned
        video; "lookup" what followed the latest words before; "lookup+model" asks the draft model
        where that finds nothing; "none" is plain decoding.
    draft_length: the paper's K, tokens drafted per round.
    adaptive: choose the draft length per round, 0 to `draft_length`, by measured acceptance and
        measured costs, so that no draft makes decoding slower than plain. What loose policies let
        through depends on the blocks, so their captions then depend on how fast the machine is.
    pruning, keep: which visual tokens the draft keeps: "uniform" keeps the share `keep` of them,
        evenly spaced (0.1 in the paper); "frames" that share of the temporal patches, evenly
        spaced, and the draft's vision tower never sees the others; "attention" the tokens that the
        target's text looks at most, then evenly spaced ones (SpecVLM, arXiv 2508.16201); "none"
        keeps all.
    slots: rows decoded together.
    compiled: run drafts and verify passes through `torch.compile`, in few fixed shapes: faster
        steps for up to a minute of compiling per shape. Not with `adaptive`, whose every length
        would be one, nor with a `relevance_layer`.
    prefill_chunk: prompt tokens per pass of prefill, to bound its memory; None is all at once.
    max_new_tokens: longest caption; a request may ask for less or more.
    max_context: tokens of prompt and caption that a slot may hold; None is the models' own limit.
    cache_gib: memory for keys, values and visual states of all slots, taken at the start; it bounds
        the context of a slot. None grows with what comes.
    deadline_s: seconds that a request may take from its prefill on; what is not done then is let go
        as a refusal, and its mates go on. Looked at between rounds; compiling does not count.
    prompt: what is asked of the target when a request brings no prompt of its own.

    >>> from lvspec import Exact
    >>> DecodeSettings(policy=Exact(), slots=8, adaptive=True).draft_length
    10
    """

    policy: PolicySettings = field(default_factory=Lvspec)
    sampling: Sampling = field(default_factory=Sampling)
    drafter: Literal["model", "self", "lookup", "lookup+model", "none"] = "model"
    draft_length: int = 10
    adaptive: bool = False
    pruning: Literal["uniform", "frames", "attention", "none"] = "uniform"
    keep: float = 0.1
    slots: int = 4
    compiled: bool = False
    prefill_chunk: int | None = None
    max_new_tokens: int = 128
    max_context: int | None = None
    cache_gib: float | None = None
    deadline_s: float = 600.0
    prompt: str = "Describe this video."

    def __post_init__(self) -> None:
        ok = isinstance(self.policy, PolicySettings)
        require(ok, "policy", self.policy, "settings of " + ", ".join(POLICY_SETTINGS))
        require(self.drafter in DRAFTERS, "drafter", self.drafter, "one of " + ", ".join(DRAFTERS))
        require(1 <= self.draft_length <= 64, "draft_length", self.draft_length, "1 to 64")
        require(self.pruning in PRUNINGS, "pruning", self.pruning, "one of " + ", ".join(PRUNINGS))
        require(0 < self.keep <= 1, "keep", self.keep, "above 0, up to 1")
        allowed = "false beside adaptive: every draft length would be compiled anew"
        require(not (self.compiled and self.adaptive), "compiled", self.compiled, allowed)
        layer = getattr(self.policy, "relevance_layer", None)
        allowed = "false with policy.relevance_layer: no layer of a compiled pass can be watched"
        require(not self.compiled or layer is None, "compiled", self.compiled, allowed)
        require(1 <= self.slots <= 1024, "slots", self.slots, "1 to 1024")
        require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")
        ok = self.prefill_chunk is None or self.prefill_chunk >= 1
        require(ok, "prefill_chunk", self.prefill_chunk, "at least 1 token, or null for all")
        ok = self.cache_gib is None or self.cache_gib > 0
        require(ok, "cache_gib", self.cache_gib, "above 0, or null to grow as needed")
        ok = self.max_context is None or self.max_context >= 2
        require(ok, "max_context", self.max_context, "at least 2, or null for the models' limit")
        require(self.deadline_s > 0, "deadline_s", self.deadline_s, "seconds above 0")
        require(bool(self.prompt.strip()), "prompt", self.prompt, "a text that is not empty")

"""Settings of models, frames and decoding: frozen, validated on construction, free of torch.

Bad values raise `SettingError` with the key, the value and what is allowed.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal


class SettingError(ValueError):
    """A setting outside what is allowed. `key` is relative to the settings class."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key} = {value!r}: allowed is {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type["SettingError"], tuple[str, object, str]]:
        return type(self), (self.key, self.value, self.allowed)


def _require(ok: bool, key: str, value: object, allowed: str) -> None:
    if not ok:
        raise SettingError(key, value, allowed)


@dataclass(frozen=True)
class ModelSettings:
    """Which target and draft, and how they are loaded.

    target, draft: a name or folder for `from_pretrained`, or "demo" for the embedded pair.
        draft None: no draft is loaded (plain decoding only).
    dtype: "auto" is the checkpoint's own on an accelerator and float32 on a CPU.
    device: "auto" is CUDA where there is one.
    device_map: for targets larger than one device, handed to `from_pretrained` ("auto" spreads the
        target over the devices that are visible); the draft stays on `device`.
    attn_implementation: of the vision tower, as transformers names it; "sdpa" needs nothing
        installed. The text decoder always runs on "sdpa", which takes the engine's masks.
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
        _require(self.dtype in dtypes, "dtype", self.dtype, "one of " + ", ".join(dtypes))
        _require(bool(self.target), "target", self.target, "a checkpoint name or folder")


@dataclass(frozen=True)
class FrameSettings:
    """How many frames of a clip the models see, and at which size.

    count: frames per clip, at the centres of `count` equal parts of it.
    min_pixels, max_pixels: budget per frame; None takes the target's processor.
    """

    count: int = 8
    min_pixels: int | None = None
    max_pixels: int | None = None

    def __post_init__(self) -> None:
        _require(1 <= self.count <= 4096, "count", self.count, "1 to 4096 frames")
        for key in ("min_pixels", "max_pixels"):
            value = getattr(self, key)
            _require(value is None or value >= 1, key, value, "pixels per frame, at least 1")
        if self.min_pixels and self.max_pixels:
            allowed = f"at most max_pixels ({self.max_pixels})"
            _require(self.min_pixels <= self.max_pixels, "min_pixels", self.min_pixels, allowed)


@dataclass(frozen=True)
class Sampling:
    """How the target's choice is made from its probabilities. The default is greedy.

    temperature: 0 is greedy; above, logits are divided by it.
    top_k: only so many of the likeliest tokens; None is all of them.
    top_p: only the smallest set of the likeliest tokens that holds this probability.
    seed: the same seed gives the same caption, whatever the batch, the draft or its length.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        ok = 0 <= self.temperature < float("inf")
        _require(ok, "temperature", self.temperature, "0 (greedy) or above")
        ok = self.top_k is None or self.top_k >= 1
        _require(ok, "top_k", self.top_k, "at least 1, or null for off")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "a probability above 0, up to 1 (off)")
        _require(abs(self.seed) < 2**63, "seed", self.seed, "an integer of 64 bits")


@dataclass(frozen=True)
class Exact:
    """Strict verification: a drafted token stays only where it is the target's own choice.

    Greedy output is token-identical to the target's own greedy decoding.
    """

    name: ClassVar[str] = "exact"
    needs_relevance: ClassVar[bool] = False


@dataclass(frozen=True)
class Lvspec:
    """Loose verification by visual relevance (LVSpec, arXiv 2604.05650).

    loose_share: the paper's lambda, the share of slots of a block, those with the lowest
        relevance, that are accepted whatever the target would have said. 0.7 in the paper.
    relevance_top: the paper's N, how many of the largest cosines between a predicting state and
        the video's states make its relevance. 10 in the paper.
    scope: "block" ranks the slots of a block (the paper); "fixed" is loose below `threshold`.
    threshold: relevance below which a slot is loose, for scope "fixed".
    shift: position-shift tolerance (PST): keep a mismatch where the target's token stands anywhere
        else in the drafted block.
    shift_window: only this many slots away; None is the whole block (the paper).
    shift_reverse: also keep a drafted token that the target says elsewhere in the block.
    min_probability, top_k, min_entropy: plausibility gates on loose slots, all off by default (the
        paper accepts without one): the target's probability of the drafted token is at least
        `min_probability`, it is among the target's `top_k`, or the target's entropy over the
        vocabulary, normalised to 0..1, is at least `min_entropy`.
    """

    name: ClassVar[str] = "lvspec"
    needs_relevance: ClassVar[bool] = True

    loose_share: float = 0.7
    relevance_top: int = 10
    scope: Literal["block", "fixed"] = "block"
    threshold: float = 0.0
    shift: bool = True
    shift_window: int | None = None
    shift_reverse: bool = False
    min_probability: float = 0.0
    top_k: int | None = None
    min_entropy: float = 0.0

    def __post_init__(self) -> None:
        _require(0 <= self.loose_share <= 1, "loose_share", self.loose_share, "0 to 1")
        _require(self.relevance_top >= 1, "relevance_top", self.relevance_top, "at least 1")
        _require(self.scope in ("block", "fixed"), "scope", self.scope, "block or fixed")
        _require(-1 <= self.threshold <= 1, "threshold", self.threshold, "a cosine, -1 to 1")
        ok = self.shift_window is None or self.shift_window >= 1
        _require(ok, "shift_window", self.shift_window, "at least 1, or null for the whole block")
        allowed = "a probability, 0 (off) to 1"
        _require(0 <= self.min_probability <= 1, "min_probability", self.min_probability, allowed)
        ok = self.top_k is None or self.top_k >= 1
        _require(ok, "top_k", self.top_k, "at least 1, or null for off")
        _require(0 <= self.min_entropy <= 1, "min_entropy", self.min_entropy, "0 (off) to 1")


@dataclass(frozen=True)
class Gate:
    """A rule without vision, for comparison: keep what the target finds plausible.

    min_probability: a drafted token stays where the target gives it at least this probability.
    """

    name: ClassVar[str] = "gate"
    needs_relevance: ClassVar[bool] = False

    min_probability: float = 0.05

    def __post_init__(self) -> None:
        allowed = "a probability above 0, up to 1"
        _require(0 < self.min_probability <= 1, "min_probability", self.min_probability, allowed)


@dataclass(frozen=True)
class Entropy:
    """Keep a mismatch where the target is undecided (FLy's gate without its window).

    min_entropy: the target's entropy over the vocabulary, normalised to 0..1. 0.3 in FLy.
    """

    name: ClassVar[str] = "entropy"
    needs_relevance: ClassVar[bool] = False

    min_entropy: float = 0.3

    def __post_init__(self) -> None:
        _require(0 <= self.min_entropy <= 1, "min_entropy", self.min_entropy, "0 to 1")


@dataclass(frozen=True)
class Fly:
    """Keep a mismatch that turns out harmless (FLy, arXiv 2511.22972).

    min_entropy: the target must be undecided at it: entropy normalised to 0..1, 0.3 in FLy.
    window: and agree with the draft again in all of so many slots after it, inside the block. 6 in
        FLy.
    """

    name: ClassVar[str] = "fly"
    needs_relevance: ClassVar[bool] = False

    min_entropy: float = 0.3
    window: int = 6

    def __post_init__(self) -> None:
        _require(0 <= self.min_entropy <= 1, "min_entropy", self.min_entropy, "0 to 1")
        _require(self.window >= 1, "window", self.window, "at least 1 slot")


PolicySettings = Exact | Lvspec | Gate | Entropy | Fly
POLICY_SETTINGS: dict[str, type[PolicySettings]] = {
    c.name: c for c in (Exact, Lvspec, Gate, Entropy, Fly)
}


DRAFTERS = ("model", "self", "lookup", "lookup+model", "none")


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
        evenly spaced (0.1 in the paper); "none" keeps all.
    slots: rows decoded together.
    prefill_chunk: prompt tokens per pass of prefill, to bound its memory; None is all at once.
    max_new_tokens: longest caption; a request may ask for less or more.
    max_context: tokens of prompt and caption that a slot may hold; None is the models' own limit.
    cache_gib: memory for keys, values and visual states of all slots, taken at the start; it bounds
        the context of a slot. None grows with what comes.
    prompt: what is asked of the target when a request brings no prompt of its own.
    """

    policy: PolicySettings = field(default_factory=Lvspec)
    sampling: Sampling = field(default_factory=Sampling)
    drafter: Literal["model", "self", "lookup", "lookup+model", "none"] = "model"
    draft_length: int = 10
    adaptive: bool = False
    pruning: Literal["uniform", "none"] = "uniform"
    keep: float = 0.1
    slots: int = 4
    prefill_chunk: int | None = None
    max_new_tokens: int = 128
    max_context: int | None = None
    cache_gib: float | None = None
    prompt: str = "Describe this video."

    def __post_init__(self) -> None:
        ok = isinstance(self.policy, PolicySettings)
        _require(ok, "policy", self.policy, "settings of " + ", ".join(POLICY_SETTINGS))
        _require(self.drafter in DRAFTERS, "drafter", self.drafter, "one of " + ", ".join(DRAFTERS))
        _require(1 <= self.draft_length <= 64, "draft_length", self.draft_length, "1 to 64")
        _require(self.pruning in ("uniform", "none"), "pruning", self.pruning, "uniform or none")
        _require(0 < self.keep <= 1, "keep", self.keep, "above 0, up to 1")
        _require(1 <= self.slots <= 1024, "slots", self.slots, "1 to 1024")
        _require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")
        ok = self.prefill_chunk is None or self.prefill_chunk >= 1
        _require(ok, "prefill_chunk", self.prefill_chunk, "at least 1 token, or null for all")
        ok = self.cache_gib is None or self.cache_gib > 0
        _require(ok, "cache_gib", self.cache_gib, "above 0, or null to grow as needed")
        ok = self.max_context is None or self.max_context >= 2
        _require(ok, "max_context", self.max_context, "at least 2, or null for the models' limit")
        _require(bool(self.prompt.strip()), "prompt", self.prompt, "a text that is not empty")

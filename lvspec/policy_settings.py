"""Settings of the policies: which drafted tokens stay. Their rules stand in `lvspec.policies`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from lvspec.setting_error import one_of, require


@dataclass(frozen=True)
class Exact:
    """Strict verification: a drafted token stays only where it is the target's own choice.

    Greedy output is token-identical to the target's own greedy decoding. Sampled, the caption is
    token for token the one that plain sampling with the same seed gives, so it follows the target's
    distribution exactly (Gumbel coupling, arXiv 2408.07978).

    >>> Exact().name
    'exact'
    """

    name: ClassVar[str] = "exact"
    needs_relevance: ClassVar[bool] = False


@dataclass(frozen=True)
class Lvspec:
    """Loose verification by visual relevance (LVSpec, arXiv 2604.05650).

    "Paper" below is the source of a default; "ours" is a choice that the paper's public summaries
    leave open, or an extension of it.

    loose_share: the paper's lambda, the share of slots, those with the lowest relevance, that are
        accepted whatever the target would have said. Paper: 0.7.
    relevance_top: the paper's N, how many of the largest cosines between a slot's state and the
        video's make its relevance. Paper: 10.
    relevance_source: what stands for the video. "states": the target's hidden states at the video
        positions (paper: last hidden states). "features": the video embeddings that entered its
        decoder (ours).
    relevance_layer: the decoder layer whose states are compared, slots' and video's, from 0. None
        is the model's last hidden states, after the final norm (ours: inferred). An index is what
        that layer returns, before any norm (and before Qwen3-VL's deepstack features are added).
        Not with `compiled`.
    relevance_slot: which state is a slot's. "predicting": the one that its token is predicted from
        (paper: h of s-1). "own": the one that has read the drafted token (ours).
    scope: among which slots the share is taken. "block": those of the block, floor(loose_share * K)
        of them (paper). "running": those of the block together with the caption's latest
        `running_window` committed ones, so that a block may be loose or strict throughout (ours).
        "fixed": none, loose is what lies below `threshold` (ours).
    running_window: committed slots that scope "running" remembers. Ours: 256.
    threshold: relevance below which a slot is loose, for scope "fixed". Ours: 0.
    shift: position-shift tolerance (PST): keep a mismatch where the target's token stands anywhere
        else in the drafted block. Paper: on.
    shift_window: only this many slots away; None is the whole block (paper).
    shift_reverse: also keep a drafted token that the target says elsewhere in the block. Ours: off.
    min_probability, top_k, min_entropy: plausibility gates on loose slots (ours), all off by
        default: the paper accepts without one. The target's probability of the drafted token is at
        least `min_probability`, fewer than `top_k` tokens are likelier, and the target's entropy
        over the vocabulary, normalised to 0..1, is at least `min_entropy`. With `min_probability`
        and without `shift`, relevance decides where the rule of `Gate` holds and where that of
        `Exact` does.
    strict_probability: strict slots, too, keep a token that the target gives at least this
        probability (ours); None is off: only its own token.

    Sampled: every token but the loose and shifted ones is the target's own draw, and the caption
    ends where the target's draw ends it. A loose or shifted token is what the drafter proposed (a
    draft model's own draw, at the same temperature, top-k and top-p), whatever the target's
    distribution is there; the gates read the target's probabilities before those three. The
    target's distribution is not kept: see `lvspec.sampling`.

    >>> Lvspec(loose_share=0.5, shift=False)  # doctest: +ELLIPSIS
    Lvspec(loose_share=0.5, relevance_top=10, ...)
    """

    name: ClassVar[str] = "lvspec"
    needs_relevance: ClassVar[bool] = True

    loose_share: float = 0.7
    relevance_top: int = 10
    relevance_source: Literal["states", "features"] = "states"
    relevance_layer: int | None = None
    relevance_slot: Literal["predicting", "own"] = "predicting"
    scope: Literal["block", "running", "fixed"] = "block"
    running_window: int = 256
    threshold: float = 0.0
    shift: bool = True
    shift_window: int | None = None
    shift_reverse: bool = False
    min_probability: float = 0.0
    top_k: int | None = None
    min_entropy: float = 0.0
    strict_probability: float | None = None

    def __post_init__(self) -> None:
        require(0 <= self.loose_share <= 1, "loose_share", self.loose_share, "0 to 1")
        require(self.relevance_top >= 1, "relevance_top", self.relevance_top, "at least 1")
        one_of("relevance_source", self.relevance_source, ("states", "features"))
        layer = self.relevance_layer
        allowed = "a decoder layer's index from 0, or null for the last hidden states"
        require(layer is None or layer >= 0, "relevance_layer", layer, allowed)
        one_of("relevance_slot", self.relevance_slot, ("predicting", "own"))
        one_of("scope", self.scope, ("block", "running", "fixed"))
        ok = 1 <= self.running_window <= 65536
        require(ok, "running_window", self.running_window, "1 to 65536 slots")
        require(-1 <= self.threshold <= 1, "threshold", self.threshold, "a cosine, -1 to 1")
        ok = self.shift_window is None or self.shift_window >= 1
        require(ok, "shift_window", self.shift_window, "at least 1, or null for the whole block")
        allowed = "a probability, 0 (off) to 1"
        require(0 <= self.min_probability <= 1, "min_probability", self.min_probability, allowed)
        ok = self.top_k is None or self.top_k >= 1
        require(ok, "top_k", self.top_k, "at least 1, or null for off")
        require(0 <= self.min_entropy <= 1, "min_entropy", self.min_entropy, "0 (off) to 1")
        floor = self.strict_probability
        allowed = "a probability above 0, up to 1, or null for off"
        require(floor is None or 0 < floor <= 1, "strict_probability", floor, allowed)


@dataclass(frozen=True)
class Gate:
    """A rule without vision, for comparison: keep what the target finds plausible.

    min_probability: a drafted token stays where the target gives it at least this probability.

    Sampled: a token is either the target's own draw or the draft's, and then one to which the
    target gives at least `min_probability` before temperature, top-k and top-p. Given what stands
    before it, its distribution is as far from the target's (in total variation) as drafted tokens
    are kept against the target's draw, at most. Captions end where the target's draw ends them.

    >>> Gate(min_probability=0.1).min_probability
    0.1
    """

    name: ClassVar[str] = "gate"
    needs_relevance: ClassVar[bool] = False

    min_probability: float = 0.05

    def __post_init__(self) -> None:
        allowed = "a probability above 0, up to 1"
        require(0 < self.min_probability <= 1, "min_probability", self.min_probability, allowed)


@dataclass(frozen=True)
class Entropy:
    """Keep a mismatch where the target is undecided (FLy's gate without its window).

    min_entropy: the target's entropy over the vocabulary, normalised to 0..1. 0.3 in FLy.

    Sampled: where the entropy (before temperature, top-k and top-p) is lower, tokens follow the
    target's distribution exactly, given what stands before them; elsewhere the draft's, but for end
    tokens: captions end where the target's draw ends them.

    >>> Entropy().min_entropy
    0.3
    """

    name: ClassVar[str] = "entropy"
    needs_relevance: ClassVar[bool] = False

    min_entropy: float = 0.3

    def __post_init__(self) -> None:
        require(0 <= self.min_entropy <= 1, "min_entropy", self.min_entropy, "0 to 1")


@dataclass(frozen=True)
class Fly:
    """Keep a mismatch that turns out harmless (FLy, arXiv 2511.22972).

    min_entropy: the target must be undecided at it: entropy normalised to 0..1, 0.3 in FLy.
    window: and agree with the draft again in all of so many slots after it, inside the block. 6 in
        FLy.

    Sampled: every token but the loose ones is the target's own draw, and captions end where the
    target's draw ends them. A loose token is the draft's draw, at a slot where the target's entropy
    is at least `min_entropy` before temperature, top-k and top-p. The target's distribution is not
    kept, as the window looks at later draws: see `lvspec.sampling`.

    >>> Fly(window=4).min_entropy
    0.3
    """

    name: ClassVar[str] = "fly"
    needs_relevance: ClassVar[bool] = False

    min_entropy: float = 0.3
    window: int = 6

    def __post_init__(self) -> None:
        require(0 <= self.min_entropy <= 1, "min_entropy", self.min_entropy, "0 to 1")
        require(self.window >= 1, "window", self.window, "at least 1 slot")


PolicySettings = Exact | Lvspec | Gate | Entropy | Fly
POLICY_SETTINGS: dict[str, type[PolicySettings]] = {
    c.name: c for c in (Exact, Lvspec, Gate, Entropy, Fly)
}

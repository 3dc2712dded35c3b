"""The methods that are compared, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lvspec.benchmark.stock import Outcome, assisted, generate
from lvspec.config import DecodeSettings, Entropy, Exact, Fly, Gate, Lvspec
from lvspec.pair import Pair
from lvspec.types import Request

MAIN = ("plain", "generate", "exact", "lvspec", "gate", "accept-all")
"""What the README's table shows."""

PEERS = (
    *("plain", "generate", "assisted", "exact", "specvlm", "fly", "entropy", "gate"),
    *("lvspec-no-shift", "lvspec", "lvspec-gated", "tiered", "tiered-long"),
    *("exact-adaptive", "lvspec-adaptive", "tiered-adaptive"),
    *("lookup", "lookup+model", "self", "accept-all"),
)
"""Published methods and ours beside each other."""

FRONT = (
    *("plain", "exact", "exact-long", "gate", "gate-long", "lvspec", "lvspec-long"),
    *("lvspec-no-shift", "tiered", "tiered-long", "tiered-adaptive", "accept-all"),
)
"""The rules with the most speed for the facts they keep, at K and at `LONG`."""

LONG = 20
"""Tokens drafted by what is called long, and at most by what is called adaptive."""

_AT_LENGTH = "exact", "gate", "lvspec", "tiered"
_SHARES, _TOPS, _LENGTHS = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0), (1, 10, 100), (2, 4, 6, 8, 10, 12)
COMPILED = ("plain", "generate", *(f"{n}-compiled" for n in ("plain", "exact", "lvspec")))
"""Our loop with `torch.compile`, beside `generate` as it comes."""

SWEEP = (
    "plain",
    *(f"lambda-{share:g}" for share in _SHARES),
    *(f"top-{top}" for top in _TOPS),
    *(f"length-{length}" for length in _LENGTHS),
)
"""The paper's ablations: lambda (without PST, as there), N, K."""

Stock = Callable[[Pair, DecodeSettings, Sequence[Request]], dict[str, Outcome]]


@dataclass(frozen=True)
class Method:
    """settings: of our engine. stock: a decoding of transformers instead, and the batch sizes it
    takes (None: all).
    """

    settings: DecodeSettings
    stock: Stock | None = None
    only_batch: int | None = None


def methods(base: DecodeSettings) -> dict[str, Method]:
    """Every method; `base` gives the policy `lvspec`, K, the draft's share of the video and the
    longest caption.

    assisted: `generate(assistant_model=...)`; its draft sees no video (transformers 5.x drops it)
    and it takes no batch. specvlm: attention pruning and strict verification, without a tree.
    lvspec-gated: what the visual rule lets through must also be plausible to the target.
    tiered: relevance decides how plausible a token must be: at fillers not at all, at visual slots
    the target gives it 20 % at least; which are which hangs on the caption so far, not on the block
    alone, and tokens are not shifted.
    """
    loose = base.policy if isinstance(base.policy, Lvspec) else Lvspec()
    tiered = replace(loose, scope="running", strict_probability=0.2, shift=False)
    policies = {
        "exact": Exact(),
        "fly": Fly(),
        "entropy": Entropy(),
        "gate": Gate(),
        "lvspec-no-shift": replace(loose, shift=False),
        "lvspec": loose,
        "lvspec-gated": replace(loose, min_probability=0.05),
        "tiered": tiered,
        "accept-all": replace(loose, loose_share=1.0),
        **{f"lambda-{s:g}": replace(loose, loose_share=s, shift=False) for s in _SHARES},
        **{f"top-{n}": replace(loose, relevance_top=n) for n in _TOPS},
    }
    long = replace(base, draft_length=LONG)
    settings = {
        "plain": replace(base, drafter="none"),
        **{name: replace(base, policy=policy) for name, policy in policies.items()},
        **{f"length-{k}": replace(base, draft_length=k) for k in _LENGTHS},
        "specvlm": replace(base, policy=Exact(), pruning="attention"),
        **{f"{name}-long": replace(long, policy=policies[name]) for name in _AT_LENGTH},
        **{f"{n}-adaptive": replace(long, policy=policies[n], adaptive=True) for n in _AT_LENGTH},
        "lookup": replace(base, policy=Exact(), drafter="lookup"),
        "lookup+model": replace(base, drafter="lookup+model"),
        "self": replace(base, policy=Exact(), drafter="self"),
        "plain-compiled": replace(base, drafter="none", compiled=True),
        "exact-compiled": replace(base, policy=Exact(), compiled=True),
        "lvspec-compiled": replace(base, compiled=True),
    }
    return {
        "generate": Method(base, generate),
        "assisted": Method(base, assisted, only_batch=1),
        **{name: Method(chosen) for name, chosen in settings.items()},
    }

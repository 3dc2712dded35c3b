"""Policies: which drafted tokens stay.

The contract: a policy is a pure function from `Evidence` and its settings to a `Verdict`. It sees
tensors, never a model, a cache or a hidden state. What it accepts is always a prefix of the block,
and the token after it is always the target's own.

To add one: a frozen settings class in `lvspec.config` (and its line in `POLICY_SETTINGS`), a
function in a file here that returns `verdict(evidence, kept, why, refused)`, a line in `POLICIES`,
a test on hand-written logits.
"""

from collections.abc import Callable
from typing import Any

from lvspec.config import Entropy, Exact, Fly, Gate, Lvspec
from lvspec.policies.entropy import decide_entropy
from lvspec.policies.evidence import Evidence, Verdict, verdict
from lvspec.policies.exact import decide_exact
from lvspec.policies.fly import decide_fly
from lvspec.policies.gate import decide_gate
from lvspec.policies.lvspec import decide_lvspec

POLICIES: dict[type, Callable[[Evidence, Any], Verdict]] = {
    Exact: decide_exact,
    Lvspec: decide_lvspec,
    Gate: decide_gate,
    Entropy: decide_entropy,
    Fly: decide_fly,
}

__all__ = ["POLICIES", "Evidence", "Verdict", "verdict"]

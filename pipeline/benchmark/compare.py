"""Two results of the same measure: what changed beyond the noise of their repeats."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, variance

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class Change:
    """after / before of a rate, with its 95 % interval; None where a side has no repeats."""

    ratio: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """`faster`, `slower`, `within noise`, or `unknown` without repeats."""
        if self.low is None or self.high is None:
            return "unknown: repeats are needed on both sides"
        return "faster" if self.low > 1 else "slower" if self.high < 1 else "within noise"


def t95(degrees: float) -> float:
    """97.5 % quantile of Student's t; of the next whole degrees of freedom below, to be careful."""
    whole = max(1, math.floor(degrees))
    return _T95[whole - 1] if whole <= len(_T95) else 1.96 + 2.5 / whole


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    half = t95(len(values) - 1) * math.sqrt(variance(values) / len(values))
    return mean(values) - half, mean(values) + half


def change(before: Sequence[float], after: Sequence[float]) -> Change:
    """Welch's interval of the ratio of two rates (all above 0), on their logarithms."""
    old, new = [math.log(x) for x in before], [math.log(x) for x in after]
    ratio = mean(new) - mean(old)
    if len(old) < 2 or len(new) < 2:
        return Change(math.exp(ratio), None, None)
    parts = variance(old) / len(old), variance(new) / len(new)
    squared = sum(parts)
    if squared == 0:
        return Change(math.exp(ratio), math.exp(ratio), math.exp(ratio))
    shares = parts[0] ** 2 / (len(old) - 1) + parts[1] ** 2 / (len(new) - 1)
    half = t95(squared**2 / shares) * math.sqrt(squared)
    return Change(math.exp(ratio), math.exp(ratio - half), math.exp(ratio + half))

"""Scores of answers: pure functions over texts and numbers."""

import re
from collections.abc import Sequence

import numpy as np

_WORD = re.compile(r"[a-z0-9]+")
FUNCTION_WORDS = frozenset(
    """a about above across after again against all along also although am among an and another any
    are around as at away be because been before behind being below beneath beside between both but
    by can could did do does doing down during each either else ever every few for from further had
    has have having he her here hers him his how however i if in into is it its itself just may me
    might more most much must my near neither no nor not now of off on once only onto or other our
    out over own per quite rather s same shall she should since so some such t than that the their
    them then there these they this those though through throughout to together too toward towards
    under until up upon very was we were what when where whether which while who whom whose why
    will with within without would yet you your""".split()  # noqa: SIM905  # a list of 150 lines else
)


def words(text: str) -> list[str]:
    """Lower-case words and numbers.

    >>> words("It's a RED ring.")
    ['it', 's', 'a', 'red', 'ring']
    """
    return _WORD.findall(text.lower())


def content_kept(text: str, plain: str) -> float:
    """Share of the distinct content words of `plain` that `text` says too; 1.0 where it has none.

    >>> content_kept("The red ring turns blue.", "A red ring grows and it turns blue.")
    0.8
    """
    wanted = set(words(plain)) - FUNCTION_WORDS
    return len(wanted & set(words(text))) / len(wanted) if wanted else 1.0


def rouge_l(text: str, reference: str) -> float:
    """ROUGE-L, F1 of the longest common subsequence of words (Lin, 2004), without stemming.

    >>> round(rouge_l("police kill the gunman", "police killed the gunman"), 2)
    0.75
    """
    said, wanted = words(text), words(reference)
    if not said or not wanted:
        return float(said == wanted)
    row = [0] * (len(wanted) + 1)
    for word in said:
        before = row
        row = [0]
        for place, other in enumerate(wanted):
            longer = before[place] + 1 if word == other else max(row[place], before[place + 1])
            row.append(longer)
    return 2 * row[-1] / (len(said) + len(wanted))


def kept_interval(score: Sequence[float], plain: Sequence[float]) -> tuple[float, float, float]:
    """Sum of `score` over that of `plain`, and the ends of its 95 % interval: a bootstrap over
    items, each drawn with its partner. NaN where plain scores nothing.
    """
    pairs = np.array([score, plain], np.float64)  # [2, N]
    totals = pairs.sum(-1)
    if totals[1] == 0:
        return float("nan"), float("nan"), float("nan")
    drawn = np.random.default_rng(0).integers(pairs.shape[1], size=(2000, pairs.shape[1]))
    sums = pairs[:, drawn].sum(-1)  # [2, 2000]
    ratios = sums[0][sums[1] > 0] / sums[1][sums[1] > 0]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(totals[0] / totals[1]), float(low), float(high)

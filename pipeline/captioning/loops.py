"""Captions that loop: a model that says the same over and over until its tokens are used up."""

from collections.abc import Sequence
from typing import Final

import numpy as np

LEAST: Final = 24  # tokens: shorter repetitions are figures of speech, lists, doubled words
TIMES: Final = 3
NGRAM: Final = 4
DISTINCT: Final = 0.4
"""Share of different 4-grams below which a text is a loop wherever it stands. The lowest of the
embedded pair on 256 held-out scenes is 0.957 by `lvspec`, 0.958 by plain decoding, and none of them
is flagged (tests/pipeline/captioning/measure_loops.py).
"""


def is_degenerate(tokens: Sequence[int]) -> bool:
    """Does a caption (token ids without the end token) loop: does it end in the same words three
    times or more, over at least 24 tokens, or hold hardly any 4-gram only once?
    """
    ids = np.asarray(tokens, np.int64)
    return _repeats_at_the_end(ids) or share_of_new_ngrams(ids) < DISTINCT


def _repeats_at_the_end(ids: np.ndarray) -> bool:
    for period in range(1, len(ids) // TIMES + 1):
        same = ids[period:] == ids[:-period]
        span = period + (len(same) if same.all() else int(same[::-1].argmin()))
        if span >= max(LEAST, TIMES * period):
            return True
    return False


def share_of_new_ngrams(ids: np.ndarray) -> float:
    """Of the 4-grams; 1 for a caption too short to tell."""
    if len(ids) < LEAST:
        return 1.0
    ngrams = np.lib.stride_tricks.sliding_window_view(ids, NGRAM)
    return len(np.unique(ngrams, axis=0)) / len(ngrams)

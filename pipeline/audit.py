"""How far a caption is from what plain decoding of the same clip says."""

import re
from difflib import SequenceMatcher

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")

_FUNCTION_WORDS = """
a about above after again against all also although am an and another any are around as at be
because been before behind being below beneath beside between both but by can could did do does
doing down during each either else every few first for from further had has have having he her
here hers him his how i if in inside into is it its itself just like may me might more most much
must my near no nor not now of off on once one only onto or other our out outside over own same
seem seems she should since so some still such than that the their them then there these they
this those through throughout to too toward towards under until up upon very was we were what
when where which while who whom whose why will with within without would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that name nothing seen. In other languages every word counts as content."""


def words(text: str) -> list[str]:
    """The words of a text, in lower case.

    >>> words("A red ball; it's rolling.")
    ['a', 'red', 'ball', "it's", 'rolling']
    """
    return _WORD.findall(text.lower())


def agreement(plain: str, caption: str) -> float:
    """Share of the plain caption's words that the caption has in the same order (`difflib`'s
    matching blocks), 0..1; 1 where the plain caption has none.

    >>> agreement("a red ball rolls left", "a blue ball rolls")
    0.6
    """
    said = words(plain)
    blocks = SequenceMatcher(None, said, words(caption), autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(said) if said else 1.0


def lost_words(plain: str, caption: str) -> list[str]:
    """Content words of the plain caption that the caption says nowhere, each once, in order.

    >>> lost_words("a red ball rolls to the left", "the blue ball rolls")
    ['red', 'left']
    """
    kept = FUNCTION_WORDS.union(words(caption))
    return [word for word in dict.fromkeys(words(plain)) if word not in kept]

"""The text of a caption token by token."""

from collections.abc import Sequence
from typing import Any


def token_texts(tokenizer: Any, token_ids: Sequence[int]) -> list[str]:
    """What each token adds to the text, "" for tokens that add nothing (end tokens, the first
    bytes of a letter, which comes with its last). Joined they are the text.
    """
    texts: list[str] = []
    before = ""
    for count in range(1, len(token_ids) + 1):
        text = tokenizer.decode(token_ids[:count], skip_special_tokens=True)
        whole = not text.endswith("\ufffd")
        texts.append(text[len(before) :] if whole else "")
        before = text if whole else before
    return texts

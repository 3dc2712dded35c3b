"""Checkpoints that the engine cannot run, told from their config alone, before any weights."""

from typing import Any

from lvspec.types import LoadError

_WHY = {
    "linear_attention": "keep one running state that cannot be set back to an earlier token",
    "sliding_attention": "drop the keys and values behind their window",
    "chunked_attention": "drop the keys and values behind their chunk",
}


def check_croppable(config: Any) -> None:
    """LoadError unless every layer keeps all keys and values, so that drafted tokens can be undone.

    config: of the whole model or of its text decoder.
    """
    text = config.get_text_config()
    kinds: list[str] = list(getattr(text, "layer_types", None) or ())
    if not kinds and getattr(text, "sliding_window", None):  # Mistral names no layer types
        kinds = ["sliding_attention"]
    for kind in kinds:
        if kind == "full_attention":
            continue
        why = _WHY.get(kind, "are not known to keep all keys and values")
        raise LoadError(
            f"{config.model_type}: its {kind} layers {why}, so they cannot be rolled back past a "
            "rejected draft token; use a checkpoint with full attention in every layer (for "
            "example of the qwen3_vl family instead of qwen3_5)"
        )


def check_attention(config: Any) -> None:
    """LoadError unless the text decoder runs on PyTorch's scaled dot-product attention.

    Rows of different lengths are verified under one 4-D mask of booleans. Eager attention would add
    it as numbers, flash attention read it as padding: both would be wrong without a word. Long
    prefills have no mask, and PyTorch takes its own flash kernel for them.
    """
    chosen = config.get_text_config()._attn_implementation
    if chosen != "sdpa":
        raise LoadError(
            f'{config.model_type}: the text decoder is loaded with attention "{chosen}", which '
            'cannot verify rows of different lengths; load it with "sdpa" (lvspec.load does, and '
            "applies attn_implementation to the vision tower)"
        )

"""What the tiny models are made of: a tokenizer of single letters, a small text decoder."""

from typing import Any

import torch
from transformers import Qwen2Tokenizer

from lvspec.models import VideoModel


def tokenizer(special: list[str], *, letters: str = "", **named: str) -> Qwen2Tokenizer:
    """Single letters and special tokens; `named` are what real checkpoints call them by.

    special: the first is for padding, the second ends a text.
    """
    known = [bytes([b]).decode("latin1") for b in range(33, 127)] + ["Ġ", "Ċ", *letters]
    made = Qwen2Tokenizer(
        vocab={c: i for i, c in enumerate(known)},
        merges=[],
        pad_token=special[0],
        eos_token=special[1],
        extra_special_tokens=named or special,
    )
    made.add_special_tokens({"extra_special_tokens": special}, replace_extra_special_tokens=False)
    return made


def text_config(tokenizer: Any, hidden: int, layers: int, extra_vocab: int) -> dict[str, Any]:
    """A decoder of full attention with grouped heads; `extra_vocab` pads its vocabulary."""
    return {
        "vocab_size": len(tokenizer) + extra_vocab,
        "hidden_size": hidden,
        "intermediate_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.2,  # wide enough that texts differ and rarely repeat
        "tie_word_embeddings": False,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def finished(
    family: type[VideoModel], seed: int, make: Any, config: Any, processor: Any, generation: dict
) -> VideoModel:
    """A random checkpoint with the processor's end token and these generation settings."""
    torch.manual_seed(seed)
    model = make(config).eval()
    chosen = model.generation_config
    chosen.eos_token_id = processor.tokenizer.eos_token_id
    chosen.pad_token_id = processor.tokenizer.pad_token_id
    for key, value in generation.items():
        setattr(chosen, key, value)
    return family(model, processor)

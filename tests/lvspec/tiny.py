"""Tiny random pairs with a real processor: every proof of the engine runs on them in seconds."""

from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from lvspec.models.qwen2_5_vl import Qwen25VL
from lvspec.pair import Pair
from lvspec.types import Request

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
    "{% if c['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@cache
def processor() -> Qwen2_5_VLProcessor:
    return make_processor()


def make_processor(extra_letters: str = "") -> Qwen2_5_VLProcessor:
    """A stock processor over a tokenizer of single letters."""
    letters = [bytes([b]).decode("latin1") for b in range(33, 127)] + ["Ġ", "Ċ", *extra_letters]
    tokenizer = Qwen2Tokenizer(
        vocab={c: i for i, c in enumerate(letters)},
        merges=[],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=SPECIAL,
    )
    tokenizer.chat_template = TEMPLATE
    size = {"shortest_edge": 28 * 28, "longest_edge": 112 * 112}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size),
        chat_template=TEMPLATE,
    )


def qwen2_5_vl(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> Qwen25VL:
    """A random checkpoint; `extra_vocab` pads the vocabulary as real checkpoints do."""
    tokenizer = processor().tokenizer
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer) + extra_vocab,
            "hidden_size": hidden,
            "intermediate_size": 64,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "initializer_range": 0.2,  # wide enough that texts differ and rarely repeat
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": [hidden // 8 - 2 * (hidden // 24)] + 2 * [hidden // 24],
            },
            "tie_word_embeddings": False,
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "window_size": 56,
            "out_hidden_size": hidden,
            "fullatt_block_indexes": [1],
            "tokens_per_second": 2,
            "initializer_range": 0.2,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(config).eval()
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    for key, value in generation.items():
        setattr(model.generation_config, key, value)
    return Qwen25VL(model, processor())


def noisy_copy(model: Qwen25VL, noise: float, seed: int = 0) -> Qwen25VL:
    """The same checkpoint with noise on its weights: a draft that is right most of the time."""
    torch.manual_seed(seed)
    copy = Qwen2_5_VLForConditionalGeneration(model.model.config).eval()
    copy.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        for weight in copy.parameters():
            weight.add_(noise * weight.std() * torch.randn_like(weight))
    copy.generation_config = model.generation_config
    return Qwen25VL(copy, processor())


def pair(target: Qwen25VL, draft: Qwen25VL | None) -> Pair:
    return Pair(target, draft)


def requests(count: int, seed: int = 0, **kwargs: Any) -> list[Request]:
    """Ragged requests: different numbers and sizes of frames, prompts of different lengths."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        frames, height, width = rng.integers(1, 5) * 2, *(rng.integers(1, 4, 2) * 28)
        times = np.arange(frames) * rng.uniform(0.2, 1.5)
        pixels = rng.integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
        prompt = "Describe this. "[: rng.integers(3, 15)]
        made.append(Request(str(i), pixels, times, prompt, **kwargs))
    return made


@torch.inference_mode()
def generate(model: Qwen25VL, request: Request, max_new_tokens: int) -> list[int]:
    """What stock `generate` says, greedily, for the same request."""
    inputs = model.prepare(request.frames, request.times_s, request.prompt or "").inputs
    size = inputs["input_ids"].shape[1]
    out = model.model.generate(
        **inputs, max_new_tokens=max_new_tokens, do_sample=False, use_cache=True
    )
    return out[0, size:].tolist()

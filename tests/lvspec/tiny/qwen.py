"""Tiny Qwen2-VL, Qwen2.5-VL, Qwen3-VL and its mixture of experts."""

from functools import cache
from typing import Any

import transformers as hf

from lvspec.models.qwen2_5_vl import Qwen25VL
from lvspec.models.qwen2_vl import Qwen2VL
from lvspec.models.qwen3_vl import Qwen3VL
from tests.lvspec.tiny import parts

SPECIAL = [
    "<|endoftext|>",
    "<|im_end|>",
    "<|im_start|>",
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


def _processor(kind: Any, video: Any, size: dict[str, int], letters: str = "") -> Any:
    return kind(
        image_processor=hf.Qwen2VLImageProcessor(size=size),
        tokenizer=parts.tokenizer(SPECIAL, letters=letters),
        video_processor=video(size=size),
        chat_template=TEMPLATE,
    )


def make_processor(letters: str = "") -> Any:
    size = {"shortest_edge": 28 * 28, "longest_edge": 112 * 112}
    return _processor(hf.Qwen2_5_VLProcessor, hf.Qwen2VLVideoProcessor, size, letters)


@cache
def processor() -> Any:
    return make_processor()


@cache
def processor_2() -> Any:
    size = {"shortest_edge": 28 * 28, "longest_edge": 112 * 112}
    return _processor(hf.Qwen2VLProcessor, hf.Qwen2VLVideoProcessor, size)


@cache
def processor_3() -> Any:
    """Its pixel budget is of all frames together."""
    size = {"shortest_edge": 32 * 32, "longest_edge": 8 * 128 * 128}
    return _processor(hf.Qwen3VLProcessor, hf.Qwen3VLVideoProcessor, size)


def _tokens(tokenizer: Any) -> dict[str, int]:
    of = tokenizer.convert_tokens_to_ids
    return {
        "image_token_id": of("<|image_pad|>"),
        "video_token_id": of("<|video_pad|>"),
        "vision_start_token_id": of("<|vision_start|>"),
        "vision_end_token_id": of("<|vision_end|>"),
    }


def _rope(hidden: int) -> dict[str, Any]:
    section = [hidden // 8 - 2 * (hidden // 24)] + 2 * [hidden // 24]
    return {"rope_type": "default", "rope_theta": 1e4, "mrope_section": section}


def qwen2_vl(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> Qwen2VL:
    made = processor_2()
    text = parts.text_config(made.tokenizer, hidden, layers, extra_vocab)
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": hidden, "num_heads": 2, "mlp_ratio": 2}
    config = hf.Qwen2VLConfig(
        text_config={**text, "rope_parameters": _rope(hidden)},
        vision_config={**vision, "initializer_range": 0.2},
        **_tokens(made.tokenizer),
    )
    model = hf.Qwen2VLForConditionalGeneration
    return parts.finished(Qwen2VL, seed, model, config, made, generation)


def qwen2_5_vl(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> Qwen25VL:
    made = processor()
    text = parts.text_config(made.tokenizer, hidden, layers, extra_vocab)
    config = hf.Qwen2_5_VLConfig(
        text_config={**text, "rope_parameters": _rope(hidden)},
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
        **_tokens(made.tokenizer),
    )
    model = hf.Qwen2_5_VLForConditionalGeneration
    return parts.finished(Qwen25VL, seed, model, config, made, generation)


def _qwen3(config: Any, made: Any, hidden: int, layers: int, extra_vocab: int, **text: Any) -> Any:
    base = parts.text_config(made.tokenizer, hidden, layers, extra_vocab)
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
    return config(
        text_config={**base, "head_dim": 16, "rope_parameters": rope, **text},
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": hidden,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0, 1],
            "initializer_range": 0.2,
        },
        **_tokens(made.tokenizer),
    )


def qwen3_vl(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> Qwen3VL:
    made = processor_3()
    config = _qwen3(hf.Qwen3VLConfig, made, hidden, layers, extra_vocab)
    model = hf.Qwen3VLForConditionalGeneration
    return parts.finished(Qwen3VL, seed, model, config, made, generation)


def qwen3_vl_moe(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> Qwen3VL:
    made = processor_3()
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    config = _qwen3(hf.Qwen3VLMoeConfig, made, hidden, layers, extra_vocab, **experts)
    model = hf.Qwen3VLMoeForConditionalGeneration
    return parts.finished(Qwen3VL, seed, model, config, made, generation)

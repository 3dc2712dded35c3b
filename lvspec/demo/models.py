"""Shapes of the pair and its folders: stock `Qwen2_5_VLForConditionalGeneration`, small.

The target is deep and narrow: on a CPU at batch 1 a layer costs its Python calls, so depth makes a
step dear (as a large model's is) while bytes stay few. Belongs here: configurations, building,
saving.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from lvspec.demo.scenes import SIDE
from lvspec.demo.tokenizer import EOS, PAD, SPECIAL, VIDEO, VOCABULARY, token_id

TOKENS_PER_SECOND = (
    2  # M-RoPE time positions: a clip of 2 s spaces its four grids by 1, of 4 s by 2
)


@dataclass(frozen=True)
class Shape:
    """Sizes of one model: text layers x width, and the vision tower's."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    vision_depth: int
    vision_width: int
    vision_feed_forward: int
    vision_heads: int = 4


TARGET = Shape(20, 192, 512, 6, 2, 4, 128, 256)
DRAFT = Shape(2, 128, 256, 4, 2, 4, 96, 192)


def config(shape: Shape, tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLConfig:
    """A stock configuration of the given sizes."""
    half = shape.width // shape.heads // 2
    spatial = half * 3 // 8
    ids = {s: token_id(tokenizer, s) for s in SPECIAL}
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": shape.width,
            "intermediate_size": shape.feed_forward,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-6,
            "initializer_range": 0.03,
            # A small base: the height and width sections hold the lowest frequencies, and grids
            # here are 4 wide.
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 300.0,
                "mrope_section": [half - 2 * spatial, spatial, spatial],
            },
            "bos_token_id": ids[PAD],
            "eos_token_id": ids[EOS],
            "pad_token_id": ids[PAD],
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": shape.vision_depth,
            "hidden_size": shape.vision_width,
            "intermediate_size": shape.vision_feed_forward,
            "num_heads": shape.vision_heads,
            "window_size": 56,
            "out_hidden_size": shape.width,
            "fullatt_block_indexes": [i for i in range(shape.vision_depth) if i % 2 == 1],
            "tokens_per_second": TOKENS_PER_SECOND,
            "initializer_range": 0.03,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids[VIDEO],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )


def build(shape: Shape, tokenizer: Qwen2Tokenizer, seed: int) -> Qwen2_5_VLForConditionalGeneration:
    """A model with random weights from `seed`, fp32."""
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(config(shape, tokenizer))
    text: Any = model.config.text_config
    model.generation_config = GenerationConfig(
        do_sample=False,
        eos_token_id=text.eos_token_id,
        pad_token_id=text.pad_token_id,
    )
    return model


def grow(
    model: Qwen2_5_VLForConditionalGeneration, layers: int, seed: int
) -> Qwen2_5_VLForConditionalGeneration:
    """A deeper model that computes the same: new layers, evenly between the old, whose outputs
    start at zero (fp32).
    """
    torch.manual_seed(seed)
    deep_config = Qwen2_5_VLConfig(**model.config.to_dict())
    text: Any = deep_config.text_config
    text.num_hidden_layers = layers
    text.layer_types = ["full_attention"] * layers
    deep = Qwen2_5_VLForConditionalGeneration(deep_config)
    deep.generation_config = model.generation_config
    old: Any = model.model.language_model.layers
    home = {round((i + 0.5) * layers / len(old) - 0.5): layer for i, layer in enumerate(old)}
    with torch.no_grad():
        layers_now: Any = deep.model.language_model.layers
        for i, layer in enumerate(layers_now):
            if i in home:
                layer.load_state_dict(home[i].state_dict())
            else:
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
    deep.model.visual.load_state_dict(model.model.visual.state_dict())
    deep.model.language_model.norm.load_state_dict(model.model.language_model.norm.state_dict())
    deep.get_input_embeddings().load_state_dict(model.get_input_embeddings().state_dict())
    return deep


def processor(tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLProcessor:
    """The stock processor, its pixel budget set so that a 112 x 112 frame keeps its size."""
    size = {"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size, cap_pixels_per_frame=False),
        chat_template=tokenizer.chat_template,
    )


def save(
    model: Qwen2_5_VLForConditionalGeneration, tokenizer: Qwen2Tokenizer, folder: Path
) -> None:
    """Writes weights (bf16), configuration, tokenizer and processor to `folder`."""
    stored = Qwen2_5_VLForConditionalGeneration(model.config)
    stored.bfloat16()
    stored.load_state_dict(model.state_dict())
    stored.generation_config = model.generation_config
    stored.save_pretrained(folder)
    processor(tokenizer).save_pretrained(folder)

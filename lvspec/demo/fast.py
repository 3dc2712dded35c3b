"""Training only: the stock model's arithmetic over the stock modules' weights, in fewer and larger
operations.

Nothing here replaces a method of a model: these are functions that read weights, and inference
never imports this file. A test holds them equal to stock `forward`. They may assume what stock code
cannot: every video has the same grid, every prompt the same length, so windows and frames of the
vision tower are plain batches, and no mask is needed but the causal one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.vision_utils import get_vision_position_ids, get_vision_window_index

Module = Any  # a stock module: transformers gives its submodules no types


@dataclass(frozen=True)
class Grid:
    """Constants of the vision tower for one video grid."""

    order: Tensor  # [tokens] window order of the merged tokens of one video
    inverse: Tensor  # [tokens] its inverse
    rotary: tuple[Tensor, Tensor]  # cos, sin [patches, head_dim] in window order
    window: int  # patches in a window
    frame: int  # patches in a temporal patch


def grid(model: Qwen2_5_VLForConditionalGeneration, thw: tuple[int, int, int]) -> Grid:
    """The constants for grid `thw` (temporal, height, width in patches; height and width multiples
    of a window).
    """
    vision: Any = model.config.vision_config
    table = torch.tensor([thw])
    order, _ = get_vision_window_index(
        table,
        spatial_merge_size=vision.spatial_merge_size,
        window_size=vision.window_size,
        patch_size=vision.patch_size,
    )
    positions = get_vision_position_ids(table, vision.spatial_merge_size)
    probe = torch.empty(0)
    cos, sin = model.model.visual.rotary_pos_emb(probe, positions)
    merged = vision.spatial_merge_size**2

    def reorder(x: Tensor) -> Tensor:
        return x.view(-1, merged, x.shape[-1])[order].view(-1, x.shape[-1])

    side = vision.window_size // vision.patch_size
    return Grid(order, order.argsort(), (reorder(cos), reorder(sin)), side * side, thw[1] * thw[2])


def vision(visual: Module, pixels: Tensor, at: Grid) -> Tensor:
    """Video tokens of a batch: pixels [B, patches, 1176] -> [B, tokens, width]."""
    batch, patches, _ = pixels.shape
    embed = visual.patch_embed.proj.weight
    x = pixels @ embed.view(embed.shape[0], -1).T  # [B, patches, d]
    x = x.view(batch, at.order.numel(), -1)[:, at.order].view(batch, patches, -1)
    cos, sin = (c[:, None] for c in at.rotary)  # [patches, 1, hd]
    for i, block in enumerate(visual.blocks):
        chunk = at.frame if i in visual.fullatt_block_indexes else at.window
        x = x + _vision_attention(block.attn, _norm(block.norm1, x), cos, sin, chunk)
        x = x + _mlp(block.mlp, _norm(block.norm2, x))
    merged = visual.merger.mlp(_norm(visual.merger.ln_q, x).view(batch, at.order.numel(), -1))
    return merged[:, at.inverse]


def _vision_attention(attn: Module, x: Tensor, cos: Tensor, sin: Tensor, chunk: int) -> Tensor:
    batch, patches, width = x.shape
    heads = attn.num_heads
    q, k, v = attn.qkv(x).view(batch, patches, 3, heads, -1).unbind(2)  # [B, P, H, hd]
    q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
    split = (batch * patches // chunk, chunk, heads, -1)
    q, k, v = (t.reshape(split).transpose(1, 2) for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v)
    return attn.proj(out.transpose(1, 2).reshape(batch, patches, width))


def text(model: Module, embeds: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Last hidden states of a language model: embeds [B, S, d], cos/sin [B or 1, 1, S, hd] -> [B,
    S, d].
    """
    x = embeds
    for layer in model.layers:
        x = x + _attention(layer.self_attn, _norm(layer.input_layernorm, x), cos, sin)
        x = x + _mlp(layer.mlp, _norm(layer.post_attention_layernorm, x))
    return _norm(model.norm, x)


def rotary(model: Qwen2_5_VLForConditionalGeneration, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin for M-RoPE positions [3, B, S], each [B, 1, S, hd]."""
    cos, sin = model.model.language_model.rotary_emb(torch.empty(0), positions)
    return cos[:, None], sin[:, None]


def _attention(attn: Module, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    batch, length, width = x.shape
    split = (batch, length, -1, attn.head_dim)
    q, k, v = (p(x).view(split).transpose(1, 2) for p in (attn.q_proj, attn.k_proj, attn.v_proj))
    q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
    groups = attn.num_key_value_groups
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return attn.o_proj(out.transpose(1, 2).reshape(batch, length, width))


def _mlp(mlp: Module, x: Tensor) -> Tensor:
    return mlp.down_proj(F.silu(mlp.gate_proj(x)) * mlp.up_proj(x))


def _norm(norm: Module, x: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin

"""What the pair is trained on: captions, and words for what each video token shows (training only).

The word loss does two jobs. On the vision tower it is most of how the models learn to see. On the
text layers' states at the video positions it makes LVSpec's relevance signal: the states there
point where a state that predicts the same word points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Qwen2_5_VLForConditionalGeneration

from lvspec.demo import fast
from lvspec.demo.data import GRID, NUM_TOKENS, Batch, Maker

VISION_SHARPNESS = (
    3.0  # logits of normalised video tokens against embeddings of norm 0.4 need scaling up
)


@dataclass(frozen=True)
class Forward:
    """Results of one teacher-forced pass. L: caption length."""

    video: Tensor  # [B, 64, d] video tokens out of the vision tower
    video_states: Tensor  # [B, 64, d] last hidden states at the video positions
    states: Tensor  # [B, L, d] last hidden states that predict each caption token


class Runner:
    """Training passes of one model."""

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, maker: Maker) -> None:
        self.model, self.maker = model, maker
        self.grid = fast.grid(model, GRID)
        embedding: Any = model.get_input_embeddings()
        self.embedding: nn.Parameter = embedding.weight

    def see(self, pixels: Tensor) -> Tensor:
        """Video tokens [B, 64, d]."""
        return fast.vision(self.model.model.visual, pixels, self.grid)

    def read(self, batch: Batch, kept: Tensor | None = None) -> Forward:
        """A teacher-forced pass; `kept` [n] restricts the video tokens that the text layers see (a
        pruned draft).
        """
        prompt, at = self.maker.prompt, self.maker.video_at
        video = self.see(batch.pixels)
        rest = torch.tensor(prompt)
        size = len(batch.scenes)
        before, after = (
            self.embedding[ids].expand(size, -1, -1) for ids in (rest[:at], rest[at + NUM_TOKENS :])
        )
        shown = video if kept is None else video[:, kept]
        x = torch.cat((before, shown, after, self.embedding[batch.inputs]), 1)
        positions = batch.positions
        if kept is not None:
            stay = torch.ones(positions.shape[-1], dtype=torch.bool)
            stay[at : at + NUM_TOKENS] = False
            stay[at + kept] = True
            positions = positions[..., stay]
        cos, sin = fast.rotary(self.model, positions)
        states = fast.text(self.model.model.language_model, x, cos, sin)
        start = states.shape[1] - batch.inputs.shape[1]
        return Forward(video, states[:, at : at + shown.shape[1]], states[:, start - 1 : -1])

    def logits(self, states: Tensor) -> Tensor:
        """Next-token logits of last hidden states, [..., vocabulary]."""
        return F.linear(states, self.embedding)

    def word_loss(self, logits: Tensor, words: Tensor) -> tuple[Tensor, list[float]]:
        """Loss of naming `words` [B, 64, kinds] from logits [B, 64, vocabulary], and the share
        named rightly by kind.

        Half is within the words of a kind, half over the whole vocabulary.
        """
        loss = logits.new_zeros(())
        right: list[float] = []
        whole = logits.log_softmax(-1)
        for k, ids in enumerate(self.maker.kind_ids):
            goal = words[..., k]
            ok = goal >= 0
            if not bool(ok.any()):
                right.append(float("nan"))
                continue
            goal = goal[ok]
            within = logits[ok][:, ids]
            loss = loss + 0.5 * F.cross_entropy(within, goal)
            loss = loss - 0.1 * whole[ok].gather(1, ids[goal][:, None]).mean()
            right.append(float((within.argmax(-1) == goal).float().mean()))
        return loss, right

    def vision_loss(self, video: Tensor, seen: Tensor) -> tuple[Tensor, list[float]]:
        """The word loss of the vision tower's output."""
        video = F.rms_norm(video, video.shape[-1:])
        return self.word_loss(self.logits(video) * VISION_SHARPNESS, seen)


def caption_loss(
    logits: Tensor, labels: Tensor, is_fact: Tensor, fact_weight: float
) -> tuple[Tensor, float, float]:
    """Weighted cross-entropy of captions; also the share of fact tokens and of other tokens
    predicted rightly.
    """
    goal, flat = labels.flatten(), logits.flatten(0, 1)
    each = F.cross_entropy(flat, goal, ignore_index=-100, reduction="none")
    known = goal >= 0
    fact = is_fact[goal.clamp(min=0)] & known
    weight = known.float() + fact.float() * (fact_weight - 1)
    hit = flat.argmax(-1) == goal
    other = known & ~fact
    return (
        (each * weight).sum() / weight.sum(),
        float(hit[fact].float().mean()),
        float(hit[other].float().mean()),
    )

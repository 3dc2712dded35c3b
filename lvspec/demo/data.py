"""Training batches: scenes drawn on the fly, as pixels, prompts, captions and the words each video
token should name.

Belongs here: turning scenes into tensors, exactly as the shipped processor would. Does not belong
here: losses, schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

from lvspec.demo.captions import PROMPT, caption
from lvspec.demo.drawing import coverage, frame_moments, render_at
from lvspec.demo.facts import FACT_WORDS
from lvspec.demo.models import TOKENS_PER_SECOND
from lvspec.demo.scenes import EVENT_SPAN, EVENTS, FRAMES, NUM_CELLS, SIDE, Scene, Thing
from lvspec.demo.tokenizer import EOS, PAD, VIDEO, VOCABULARY, fact_ids, token_id

GRID = (FRAMES // 2, SIDE // 14, SIDE // 14)
NUM_TOKENS = NUM_CELLS[0] * NUM_CELLS[1] * NUM_CELLS[2]
KINDS = tuple(FACT_WORDS)
_SEEN = 0.06  # share of a video token's area that a thing must cover to be named there
_MEAN = np.array(
    [0.48145466, 0.4578275, 0.40821073], np.float32
)  # OPENAI_CLIP_MEAN, as in the processor
_STD = np.array([0.26862954, 0.26130258, 0.27577711], np.float32)


def patchify(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """uint8 [B, 8, 112, 112, 3] -> float32 [B, 256, 1176], the values and order of
    `Qwen2VLVideoProcessor`.
    """
    b, t, h, w, _ = frames.shape
    x = frames.reshape(b, t // 2, 2, h // 28, 2, 14, w // 28, 2, 14, 3)
    x = np.ascontiguousarray(x.transpose(0, 1, 3, 6, 4, 7, 9, 2, 5, 8)).reshape(-1, 3, 392)
    x = x * (1 / 255 / _STD)[:, None] - (_MEAN / _STD)[:, None]
    return x.reshape(b, -1, 1176).astype(np.float32, copy=False)


def footage(
    rng: np.random.Generator, scene: Scene
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The eight frames a reader would find in a file of 24-30 frames/s, and their exact moments;
    half the time with a codec's halved colour resolution.
    """
    count = round(scene.duration_s * rng.uniform(24, 30))
    moments = (np.floor(frame_moments(FRAMES) * count) + 0.5) / count
    frames = render_at(scene, moments)
    if rng.random() < 0.5:
        x = frames.astype(np.float32)
        luma = (x @ np.array([0.299, 0.587, 0.114], np.float32))[..., None]
        top, bottom = (x - luma)[:, ::2], (x - luma)[:, 1::2]
        chroma = (top[:, :, ::2] + top[:, :, 1::2] + bottom[:, :, ::2] + bottom[:, :, 1::2]) / 4
        x = chroma.repeat(2, 1).repeat(2, 2) + luma
        frames = np.clip(x, 0, 255).astype(np.uint8)
    return frames, moments


def _words(thing: Thing, moment: float) -> list[str]:
    """What can be seen of a thing at a moment."""
    changed = thing.changed(moment)
    words = [thing.new_color if changed and thing.new_color else thing.color, thing.shape]
    words.append(thing.new_direction if changed and thing.new_direction else thing.direction)
    if not (changed and thing.event in ("grow", "shrink")):
        words.append(thing.size)
    if thing.speed is not None:
        words.append(thing.speed)
    return words


def cell_words(
    scene: Scene, moments: NDArray[np.float64]
) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """For each video token: the words for what it shows, the same with what the story so far adds
    (event, count), and the same with what its temporal patch shows elsewhere.

    The first list teaches the vision tower (which sees one temporal patch), the second the text
    layers (which have seen all before). The relevance signal of the pair comes from the second: a
    state that predicts a fact word points the same way as the states of the video tokens that show
    the fact. The third teaches the draft's tower, of whose tokens few are kept: any of them should
    tell of the first thing.
    """
    covered = coverage(scene, moments)  # [things, T / 2, 4, 4]
    owner, share = covered.argmax(0), covered.max(0)
    seen: list[list[str]] = []
    told: list[list[str]] = []
    gist: list[list[str]] = []
    main = scene.things[0]
    for t in range(NUM_CELLS[0]):
        late = float(moments[2 * t + 1])
        over = late >= main.event_at if main.event != "none" else late > EVENT_SPAN[1]
        verb = [EVENTS[main.event]] if over else []
        names = [_words(thing, late) for thing in scene.things]
        ground = [scene.background, ("one", "two")[len(scene.things) - 1]]
        gone = verb if main.event == "vanish" else []
        shown = [] if main.radius_at(late) == 0 else names[0]
        for k, s in zip(owner[t].flat, share[t].flat, strict=True):
            if s < _SEEN:
                seen.append([scene.background])
                told.append(ground + gone)
                gist.append([*shown, *ground])
            else:
                seen.append(names[k])
                told.append(names[k] + (verb if k == 0 and main.event != "vanish" else []))
                gist.append(names[k])
    return seen, told, gist


@dataclass(frozen=True)
class Batch:
    """Tensors of B scenes; L is the longest caption, EOS included."""

    scenes: list[Scene]
    pixels: Tensor  # [B, 256, 1176]
    positions: Tensor  # [3, B, prompt + L]
    inputs: Tensor  # [B, L] caption ids, PAD behind the end
    labels: Tensor  # [B, L] -100 where not to be learned
    seen: Tensor  # [B, 64, kinds] index of the word within its kind, -1 where none
    told: Tensor  # [B, 64, kinds]
    gist: Tensor  # [B, 64, kinds]


class Maker:
    """Makes batches; holds the tokenizer's constants."""

    def __init__(
        self, tokenizer: Qwen2Tokenizer, model: Qwen2_5_VLForConditionalGeneration
    ) -> None:
        self.tokenizer = tokenizer
        request: Any = [
            {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}
        ]
        prompt = str(
            tokenizer.apply_chat_template(request, tokenize=False, add_generation_prompt=True)
        )
        self.prompt: list[int] = tokenizer(prompt.replace(VIDEO, VIDEO * NUM_TOKENS))["input_ids"]
        self.video_at = self.prompt.index(token_id(tokenizer, VIDEO))
        self.eos = token_id(tokenizer, EOS)
        self.pad = token_id(tokenizer, PAD)
        ids = fact_ids(tokenizer)
        self.kind_ids = [torch.tensor([ids[w] for w in FACT_WORDS[k]]) for k in KINDS]
        self.place = {
            w: (k, i) for k, kind in enumerate(KINDS) for i, w in enumerate(FACT_WORDS[kind])
        }
        self.is_fact = torch.zeros(VOCABULARY, dtype=torch.bool)
        self.is_fact[list(ids.values())] = True
        self._rope_index: Any = model.model.get_rope_index
        self._positions: dict[tuple[int, ...], Tensor] = {}

    def positions(self, duration_s: float, length: int) -> Tensor:
        """M-RoPE positions of the prompt and `length` caption tokens, [3, prompt + length], by the
        stock rule.
        """
        per_grid = duration_s / GRID[0]
        key = tuple(int(i * per_grid * TOKENS_PER_SECOND) for i in range(GRID[0]))
        if key not in self._positions:
            ids = torch.tensor([self.prompt])
            video = torch.zeros_like(ids)
            video[0, self.video_at : self.video_at + NUM_TOKENS] = 2
            table, _ = self._rope_index(
                ids,
                mm_token_type_ids=video,
                video_grid_thw=torch.tensor([GRID]),
                second_per_grid_ts=[per_grid],
            )
            self._positions[key] = table[:, 0]
        table = self._positions[key]
        after = int(table.max()) + 1 + torch.arange(length)
        return torch.cat((table, after.expand(3, -1)), 1)

    def batch(
        self,
        rng: np.random.Generator,
        scenes: Sequence[Scene],
        captions: Sequence[str] | None = None,
    ) -> Batch:
        """A batch of `scenes`, captioned by the grammar unless captions are given."""
        frames: list[NDArray[np.uint8]] = []
        seen = torch.full((len(scenes), NUM_TOKENS, len(KINDS)), -1)
        told, gist = seen.clone(), seen.clone()
        for b, scene in enumerate(scenes):
            shown, moments = footage(rng, scene)
            frames.append(shown)
            for table, cells in zip((seen, told, gist), cell_words(scene, moments), strict=True):
                rows, places = zip(
                    *((i, self.place[w]) for i, ws in enumerate(cells) for w in ws), strict=True
                )
                kinds, indices = zip(*places, strict=True)
                table[b, list(rows), list(kinds)] = torch.tensor(indices)
        texts = captions or [caption(rng, s) for s in scenes]
        inputs, labels = self.tokens(texts)
        length = inputs.shape[1]
        positions = torch.stack([self.positions(s.duration_s, length) for s in scenes], 1)
        pixels = torch.from_numpy(patchify(np.stack(frames)))
        return Batch(list(scenes), pixels, positions, inputs, labels, seen, told, gist)

    def tokens(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Padded inputs and labels of captions, each [B, L], EOS last."""
        rows = [[*ids, self.eos] for ids in self.tokenizer(list(texts))["input_ids"]]
        longest = max(map(len, rows))
        inputs = torch.full((len(rows), longest), self.pad)
        labels = torch.full((len(rows), longest), -100)
        for i, row in enumerate(rows):
            inputs[i, : len(row)] = labels[i, : len(row)] = torch.tensor(row)
        return inputs, labels

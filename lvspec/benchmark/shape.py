"""Step costs at the widths and depths of real checkpoints: random weights, a long random prompt,
and acceptance drawn at a stated rate. Says what a device makes of a pair before any download.

Rounds are real: drafting passes, the verify pass, logits, relevance over all video states, policy,
one wait for the device. Only how many drafted tokens stay is drawn, since random weights agree on
nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from lvspec.config import Lvspec
from lvspec.models import VideoModel
from lvspec.models.base import Prompt
from lvspec.models.qwen2_5_vl import Qwen25VL
from lvspec.policies import POLICIES, Evidence
from lvspec.relevance import VisualMemory
from lvspec.slots import SlotModel
from lvspec.table import Ints


@dataclass(frozen=True)
class Text:
    """Sizes of one text decoder."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int = 152064


_7B = Text(28, 3584, 18944, 28, 4)
SHAPES: dict[str, tuple[Text, Text]] = {
    "qwen2.5-vl-32b": (Text(64, 5120, 27648, 40, 8), _7B),
    "qwen2.5-vl-72b": (Text(80, 8192, 29568, 64, 8), _7B),
    "qwen2.5-vl-7b": (_7B, Text(36, 2048, 11008, 16, 2, 151936)),
    "tiny": (Text(4, 64, 128, 4, 2, 1000), Text(2, 32, 64, 4, 2, 1000)),
}
"""Target and draft, from the checkpoints' own config.json; tiny is for tests."""


@dataclass(frozen=True)
class ShapeSettings:
    """context: tokens of the prompt, all but a few of them video. keep: share the draft sees.
    tau: mean accepted tokens per round, the paper's for LVSpec on Qwen2.5-VL-32B.
    """

    batch: int = 1
    context: int = 16384
    draft_length: int = 10
    keep: float = 0.1
    tau: float = 7.76
    rounds: int = 12
    compiled: bool = False


@dataclass(frozen=True)
class ShapePoint:
    """Median milliseconds of each part, and what follows. speedup: over plain steps of the same
    batch, decoding alone. policy_share: relevance and policy, of a round.
    """

    shape: str
    batch: int
    context: int
    plain_ms: float
    draft_ms: float
    verify_ms: float
    policy_ms: float
    round_ms: float
    tokens_per_round: float
    speedup: float
    policy_share: float
    compiled: bool


def build(text: Text, device: torch.device, dtype: torch.dtype) -> VideoModel:
    """A Qwen2.5-VL with this text decoder, random weights and next to no vision tower."""
    half = text.width // text.heads // 2
    spatial = half * 3 // 8
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": text.vocabulary,
            "hidden_size": text.width,
            "intermediate_size": text.feed_forward,
            "num_hidden_layers": text.layers,
            "num_attention_heads": text.heads,
            "num_key_value_heads": text.kv_heads,
            "max_position_embeddings": 128000,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [half - 2 * spatial, spatial, spatial],
            },
        },
        vision_config={
            "depth": 1,
            "hidden_size": 64,
            "num_heads": 2,
            "out_hidden_size": text.width,
        },
    )
    with torch.device("meta"):
        model: Any = Qwen2_5_VLForConditionalGeneration(config)
    model = model.to(dtype).to_empty(device=device).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.02)
    language = model.model.language_model
    language.rotary_emb = type(language.rotary_emb)(config.text_config).to(device)
    return Qwen25VL(model, processor=None)


class _Rig:
    """The parts of a round at batch `settings.batch`, on slots that hold random prompts."""

    def __init__(self, settings: ShapeSettings, models: tuple[VideoModel, VideoModel]) -> None:
        rows, self.length = settings.batch, settings.draft_length
        self.rows, self.models = rows, models
        self.target, self.draft = (SlotModel(m, rows, compiled=settings.compiled) for m in models)
        self.memory = VisualMemory(rows)
        for slot in range(rows):
            _read(self.target, slot, settings.context, self.memory)
            _read(self.draft, slot, max(1, int(settings.context * settings.keep)))
        self.prompts = self.target.lengths.copy(), self.draft.lengths.copy()
        device = models[0].device
        self.policy = Lvspec()
        self.special = torch.zeros(models[0].vocab_size, dtype=torch.bool, device=device)
        self.tail = torch.zeros(rows, 2, dtype=torch.int64, device=device)
        self.at(np.zeros(rows, np.int64))

    def at(self, said: Ints) -> None:
        """So many caption tokens, [B], are committed."""
        self.target.lengths[:], self.draft.lengths[:] = (n + said for n in self.prompts)

    def plain(self) -> Tensor:
        hidden = self.target.extend(self.rows, self.tail[:, 1:])
        return self.models[0].logits(hidden).argmax(-1)

    def drafted(self) -> Tensor:
        tokens, block = self.tail, list[Tensor]()
        for _ in range(self.length):
            hidden = self.draft.extend(self.rows, tokens)[:, -1:]
            tokens = self.models[1].logits(hidden).argmax(-1)
            block.append(tokens)
        return torch.cat(block, 1).clamp(max=self.models[0].vocab_size - 1)

    def verify(self, block: Tensor) -> Tensor:
        return self.target.extend(self.rows, torch.cat([self.tail[:, 1:], block], 1))

    def decide(self, hidden: Tensor, logits: Tensor, block: Tensor) -> Tensor:
        scores = self.memory.score(hidden[:, :-1], self.policy.relevance_top)
        evidence = Evidence(block, logits, logits.argmax(-1), scores, self.special)
        return POLICIES[Lvspec](evidence, self.policy).accepted

    def whole(self) -> Tensor:
        block = self.drafted()
        hidden = self.verify(block)
        return self.decide(hidden, self.models[0].logits(hidden), block).cpu()


@torch.inference_mode()
def measure_shape(
    name: str, settings: ShapeSettings, models: tuple[VideoModel, VideoModel]
) -> ShapePoint:
    """One batch size of one shape, on models from `build`."""
    rig, clock = _Rig(settings, models), _Clock(models[0].device)
    generator = np.random.default_rng(0)
    said = np.zeros(settings.batch, np.int64)
    emitted: list[float] = []
    for _ in range(settings.rounds + 2):  # the first two warm up
        clock.time("plain", rig.plain)
        rig.at(said)
        block = clock.time("draft", rig.drafted)
        hidden = clock.time("verify", lambda block=block: rig.verify(block))
        logits = models[0].logits(hidden)
        clock.time("policy", lambda h=hidden, x=logits, b=block: rig.decide(h, x, b))
        rig.at(said)
        clock.time("round", rig.whole)
        accepted = _accepted(generator, settings.tau, rig.length, settings.batch)
        said = said + accepted + 1
        emitted.append(float(accepted.mean()) + 1)
        rig.at(said)
    ms = {key: median(values[2:]) for key, values in clock.ms.items()}
    tokens = float(np.mean(emitted))
    return ShapePoint(
        shape=name,
        batch=settings.batch,
        context=settings.context,
        plain_ms=ms["plain"],
        draft_ms=ms["draft"] / rig.length,
        verify_ms=ms["verify"],
        policy_ms=ms["policy"],
        round_ms=ms["round"],
        tokens_per_round=tokens,
        speedup=ms["plain"] * tokens / ms["round"],
        policy_share=ms["policy"] / ms["round"],
        compiled=settings.compiled,
    )


def _read(slots: SlotModel, slot: int, size: int, memory: VisualMemory | None = None) -> None:
    """Fill a slot with a random prompt, in chunks."""
    model = slots.model
    weight: Any = model.embed.weight
    embeds = torch.randn(size, weight.shape[1], dtype=weight.dtype, device=weight.device)
    positions = torch.arange(size, device=weight.device).expand(3, -1)
    is_video = torch.ones(size, dtype=torch.bool, device=weight.device)
    hidden = slots.prefill(slot, Prompt(embeds, positions, is_video, size), chunk=4096)
    if memory:
        memory.admit(slot, hidden)


def _accepted(generator: np.random.Generator, tau: float, length: int, rows: int) -> Ints:
    """Accepted tokens per row, int64 [B], of independent slots whose prefix has the mean `tau`."""
    low, high = 0.0, 1.0
    for _ in range(40):
        chance = (low + high) / 2
        mean = sum(chance**i for i in range(1, length + 1))
        low, high = (chance, high) if mean < tau else (low, chance)
    return np.cumprod(generator.random((rows, length)) < low, axis=1).sum(1)


class _Clock:
    """Milliseconds of calls, with the device's work."""

    def __init__(self, device: torch.device) -> None:
        self._wait: Callable[[], None] = (
            torch.cuda.synchronize if device.type == "cuda" else lambda: None
        )
        self.ms: dict[str, list[float]] = {}

    def time(self, name: str, call: Callable[[], Tensor]) -> Tensor:
        self._wait()
        began = time.perf_counter()
        result = call()
        self._wait()
        self.ms.setdefault(name, []).append((time.perf_counter() - began) * 1e3)
        return result

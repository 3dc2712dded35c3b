"""What the engine asks of a video LLM, and what all of them share.

A family turns a request into a prompt (ids, embeddings, positions, which tokens are video), and
says which part of the stock model is the text decoder. It never sees a slot or a cache's inside.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BatchFeature, GenerationConfig
from transformers.video_utils import VideoMetadata

from lvspec.cache import SlotCache
from lvspec.models.refusals import check_attention, check_croppable
from lvspec.models.timing import at_their_rate
from lvspec.video import FrameSpec

Select = Callable[[int, int], Tensor]
"""Which video tokens of a prompt to keep: from their number, and the number of temporal patches
that they show in order and in equal shares, to ascending indices int64 [kept] among them.
"""


@dataclass(frozen=True)
class Prepared:
    """A request after the processor: everything a stock `generate` of the family would take."""

    inputs: BatchFeature

    @property
    def input_ids(self) -> Tensor:
        """int64 [P]."""
        return self.inputs["input_ids"][0]


@dataclass(frozen=True)
class Prompt:
    """A request as the text decoder sees it.

    embeds: [P, D], video features in place.
    positions: int64 [A, P]; A is 3 for M-RoPE, 1 otherwise.
    is_video: bool [P].
    next_position: text position of the first token after the prompt.
    deepstack: [L, V, D], what is added to the V video tokens after each of the first L layers, in
        the families that do so.
    """

    embeds: Tensor
    positions: Tensor
    is_video: Tensor
    next_position: int
    deepstack: Tensor | None = None

    def part(self, tokens: slice) -> "Prompt":
        """Some tokens in a row, to be read after those before them."""
        before = int(self.is_video[: tokens.start].sum())
        is_video = self.is_video[tokens]
        shown = slice(before, before + int(is_video.sum()))
        deepstack = None if self.deepstack is None else self.deepstack[:, shown]
        positions = self.positions[:, tokens]
        return Prompt(self.embeds[tokens], positions, is_video, self.next_position, deepstack)

    def keep_video(self, kept: Tensor) -> "Prompt":
        """Only these of the video tokens (ascending indices among them), at their own positions."""
        mask = ~self.is_video
        mask[self.is_video.nonzero()[:, 0][kept.to(mask.device)]] = True
        deepstack = self.deepstack
        return Prompt(
            self.embeds[mask],
            self.positions[:, mask],
            self.is_video[mask],
            self.next_position,
            None if deepstack is None else deepstack[:, kept.to(deepstack.device)],
        )


@dataclass(frozen=True)
class Features:
    """What a vision tower says of temporal patches.

    tokens: [V, D], in time order, as many of each patch. deepstack: [L, V, D], see `Prompt`.
    """

    tokens: Tensor
    deepstack: Tensor | None = None

    def pick(self, rows: Tensor) -> "Features":
        """Some of the tokens: indices int64 [n]."""
        rows = rows.to(self.tokens.device)
        deepstack = None if self.deepstack is None else self.deepstack[:, rows]
        return Features(self.tokens[rows], deepstack)


class VideoModel(ABC):
    """One loaded checkpoint of a family.

    model: the stock `...ForConditionalGeneration`. processor: its stock processor.
    """

    position_axes: ClassVar[int] = 1

    def __init__(self, model: Any, processor: Any) -> None:
        self.model = model
        self.processor = processor
        check_croppable(model.config)
        check_attention(model.config)
        self.num_layers: int = self.text_config.num_hidden_layers
        decoder = type(self.decoder).forward
        # transformers renamed the argument in 5.2x; both are in use
        self._cache_name = (
            "cache" if "cache" in inspect.signature(decoder).parameters else "past_key_values"
        )
        self.embed: nn.Module = model.get_input_embeddings()
        self.head: nn.Module = model.get_output_embeddings()

    @property
    def text_config(self) -> Any:
        return self.model.config.get_text_config()

    @property
    def generation_config(self) -> GenerationConfig:
        return self.model.generation_config

    @property
    def tokenizer(self) -> Any:
        return self.processor.tokenizer

    @property
    def device(self) -> torch.device:
        """Where tokens enter and hidden states of the last layer leave."""
        weight: Any = self.embed.weight  # typed as Tensor | Module
        return weight.device

    @property
    def vocab_size(self) -> int:
        weight: Any = self.head.weight  # typed as Tensor | Module
        return weight.shape[0]

    @property
    def max_context(self) -> int:
        return self.text_config.max_position_embeddings

    @property
    def cache_bytes(self) -> int:
        """Bytes that one token's keys and values take."""
        config = self.text_config
        heads = config.num_key_value_heads or config.num_attention_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        weight: Any = self.embed.weight  # typed as Tensor | Module
        return 2 * self.num_layers * heads * dim * weight.element_size()

    @property
    @abstractmethod
    def decoder(self) -> nn.Module:
        """The stock text decoder: embeddings and positions in, last hidden states out."""

    @property
    @abstractmethod
    def video_token_id(self) -> int:
        """The placeholder that a frame's features replace."""

    @staticmethod
    def metadata(times_s: np.ndarray) -> VideoMetadata:
        """The frames' times in the words of the family's processor."""
        return at_their_rate(times_s)

    def prepare(self, frames: np.ndarray, times_s: np.ndarray, prompt: str) -> Prepared:
        """Run the family's own chat template and processor on uint8 frames [T, H, W, 3].

        Raises ValueError for frames of a size that the model does not take, and for a prompt with
        control tokens in it: they would end the question early or announce a second video.
        """
        if control := [t for t in self.tokenizer.all_special_tokens if t in prompt]:
            raise ValueError(f"the prompt contains the model's control tokens {control}")
        count, height, width = frames.shape[:3]
        self.frame_spec(self.processor, count, None, None).check(width, height)
        content = [{"type": "video"}, {"type": "text", "text": prompt}]
        text = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        bos = self.tokenizer.bos_token
        # a template that writes the first token itself must not get it twice
        once = {"add_special_tokens": False} if bos and text.startswith(bos) else {}
        video = torch.from_numpy(frames).to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        inputs = self.processor(
            text=[text],
            videos=[[video]],
            video_metadata=[self.metadata(times_s)],
            do_sample_frames=False,
            do_resize=False,  # frames come at the model's size (see frame_spec)
            return_tensors="pt",
            **once,
        )
        return Prepared(inputs.to(self.device))

    def encode(self, prepared: Prepared, select: Select | None = None) -> Prompt:
        """Run the vision tower and place its features among the text embeddings.

        select: which video tokens to keep. The prompt lacks the others, and a temporal patch
            without a kept token never enters the vision tower.
        """
        prompt = self.place(prepared)
        if select is None:
            features = self.features(prepared, None)
        else:
            tokens, patches = int(prompt.is_video.sum()), self.num_patches(prepared)
            per_patch = tokens // patches
            kept = select(tokens, patches)
            shown, nth = torch.unique(kept // per_patch, return_inverse=True)
            features = self.features(prepared, shown if len(shown) < patches else None)
            features = features.pick(nth * per_patch + kept % per_patch)
            prompt = prompt.keep_video(kept)
        embeds = prompt.embeds
        embeds[prompt.is_video] = features.tokens.to(embeds.device, embeds.dtype)
        return replace(prompt, deepstack=features.deepstack)

    def place(self, prepared: Prepared) -> Prompt:
        """The prompt with placeholders where the video's features go."""
        ids = prepared.input_ids
        positions = torch.arange(len(ids), device=ids.device)[None]
        return Prompt(self.embed(ids), positions, ids == self.video_token_id, len(ids))

    @abstractmethod
    def num_patches(self, prepared: Prepared) -> int:
        """Temporal patches of the video: what the vision tower sees on its own, one or two frames
        of it; no tower of these families looks from one to another.
        """

    @abstractmethod
    def features(self, prepared: Prepared, patches: Tensor | None) -> Features:
        """Run the vision tower on some temporal patches (ascending indices; None is all)."""

    @staticmethod
    @abstractmethod
    def frame_spec(
        processor: Any, count: int, min_pixels: int | None, max_pixels: int | None
    ) -> FrameSpec:
        """At which size the processor wants its frames, from its config alone."""

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        """What else the decoder takes with a whole prompt, by the names of its arguments."""
        return {}

    def decode(
        self,
        embeds: Tensor,
        positions: Tensor,
        cache: SlotCache,
        mask: Tensor | None,
        **extras: Any,
    ) -> Tensor:
        """One pass of the decoder over the rows `cache.begin` aimed at.

        embeds [B, q, D], positions [A, B, q], mask as `cache.mask` says -> normalised last hidden
        states [B, q, D].
        """
        out = self.decoder(
            inputs_embeds=embeds,
            position_ids=positions if self.position_axes > 1 else positions[0],
            attention_mask=mask,  # 4-D: every stock decoder takes it as it is
            use_cache=True,
            **{self._cache_name: cache},
            **extras,
        )
        return out.last_hidden_state

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.head(hidden)

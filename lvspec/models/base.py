"""What the engine asks of a video LLM, and what all of them share.

A family turns a request into a prompt (ids, embeddings, positions, which tokens are video), and
says which part of the stock model is the text decoder. It never sees a slot or a cache's inside.
"""

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BatchFeature, GenerationConfig

from lvspec.cache import SlotCache
from lvspec.types import LoadError
from lvspec.video import FrameSpec


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
    """

    embeds: Tensor
    positions: Tensor
    is_video: Tensor
    next_position: int

    def keep_video(self, kept: Tensor) -> "Prompt":
        """Only these of the video tokens (ascending indices among them), at their own positions."""
        mask = ~self.is_video
        mask[self.is_video.nonzero()[:, 0][kept.to(mask.device)]] = True
        return Prompt(
            self.embeds[mask], self.positions[:, mask], self.is_video[mask], self.next_position
        )


class VideoModel(ABC):
    """One loaded checkpoint of a family.

    model: the stock `...ForConditionalGeneration`. processor: its stock processor.
    """

    position_axes: ClassVar[int] = 1

    def __init__(self, model: Any, processor: Any) -> None:
        self.model = model
        self.processor = processor
        text = self.text_config
        if any(kind != "full_attention" for kind in getattr(text, "layer_types", None) or ()):
            raise LoadError(
                f"{model.config.model_type}: layers other than full attention have no cache that "
                "can be rolled back to any token; use a checkpoint without sliding windows or "
                "linear attention"
            )
        self.num_layers: int = text.num_hidden_layers
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
        return self.embed.weight.device  # pyright: ignore[reportReturnType]

    @property
    def vocab_size(self) -> int:
        return self.head.weight.shape[0]  # pyright: ignore

    @property
    def max_context(self) -> int:
        return self.text_config.max_position_embeddings

    @property
    @abstractmethod
    def decoder(self) -> nn.Module:
        """The stock text decoder: embeddings and positions in, last hidden states out."""

    @property
    @abstractmethod
    def video_token_id(self) -> int:
        """The placeholder that a frame's features replace."""

    @abstractmethod
    def prepare(self, frames: np.ndarray, times_s: np.ndarray, prompt: str) -> Prepared:
        """Run the family's own chat template and processor on uint8 frames [T, H, W, 3]."""

    @abstractmethod
    def encode(self, prepared: Prepared) -> Prompt:
        """Run the vision tower and place its features among the text embeddings."""

    @staticmethod
    @abstractmethod
    def frame_spec(
        processor: Any, count: int, min_pixels: int | None, max_pixels: int | None
    ) -> FrameSpec:
        """At which size the processor wants its frames, from its config alone."""

    def decode(self, embeds: Tensor, positions: Tensor, cache: SlotCache) -> Tensor:
        """One pass of the decoder over the rows `cache.begin` aimed at.

        embeds [B, q, D], positions [A, B, q] -> normalised last hidden states [B, q, D].
        """
        mask = cache.mask(embeds.device)
        out = self.decoder(
            inputs_embeds=embeds,
            position_ids=positions if self.position_axes > 1 else positions[0],
            attention_mask={"full_attention": mask},
            use_cache=True,
            **{self._cache_name: cache},
        )
        return out.last_hidden_state

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.head(hidden)

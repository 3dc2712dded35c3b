"""A target and a draft that work together: loading them, and the checks that they fit."""

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

from lvspec import demo
from lvspec.config import FrameSettings, ModelSettings
from lvspec.models import FAMILIES, VideoModel
from lvspec.models.refusals import check_croppable
from lvspec.types import LoadError
from lvspec.video import FrameSpec

_DONE_BY_THE_READER = (
    *("size", "min_pixels", "max_pixels", "do_resize", "resample"),
    *("do_sample_frames", "num_frames", "min_frames", "max_frames", "fps"),
)
"""Settings of video processors that say nothing here: frames come sampled and at the model's size.
A 7B with another budget of pixels than its 32B prepares them no other way.
"""


def load(settings: ModelSettings | None = None) -> "Pair":
    """Load target and draft, and check that they fit together.

    Raises LoadError with the reason and what to use instead.

    >>> import lvspec
    >>> lvspec.load().target.num_layers  # the embedded pair
    20
    """
    settings = settings or ModelSettings()
    check(settings)
    target = _load_model(
        _folder(settings.target, "target"), settings.target_revision, settings, settings.device_map
    )
    draft = None
    if settings.draft is not None:
        draft = _load_model(
            _folder(settings.draft, "draft"), settings.draft_revision, settings, None
        )
    return Pair(target, draft)


def check(settings: ModelSettings) -> None:
    """Find out from the checkpoints' configs alone, before any weights, that they can be loaded.

    Raises LoadError.

    >>> import lvspec
    >>> lvspec.check(lvspec.ModelSettings())  # says nothing: these models can be loaded
    """
    target, family = _family(settings.target, "target", settings.target_revision)
    if settings.draft is None:
        return
    draft, other = _family(settings.draft, "draft", settings.draft_revision)
    if family is not other:
        raise LoadError(
            f"the target is of family {target}, the draft of {draft}: they place video "
            "differently in their prompts; use a draft of the target's family"
        )


def frame_spec(models: ModelSettings, frames: FrameSettings | None = None) -> FrameSpec:
    """The size and number of frames that the target takes, from its processor's config alone.

    >>> import lvspec
    >>> lvspec.frame_spec(lvspec.ModelSettings(), lvspec.FrameSettings(count=4)).factor
    28
    """
    frames = frames or FrameSettings()
    _, family = _family(models.target, "target", models.target_revision)
    processor = _processor(_folder(models.target, "target"), models.target_revision)
    return family.frame_spec(processor, frames.count, frames.min_pixels, frames.max_pixels)


class Pair:
    """A loaded target and draft (None: plain decoding only).

    Raises LoadError where they cannot verify each other's tokens.

    >>> import lvspec
    >>> lvspec.load(lvspec.ModelSettings(draft=None)).draft is None
    True
    """

    def __init__(self, target: VideoModel, draft: VideoModel | None) -> None:
        self.target = target
        self.draft = draft
        if draft is not None:
            _check_same_tokens(target, draft)
            _check_same_frames(target, draft)
        self.shares_preparation = draft is not None and (
            _preparation(target) == _preparation(draft) and target.device == draft.device
        )

    @property
    def eos_token_ids(self) -> list[int]:
        """The ids that end a caption: the checkpoint's own list."""
        ids = self.target.generation_config.eos_token_id
        if ids is None:
            ids = self.target.tokenizer.eos_token_id
        if ids is None:
            raise LoadError("the target's generation_config names no eos_token_id")
        return list(ids) if isinstance(ids, Iterable) else [ids]

    @property
    def max_context(self) -> int:
        """Tokens of prompt and caption that both models can hold."""
        return min(m.max_context for m in (self.target, self.draft) if m is not None)

    def special_mask(self) -> Tensor:
        """bool [V]: ids that end or structure a text, and ids the tokenizer does not know."""
        mask = torch.zeros(self.target.vocab_size, dtype=torch.bool)
        mask[len(self.target.tokenizer) :] = True
        ids = [*self.target.tokenizer.all_special_ids, *self.eos_token_ids]
        mask[[i for i in ids if i < len(mask)]] = True
        return mask.to(self.target.device)


def _folder(name: str, role: str) -> str:
    """What to hand to `from_pretrained`: "demo" names the embedded pair."""
    return str(demo.path(role)) if name == "demo" else name


def _family(name: str, role: str, revision: str | None) -> tuple[str, type[VideoModel]]:
    config = _read(AutoConfig, _folder(name, role), revision)
    kind = str(config.model_type)
    check_croppable(config)
    if kind not in FAMILIES:
        raise LoadError(
            f"{role} {name!r} is of family {kind}, which is not supported; supported are "
            + ", ".join(FAMILIES)
        )
    return kind, FAMILIES[kind]


def _read(loader: Any, folder: str, revision: str | None, **kwargs: Any) -> Any:
    """`from_pretrained`, with a failure that says what was asked for."""
    if folder[:1] in "/.~" and not Path(folder).is_dir():  # no name on a hub begins like this
        raise LoadError(f"cannot load {folder!r}: there is no such folder")
    try:
        return loader.from_pretrained(folder, revision=revision or "main", **kwargs)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise LoadError(
            f"cannot load {folder!r}: {reason[:500]} (give a folder, or a name on a "
            "model hub that this machine can reach)"
        ) from error


@lru_cache(maxsize=8)
def _processor(folder: str, revision: str | None) -> Any:
    return _read(AutoProcessor, folder, revision)


def _load_model(
    folder: str, revision: str | None, settings: ModelSettings, device_map: str | None
) -> VideoModel:
    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype: Any = settings.dtype
    if dtype == "auto" and device == "cpu":
        dtype = torch.float32
    placement = {"device_map": device_map} if device_map else {}
    attention = {"": "sdpa", "text_config": "sdpa", "vision_config": settings.attn_implementation}
    model = _read(
        AutoModelForImageTextToText,
        folder,
        revision,
        dtype=dtype if not isinstance(dtype, str) or dtype == "auto" else getattr(torch, dtype),
        attn_implementation=attention,  # see check_attention for why the decoder has no choice
        **placement,
    ).eval()
    if not device_map:
        model = model.to(device)
    family = FAMILIES[str(model.config.model_type)]
    return family(model, _processor(folder, revision))


def _check_same_tokens(target: VideoModel, draft: VideoModel) -> None:
    ours, theirs = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours != theirs:
        differing = sum(ours.get(token) != index for token, index in theirs.items())
        raise LoadError(
            f"target and draft have different tokenizers ({len(ours)} and {len(theirs)} tokens, "
            f"{differing} of the draft's with another id): the target cannot verify the draft's "
            "tokens; use a draft of the same model series"
        )
    if target.video_token_id != draft.video_token_id:
        raise LoadError(
            f"target and draft mark video with different tokens ({target.video_token_id} and "
            f"{draft.video_token_id}); use a draft of the same model series"
        )


def _check_same_frames(target: VideoModel, draft: VideoModel) -> None:
    ours, theirs = (m.frame_spec(m.processor, 2, None, None) for m in (target, draft))
    if (ours.factor, ours.fixed) != (theirs.factor, theirs.fixed):
        raise LoadError(
            f"target and draft take frames of different sizes ({_sizes(ours)} and "
            f"{_sizes(theirs)}), and every clip is read once for both; use a draft with the "
            "target's vision tower"
        )


def _sizes(spec: FrameSpec) -> str:
    fixed, factor = spec.fixed, spec.factor
    return f"{fixed[0]} x {fixed[1]}" if fixed else f"multiples of {factor}"


def _preparation(model: VideoModel) -> str:
    """What decides how text and frames become ids and pixels, but for the chat template: a draft
    continues what the target was told, in the target's words.
    """
    processor = model.processor
    # in some families the number of placeholders per frame is among them
    own = {k: v for k, v in vars(processor).items() if isinstance(v, str | int | float)}
    own.pop("chat_template", None)
    video = processor.video_processor.to_dict()
    for key in _DONE_BY_THE_READER:
        video.pop(key, None)
    return json.dumps([video, own], sort_keys=True, default=str)

"""Drafters: who proposes tokens. See `base` for the contract and how to add one."""

import numpy as np

from lvspec.attention import check_watched
from lvspec.config import DecodeSettings
from lvspec.drafters.base import Arrival, Drafter, NoDrafter, Round
from lvspec.drafters.lookup import LookupDrafter
from lvspec.drafters.model import ModelDrafter
from lvspec.models import VideoModel
from lvspec.pair import Pair
from lvspec.pruning import Pruner
from lvspec.types import LoadError

__all__ = ["Arrival", "Drafter", "NoDrafter", "Round", "make_drafter"]


def make_drafter(settings: DecodeSettings, pair: Pair) -> Drafter:
    """The drafter that the settings name; `LoadError` where it lacks its model."""
    target, name = pair.target, settings.drafter
    if name == "none":
        return NoDrafter()
    if name.startswith("lookup"):
        behind = _model(settings, pair) if name == "lookup+model" else None
        return LookupDrafter(settings.slots, target.video_token_id, pair.eos_token_ids[0], behind)
    if name == "self":
        return ModelDrafter(
            target, settings, target.vocab_size, _pruner(settings, pair), own_prompt=False
        )
    return _model(settings, pair)


def _model(settings: DecodeSettings, pair: Pair) -> ModelDrafter:
    if pair.draft is None:
        raise LoadError(
            f"drafter {settings.drafter!r} needs a draft: name one in ModelSettings.draft, or set "
            'drafter to "self", "lookup" or "none"'
        )
    pruner = _pruner(settings, pair)
    if pruner.needs_attention and not pair.shares_preparation:
        _check_same_video(pair.target, pair.draft)
    return ModelDrafter(pair.draft, settings, pair.target.vocab_size, pruner)


def _pruner(settings: DecodeSettings, pair: Pair) -> Pruner:
    pruner = Pruner(settings.pruning, settings.keep)
    if pruner.needs_attention:
        check_watched(pair.target)
    return pruner


def _check_same_video(target: VideoModel, draft: VideoModel) -> None:
    """LoadError unless both show the same two frames in as many tokens."""
    spec = target.frame_spec(target.processor, 2, None, None)
    width, height = spec.size_for(640, 480)
    frames, times_s = np.zeros((2, height, width, 3), np.uint8), np.arange(2.0)
    prepared = [model.prepare(frames, times_s, "a") for model in (target, draft)]
    ours, theirs = (int((p.input_ids == target.video_token_id).sum()) for p in prepared)
    if ours != theirs:
        raise LoadError(
            f"the target shows two frames in {ours} tokens, the draft in {theirs}: what the target "
            'looks at does not say what the draft should keep; set pruning to "uniform" or "frames"'
        )

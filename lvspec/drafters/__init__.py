"""Drafters: who proposes tokens. See `base` for the contract and how to add one."""

from lvspec.config import DecodeSettings
from lvspec.drafters.base import Arrival, Drafter, NoDrafter, Round
from lvspec.drafters.lookup import LookupDrafter
from lvspec.drafters.model import ModelDrafter
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
        pruner = Pruner(settings.pruning, settings.keep)
        return ModelDrafter(target, settings, target.vocab_size, pruner, own_prompt=False)
    return _model(settings, pair)


def _model(settings: DecodeSettings, pair: Pair) -> ModelDrafter:
    if pair.draft is None:
        raise LoadError(
            f"drafter {settings.drafter!r} needs a draft: name one in ModelSettings.draft, or set "
            'drafter to "self", "lookup" or "none"'
        )
    pruner = Pruner(settings.pruning, settings.keep)
    return ModelDrafter(pair.draft, settings, pair.target.vocab_size, pruner)

"""Attention seen in passing equals what the stock model's eager attention says, in every family;
and the whole map is never there."""

import copy

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lvspec import LoadError, attention
from lvspec.attention import VideoAttention, check_watched
from lvspec.models import FAMILIES, Prompt, VideoModel
from lvspec.slots import SlotModel
from tests.lvspec import tiny


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=list(FAMILIES))
def prompted(request) -> tuple[VideoModel, Prompt]:
    family = tiny.FAMILIES[request.param]
    model = family.make(0, layers=3)
    (asked,) = tiny.requests(1, seed=3, side=family.side, most=family.most)
    with torch.inference_mode():
        prepared = model.prepare(asked.frames, asked.times_s, "What is this?")
        return model, model.encode(prepared)


def watched(model: VideoModel, prompt: Prompt, chunk: int | None = None) -> Tensor:
    with torch.inference_mode(), VideoAttention(prompt.is_video) as seen:
        SlotModel(model, 1).prefill(0, prompt, chunk)
    after = len(prompt.is_video) - int(prompt.is_video.nonzero()[-1]) - 1
    assert seen.rows == after * model.num_layers
    return seen.weights()


@torch.inference_mode()
def eager(model: VideoModel, prompt: Prompt) -> Tensor:
    """Means over layers, heads and the text after the video of the maps of eager attention."""
    stock = copy.deepcopy(model)
    stock.model.set_attn_implementation("eager")
    axes = prompt.positions[:, None]
    maps = stock.decoder(
        inputs_embeds=prompt.embeds[None],
        position_ids=axes if model.position_axes > 1 else axes[0],
        output_attentions=True,
        use_cache=False,
        **model.extras(prompt),
    ).attentions
    text = int(prompt.is_video.nonzero()[-1]) + 1
    return torch.stack(maps)[:, 0, :, text:, prompt.is_video].mean((0, 1, 2))


@pytest.mark.parametrize("chunk", [None, 5, 24])
def test_weights_are_those_of_eager_attention(prompted, chunk):
    model, prompt = prompted
    expected = eager(model, prompt)
    assert len(expected) > 1 and float(expected.std()) > 0
    torch.testing.assert_close(watched(model, prompt, chunk), expected, rtol=1e-4, atol=1e-7)


def test_blocks_change_nothing(prompted, monkeypatch):
    model, prompt = prompted
    whole = watched(model, prompt)
    monkeypatch.setattr(attention, "BLOCK", 1)  # one row at a time
    torch.testing.assert_close(watched(model, prompt), whole)


def test_prefill_is_left_as_it_is(prompted):
    model, prompt = prompted
    with torch.inference_mode():
        alone = SlotModel(model, 1).prefill(0, prompt)
        with VideoAttention(prompt.is_video):
            beside = SlotModel(model, 1).prefill(0, prompt)
    assert torch.equal(alone, beside)


def test_every_family_can_be_watched(prompted):
    check_watched(prompted[0])


def test_a_decoder_that_cannot_be_watched_is_refused_at_load():
    model = tiny.qwen2_5_vl(0)
    model.model.set_attn_implementation("eager")  # any that does not call torch's
    with pytest.raises(LoadError, match=r'qwen2_5_vl: 0 of .* 2 layers.*"uniform" or'):
        check_watched(model)


class Sizes(TorchDispatchMode):
    """largest: elements of the largest tensor that is made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, tuple | list) else [out]:
            if isinstance(made, Tensor):
                self.largest = max(self.largest, made.numel())
        return out


def a_long_prompt(model: VideoModel, size: int, text: int) -> Prompt:
    torch.manual_seed(0)
    is_video = torch.arange(size) < size - text
    is_video[0] = False
    positions = torch.arange(size).expand(model.position_axes, -1)
    width = model.text_config.hidden_size
    return Prompt(torch.randn(size, width), positions, is_video, size)


def largest(model: VideoModel, prompt: Prompt, chunk: int | None, *, watch: bool = True) -> int:
    with torch.inference_mode():
        slots = SlotModel(model, 1)
        slots.cache.reserve(len(prompt.is_video))
        with Sizes() as sizes:
            if watch:
                with VideoAttention(prompt.is_video):
                    slots.prefill(0, prompt, chunk)
            else:
                slots.prefill(0, prompt, chunk)
    return sizes.largest


@pytest.mark.parametrize("chunk", [None, 256])
def test_memory_does_not_grow_with_the_square_of_the_prompt(chunk):
    model = tiny.qwen2_5_vl(0, layers=1)
    short, long = (largest(model, a_long_prompt(model, n, 20), chunk) for n in (1500, 6000))
    assert long < 5 * short  # four times the tokens; the whole map would be 16 times as large
    assert long < 6000 * 6000 / 20


def test_memory_does_not_grow_with_the_text_either():
    """A question of 1500 tokens: its rows come in blocks."""
    model = tiny.qwen2_5_vl(0, layers=1)
    limit = 4 * 3000 * 16  # weights of so many rows
    prompt = a_long_prompt(model, 3000, 1500)
    assert largest(model, prompt, None) > limit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK", limit)
        alone = largest(model, prompt, None, watch=False)
        assert largest(model, prompt, None) <= max(limit, alone)

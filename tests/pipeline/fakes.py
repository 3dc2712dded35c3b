"""A backend with a scripted captioner: the same seam as the real models, no torch, answers known in
advance.
"""

import time
from collections.abc import Iterable, Iterator, Sequence

from lvspec.config import DecodeSettings, FrameSettings, ModelSettings
from lvspec.types import Generation, GenerationStats, Refusal, Request
from lvspec.video import FrameSpec
from pipeline.backend import Backend


class FakeCaptioner:
    """Captions a clip by the size and brightness of its frames; `target` scripts trouble.

    target "slow:<s>" sleeps per clip, "refuse" refuses all, "loop" repeats itself, "broken" raises
    like a dead engine.
    """

    def __init__(self, models: ModelSettings, decoding: DecodeSettings) -> None:
        self.script, _, amount = models.target.partition(":")
        if self.script == "unloadable":
            raise RuntimeError("weights are not there")
        self.wait_s = float(amount or 0)
        self.prompt = decoding.prompt

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return [f" word{token}" for token in token_ids]

    def run(
        self,
        requests: Iterable[Request],
        *,
        reasons: bool = False,
        relevance: bool = False,
        plain: bool = False,
    ) -> Iterator[Generation | Refusal]:
        waiting = list(requests)
        for request in reversed(waiting):  # the real engine does not keep the order either
            time.sleep(self.wait_s)
            if self.script == "broken":
                raise RuntimeError("device lost")
            if self.script == "refuse":
                yield Refusal(request.id, "too_long", "does not fit")
                continue
            shape = "x".join(str(n) for n in request.frames.shape)
            text = f"{request.prompt or self.prompt} {shape} {int(request.frames.mean())}"
            if self.script == "loop":
                yield Generation(request.id, text, (7,) * 40, "length", STATS)
                continue
            if plain:
                text = f"plainly {text}"
            yield Generation(
                request.id,
                text,
                (1, 2, 3, 4),
                "stop",
                STATS,
                ("target", "exact", "loose", "target") if reasons else None,
                (None, 0.5, 0.25, None) if relevance else None,
            )


STATS = GenerationStats(
    num_prompt_tokens=100,
    num_video_tokens=64,
    num_draft_video_tokens=6,
    num_generated_tokens=4,
    num_spec_steps=2,
    num_draft_tokens=20,
    num_accepted_draft_tokens=3,
    num_loose_tokens=1,
    num_shift_tokens=0,
    prefill_s=0.01,
    decode_s=0.02,
    plain_s=0.05,
)


def _spec(models: ModelSettings, frames: FrameSettings) -> FrameSpec:
    return FrameSpec(count=frames.count, factor=28, min_pixels=28 * 28, max_pixels=56 * 56)


FAKE = Backend(frame_spec=_spec, make_captioner=FakeCaptioner)

"""An engine that only takes time: slots are filled and refilled like the real one's, and each
caption says when its clip was served, by whom. No torch, no GPU.
"""

import hashlib
import heapq
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

from lvspec.config import DecodeSettings, FrameSettings, ModelSettings
from lvspec.types import Generation, GenerationStats, Request
from lvspec.video import FrameSpec
from pipeline.backend import Backend

ROUND_S = 0.02  # how often an engine with a free slot looks for a new clip, as between two rounds
SPEC = FrameSpec(count=1, factor=28, min_pixels=28 * 28, max_pixels=28 * 28)


@dataclass(frozen=True)
class ServiceTimes:
    """Seconds that a clip occupies a slot: log-normal, drawn from its id and `seed`.

    p99_ratio: 99th percentile over median; 1 makes all alike. slow_factor: how much slower the
    first `slow_engines` engines to start are, of those that share the folder `place`.
    """

    median_s: float = 2.0
    p99_ratio: float = 10.0
    seed: int = 0
    slow_factor: float = 1.0
    slow_engines: int = 0
    place: str = ""

    def of(self, clip_id: str) -> float:
        """Seconds of one clip on an engine of plain speed."""
        if self.median_s == 0:
            return 0.0
        digest = hashlib.blake2b(f"{self.seed} {clip_id}".encode(), digest_size=7).digest()
        share = (int.from_bytes(digest, "big") + 0.5) / 2**56
        sigma = math.log(self.p99_ratio) / NormalDist().inv_cdf(0.99)
        return self.median_s * math.exp(sigma * NormalDist().inv_cdf(share))


@dataclass(frozen=True)
class Service:
    """One clip's stay in a slot, in seconds of the machine's monotonic clock."""

    worker: int
    start_s: float
    end_s: float


class FakeEngine:
    """A `Captioner` of `decoding.slots` slots that sleeps. Its captions are `Service`s as JSON."""

    def __init__(
        self, models: ModelSettings, decoding: DecodeSettings, *, times: ServiceTimes
    ) -> None:
        self._times, self._slots = times, decoding.slots
        self._factor = times.slow_factor if _is_slow(times) else 1.0

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return ["" for _ in token_ids]

    def run(self, requests: Iterable[Request], **asked: bool) -> Iterator[Generation]:
        """Serve requests; a free slot takes the next at once, results come as they finish."""
        queue = iter(requests)
        busy: list[tuple[float, float, str]] = []  # (end, start, clip), a heap
        while True:
            while len(busy) < self._slots and (request := next(queue, None)):
                now = time.monotonic()
                end = now + self._factor * self._times.of(request.id)
                heapq.heappush(busy, (end, now, request.id))
            if not busy:
                return
            wait_s = busy[0][0] - time.monotonic()
            if wait_s > 0:
                time.sleep(min(wait_s, ROUND_S) if len(busy) < self._slots else wait_s)
            if busy[0][0] <= time.monotonic():
                end, start, clip = heapq.heappop(busy)
                yield _generation(clip, Service(os.getpid(), start, end))


def fake_backend(times: ServiceTimes) -> Backend:
    """Engines that sleep; frames of one pixel's worth."""
    return Backend(frame_spec=_spec, make_captioner=partial(FakeEngine, times=times))


def service_of(row: Mapping[str, Any]) -> Service:
    """What a ROWS row of a `FakeEngine` says."""
    return Service(**json.loads(row["caption"]))


def _spec(models: ModelSettings, frames: FrameSettings) -> FrameSpec:
    return SPEC


def _is_slow(times: ServiceTimes) -> bool:
    """Is this one of the first engines? A file that only one of them can create decides."""
    for number in range(times.slow_engines):
        with suppress(FileExistsError):
            Path(times.place, f"slow-{number}").touch(exist_ok=False)
            return True
    return False


def _generation(clip: str, service: Service) -> Generation:
    seconds = service.end_s - service.start_s
    stats = GenerationStats(
        num_prompt_tokens=1,
        num_video_tokens=1,
        num_draft_video_tokens=1,
        num_generated_tokens=1,
        num_spec_steps=1,
        num_draft_tokens=1,
        num_accepted_draft_tokens=1,
        num_loose_tokens=0,
        num_shift_tokens=0,
        prefill_s=0.0,
        decode_s=seconds,
        plain_s=seconds,
    )
    return Generation(clip, json.dumps(asdict(service)), (0,), "stop", stats)

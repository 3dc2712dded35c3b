"""The engine that sleeps: service times as asked, slots refilled."""

import numpy as np
import pytest

from lvspec.config import DecodeSettings, ModelSettings
from lvspec.types import Request
from pipeline.benchmark.engine import FakeEngine, ServiceTimes, service_of
from pipeline.benchmark.synthetic import clip_ids


def test_service_times_have_the_stated_median_and_tail() -> None:
    drawn = [ServiceTimes(2.0, 10.0, seed=3).of(clip) for clip in clip_ids(0, 20_000)]
    assert np.median(drawn) == pytest.approx(2.0, rel=0.05)
    assert np.quantile(drawn, 0.99) == pytest.approx(20.0, rel=0.1)
    assert drawn[0] == ServiceTimes(2.0, 10.0, seed=3).of(clip_ids(0, 1)[0])
    assert drawn[0] != ServiceTimes(2.0, 10.0, seed=4).of(clip_ids(0, 1)[0])


def test_two_slots_serve_four_clips_in_two_turns() -> None:
    pixel = np.zeros((1, 1, 1, 3), np.uint8)
    engine = FakeEngine(ModelSettings(), DecodeSettings(slots=2), times=ServiceTimes(0.2, 1.0))
    answers = list(engine.run(Request(name, pixel, np.zeros(1)) for name in "abcd"))
    services = [service_of({"caption": answer.text}) for answer in answers]
    assert sorted(answer.request_id for answer in answers) == list("abcd")
    window_s = max(s.end_s for s in services) - min(s.start_s for s in services)
    assert 0.4 <= window_s < 0.6
    assert all(s.end_s - s.start_s == pytest.approx(0.2) for s in services)

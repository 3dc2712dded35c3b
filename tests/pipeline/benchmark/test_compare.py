"""Intervals and verdicts against values of a statistics text and by hand."""

import math

import pytest

from pipeline.benchmark.compare import change, interval, t95
from pipeline.benchmark.cost import cost
from pipeline.benchmark.result import comparison


def test_quantiles_of_student() -> None:
    assert (t95(1), t95(2.9), t95(10), t95(30)) == (12.706, 4.303, 2.228, 2.042)
    assert t95(100) == pytest.approx(1.984, abs=0.005)
    assert t95(10**6) == pytest.approx(1.96, abs=0.001)


def test_interval_of_three_by_hand() -> None:
    """1, 2, 3: mean 2, standard deviation 1, 4.303 / sqrt(3) to each side."""
    half = 4.303 / math.sqrt(3)
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2 - half, 2 + half))
    assert interval([1.0]) is None


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([10.0, 10.1, 9.9], [12.0, 12.1, 11.9], "faster"),
        ([10.0, 10.1, 9.9], [8.0, 8.1, 7.9], "slower"),
        ([10.0, 12.0, 8.0], [11.0, 13.0, 9.0], "within noise"),
        ([10.0, 10.1, 9.9], [10.0, 9.9, 10.1], "within noise"),
        ([10.0], [20.0, 20.1], "unknown: repeats are needed on both sides"),
    ],
)
def test_verdicts(before: list[float], after: list[float], verdict: str) -> None:
    assert change(before, after).verdict == verdict


def test_a_ratio_is_of_geometric_means() -> None:
    found = change([1.0, 4.0], [4.0, 16.0])
    assert found.ratio == pytest.approx(4.0)
    assert found.low is not None
    assert found.high is not None
    assert found.low * found.high == pytest.approx(16.0)


def test_comparison_names_what_only_one_side_has() -> None:
    def entry(name: str, *rates: float) -> dict[str, object]:
        return {"name": name, "runs": [{"clips_per_s": rate} for rate in rates]}

    old = [entry("a", 10.0, 10.1, 9.9), entry("b", 1.0)]
    new = [entry("a", 20.0, 20.1, 19.9), entry("c", 1.0)]
    lines = comparison(old, new).splitlines()
    assert lines[2].startswith("| a | 10.00 | 20.00 | +100.0% |")
    assert lines[2].endswith("| faster |")
    assert lines[3:] == ["only before: b", "only after: c"]


def test_cost_of_a_thousand_clips_by_hand() -> None:
    """4 actors of 2 GPUs at 2 clips/s: 500 s for 1,000 clips, 8 GPUs: 1.11 GPU-hours."""
    found = cost(2.0, 100.0, actors=4, num_gpus=2, price_per_hour=3.0)
    assert found.devices == 8
    assert found.device_hours_per_1000 == pytest.approx(8 * 500 / 3600)
    assert found.price_per_1000 == pytest.approx(8 * 500 / 3600 * 3)
    assert (found.clips_per_s_per_device, found.tokens_per_s_per_device) == (0.25, 12.5)
    assert cost(2.0, 100.0, actors=4, num_gpus=0, price_per_hour=3.0).devices == 4

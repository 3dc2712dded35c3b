"""A real run is scraped over HTTP as Prometheus does, and holds all that is asked of it."""

import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from prometheus_client.parser import text_string_to_metric_families

from pipeline import metrics, progress
from pipeline.metrics import METRICS, BusyClock
from tests.infra.promql import asked
from tests.pipeline.scripted import caption, settings
from tests.pipeline.videos import write_corpus, write_video

DOCS = Path(__file__).resolve().parents[2] / "docs" / "watch.md"
ADDED = {"le"}  # by Prometheus's own format
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]
Watched = tuple[Samples, list[Any], str]


def scrape(into: Samples) -> None:
    (node,) = ray.nodes()
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            into[sample.name][tuple(sorted(sample.labels.items()))] = sample.value


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> Iterator[Watched]:
    """What was exported during and after two runs: whole videos of which two are bad, and videos
    that are cut, of which one cannot be.
    """
    folder = tmp_path_factory.mktemp("watched")
    write_corpus(folder / "videos", good=6)
    cut = tmp_path_factory.mktemp("cut")
    write_video(cut / "videos" / "a.mp4", brightness=50)
    (cut / "videos" / "junk.mp4").write_bytes(b"junk")
    samples: Samples = defaultdict(dict)
    stop = threading.Event()

    def keep_scraping() -> None:
        while not stop.wait(1):
            scrape(samples)

    thread = threading.Thread(target=keep_scraping, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "LOG_EVERY_S", 0.2)
        summary, said = caption(settings(folder, "models.target=slow:0.2"))
    summaries = [summary, caption(settings(cut, "clips.mode=windows"))[0]]
    wanted = {selector.name for _, selector in asked()}
    last = ("ray_lvspec_committed_clips", str(summary.run_id), summary.manifest_rows)

    def is_exported() -> bool:  # Ray hands values on every few seconds
        name, run, value = last
        return wanted <= samples.keys() and total(samples, name, run=run) == value

    end = time.monotonic() + 60
    while not is_exported() and time.monotonic() < end:
        time.sleep(0.5)
    time.sleep(2)  # for the last values of what came in two parts
    stop.set()
    thread.join()
    yield samples, summaries, said


def total(samples: Samples, metric: str, **labels: str) -> float:
    return sum(
        value for key, value in samples[metric].items() if labels.items() <= dict(key).items()
    )


def test_all_that_dashboard_and_alerts_ask_for_is_exported(
    runs: Watched,
) -> None:
    samples = runs[0]
    for place, selector in asked():
        assert selector.name in samples, f"{place}: nothing exports {selector.name}"
        found = [dict(key) for key in samples[selector.name]]
        taken = [labels for labels in found if selector.takes(labels)]
        assert taken, f"{place}: {selector} selects none of {found}"
        lacking = selector.grouping - ADDED - taken[0].keys()
        assert not lacking, f"{place}: {selector.name} has no label {lacking}"


def test_every_metric_is_exported_with_its_labels(runs: Watched) -> None:
    for metric in METRICS:
        name = metric.exported + ("_bucket" if metric.kind == "histogram" else "")
        assert runs[0][name], name
        for key in runs[0][name]:
            assert set(metric.labels) <= {label for label, _ in key}, key


def test_the_sums_are_those_of_the_summary(runs: Watched) -> None:
    samples, (whole, cut), _ = runs
    run = {"run": whole.run_id}
    assert total(samples, "ray_lvspec_clips_total", status="ok", code="none", **run) == 6
    for code in ("empty_file", "not_a_video"):
        assert total(samples, "ray_lvspec_clips_total", status="error", code=code, **run) == 1
    assert total(samples, "ray_lvspec_tokens_total", **run) == whole.tokens == 24
    tau = total(samples, "ray_lvspec_accepted_tokens_total", **run) / total(
        samples, "ray_lvspec_rounds_total", **run
    )
    assert tau == whole.mean_accepted_length
    speedup = total(samples, "ray_lvspec_plain_seconds_total", **run) / total(
        samples, "ray_lvspec_decode_seconds_total", **run
    )
    assert speedup == pytest.approx(whole.speedup)
    assert total(samples, "ray_lvspec_read_seconds_count", **run) == 8
    assert total(samples, "ray_lvspec_caption_busy_seconds_total", **run) > 6 * 0.2
    assert total(samples, "ray_lvspec_planned_clips", **run) == 8
    assert total(samples, "ray_lvspec_committed_clips", **run) == 8
    failures = total(samples, "ray_lvspec_cut_failures_total", run=cut.run_id, code="not_a_video")
    assert failures == 1


def test_progress_tells_what_moves_between_commits(runs: Watched) -> None:
    lines = [line for line in runs[2].splitlines() if line.startswith("caption: ")]
    assert any("loading models until the first rows" in line for line in lines)
    assert any(" in hand" in line for line in lines)
    assert lines[-1].startswith("caption: 8/8 clips")


def test_time_of_calls_that_overlap_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[float] = []
    monkeypatch.setattr(metrics, "_in_ray", lambda: True)
    monkeypatch.setattr(metrics, "_add", lambda metric, amount, **tags: added.append(amount))
    clock = BusyClock()
    started = time.monotonic()
    with clock.call("r"):
        time.sleep(0.05)
        with clock.call("r"):
            time.sleep(0.05)
        time.sleep(0.05)
    took = time.monotonic() - started
    time.sleep(0.05)
    with clock.call("r"):
        pass
    assert len(added) == 3
    assert 0.15 <= sum(added) <= took + 0.01


def test_the_documented_table_is_the_code_s() -> None:
    assert metrics.to_markdown() in DOCS.read_text(encoding="utf-8")

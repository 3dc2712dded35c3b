"""What a cluster lacks for a plan, and what a waiting run says."""

from pathlib import Path

import pytest
import ray

from pipeline.config import JobSettings
from pipeline.errors import ConfigError
from pipeline.resources import check_cluster, shortfall, waiting
from tests.pipeline.scripted import settings

HEAD = {"CPU": 2.0}
GPU_NODE = {"CPU": 8.0, "GPU": 4.0}


def asking(*assignments: str) -> JobSettings:
    return settings(Path("/nowhere"), *assignments)


@pytest.mark.parametrize(
    ("assignments", "nodes"),
    [
        ([], [HEAD]),
        (["caption.num_gpus=2", "caption.actors=2"], [HEAD, GPU_NODE]),
        (["caption.num_gpus=0.1", "caption.actors=40"], [HEAD, GPU_NODE]),
        (["caption.num_gpus=4", "caption.actors=[1, 64]"], [GPU_NODE]),
        (["caption.num_cpus=6"], [GPU_NODE]),
        (["video.num_cpus=4"], [{"CPU": 1.0}, {"CPU": 4.0}]),
    ],
)
def test_it_fits(assignments: list[str], nodes: list[dict[str, float]]) -> None:
    assert shortfall(asking(*assignments), nodes) is None


@pytest.mark.parametrize(
    ("assignments", "nodes", "said"),
    [
        (["caption.num_gpus=1"], [HEAD], "caption.num_gpus = 1 "),
        # Eight GPUs in all, but no node has six.
        (["caption.num_gpus=6"], [GPU_NODE, GPU_NODE], "there is room for 0"),
        (["caption.num_gpus=2", "caption.actors=3"], [GPU_NODE], "there is room for 2"),
        (["caption.num_gpus=1", "caption.num_cpus=4", "caption.actors=3"], [GPU_NODE], "for 2"),
        (["caption.num_cpus=7"], [GPU_NODE], "the plan needs 9 CPUs"),
        ([], [{"CPU": 1.0}], "the plan needs 2 CPUs"),
        (["video.num_cpus=3"], [HEAD, HEAD], "video.num_cpus = 3: no node"),
        ([], [], "video.num_cpus = 1: no node"),
    ],
)
def test_it_cannot_fit(assignments: list[str], nodes: list[dict[str, float]], said: str) -> None:
    assert said in (shortfall(asking(*assignments), nodes) or "")


def test_videos_are_cut_where_nothing_can_be_captioned() -> None:
    wanting = asking("caption.num_gpus=1")
    assert shortfall(wanting, [HEAD], captions=False) is None


def test_a_cluster_without_an_autoscaler_refuses_at_once(local_ray: None) -> None:
    check_cluster(asking(), captions=True)
    with pytest.raises(ConfigError, match=r"num_gpus = 1 .* 0 GPUs on 1 node and no autoscaler"):
        check_cluster(asking("caption.num_gpus=1"), captions=True)


def test_a_task_without_a_place_is_what_the_run_waits_for(local_ray: None) -> None:
    assert waiting() is None

    @ray.remote(num_gpus=3, num_cpus=0)
    def never() -> None: ...

    task = never.remote()
    try:
        from tests.pipeline.test_resume import wait_for

        wait_for(lambda: waiting() is not None, "a pending task", 30)
        assert "waiting for a node with room for 1 x (3 GPU); the cluster has " in (waiting() or "")
    finally:
        ray.cancel(task, force=True)

"""Whether a cluster can run the plan: refused where it never could, said aloud while it waits.

`shortfall` is the pure core; the others ask the Ray that this process is connected to.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import ray

from pipeline.config import JobSettings
from pipeline.errors import ConfigError

FILTER_CPUS = 1.0  # Ray's checkpoint filter: an actor that holds them as long as a resume lasts
LIST_CPUS = 1.0  # the task that lists the manifest, while nothing else runs
NODE_GROUP = "ray.io/node-group"  # label of nodes that `ray up` or KubeRay started

Resources = Mapping[str, float]


def check_cluster(settings: JobSettings, *, captions: bool) -> None:
    """Raise `ConfigError` where the cluster lacks what the run needs and has no autoscaler.

    captions: does the run caption, or does it only cut videos?
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    lack = shortfall(settings, nodes, captions=captions)
    if lack is not None and not _may_grow():
        raise ConfigError(
            f"{lack}; the cluster has {_totals(nodes)} and no autoscaler that could add to it: add "
            "nodes, or ask for less. The planned run is kept: the same command resumes it"
        )


def shortfall(
    settings: JobSettings, nodes: Sequence[Resources], *, captions: bool = True
) -> str | None:
    """What the smallest pool and one task at a time lack on these nodes, even where these are idle.

    Names the setting that asks for it. None where they fit.
    """
    task = settings.video.num_cpus
    if not any(node.get("CPU", 0) >= task for node in nodes):
        return f"video.num_cpus = {task:g}: no node has that many CPUs"
    least = settings.caption.pool[0] if captions else 0
    gpus, cpus = settings.caption.num_gpus, settings.caption.num_cpus
    room = sum(_room(node, gpus, cpus) for node in nodes) if least else 0
    if room < least:
        each = f"caption.num_gpus = {gpus:g} and caption.num_cpus = {cpus:g}"
        actors = "1 actor" if least == 1 else f"{least} actors"
        return f"{each} for {actors} of caption.actors: there is room for {room}"
    tasks = max(task, LIST_CPUS)
    wanted = FILTER_CPUS + tasks + least * cpus
    have = sum(node.get("CPU", 0) for node in nodes)
    if have < wanted:
        return (
            f"the plan needs {wanted:g} CPUs ({FILTER_CPUS:g} for Ray's checkpoint filter, "
            f"{tasks:g} for a task, {least * cpus:g} for caption actors)"
        )
    return None


def waiting() -> str | None:
    """What Ray holds back because no node has room for it; None where it holds back nothing."""
    from ray._private.worker import global_worker  # noqa: PLC0415
    from ray.autoscaler.v2.sdk import get_cluster_resource_state  # noqa: PLC0415  # slow to import

    client: Any = cast(Any, global_worker).gcs_client
    free = ray.available_resources()
    held: Counter[str] = Counter()
    for pending in get_cluster_resource_state(client).pending_resource_requests:
        bundle = pending.request.resources_bundle
        if any(free.get(name, 0) < amount for name, amount in bundle.items()):
            held[_text(bundle)] += pending.count  # the others only wait for a process to start
    if not held:
        return None
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    asked = ", ".join(f"{count} x ({text})" for text, count in sorted(held.items()))
    spare = ", ".join(f"{free.get(name, 0):g} {name}" for name in ("CPU", "GPU"))
    return (
        f"waiting for a node with room for {asked}; the cluster has {_totals(nodes)}, free: {spare}"
    )


def _room(node: Resources, gpus: float, cpus: float) -> float:
    """How many actors fit on an idle node."""
    shares = [
        math.floor(node.get(name, 0) / each + 1e-9)
        for name, each in (("GPU", gpus), ("CPU", cpus))
        if each
    ]
    return min(shares, default=math.inf)


def _may_grow() -> bool:
    """Could an autoscaler add nodes? Ray has no public answer: nodes of a cluster with one carry
    the group they were started from, and the older autoscaler's report names its node types.
    """
    if any(NODE_GROUP in node["Labels"] for node in ray.nodes()):
        return True
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS  # noqa: PLC0415
    from ray.experimental.internal_kv import _internal_kv_get  # noqa: PLC0415

    report: Any = json.loads(_internal_kv_get(DEBUG_AUTOSCALING_STATUS) or b"{}")
    types = (report.get("autoscaler_report") or {}).get("active_nodes") or {}
    return any(not name.startswith("node_") for name in types)  # so it calls nodes without a type


def _totals(nodes: Sequence[Resources]) -> str:
    sums = ", ".join(
        f"{sum(node.get(name, 0) for node in nodes):g} {name}s" for name in ("CPU", "GPU")
    )
    return f"{sums} on {len(nodes)} node{'' if len(nodes) == 1 else 's'}"


def _text(bundle: Resources) -> str:
    return (
        ", ".join(f"{amount:g} {name}" for name, amount in sorted(bundle.items())) or "no resource"
    )

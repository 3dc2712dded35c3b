"""The files in infra/: valid by the schemas of those who read them, and about this repository."""

import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from jobs import caption_corpus
from pipeline.config import JobSettings, load_config
from pipeline.resources import shortfall
from tests.jobs.tree import ROOT

INFRA = ROOT / "infra"
SCHEMAS = ROOT.parent / "shared" / "kuberay-schemas"
MANIFESTS = {path.stem: path for path in sorted((INFRA / "kuberay").glob("*.yaml"))}
IN_IMAGE = "/app/"  # where the image holds jobs/ and configs/


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load(MANIFESTS[name].read_text())


def cluster(name: str) -> dict[str, Any]:
    spec = load(name)["spec"]
    spec = spec.get("jobTemplate", spec)
    return spec.get("rayClusterSpec", spec)


def command(name: str) -> list[str]:
    """The job's command line."""
    spec = load(name)["spec"]
    if name == "cronjob":
        return spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    return shlex.split(spec.get("jobTemplate", spec)["entrypoint"])


def settings(words: list[str]) -> JobSettings:
    config = words[words.index("--config") + 1]
    sets = [value for key, value in pairwise(words) if key == "--set"]
    return load_config(ROOT / config.removeprefix(IN_IMAGE), sets)


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from (f"{key}: {text}" for text in strings(value))
    elif isinstance(node, list):
        for item in node:
            yield from strings(item)
    else:
        yield str(node)


CLUSTERS = ["rayjob", "raycronjob", "raycluster"]
COMMANDS = ["rayjob", "raycronjob", "cronjob"]


def test_all_files_are_known() -> None:
    assert set(MANIFESTS) == {*CLUSTERS, *COMMANDS}


@pytest.mark.parametrize("name", CLUSTERS)
def test_it_follows_kuberays_schema(name: str) -> None:
    if not SCHEMAS.is_dir():
        pytest.skip("KubeRay's schemas are not beside the checkout")
    manifest = load(name)
    file = SCHEMAS / f"{manifest['kind']}.v1.json.gz"
    schema = closed(json.loads(gzip.decompress(file.read_bytes())))
    jsonschema.validate(manifest, schema)


def closed(schema: Any) -> Any:
    """The schema with unknown keys refused, as the API server does when asked to be strict."""
    if isinstance(schema, dict):
        result = {key: closed(value) for key, value in schema.items()}
        if isinstance(result.get("properties"), dict) and "additionalProperties" not in result:
            if not result.get("x-kubernetes-preserve-unknown-fields") and (
                result["properties"].keys() - {"metadata", "kind", "apiVersion"}
            ):
                result["additionalProperties"] = False
            if result["properties"].get("metadata") == {"type": "object"}:
                result["properties"]["metadata"] = {"type": "object"}
        return result
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("name", COMMANDS)
def test_its_command_names_what_exists_and_loads(name: str) -> None:
    python, script, *words = command(name)
    assert python == "python"
    assert (ROOT / script.removeprefix(IN_IMAGE)).is_file()
    assert settings(words).caption.num_gpus > 0
    parser = caption_corpus.command_line()
    parser.parse_args(words)  # exits where an option is unknown


@pytest.mark.parametrize("name", CLUSTERS)
def test_its_largest_cluster_holds_what_the_config_asks(name: str) -> None:
    nodes = [
        {"CPU": float(limits["cpu"]), "GPU": float(limits.get("nvidia.com/gpu", 0))}
        for group in cluster(name)["workerGroupSpecs"]
        for limits in [group["template"]["spec"]["containers"][0]["resources"]["limits"]]
        for _ in range(group["maxReplicas"])
    ]
    job = "rayjob" if name == "raycluster" else name
    assert shortfall(settings(command(job)), nodes) is None


@pytest.mark.parametrize("name", CLUSTERS)
def test_pods_get_what_ray_is_told(name: str) -> None:
    import ray

    spec = cluster(name)
    assert spec["rayVersion"].rpartition(".")[0] == ray.__version__.rpartition(".")[0]
    assert spec["authOptions"]["mode"] == "token"
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        (container,) = pod["containers"]
        resources = container["resources"]
        assert resources["requests"] == resources["limits"]
        assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
        assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
        if "nvidia.com/gpu" in resources["limits"]:
            assert any(rule["key"] == "nvidia.com/gpu" for rule in pod["tolerations"])


def test_all_use_one_image_with_the_projects_version() -> None:
    texts = [text for name in MANIFESTS for text in strings(load(name))]
    images = {match for text in texts for match in re.findall(r"image: (\S+)", text)}
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert images == {f"registry.example.com/lvspec:{version[1]}"}


@pytest.mark.parametrize("name", ["rayjob", "raycronjob"])
def test_retries_and_times_have_ends(name: str) -> None:
    spec = load(name)["spec"]
    spec = spec.get("jobTemplate", spec)
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["backoffLimit"] <= 2
    assert spec["submitterConfig"]["backoffLimit"] <= 3
    assert 0 < spec["activeDeadlineSeconds"] < 24 * 3600
    assert spec["ttlSecondsAfterFinished"] > 0


def test_a_night_does_not_start_while_the_last_one_runs() -> None:
    assert load("cronjob")["spec"]["concurrencyPolicy"] == "Forbid"


def test_secrets_are_named_and_not_told() -> None:
    for path in [*MANIFESTS.values(), INFRA / "cluster-aws.yaml"]:
        for text in strings(yaml.safe_load(path.read_text())):
            assert not re.search(r"AKIA|(?i:secret_?key|password|_token): ?\w", text), (path, text)
        assert "kind: Secret" not in path.read_text()


def test_the_cloud_cluster_follows_rays_schema() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((INFRA / "cluster-aws.yaml").read_text())
    validate_config(prepare_config(config))
    assert config["head_node_type"] in config["available_node_types"]
    assert "[pipeline]" in " ".join(config["setup_commands"])
    nodes = [
        kind["resources"]
        for kind in config["available_node_types"].values()
        for _ in range(kind["max_workers"])
    ]
    assert shortfall(load_config(ROOT / "configs" / "qwen2_5_vl_7b.yaml"), nodes) is None


def test_the_slurm_script_parses_and_names_the_job() -> None:
    script = INFRA / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    (job,) = re.findall(r"^python (\S+)", script.read_text(), re.MULTILINE)
    assert (ROOT / job).is_file()
    for config in re.findall(r"configs/\S+\.yaml", script.read_text()):
        load_config(ROOT / config)


def test_the_image_installs_as_the_readme_says_and_copies_what_exists() -> None:
    text = (INFRA / "Dockerfile").read_text()
    assert "pip install '.[pipeline]'" in text
    assert "USER 10001" in text
    allowed = (INFRA / "Dockerfile.dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY --chown=\S+ (.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists()
            assert f"!{name}" in allowed


def test_the_readme_names_every_file() -> None:
    text = (INFRA / "README.md").read_text()
    files = [p for p in INFRA.rglob("*") if p.is_file() and p.suffix in {".yaml", ".sh"}]
    for path in files:
        if "grafana" not in path.parts:
            assert str(path.relative_to(INFRA)) in text
    assert Path(INFRA / "Dockerfile").is_file()

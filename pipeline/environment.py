"""Which Ray this process belongs to, as its environment says; asked without importing Ray."""

from collections.abc import Mapping

SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by `ray job submit` for the entrypoint


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Is this the entrypoint of a submitted job?"""
    return SUBMITTED in environ


def names_cluster(environ: Mapping[str, str]) -> bool:
    """Will the run use a cluster, not a Ray of its own on this machine?"""
    return is_submitted(environ) or bool(environ.get("RAY_ADDRESS"))

"""What can be found out before a run exists: an output that no client can open, devices that this
machine lacks. Each is a `ConfigError`, so that nothing is started or written.
"""

import os
from collections.abc import Mapping

from pipeline.config import JobSettings
from pipeline.environment import names_cluster
from pipeline.errors import ConfigError
from pipeline.storage import open_filesystem


def check_output(settings: JobSettings) -> None:
    """Raises `ConfigError` where the output's protocol or its storage options are wrong."""
    try:
        open_filesystem(settings.output, settings.storage)
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(
            f"output = {settings.output!r}: cannot be opened: {error}; use a folder or an URL such "
            "as s3://bucket/captions, with its options under `storage`"
        ) from error


def check_devices(settings: JobSettings, environ: Mapping[str, str] = os.environ) -> None:
    """Raises `ConfigError` for GPUs that the local machine lacks, if the run would be local.

    A cluster is not asked: it may have GPUs where the driver has none, or add them on demand.
    """
    if names_cluster(environ):
        return
    import torch  # noqa: PLC0415  # a job with nothing to do must not pay for it

    gpus = torch.cuda.device_count()
    wanted = settings.caption.num_gpus
    if wanted > gpus:
        raise ConfigError(
            f"caption.num_gpus = {wanted:g}: this machine has {gpus}, and no cluster is named "
            "(RAY_ADDRESS); set 0 to caption on CPUs"
        )
    if settings.models.device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"models.device = {settings.models.device!r}: torch finds no CUDA device here, and no "
            'cluster is named (RAY_ADDRESS); expected "auto" or "cpu"'
        )

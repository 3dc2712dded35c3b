"""One local Ray for all pipeline tests: starting it costs more than most of them."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from moto.server import ThreadedMotoServer

from pipeline.cluster import connect

# Examples take as long as a busy machine lets them; the suite's own timeout guards against hangs.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    with connect():
        yield


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3 server over real HTTP; tests make buckets of their own."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()

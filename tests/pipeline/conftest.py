"""One local Ray for all pipeline tests: starting it costs more than most of them."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from pipeline.cluster import connect

# Examples take as long as a busy machine lets them; the suite's own timeout guards against hangs.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    with connect():
        yield

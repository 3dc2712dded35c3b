"""One local Ray for all pipeline tests: starting it costs more than most of them."""

from collections.abc import Iterator

import pytest

from pipeline.cluster import connect


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    with connect():
        yield

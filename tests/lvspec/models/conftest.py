"""One tiny random model per family, and requests in its frame size."""

import pytest
import torch

from lvspec.models import FAMILIES, VideoModel
from lvspec.types import Request
from tests.lvspec import tiny


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request: pytest.FixtureRequest) -> tiny.Family:
    """A supported family without a builder fails here: every one has to pass the proofs."""
    return tiny.FAMILIES[request.param]


@pytest.fixture(scope="module")
def target(family: tiny.Family) -> VideoModel:
    return family.make(0, layers=3)


@pytest.fixture(scope="module")
def requests(family: tiny.Family) -> list[Request]:
    """Five, for fewer slots; ragged in frames, sizes and prompts."""
    return tiny.requests(5, side=family.side, most=family.most)

"""Relevance against a direct transcription of its definition."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec.relevance import VisualMemory, append, relevance, visual_states


def by_hand(state: np.ndarray, visual: np.ndarray, top: int) -> float:
    cosines = [float(state @ v / (np.linalg.norm(state) * np.linalg.norm(v))) for v in visual]
    return float(np.mean(sorted(cosines, reverse=True)[:top]))


@given(st.integers(1, 12), st.integers(0, 2**31 - 1))
def test_mean_of_the_largest_cosines(top, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 9, 2)
    states = rng.standard_normal((2, 3, 5)).astype(np.float32)
    videos = [rng.standard_normal((n, 5)).astype(np.float32) for n in counts]
    memory = VisualMemory(slots=2)
    for slot, video in enumerate(videos):
        memory.admit(slot, torch.from_numpy(video))
    scores = memory.score(torch.from_numpy(states), top)
    for row in range(2):
        for slot in range(3):
            expected = by_hand(states[row, slot], videos[row], top)
            assert abs(float(scores[row, slot]) - expected) < 1e-5


def test_padding_is_never_relevant():
    visual = visual_states(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    states = torch.tensor([[[0.0, 1.0]]])
    one = relevance(states, visual, torch.tensor([1]), top=2)
    both = relevance(states, visual, torch.tensor([2]), top=2)
    assert one.item() == 0.0  # only the first, orthogonal state is real
    assert both.item() == 0.5


def test_memory_follows_moved_slots():
    memory = VisualMemory(slots=2)
    memory.admit(0, torch.tensor([[1.0, 0.0]]))
    memory.admit(1, torch.tensor([[0.0, 2.0], [0.0, 1.0], [1.0, 0.0]]))
    memory.move(1, 0)
    assert memory.score(torch.tensor([[[0.0, 3.0]]]), 2).item() == 1.0


@given(st.integers(1, 8), st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2)))
def test_appending_keeps_the_latest_of_each_row(window, rounds):
    """Against lists: two rows take 0 to 3 of 3 values a round; infinite in front while short."""
    recent = torch.full((2, window), torch.inf)
    lists: list[list[float]] = [[], []]
    for number, counts in enumerate(rounds):
        scores = torch.tensor([[10.0 * number + i, 10.0 * number + i + 0.5] for i in range(3)]).T
        recent = append(recent, scores, torch.tensor(counts))
        for row, count in enumerate(counts):
            lists[row] += scores[row, :count].tolist()
    for row, values in enumerate(lists):
        latest = values[-window:]
        assert recent[row, window - len(latest) :].tolist() == latest
        assert recent[row, : window - len(latest)].isinf().all()

"""What counts as a loop, over token ids."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.captioning.loops import LEAST, TIMES, is_degenerate

ids = st.lists(st.integers(0, 50), max_size=60)


@given(ids, st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(0, 29))
def test_what_ends_in_repetition_loops_wherever_it_is_cut(
    before: list[int], phrase: list[int], cut: int
) -> None:
    times = max(TIMES, -(-LEAST // len(phrase)))
    assert is_degenerate([*before, *phrase * times, *phrase[: cut % len(phrase)]])


@given(st.lists(st.integers(), unique=True, max_size=200).map(lambda x: [n % 2**40 for n in x]))
def test_words_that_are_all_new_do_not(tokens: list[int]) -> None:
    assert not is_degenerate(list(dict.fromkeys(tokens)))


@given(st.integers(0, 9), st.integers(1, LEAST - 1), st.integers(0, 30))
def test_what_is_short_does_not(word: int, times: int, before: int) -> None:
    """Six times "very", a list of numbers."""
    assert not is_degenerate([*range(100, 100 + before + times), *[word] * times][-LEAST + 1 :])


def test_the_same_sentence_twice_is_no_loop() -> None:
    sentence = list(range(20))
    assert not is_degenerate([*range(50, 60), *sentence, *sentence])


def test_a_loop_in_the_middle_of_a_text() -> None:
    assert is_degenerate([*range(50, 60), *[1, 2, 3] * 40, *range(70, 80)])


@given(ids)
def test_any_ids_are_judged(tokens: list[int]) -> None:
    assert is_degenerate(tokens) in (True, False)

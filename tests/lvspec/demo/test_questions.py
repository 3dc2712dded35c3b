"""Questions about scenes: their form, and that their answers are the scenes' facts."""

from itertools import islice

import numpy as np

from lvspec.demo import heldout
from lvspec.demo.facts import FACT_WORDS, KIND, truth
from lvspec.demo.questions import LETTERS, ask


def test_each_question_has_one_right_option_of_four_of_one_kind() -> None:
    letters: list[str] = []
    for number, scene in enumerate(islice(heldout(5), 60)):
        questions = ask(np.random.default_rng(number), scene)
        assert len({q.fact for q in questions}) == len(questions) >= 5
        for question in questions:
            assert question.word == truth(scene)[question.fact]
            assert len(set(question.options)) == 4
            assert {KIND[word] for word in question.options} == {KIND[question.word]}
            letters.append(question.answer)
    shares = [letters.count(letter) / len(letters) for letter in LETTERS]
    assert all(0.2 < share < 0.3 for share in shares)  # a quarter each, of some 350
    assert all(len(FACT_WORDS[KIND[w]]) >= 4 for w in ("red", "ring", "left", "grows", "black"))


def test_the_prompt_is_worded_as_video_mme_words_it() -> None:
    scene = next(heldout(5))
    question = ask(np.random.default_rng(0), scene)[0]
    first, asked, *options, last = question.prompt().split("\n")
    assert first.endswith("Respond with only the letter (A, B, C, or D) of the correct option.")
    assert (asked, last) == (question.text, "The best answer is:")
    assert options == list(question.lines())
    assert [option[:3] for option in options] == ["A. ", "B. ", "C. ", "D. "]

"""The host's bookkeeping: cutting at end tokens and limits, and counting what was emitted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lvspec.table import Table, emit
from lvspec.types import REASONS

EOS = np.array([7, 8])
EXACT, LOOSE, SHIFT, TARGET = range(4)


def row(drafted, following, accepted, reasons=None, room=100):
    reasons = reasons or [EXACT] * len(drafted)
    block = emit(
        np.array([drafted]),
        np.array([following]),
        np.array([accepted]),
        np.array([reasons]),
        EOS,
        np.array([room]),
    )
    count = int(block.counts[0])
    tokens = block.tokens[0, :count].tolist()
    return tokens, block.reasons[0, :count].tolist(), int(block.accepted[0]), bool(block.ended[0])


def test_prefix_then_the_targets_token():
    assert REASONS[TARGET] == "target"
    assert row([1, 2, 3], 9, 2) == ([1, 2, 9], [EXACT, EXACT, TARGET], 2, False)
    assert row([1, 2, 3], 9, 0) == ([9], [TARGET], 0, False)


def test_an_end_token_cuts_the_block_and_is_counted():
    assert row([1, 7, 3], 9, 3) == ([1, 7], [EXACT, EXACT], 2, True)
    assert row([1, 2, 3], 8, 3) == ([1, 2, 3, 8], [EXACT, EXACT, EXACT, TARGET], 3, True)


def test_an_end_token_beyond_the_prefix_does_not_end():
    assert row([1, 7, 3], 9, 1) == ([1, 9], [EXACT, TARGET], 1, False)


def test_the_limit_cuts_before_an_end_token_behind_it():
    assert row([1, 2, 7], 9, 3, room=2) == ([1, 2], [EXACT, EXACT], 2, False)
    assert row([1, 7, 3], 9, 3, room=2) == ([1, 7], [EXACT, EXACT], 2, True)


def test_plain_decoding_emits_the_targets_token():
    assert row([], 5, 0) == ([5], [TARGET], 0, False)


@given(st.data())
def test_table_holds_the_concatenation_of_all_blocks(data):
    slots, length = 3, 4
    table = Table(slots)
    limit = data.draw(st.integers(1, 200))
    for slot in range(slots):
        table.admit(slot, last_prompt_token=50 + slot, first_token=60 + slot, limit=limit)
    said = [[60 + slot] for slot in range(slots)]
    drafted_ids = st.lists(st.integers(0, 6), min_size=length, max_size=length)
    for _ in range(data.draw(st.integers(1, 8))):
        room = limit - table.generated
        if (room < 1).any():
            break
        drafted = np.array([data.draw(drafted_ids) for _ in range(slots)])
        accepted = np.array([data.draw(st.integers(0, length)) for _ in range(slots)])
        reasons = np.full((slots, length), LOOSE)
        block = emit(drafted, np.full(slots, 6), accepted, reasons, EOS, room)
        finished = table.commit(block, length, 0.5)
        for slot in range(slots):
            whole = [*drafted[slot, : accepted[slot]].tolist(), 6]
            said[slot] += whole[: room[slot]]
            assert finished[slot] == (len(said[slot]) >= limit)
    for slot in range(slots):
        assert table.said(slot).tolist() == said[slot]
        two = ([50 + slot, *said[slot]])[-2:]
        assert table.tail(slots)[slot].tolist() == two
        assert table.loose[slot] == table.accepted[slot]
        assert table.emitted_at[slot].sum() == len(said[slot]) - 1
    table.move(2, 0)
    assert table.said(0).tolist() == said[2]
    table.admit(2, 1, 2, limit=5)
    assert table.said(0).tolist() == said[2]
    assert table.rounds[2] == 0 and table.decode_s[2] == 0

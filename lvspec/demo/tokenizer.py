"""The pair's tokenizer: a stock `Qwen2Tokenizer` whose byte-pair merges come from the caption
grammar.

Every fact word is one token. Target and draft share it. Belongs here: vocabulary and chat template
only.
"""

from __future__ import annotations

import json

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

from lvspec.demo.captions import PROMPT, caption
from lvspec.demo.facts import KIND
from lvspec.demo.scenes import sample_scene
from lvspec.demo.wordings import WORDINGS

VOCABULARY = 1024
EOS = "<|im_end|>"
PAD = "<|endoftext|>"
VIDEO = "<|video_pad|>"
SPECIAL = (
    PAD,
    "<|im_start|>",
    EOS,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    VIDEO,
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build() -> Qwen2Tokenizer:
    """Trains the tokenizer; the same every time."""
    rng = np.random.default_rng(7)
    corpus = [caption(rng, sample_scene(rng)) for _ in range(6000)]
    words = [w for _, wordings in WORDINGS.values() for w in wordings] + list(KIND)
    corpus += [f"A {w} {w}s {w}" for w in words] * 30
    corpus += [f"user\n{PROMPT}\nassistant\nsystem\n"] * 200
    pieces = Tokenizer(models.BPE())
    stock = Qwen2Tokenizer()._tokenizer  # pyright: ignore[reportPrivateUsage]  # its own splitting and normalising rules
    pieces.pre_tokenizer = stock.pre_tokenizer
    pieces.normalizer = stock.normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - 9,  # nine stay free for later prompt forms
        min_frequency=10,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    pieces.train_from_iterator(corpus, trainer)
    model = json.loads(pieces.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=model["vocab"],
        # pairs of pieces, which transformers types as text
        merges=[tuple(m) for m in model["merges"]],  # pyright: ignore[reportArgumentType]
        eos_token=EOS,
        pad_token=PAD,
        additional_special_tokens=list(SPECIAL),
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def token_id(tokenizer: Qwen2Tokenizer, token: str) -> int:
    """The id of one special token."""
    found = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found


def fact_ids(tokenizer: Qwen2Tokenizer) -> dict[str, int]:
    """Fact word -> its one token (as it stands after a space)."""
    found: dict[str, int] = {}
    for word in KIND:
        ids = tokenizer(" " + word)["input_ids"]
        if len(ids) != 1:
            raise ValueError(f"{word!r} takes {len(ids)} tokens; fact words must take one")
        found[word] = ids[0]
    return found

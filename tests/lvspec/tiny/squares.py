"""Tiny models with one frame size: LLaVA-OneVision, InternVL, SmolVLM.

Chat templates as the published checkpoints have them, as far as one video and one text go.
"""

from functools import cache
from typing import Any

import transformers as hf
from tokenizers.processors import TemplateProcessing

from lvspec.models.internvl import InternVL
from lvspec.models.llava_onevision import LlavaOnevision
from lvspec.models.smolvlm import SmolVLM
from tests.lvspec.tiny import parts

LLAVA_SIDE, INTERN_SIDE, SMOL_SIDE = 21, 28, 32

_LLAVA_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}<video>"
    "{% endfor %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ '\n' + content['text'] }}{% endfor %}{{'<|im_end|>'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_INTERN_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
    "{% for content in message['content'] %}{% if content['type'] == 'video' %}{{ '<video>\n' }}"
    "{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}{% endfor %}"
    "{{'<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}"
)


@cache
def _llava_processor() -> Any:
    special = ["<|endoftext|>", "<|im_end|>", "<|im_start|>", "<image>", "<video>"]
    size = {"height": LLAVA_SIDE, "width": LLAVA_SIDE}
    return hf.LlavaOnevisionProcessor(
        image_processor=hf.LlavaOnevisionImageProcessor(size=size),
        tokenizer=parts.tokenizer(special),
        video_processor=hf.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=9,  # 3 x 3 patches, an odd side as in the real ones' 27 x 27
        vision_feature_select_strategy="full",
        chat_template=_LLAVA_TEMPLATE,
    )


@cache
def _intern_processor() -> Any:
    special = ["<|endoftext|>", "<|im_end|>", "<|im_start|>"]
    size = {"height": INTERN_SIDE, "width": INTERN_SIDE}
    return hf.InternVLProcessor(
        image_processor=hf.GotOcr2ImageProcessor(size=size),
        tokenizer=parts.tokenizer(
            special,
            start_image_token="<img>",
            end_image_token="</img>",
            context_image_token="<IMG_CONTEXT>",
            video_token="<video>",
        ),
        video_processor=hf.InternVLVideoProcessor(size=size),
        image_seq_length=4,
        chat_template=_INTERN_TEMPLATE,
    )


@cache
def _smol_processor() -> Any:
    special = ["<|endoftext|>", "<end_of_utterance>", "<|im_start|>", "<video>"]
    special += ["<image>", "<fake_token_around_image>", "<global-img>"]
    tokenizer = parts.tokenizer(special)
    # the template writes the first token, and as in Llama's the tokenizer would, too: not twice
    tokenizer.bos_token = "<|im_start|>"
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", tokenizer.bos_token_id)]
    )
    side = {"longest_edge": SMOL_SIDE}
    return hf.SmolVLMProcessor(
        image_processor=hf.SmolVLMImageProcessor(size=side, max_image_size=side),
        tokenizer=tokenizer,
        video_processor=hf.SmolVLMVideoProcessor(size=side, max_image_size=side),
        image_seq_len=4,
    )


def llava_onevision(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> LlavaOnevision:
    made = _llava_processor()
    text = parts.text_config(made.tokenizer, hidden, layers, extra_vocab)
    config = hf.LlavaOnevisionConfig(
        text_config={"model_type": "qwen2", **text},
        vision_config={
            "model_type": "siglip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 32,
            "patch_size": 7,
            "image_size": LLAVA_SIDE,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "vision_use_head": False,
        },
        image_token_index=made.image_token_id,
        video_token_index=made.video_token_id,
    )
    model = hf.LlavaOnevisionForConditionalGeneration
    return parts.finished(LlavaOnevision, seed, model, config, made, generation)


def internvl(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> InternVL:
    made = _intern_processor()
    text = parts.text_config(made.tokenizer, hidden, layers, extra_vocab)
    config = hf.InternVLConfig(
        text_config={"model_type": "qwen2", **text},
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 32,
            "patch_size": [7, 7],
            "image_size": [INTERN_SIDE, INTERN_SIDE],
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "initializer_range": 0.2,
        },
        image_token_id=made.image_token_id,
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    model = hf.InternVLForConditionalGeneration
    return parts.finished(InternVL, seed, model, config, made, generation)


def smolvlm(
    seed: int, *, layers: int = 2, hidden: int = 48, extra_vocab: int = 5, **generation: Any
) -> SmolVLM:
    made = _smol_processor()
    text = parts.text_config(made.tokenizer, hidden, layers, extra_vocab)
    config = hf.SmolVLMConfig(
        text_config={"model_type": "llama", **text},
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 32,
            "patch_size": 8,
            "image_size": SMOL_SIDE,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "initializer_range": 0.2,
        },
        image_token_id=made.image_token_id,
        scale_factor=2,
    )
    model = hf.SmolVLMForConditionalGeneration
    return parts.finished(SmolVLM, seed, model, config, made, generation)

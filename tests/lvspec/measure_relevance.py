"""What relevance and policy cost at real widths: `python -m tests.lvspec.measure_relevance`.

One decoder layer of Qwen2.5-VL-32B (of its 64) reads a block of 11 tokens behind 16,384 video
tokens, then the block is scored and judged. float32 on one thread; about 8 GiB.
"""

import time

import torch

from lvspec.benchmark.shape import SHAPES, Text, build
from lvspec.config import Lvspec
from lvspec.policies import POLICIES, Evidence
from lvspec.relevance import VisualMemory
from lvspec.slots import SlotModel

VIDEO, DRAFT = 16384, 10


@torch.inference_mode()
def main() -> None:
    torch.set_num_threads(1)
    real = SHAPES["qwen2.5-vl-32b"][0]
    one = Text(1, real.width, real.feed_forward, real.heads, real.kv_heads, vocabulary=1000)
    model = build(one, torch.device("cpu"), torch.float32)
    slots, memory, policy = SlotModel(model, 1), VisualMemory(1), Lvspec()
    slots.reserve(VIDEO + 64)
    memory.admit(0, torch.randn(VIDEO, real.width))
    block = torch.zeros(1, DRAFT + 1, dtype=torch.int64)
    logits = torch.randn(1, DRAFT + 1, real.vocabulary)
    special = torch.zeros(real.vocabulary, dtype=torch.bool)
    layer_s, judged_s = [], []
    for _ in range(9):
        slots.lengths[:] = VIDEO  # what the cache holds does not matter for the time
        began = time.perf_counter()
        hidden = slots.extend(1, block)
        read = time.perf_counter()
        scores = memory.score(hidden[:, :-1], policy.relevance_top)
        evidence = Evidence(block[:, 1:], logits, logits.argmax(-1), scores, special)
        POLICIES[Lvspec](evidence, policy)
        layer_s.append(read - began)
        judged_s.append(time.perf_counter() - read)
    layer, judged = sorted(layer_s)[4], sorted(judged_s)[4]
    share = judged / (real.layers * layer)
    print(
        f"one layer {layer * 1e3:.0f} ms, relevance and policy {judged * 1e3:.0f} ms: {share:.2%}"
    )


if __name__ == "__main__":
    main()

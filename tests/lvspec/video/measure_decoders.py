"""Measure the decoders on the corpus of odd videos: python tests/lvspec/video/measure_decoders.py

Prints the table of docs/decoders.md: per healthy file and decoder right, wrong (and by how many
frames) or the error's code, with CPU time. One process, one thread.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.lvspec.video import odd_cases

DECODERS = ("pyav", "decord")


def main() -> None:
    files = odd_cases.names("healthy")
    if not files:
        raise SystemExit(f"no corpus at {odd_cases.FOLDER}")
    print("| file | " + " | ".join(DECODERS) + " |")
    print("|---" * (1 + len(DECODERS)) + "|")
    verdicts = {d: [odd_cases.judge(name, d) for name in files] for d in DECODERS}
    for i, name in enumerate(files):
        cells = [_cell(verdicts[d][i]) for d in DECODERS]
        if any(verdicts[d][i].outcome != "right" for d in DECODERS):
            print(f"| {name} | " + " | ".join(cells) + " |")
    for d in DECODERS:
        right = sum(v.outcome == "right" for v in verdicts[d])
        cpu_s = sorted(v.cpu_s for v in verdicts[d])
        median_ms, total_s = cpu_s[len(cpu_s) // 2] * 1000, sum(cpu_s)
        print(f"{d}: {right} of {len(files)} right, CPU {median_ms:.0f} ms median, {total_s:.2f} s")


def _cell(verdict: odd_cases.Verdict) -> str:
    if verdict.outcome != "wrong":
        return verdict.outcome
    off = "unreadable or turned" if verdict.worst >= 10_000 else f"{verdict.worst} frames off"
    return f"**wrong**: {off}"


if __name__ == "__main__":
    main()

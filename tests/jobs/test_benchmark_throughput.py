"""The command, once for real with logical GPUs, and its refusals."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.benchmark_throughput import main

JOB = Path(__file__).resolve().parents[2] / "jobs" / "benchmark_throughput.py"


@pytest.mark.slow
def test_scheduling_measures_the_products_plan_on_logical_gpus() -> None:
    """In a process of its own: its Ray has GPUs that this machine lacks."""
    command = [sys.executable, str(JOB), "scheduling", "--rows", "24", "--actors", "2"]
    command += ["--slots", "2", "--median", "0.1", "--p99-ratio", "2", "--slow", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    (point,) = json.loads(done.stdout.splitlines()[-1])
    assert (point["rows"], point["actors"], point["slots"]) == (24, 2, 2)
    assert 0.5 < point["ideal_s"] <= point["window_s"]
    shares = [point[key] for key in ("busy", "ramp", "gaps", "tail")]
    assert sum(shares) == pytest.approx(1.0)
    assert all(-1e-6 <= share <= 1 for share in shares)


def test_no_measure_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "MEASURE" in capsys.readouterr().err

"""The command `lvspec`: every word reaches its script, with its arguments and its name."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs import cli
from tests.pipeline.videos import write_video


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_video(tmp_path / "videos" / "a.mp4", brightness=50)
    path = tmp_path / "job.yaml"
    path.write_text(f"source: {{prefix: {tmp_path / 'videos'}}}\noutput: {tmp_path / 'out'}\n")
    return path


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_under_its_own_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([*name.split(), "--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: lvspec {name} [-h]")


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    said = capsys.readouterr().out
    assert all(word in said for name in cli.COMMANDS for word in name.split())


def test_plan_config_and_resume_do_their_jobs(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", "--config", str(config)]) == 0
    assert "1 would be captioned" in capsys.readouterr().out
    assert cli.main(["config", "check", "--config", str(config)]) == 0
    assert "settings, models and output can be used" in capsys.readouterr().out
    assert cli.main(["config", "show", "--config", str(config)]) == 0
    assert "loose_share: 0.7" in capsys.readouterr().out
    assert cli.main(["resume", "--config", str(config)]) == 0
    assert "nothing to resume" in capsys.readouterr().err
    assert not (config.parent / "out" / "runs").exists()


def test_codes_to_retry_follow_the_command(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["retry-failed", "no_such_code", "--config", str(config)])
    assert stop.value.code == 2
    assert "no such error code: no_such_code" in capsys.readouterr().err


def test_a_bad_config_keeps_its_exit_code(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--config", str(config), "--set", "models.target=/no/such/folder"]
    assert cli.main(["config", "check", *given]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert cli.main(["verify", str(config.parent / "out")]) == 2


def test_an_unknown_word_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["captoin"])
    assert stop.value.code == 2
    assert "retry-failed" in capsys.readouterr().err


def test_bash_completes_commands_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    asked = (
        'COMP_WORDS=(lvspec run --ret); COMP_CWORD=2; _shtab_lvspec; echo "${COMPREPLY[@]}"; '
        'COMP_WORDS=(lvspec ver); COMP_CWORD=1; _shtab_lvspec; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["--retry-failed", "verify"]


def test_the_overview_waits_for_no_model_library() -> None:
    code = (
        "import sys; from jobs import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(any(m in sys.modules for m in ('torch', 'ray', 'transformers')))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0

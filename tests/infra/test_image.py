"""The image's install steps, run in a clean folder: no container engine is needed, pip is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.tree import ROOT, copy_tree

pytestmark = pytest.mark.slow


def steps() -> list[tuple[str, str]]:
    """COPY and RUN of the Dockerfile behind USER: what needs no root."""
    text = (ROOT / "infra" / "Dockerfile").read_text().partition("USER ")[2]
    joined = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found = re.findall(r"^(COPY|RUN) (.+)$", joined, re.MULTILINE)
    return [(kind, rest.removeprefix("--chown=lvspec:lvspec ")) for kind, rest in found]


@pytest.mark.timeout(1800)
def test_its_steps_install_a_job_that_runs(tmp_path: Path) -> None:
    context, app, venv = (tmp_path / name for name in ("context", "app", "venv"))
    copy_tree(context)
    app.mkdir()
    kept = {key: os.environ[key] for key in os.environ if key.startswith(("PIP_", "HOME"))}
    environ = {**kept, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for kind, rest in steps():
        if kind == "RUN":
            line = rest.replace("/opt/venv", str(venv)).replace("python3", sys.executable)
            subprocess.run(line, shell=True, cwd=app, env=environ, check=True)
            continue
        *names, target = rest.split()
        for name in names:
            if (context / name).is_dir():
                shutil.copytree(context / name, app / target)
            else:
                shutil.copy(context / name, app / target)
    assert sorted(path.name for path in app.iterdir() if path.is_dir()) == ["configs", "jobs"]
    python = str(venv / "bin" / "python")
    demo = [python, str(app / "jobs" / "make_demo_corpus.py"), "--clips", "2"]
    subprocess.run(demo, cwd=tmp_path, env=environ, check=True)
    job = [python, str(app / "jobs/caption_corpus.py"), "--config", str(app / "configs/demo.yaml")]
    job += ["--set", "run.max_error_share=1"]
    done = subprocess.run(
        job, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 / 2" in done.stdout

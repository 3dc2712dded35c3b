"""What `ray job submit --working-dir .` uploads, by Ray's own packaging."""

import zipfile

import pytest

from tests.jobs.tree import copy_tree

LIMIT = 45 * 1024 * 1024  # Ray refuses 100 MB


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Files of the package and their packed sizes, with a demo corpus and an output beside the
    code.
    """
    from ray._private.runtime_env.packaging import create_package

    folder = tmp_path_factory.mktemp("upload")
    tree = copy_tree(folder / "tree")
    for name in (
        "demo_corpus/a.mp4",
        "demo_output/b.parquet",
        ".venv/bin/python",
        "build/c",
        "x.log",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(b"x")
    package = folder / "package.zip"
    create_package(str(tree), package, include_gitignore=True)
    with zipfile.ZipFile(package) as archive:
        return {info.filename: info.compress_size for info in archive.infolist()}


def test_it_stays_small(names: dict[str, int]) -> None:
    largest = sorted(names, key=names.__getitem__)[-3:]
    assert sum(names.values()) < LIMIT, f"the largest files are {largest}"


def test_it_holds_what_the_job_needs(names: dict[str, int]) -> None:
    needed = [
        "jobs/caption_corpus.py",
        "pipeline/build.py",
        "lvspec/engine.py",
        "configs/demo.yaml",
    ]
    assert set(needed) <= names.keys()
    assert "demo_corpus/a.mp4" in names  # so that configs/demo.yaml works as submitted


def test_it_leaves_out_what_it_does_not_need(names: dict[str, int]) -> None:
    left_out = (
        "demo_output/b.parquet",
        ".venv/bin/python",
        "build/c",
        "x.log",
        "tests/__init__.py",
    )
    assert not names.keys() & set(left_out)

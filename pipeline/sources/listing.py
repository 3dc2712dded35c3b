"""Files below a folder or prefix, one by one: a listing is never held as a whole.

Local folders are read name by name, S3 in pages of the whole prefix (fewer requests than folder by
folder), other storage folder by folder, each of which its client holds while it is read.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

# fsspec brings no types
from fsspec.implementations.local import LocalFileSystem  # pyright: ignore[reportMissingTypeStubs]

PAGE = 1000  # objects of an S3 answer, which is asked for again by itself if it fails

File = tuple[str, Mapping[str, Any] | None]
"""Path inside the filesystem, and what the listing says of it: None for a link to nowhere."""


def list_files(fs: Any, root: str) -> Iterator[File]:
    """Every file below `root`. Raises what the client raises for any folder that it cannot list."""
    if isinstance(fs, LocalFileSystem):
        return _list_local(fs, root)
    if hasattr(fs, "call_s3"):  # s3fs
        return _list_pages(fs, root)
    return _list_folders(fs, root)


def _list_local(fs: Any, root: str) -> Iterator[File]:
    folders: list[tuple[str, tuple[str, ...]]] = [(root, ())]  # with the links that led there
    while folders:
        folder, linked = folders.pop()
        below: list[tuple[str, tuple[str, ...]]] = []
        for name in sorted(os.listdir(folder)):  # noqa: PTH208  # names only: a million fit
            path = f"{folder.rstrip('/')}/{name}"
            try:
                info = fs.info(path)  # of what a link points to
            except FileNotFoundError:
                yield path, None
                continue
            if info["type"] != "directory":
                yield path, info
            elif not info["islink"]:
                below.append((path, linked))
            elif not _is_loop(path, (folder, *linked)):
                below.append((path, (*linked, folder)))
        folders += reversed(below)


def _is_loop(link: str, on_the_way: tuple[str, ...]) -> bool:
    """Does a link lead back to a folder on the way to it?"""
    target = os.path.realpath(link)
    places = [os.path.realpath(folder) for folder in on_the_way]
    return any(f"{place}/".startswith(f"{target.rstrip('/')}/") for place in places)


def _list_pages(fs: Any, root: str) -> Iterator[File]:
    bucket, key, _ = fs.split_path(root)
    asked = {"Bucket": bucket, "Prefix": f"{key.rstrip('/')}/" if key else "", "MaxKeys": PAGE}
    after: dict[str, str] = {}
    while True:
        page: Mapping[str, Any] = fs.call_s3("list_objects_v2", **asked, **after)
        for item in page.get("Contents", ()):
            if not item["Key"].endswith("/"):  # a console's marker of an empty folder
                name = f"{bucket}/{item['Key']}"
                yield name, {**item, "name": name, "size": item["Size"], "type": "file"}
        if not page.get("IsTruncated"):
            return
        after = {"ContinuationToken": page["NextContinuationToken"]}


def _list_folders(fs: Any, root: str) -> Iterator[File]:
    folders = [root]
    while folders:
        folder = folders.pop()
        below: list[str] = []
        for info in sorted(fs.ls(folder, detail=True), key=lambda info: info["name"]):
            if info["type"] != "directory":
                yield info["name"], info
            elif info["name"].rstrip("/") != folder.rstrip("/"):
                below.append(info["name"])
        folders += reversed(below)

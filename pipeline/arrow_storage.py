"""Remote storage as pyarrow and Ray Data take it.

pyarrow's own handler for fsspec asks `isfile`, `isdir` and `find`, which take a storage that fails
for one that holds nothing: rows would go missing in silence. Here what is not there is told apart
from what did not answer. A file is written in one piece when it is closed: whole or not at all, and
so again if it failed.
"""

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs

from pipeline.remote import RemoteFileSystem

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")  # a folder is a part of a name


class StorageHandler(pyarrow.fs.FileSystemHandler):  # pyright: ignore[reportUntypedBaseClass]
    """What `pyarrow.fs.PyFileSystem` calls; paths are inside `fs`."""

    def __init__(self, fs: RemoteFileSystem) -> None:
        self.fs = fs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageHandler) and self.fs.__reduce__() == other.fs.__reduce__()

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # options are mappings

    def get_type_name(self) -> str:
        return f"retried+{self.fs.protocol}"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pyarrow.fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[Any]:
        found: list[Any] = []
        folders = [selector.base_dir]
        while folders:
            folder = folders.pop()
            try:
                infos = self.fs.ls(folder, detail=True)
            except FileNotFoundError:
                if folder == selector.base_dir and not selector.allow_not_found:
                    raise
                continue
            for info in infos:
                if info["name"].strip("/") == folder.strip("/"):
                    continue  # the folder itself, as some stores list it
                found.append(_file_info(info["name"].rstrip("/"), info))
                if selector.recursive and info["type"] == "directory":
                    folders.append(info["name"])
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        if self.fs.protocol not in OBJECT_STORES:
            self.fs.makedirs(path, exist_ok=True)

    def delete_dir(self, path: str) -> None:
        with suppress(FileNotFoundError):  # a try before this one has done it
            self.fs.rm(path, recursive=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        selector = pyarrow.fs.FileSelector(path, allow_not_found=missing_dir_ok)
        for info in self.get_file_info_selector(selector):
            self.delete_dir(info.path)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("nothing deletes a whole storage")

    def delete_file(self, path: str) -> None:
        if self._info(path).type == pyarrow.fs.FileType.NotFound:
            raise FileNotFoundError(path)
        with suppress(FileNotFoundError):
            self.fs.rm_file(path)

    def move(self, src: str, dest: str) -> None:
        """Copy and delete, each repeated by itself: repeating both would miss a source that is gone
        already.
        """
        self.copy_file(src, dest)
        with suppress(FileNotFoundError):
            self.fs.rm_file(src)

    def copy_file(self, src: str, dest: str) -> None:
        self.fs.cp_file(src, dest)

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(self.fs.open(path), mode="r")

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(self.fs.open(path), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        return pa.PythonFile(_Upload(lambda data: self.fs.pipe_file(path, data)), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        raise NotImplementedError("no object store appends")

    def _info(self, path: str) -> pyarrow.fs.FileInfo:
        try:
            return _file_info(path, self.fs.info(path))
        except FileNotFoundError:
            return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.NotFound)


def _file_info(path: str, info: Any) -> pyarrow.fs.FileInfo:
    if info["type"] == "directory":
        return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.Directory)
    return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.File, size=info["size"])


class _Upload(io.BytesIO):
    """Gathers what is written, and hands it over when closed."""

    def __init__(self, put: Callable[[bytes], object]) -> None:
        super().__init__()
        self._put = put

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()  # first: a put that failed is not made again by the garbage collector
            self._put(data)

    def __del__(self) -> None:
        """Nothing: what was not closed was not meant to be read."""

"""What /proc says of this process's children and files."""

import os
from pathlib import Path


def children(pid: int | None = None) -> dict[int, str]:
    """Child processes and their states; "Z" is a zombie."""
    parent = os.getpid() if pid is None else pid
    found: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended while we looked
            continue
        if int(fields[1]) == parent:
            found[int(stat.parent.name)] = fields[0]
    return found


def num_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))

"""What runs in the decoder process: one clip at a time, its frames written straight into the memory
that the job names.

This process starts again after every file that had to be killed, so its imports are few: no torch,
no Ray, no pyarrow.
"""

import ctypes
import gc
import os
import resource
import signal
import sys

from pipeline.decoding.cut import CutJob, Cuts, cut
from pipeline.decoding.memory import writer
from pipeline.decoding.types import Decoded, Failed, Job, failed
from pipeline.storage import open_video

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def prepare(parent: int) -> None:
    """Make this process easy to kill, and unable to outlive `parent`, even while it hangs in C."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a handler in Python would wait for the C code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a thousand crashes would fill a disk
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    gc.freeze()  # what was imported is not looked at again by the collections in `decode`
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def decode(job: Job) -> Decoded | Failed:
    """Whatever is raised becomes a code here: exceptions of storage clients do not all pickle."""
    try:
        with open_video(job.uri, job.storage, job.part) as source:
            clip = job.read(
                source,
                job.spec,
                start_s=job.start_s,
                end_s=job.end_s,
                decoder=job.decoder,
                allocate=writer(job.memory),
            )
        count, height, width, channels = clip.frames.shape
        result = Decoded((count, height, width, channels), clip.times_s, clip.info)
    except Exception as error:
        # One odd file must not end a job of millions, whatever a decoder or a storage client
        # raises.
        result = failed(error, job.uri)
    gc.collect()  # decoders leave reference cycles that hold whole pictures
    return result


def work(job: Job | CutJob) -> Decoded | Cuts | Failed:
    """What the pool calls."""
    return decode(job) if isinstance(job, Job) else cut(job)

"""What the tests share that run whole training jobs: ends with 77 where there is no torch, finds the
example's launcher, and starts jobs beside the stand-in of their agents."""

import os
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("torch is not installed")
    sys.exit(77)

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "../../examples/training"))
from job import Job  # noqa: E402
from local_agent import LocalAgent  # noqa: E402


class JobCase(unittest.TestCase):
    """Jobs of `RANKS` ranks; all of them end with their test."""

    RANKS = 4

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)

    def start_job(self, name, *arguments, iterations, gates=(), transport="shm", ranks_per_worker=1,
              program=None):
        """A job whose output is in a folder `name`, and its agent, once all workers are there.
        `gates` are iterations at which it waits for next_gate()."""
        folder = os.path.join(self._folder.name, name)
        os.makedirs(folder)
        agent = LocalAgent(os.path.join(folder, "agent.sock"), transport)
        self.addCleanup(agent.close)
        options = {"program": os.path.join(FOLDER, program)} if program else {}
        job = Job(self.RANKS, os.path.join(folder, "out"), agent.path, "--iterations",
                  str(iterations), "--gates", *map(str, gates), *arguments,
                  ranks_per_worker=ranks_per_worker, **options)
        job.gates = list(gates)
        self.addCleanup(job.kill)
        agent.wait_for_workers(self.RANKS // ranks_per_worker)
        return job, agent

    def next_gate(self, job):
        job.open_gate(job.gates.pop(0))

    def open_all(self, job):
        while job.gates:
            self.next_gate(job)

    def result(self, job):
        """The losses and the last state of each rank, processes left out."""
        self.open_all(job)
        job.wait()
        return [([(each["iteration"], each["loss"]) for each in job.losses(rank)], job.state(rank))
                for rank in range(self.RANKS)]

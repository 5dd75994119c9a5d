"""Starts the ranks of the example and keeps the store where they meet."""

import json
import os
import subprocess
import sys

from monkeytree.collectives import tcp_store

FOLDER = os.path.dirname(os.path.abspath(__file__))


class Job:
    """The processes of one run; their output lies in `out`."""

    def __init__(self, ranks, out, agent_path, *arguments,
                 program=os.path.join(FOLDER, "train.py"), ranks_per_worker=1):
        self.ranks = ranks
        self.out = out
        os.makedirs(out, exist_ok=True)
        # Lives here, so that it stays when ranks move.
        self._store = tcp_store("127.0.0.1", 0, serve=True)
        self.processes = []
        for worker in range(ranks // ranks_per_worker):
            own = range(worker * ranks_per_worker, (worker + 1) * ranks_per_worker)
            environment = dict(os.environ, RANK=str(own[0]), WORLD_SIZE=str(ranks),
                               MONKEYTREE_RANKS=",".join(map(str, own)),
                               MONKEYTREE_WORKER=str(worker),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self._store.port),
                               MONKEYTREE_AGENT_SOCKET=agent_path, MONKEYTREE_JOB="example",
                               OMP_NUM_THREADS="1")
            command = [sys.executable, program, "--out", out, *arguments]
            self.processes.append(subprocess.Popen(command, env=environment))

    def add(self, process):
        self.processes.append(process)

    def wait(self, timeout=300):
        """Waits for all; raises where one failed."""
        for process in self.processes:
            if process.wait(timeout) != 0:
                raise RuntimeError(f"process {process.pid} ended with {process.returncode}")

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def open_gate(self, iteration):
        """Lets the ranks go on that wait before this iteration (--gates)."""
        with open(os.path.join(self.out, f"go-{iteration}"), "w"):
            pass

    def iteration(self, rank=0):
        """The last iteration that a rank has written down."""
        lines = self.losses(rank)
        return lines[-1]["iteration"] if lines else -1

    def losses(self, rank, pauses=False):
        path = os.path.join(self.out, f"rank-{rank}.jsonl")
        if not os.path.exists(path):
            return []
        with open(path) as lines:
            all_lines = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in all_lines if ("loss" in line) != pauses]

    def state(self, rank):
        with open(os.path.join(self.out, f"rank-{rank}.state.json")) as file:
            return json.load(file)

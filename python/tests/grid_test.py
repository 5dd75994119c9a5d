"""A job with tensor, pipeline and data parallelism goes on bit-identical when one of its ranks moves."""

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
from monkeytree.torch import World, rank_groups  # noqa: E402

RANKS = 8
ITERATIONS = 12


class GridTest(unittest.TestCase):
    def run_job(self, moves):
        with tempfile.TemporaryDirectory() as folder:
            agent = LocalAgent(os.path.join(folder, "agent.sock"))
            job = Job(RANKS, os.path.join(folder, "out"), agent.path, "--iterations",
                      str(ITERATIONS), "--gates", *(str(at) for at, _ in moves),
                      program=os.path.join(FOLDER, "grid_train.py"))
            try:
                agent.wait_for_workers(RANKS)
                for at, rank in moves:
                    _, process = agent.move(rank, f"m{rank}",
                                            asked=lambda gate=at: job.open_gate(gate))
                    job.add(process)
                job.wait()
                return [job.losses(rank) for rank in range(RANKS)]
            finally:
                job.kill()
                agent.close()

    def test_moves_are_bit_identical(self):
        plain, moved = self.run_job(()), self.run_job(((3, 6), (7, 1)))
        for rank in range(RANKS):
            self.assertEqual(len(plain[rank]), ITERATIONS)
            for a, b in zip(plain[rank], moved[rank]):
                self.assertEqual([a["iteration"], a["loss"], a["weights"]],
                                 [b["iteration"], b["loss"], b["weights"]], f"rank {rank}")
        self.assertEqual(len({each["pid"] for each in moved[6]}), 2)
        # It learns, and replicas hold the same.
        first, last = (float.fromhex(plain[2][i]["loss"]) for i in (0, -1))
        self.assertLess(last, first)
        self.assertEqual(plain[2][-1]["weights"], plain[6][-1]["weights"])
        self.assertNotEqual(plain[2][-1]["weights"], plain[3][-1]["weights"])

    def test_groups(self):
        self.assertEqual(rank_groups(2, 2, 2),
                         {"tensor": [[0, 1], [2, 3], [4, 5], [6, 7]],
                          "pipeline": [[0, 2], [1, 3], [4, 6], [5, 7]],
                          "data": [[0, 4], [1, 5], [2, 6], [3, 7]]})
        self.assertEqual(rank_groups(1, 1, 3)["data"], [[0, 1, 2]])
        with self.assertRaisesRegex(ValueError, "each of 4 ranks once"):
            World(0, 4, "127.0.0.1", 1, groups={"data": [[0, 1], [1, 3]]})


if __name__ == "__main__":
    unittest.main()

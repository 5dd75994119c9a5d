"""A job with tensor, pipeline and data parallelism goes on bit-identical when one of its ranks moves."""

import unittest

from harness import JobCase
from monkeytree.torch import World, rank_groups

ITERATIONS = 12


class GridTest(JobCase):
    RANKS = 8

    def run_job(self, name, moves):
        job, agent = self.start_job(name, iterations=ITERATIONS, gates=[at for at, _ in moves],
                                    program="grid_train.py")
        for _, rank in moves:
            job.add(agent.move(rank, f"m{rank}", asked=lambda: self.next_gate(job))[1])
        job.wait()
        return [job.losses(rank) for rank in range(self.RANKS)]

    def test_moves_are_bit_identical(self):
        plain, moved = self.run_job("plain", ()), self.run_job("moved", ((3, 6), (7, 1)))
        for rank in range(self.RANKS):
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

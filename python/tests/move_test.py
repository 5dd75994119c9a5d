"""Runs whose workers move are bit-identical to one that never moves: the losses of every iteration,
and at the end parameters, moments, generators, schedule and cursor of every rank."""

import unittest

from harness import JobCase
from monkeytree import StagingServer

ITERATIONS = 30
GATES = (5, 10, 15, 20)  # a move begins at each in turn, so that no test depends on speed


class MoveTest(JobCase):
    plain = {}

    def start(self, name, optimizer, gates=GATES, more=(), **options):
        return self.start_job(name, "--optimizer", optimizer, *more, iterations=ITERATIONS,
                              gates=gates, **options)

    def unmoved(self, optimizer):
        if optimizer not in MoveTest.plain:
            job, _ = self.start("unmoved-" + optimizer, optimizer, gates=())
            MoveTest.plain[optimizer] = self.result(job)
        return MoveTest.plain[optimizer]

    def check(self, job, optimizer):
        wanted, got = self.unmoved(optimizer), self.result(job)
        for rank in range(self.RANKS):
            self.assertEqual(wanted[rank][0], got[rank][0], f"losses of rank {rank}")
            different = [name for name in wanted[rank][1]
                         if wanted[rank][1][name] != got[rank][1].get(name)]
            self.assertEqual(different, [], f"state of rank {rank}")

    def move(self, job, agent, rank, migration, staging=None):
        times, process = agent.move(rank, migration, staging, lambda: self.next_gate(job))
        job.add(process)
        print(migration, {name: round(value, 3) for name, value in times.items()}, flush=True)

    def test_the_comparison_can_fail(self):
        first, second = self.unmoved("adamw"), self.unmoved("sgd")
        self.assertNotEqual(first[0][0], second[0][0])
        self.assertLess(float.fromhex(first[0][0][-1][1]), float.fromhex(first[0][0][0][1]))

    def test_several_moves_and_back(self):
        job, agent = self.start("moves", "adamw")
        self.move(job, agent, 2, "m1")
        self.move(job, agent, 0, "m2")
        self.move(job, agent, 2, "m3")
        self.check(job, "adamw")
        self.assertEqual(len({each["pid"] for each in job.losses(2)}), 3)

    def test_sharded_optimizer_over_tcp(self):
        job, agent = self.start("zero", "zero", transport="tcp")
        self.move(job, agent, 1, "m1")
        self.move(job, agent, 3, "m2")
        self.check(job, "zero")

    def test_a_ring_of_connections(self):
        plain, _ = self.start("ring-unmoved", "adamw", gates=(), more=("--reducer", "ring"))
        job, agent = self.start("ring", "adamw", more=("--reducer", "ring"))
        self.move(job, agent, 2, "m1")
        self.move(job, agent, 0, "m2")
        wanted, got = self.result(plain), self.result(job)
        self.assertEqual(wanted, got)
        self.assertNotEqual(wanted[0][0], self.unmoved("adamw")[0][0])  # another order of addition

    def test_state_comes_from_replicas(self):
        job, agent = self.start("replicas", "adamw", transport="tcp")
        job.add(agent.prepare(2, "m1"))
        agent.expect("m1")
        agent.pause("m1", lambda: self.next_gate(job))
        sent = agent.copy_from_replicas(2, "m1", (0, 1, 3))
        whole = agent.workers[2].arena.payload_bytes
        self.assertEqual(sum(sent.values()), whole)
        self.assertLess(sent[2], 300 << 10)  # generators, cursor and the mask
        self.assertLess(max(sent[0], sent[1], sent[3]), 0.4 * whole)
        agent.restore(2, "m1")
        agent.switch(2, "m1")
        self.check(job, "adamw")

    def test_workers_of_several_ranks(self):
        for ranks in (2, 4):
            job, agent = self.start(f"local-{ranks}", "adamw", ranks_per_worker=ranks)
            last = self.RANKS // ranks - 1
            self.assertEqual(agent.workers[last].hello["ranks"], ranks)
            self.move(job, agent, last, "m1")
            if ranks == 2:
                self.move(job, agent, 0, "m2")
            self.check(job, "adamw")
            for rank in range(self.RANKS):
                self.assertEqual(len({each["pid"] for each in job.losses(rank)}), 2, rank)

    def test_through_staging(self):
        server = StagingServer.start(quota_bytes=64 << 20)
        job, agent = self.start("staging", "sgd")
        self.move(job, agent, 3, "m1", staging=server.endpoints[0])
        self.assertEqual(server.used_bytes, 0)
        self.check(job, "sgd")

    def test_a_swap_through_staging(self):
        server = StagingServer.start(quota_bytes=64 << 20)
        for optimizer in ("adamw", "zero"):
            job, agent = self.start("swap-" + optimizer, optimizer)
            for process in agent.swap(1, 2, "s", server.endpoints[0],
                                      lambda job=job: self.next_gate(job)):
                job.add(process)
            self.assertEqual(server.used_bytes, 0)
            self.check(job, optimizer)
            pids = [len({each["pid"] for each in job.losses(rank)}) for rank in range(self.RANKS)]
            self.assertEqual(pids, [1, 2, 2, 1])

    def test_cancelled_moves_change_nothing(self):
        job, agent = self.start("cancel", "adamw")
        process = agent.prepare(1, "m1")
        job.add(process)
        agent.pause("m1", lambda: self.next_gate(job))
        agent.copy(1, "m1")
        agent.restore(1, "m1")
        successor = agent.successors["m1"]
        agent.cancel("m1")
        successor.say(type="cancel", migration="m1")
        # The destination is killed after the copy.
        killed = agent.prepare(2, "m2")
        agent.pause("m2", lambda: self.next_gate(job))
        agent.copy(2, "m2")
        killed.kill()
        killed.wait()
        agent.cancel("m2")
        # And a move that succeeds.
        self.move(job, agent, 1, "m3")
        self.check(job, "adamw")

    def test_pause_that_is_cancelled_before_it_stops_anybody(self):
        job, agent = self.start("race", "adamw")
        for i in range(20):
            migration = f"r{i}"
            for link in agent.workers.values():
                link.say(type="pause", migration=migration)
            agent.cancel(migration)
        self.move(job, agent, 0, "m1")
        self.check(job, "adamw")


if __name__ == "__main__":
    unittest.main()

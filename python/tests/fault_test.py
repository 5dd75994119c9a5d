"""What fails while a worker moves, at each state of the move: the job goes on bit-identical, from the
old place, or from the new one once the state is whole there."""

import queue
import signal
import subprocess
import sys
import unittest

from harm import Proxy
from harness import JobCase
from monkeytree import StagingClient, StagingServer, StateError

ITERATIONS = 18
GATES = (2, 5, 8, 11, 14)

STAGING = """
import sys
from monkeytree import StagingServer
server = StagingServer.start(quota_bytes=64 << 20, addresses=["tcp:127.0.0.1:0"])
print(server.endpoints[0], flush=True)
sys.stdin.read()
"""


class FaultTest(JobCase):
    RANKS = 2
    plain = None

    def start(self, name, gates=GATES, **options):
        return self.start_job(name, iterations=ITERATIONS, gates=gates, **options)

    def check(self, job):
        if FaultTest.plain is None:
            FaultTest.plain = self.result(self.start("unmoved", gates=())[0])
        self.assertEqual(FaultTest.plain, self.result(job))

    def prepare(self, job, agent, rank, migration):
        process = agent.prepare(rank, migration)
        job.add(process)
        agent.expect(migration)
        return process

    def kill(self, job, process):
        process.kill()
        process.wait()
        job.processes.remove(process)

    def refused(self, codes, work):
        with self.assertRaises(StateError) as fault:
            work()
        self.assertIn(fault.exception.code, codes)

    def test_destination_killed_at_each_state(self):
        job, agent = self.start("destination")
        states = ("prepared", "paused", "transferred", "restored")
        for i, state in enumerate(states):
            migration = f"m{i}"
            successor = self.prepare(job, agent, i % self.RANKS, migration)
            steps = {"prepared": lambda: None,
                     "paused": lambda: agent.pause(migration, lambda: self.next_gate(job)),
                     "transferred": lambda: agent.copy(i % self.RANKS, migration),
                     "restored": lambda: agent.restore(i % self.RANKS, migration)}
            for step in states:
                steps[step]()
                if step == state:
                    break
            self.kill(job, successor)
            agent.cancel(migration)
            if state == "prepared":
                self.next_gate(job)
        _, process = agent.move(1, "good", asked=lambda: self.next_gate(job))
        job.add(process)
        self.check(job)
        self.assertEqual(len({each["pid"] for each in job.losses(0)}), 1)
        self.assertEqual(len({each["pid"] for each in job.losses(1)}), 2)

    def test_source_killed_at_each_state(self):
        # A worker that stands still may be killed: its memory is its agent's as well.
        job, agent = self.start("source")
        running = job.processes[1]
        for i, state in enumerate(("paused", "transferred", "restored")):
            migration = f"m{i}"
            successor = self.prepare(job, agent, 1, migration)
            agent.pause(migration, lambda: self.next_gate(job))
            if state == "paused":
                self.kill(job, running)
            agent.copy(1, migration)
            if state == "transferred":
                self.kill(job, running)
            agent.restore(1, migration)
            if state == "restored":
                self.kill(job, running)
            agent.switch(1, migration)
            running = successor
        self.check(job)
        self.assertEqual(len({each["pid"] for each in job.losses(1)}), 4)

    def through(self, agent, rank, migration, harm, at, times, timeout):
        """One copy on a path that is harmed so often, each time after `at` bytes."""
        proxies = []

        def way(endpoint):
            proxies.append(Proxy(endpoint, harm, at, times))
            self.addCleanup(proxies[0].close)
            return proxies[0].endpoint

        try:
            agent.connect(rank, migration, way, timeout)
            agent.copy(rank, migration, timeout=timeout)
        finally:
            self.assertGreater(proxies[0].harms, 0)

    def staging(self):
        """A staging server of its own process, and its endpoint."""
        process = subprocess.Popen([sys.executable, "-c", STAGING], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process, process.stdout.readline().strip()

    def test_harm_on_the_way_that_cannot_be_made_good(self):
        job, agent = self.start("lost", transport="tcp")
        successor = self.prepare(job, agent, 0, "m1")
        agent.pause("m1", lambda: self.next_gate(job))
        ended = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "DATA_LOSS")
        self.refused(ended, lambda: self.through(agent, 0, "m1", "stall", 300 << 10, 1000, 3))
        self.refused(ended, lambda: self.through(agent, 0, "m1", "cut", 10 << 10, 1000, 60))
        self.refused(ended, lambda: self.through(agent, 0, "m1", "flip", 10 << 10, 1000, 60))
        small = StagingServer.start(quota_bytes=1 << 20)
        self.refused(("RESOURCE_EXHAUSTED",),
                     lambda: agent.copy(0, "m1", staging=small.endpoints[0]))
        self.assertEqual(small.used_bytes, 0)
        process, endpoint = self.staging()
        process.kill()
        process.wait()
        self.refused(ended, lambda: agent.copy(0, "m1", staging=endpoint, timeout=5))
        process, endpoint = self.staging()
        StagingClient(endpoint).put("m1", agent.workers[0].arena, timeout=60)
        process.kill()
        process.wait()
        self.refused(ended, lambda: StagingClient(endpoint).get(
            "m1", agent.successors["m1"].arena, timeout=5))
        # None of it is taken for a state.
        self.assertIsNone(agent.successors["m1"].arena.committed_epoch)
        self.kill(job, successor)
        agent.cancel("m1")
        self.check(job)
        self.assertEqual(len({each["pid"] for each in job.losses(0)}), 1)

    def test_harm_on_the_way_that_is_made_good(self):
        job, agent = self.start("harmed", transport="tcp")
        for i, harm in enumerate(("cut", "flip")):
            migration = f"m{i}"
            self.prepare(job, agent, i, migration)
            agent.pause(migration, lambda: self.next_gate(job))
            self.through(agent, i, migration, harm, 300 << 10, 2, 120)
            agent.restore(i, migration)
            agent.switch(i, migration)
        self.check(job)
        self.assertEqual(len({each["pid"] for each in job.losses(0)}), 2)
        self.assertEqual(len({each["pid"] for each in job.losses(1)}), 2)

    def test_pause_that_does_not_come(self):
        job, agent = self.start("timeout")
        stopped = job.processes[1]
        successor = self.prepare(job, agent, 0, "m1")
        stopped.send_signal(signal.SIGSTOP)
        try:
            with self.assertRaises(queue.Empty):
                agent.pause("m1", lambda: self.next_gate(job), timeout=1)
        finally:
            stopped.send_signal(signal.SIGCONT)
        agent.cancel("m1")
        self.kill(job, successor)
        self.check(job)

    def test_a_successor_that_does_not_take_its_state_up(self):
        job, agent = self.start("stopped")
        successor = self.prepare(job, agent, 1, "m1")
        successor.send_signal(signal.SIGSTOP)
        agent.pause("m1", lambda: self.next_gate(job))
        agent.copy(1, "m1")
        with self.assertRaises(queue.Empty):
            agent.restore(1, "m1", timeout=1)
        self.kill(job, successor)
        agent.cancel("m1")
        self.check(job)
        self.assertEqual(len({each["pid"] for each in job.losses(1)}), 1)


if __name__ == "__main__":
    unittest.main()

"""What is no tensor has no room in the arena, or cannot be saved: said at the start; later the
migration is refused and the job goes on, on all ranks."""

import time
import unittest

from harness import JobCase

import torch
import train
from monkeytree.torch import Migratable, World
from room_train import Notes

ITERATIONS = 20
GATES = (3, 8, 14)


class StartTest(unittest.TestCase):
    def make(self, notes, **options):
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return Migratable(model, optimizer, World(0, 1, "127.0.0.1", 1), state={"notes": notes},
                          agent="/nonexistent/agent.sock", **options)

    def test_room_for_twice_what_it_takes(self):
        notes = Notes(100000)
        training = self.make(notes, object_bytes=10)
        notes.words = b"y" * 150000
        training._check_objects()
        self.assertEqual(training._save(), (0, ""))
        asked = self.make(notes, object_bytes=1 << 20)
        self.assertEqual(len(memoryview(asked.arena.buffer("objects"))), 1 << 20)

    def test_it_does_not_fit_at_the_start(self):
        notes = Notes(10)
        training = self.make(notes, object_bytes=10)
        notes.words = b"y" * 300000
        with self.assertRaisesRegex(ValueError, "pass object_bytes of 6[0-9]{5} or more"):
            training.start()

    def test_it_cannot_be_carried_at_the_start(self):
        notes = Notes(10)
        notes.raises = True
        with self.assertRaisesRegex(ValueError, "no notes now"):
            self.make(notes).start()
        notes = Notes(10)
        notes.words = lambda: 0
        with self.assertRaisesRegex(ValueError, "cannot be carried"):
            self.make(notes).start()


class RoomTest(JobCase):
    def start(self, name, *arguments, gates=GATES, **options):
        return self.start_job(name, *arguments, iterations=ITERATIONS, gates=gates,
                              program="room_train.py", **options)

    def wait_for_all(self, job, iteration):
        end = time.monotonic() + 120
        while any(job.iteration(rank) < iteration for rank in range(self.RANKS)):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def check_refused(self, how, ranks_per_worker, expected):
        """A move, a pause that rank 3 cannot make, and a move of rank 3 once it can."""
        job, agent = self.start(f"{how}-{ranks_per_worker}", "--grow", "3:7:10", "--how", how,
                                ranks_per_worker=ranks_per_worker)
        last = self.RANKS // ranks_per_worker - 1
        job.add(agent.move(0, "m1", asked=lambda: job.open_gate(3))[1])
        self.wait_for_all(job, 7)
        for link in agent.workers.values():
            link.say(type="pause", migration="m2")
        job.open_gate(8)
        whys = []
        for link in agent.workers.values():
            with self.assertRaises(RuntimeError) as fault:
                link.wait_for("paused", "m2")
            whys.append(str(fault.exception))
        agent.cancel("m2")
        self.wait_for_all(job, 13)
        job.add(agent.move(last, "m3", asked=lambda: job.open_gate(14))[1])
        job.wait()
        for why in whys:
            self.assertRegex(why, expected)
        for rank in range(self.RANKS):
            lines = job.losses(rank)
            self.assertEqual([each["iteration"] for each in lines], list(range(ITERATIONS)), rank)
            self.assertEqual(lines[-1]["notes"], 20000 * (1 + rank))
            moved = rank // ranks_per_worker in (0, last)
            self.assertEqual(len({each["pid"] for each in lines}), 2 if moved else 1, rank)
        unmoved, _ = self.start(f"unmoved-{how}-{ranks_per_worker}", "--grow", "3:7:10", gates=())
        unmoved.wait()
        for rank in range(self.RANKS):
            self.assertEqual([each["loss"] for each in job.losses(rank)],
                             [each["loss"] for each in unmoved.losses(rank)])

    def test_it_has_grown(self):
        self.check_refused("size", 1, "rank 3 have grown to [0-9]{6} bytes.*object_bytes")

    def test_it_cannot_be_saved_by_the_second_rank_of_a_worker(self):
        self.check_refused("raise", 2, "state of rank 3 cannot be saved")


class GatesTest(unittest.TestCase):
    def test_numbers_and_ranges(self):
        options = train.arguments(["--out", "o", "--gates", "3", "5-8", "7", "20-20"])
        self.assertEqual(options.gates, {3, 5, 6, 7, 8, 20})
        self.assertEqual(train.arguments(["--out", "o"]).gates, set())
        self.assertEqual(train.arguments(["--out", "o", "--gates"]).gates, set())

    def test_what_is_no_range(self):
        for text in ("5-", "8-5", "a", "5-8-9", "1.5"):
            with self.assertRaises(train.argparse.ArgumentTypeError, msg=text):
                train.gates(text)


if __name__ == "__main__":
    unittest.main()

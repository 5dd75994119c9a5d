"""The ring of connections: sums, changes of ports, and what is said of a neighbour that is gone."""

import socket
import sys
import threading
import unittest

try:
    import torch
except ImportError:
    print("torch is not installed")
    sys.exit(77)

from monkeytree.ring import Ring


class Store:
    """As a TCPStore, within this process."""

    def __init__(self):
        self._values = {}
        self._changed = threading.Condition()

    def set(self, key, value):
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def get(self, key):
        with self._changed:
            self._changed.wait_for(lambda: key in self._values)
            return self._values[key]


class RingTest(unittest.TestCase):
    def at_once(self, work):
        """Calls work(ring) for all rings, each in a thread; gives what they return or raise."""
        out = [None] * len(self.rings)

        def run(i):
            try:
                out[i] = work(self.rings[i])
            except RuntimeError as error:
                out[i] = error

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(self.rings))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return out

    def connect(self, size, timeout_s=60):
        store = Store()
        self.rings = list(range(size))
        self.rings = self.at_once(
            lambda position: Ring(store, "test", position, size, "127.0.0.1", timeout_s))
        for ring in self.rings:
            self.addCleanup(ring.close)

    def gradients(self, count, kind=torch.float32):
        generator = torch.Generator().manual_seed(count)
        return [torch.randn(count, generator=generator).to(kind) for _ in self.rings]

    def reduced(self, count, kind=torch.float32):
        given = self.gradients(count, kind)
        out = [each.clone() for each in given]
        self.at_once(lambda ring: ring.all_reduce(out[ring.position]))
        return given, out

    def test_sums_are_the_same_on_all_ranks_and_those_of_the_ring(self):
        for size in (1, 2, 3, 5):
            self.connect(size)
            for count in (0, 1, 4, 1000, 200003):
                given, out = self.reduced(count)
                for each in out:
                    self.assertTrue(torch.equal(each, out[0]))
                # The slow way: piece k is added up from rank k on.
                for k in range(size):
                    low, high = count * k // size, count * (k + 1) // size
                    wanted = given[k][low:high].clone()
                    for step in range(1, size):
                        wanted = given[(k + step) % size][low:high] + wanted
                    self.assertTrue(torch.equal(out[0][low:high], wanted), (size, count, k))

    def test_other_types(self):
        self.connect(3)
        for kind in (torch.float64, torch.bfloat16, torch.int64):
            given, out = self.reduced(50, kind)
            self.assertTrue(torch.allclose(out[1].double(), sum(each.double() for each in given),
                                           rtol=0.05, atol=0.1))

    def test_maximum(self):
        self.connect(4)
        values = [torch.tensor([v]) for v in (3, -1, 1 << 62, 7)]
        self.at_once(lambda ring: ring.maximum(values[ring.position]))
        self.assertEqual([int(v) for v in values], [1 << 62] * 4)

    def test_connections_are_made_anew_between_messages(self):
        self.connect(3)
        taken = {}

        def train(ring):
            total = torch.zeros(1000)
            for iteration in range(20):
                tensor = torch.full((1000,), float(iteration + ring.position))
                ring.all_reduce(tensor)
                total += tensor
                if iteration % 5 == ring.position:
                    ring.leave_from(taken.setdefault((ring.position, iteration), free_port()))
                    self.assertEqual(ring._next.getsockname()[1], ring.source_port)
                else:
                    ring.leave_from(None)
            return total

        totals = self.at_once(train)
        wanted = float(sum(3 * iteration + 3 for iteration in range(20)))
        for total in totals:
            self.assertTrue(torch.equal(total, torch.full((1000,), wanted)))
        self.assertEqual(len(taken), 12)
        for ring in self.rings:
            self.assertEqual(ring.source_port, taken[ring.position, 15 + ring.position])
        # Back to ports that have been used a moment ago.
        self.at_once(lambda ring: ring.leave_from(taken[ring.position, ring.position]))
        self.reduced(10)
        for ring in self.rings:
            self.assertEqual(ring.source_port, taken[ring.position, ring.position])

    def test_a_port_that_is_taken_changes_nothing(self):
        self.connect(2)
        with socket.create_server(("127.0.0.1", 0)) as other:
            self.at_once(lambda ring: ring.leave_from(other.getsockname()[1]))
            given, out = self.reduced(100)
            self.assertTrue(torch.equal(out[0], given[0] + given[1]))
            self.assertEqual([ring.source_port for ring in self.rings], [0, 0])

    def test_strangers_are_turned_away(self):
        self.connect(2)
        with socket.create_connection(self.rings[0].to) as stranger:
            stranger.sendall(b"x" * 64)
            self.rings[0].leave_from(free_port())
            given, out = self.reduced(100)
            self.assertTrue(torch.equal(out[1], given[0] + given[1]))

    def test_a_neighbour_that_is_gone_is_told(self):
        self.connect(3)

        def work(ring):
            if ring.position == 1:
                ring.close()
                return None
            ring.all_reduce(torch.ones(100000))
            return None

        answers = self.at_once(work)
        self.assertRegex(str(answers[2]), "a neighbour of rank 2 is gone")

    def test_ranks_that_do_not_call_the_same_are_told(self):
        self.connect(2)
        answers = self.at_once(lambda ring: ring.all_reduce(torch.ones(100 + 8 * ring.position)))
        self.assertTrue(any("do all ranks call the same?" in str(each) for each in answers))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


if __name__ == "__main__":
    unittest.main()

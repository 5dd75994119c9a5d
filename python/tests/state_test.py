"""Arenas and transfers from Python, without torch."""

import os
import unittest

from monkeytree import Arena, Receiver, Sender, StagingClient, StagingServer, StateError, random_token


def filled(byte):
    arena = Arena.create([("weights", 3 << 20, 64), ("rng", 100, 4096)])
    memoryview(arena.buffer("weights"))[:] = bytes([byte]) * (3 << 20)
    return arena


class ArenaTest(unittest.TestCase):
    def test_buffers_are_views(self):
        arena = filled(7)
        view = memoryview(arena.buffer("weights"))
        self.assertEqual(len(view), 3 << 20)
        view[5] = 9
        other = Arena.open(arena.fd)
        self.assertEqual(memoryview(other.buffer("weights"))[5], 9)
        del arena  # the view keeps the memory
        self.assertEqual(view[5], 9)
        with self.assertRaises(KeyError):
            other.buffer("none")

    def test_commit(self):
        arena = filled(1)
        self.assertIsNone(arena.committed_epoch)
        arena.commit(4)
        self.assertEqual(arena.committed_epoch, 4)
        arena.verify()
        memoryview(arena.buffer("weights"))[0] = 2
        with self.assertRaises(StateError) as fault:
            arena.verify()
        self.assertEqual(fault.exception.code, "DATA_LOSS")
        self.assertIn("weights", str(fault.exception))

    def test_errors(self):
        with self.assertRaises(StateError) as fault:
            Arena.create([("a", 1, 5)])
        self.assertIn("alignment 5", str(fault.exception))
        with self.assertRaises(StateError):
            Arena.open(os.open("/dev/null", os.O_RDONLY))


class TransferTest(unittest.TestCase):
    def test_each_transport(self):
        receiver = Receiver.listen()
        for endpoint in receiver.endpoints:
            source = filled(3)
            source.commit(11)
            target = filled(0)
            token = random_token()
            receiver.expect(token, target, timeout=60)
            report = Sender.prepare(source, endpoint, token, timeout=60).send()
            self.assertEqual(report["epoch"], 11)
            self.assertEqual(receiver.wait(token, timeout=60)["bytes"], (3 << 20) + 100)
            self.assertEqual(target.committed_epoch, 11)
            self.assertEqual(memoryview(target.buffer("weights"))[77], 3)

    def test_staging(self):
        server = StagingServer.start(quota_bytes=8 << 20)
        client = StagingClient(server.endpoints[0])
        source = filled(5)
        source.commit(2)
        client.put("a", source, timeout=60)
        target = filled(0)
        client.get("a", target, timeout=60)
        self.assertEqual(memoryview(target.buffer("weights"))[77], 5)
        client.put("b", source, timeout=60)
        with self.assertRaises(StateError) as fault:
            client.put("c", source, timeout=60)
        self.assertEqual(fault.exception.code, "RESOURCE_EXHAUSTED")
        client.confirm("a")
        client.confirm("b")
        self.assertEqual(server.used_bytes, 0)


if __name__ == "__main__":
    unittest.main()

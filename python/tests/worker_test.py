"""The worker's side of its protocol with the agent, told in orders that are hard to meet by chance.
Needs no torch: the agent is a socket of this test."""

import contextlib
import io
import json
import os
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

from monkeytree import Arena
from monkeytree import worker as hook
from monkeytree.worker import Worker, migration_word

DEADLINE = 60


class Link:
    """One connection of the worker, taken by the test."""

    def __init__(self, connection):
        self._connection = connection
        connection.settimeout(DEADLINE)
        packet, fds, _, _ = socket.recv_fds(connection, 64 << 10, 1)
        for fd in fds:
            os.close(fd)
        self.hello = json.loads(packet)
        self.say(type="welcome", node="n", address="")

    def say_bytes(self, packet):
        self._connection.send(packet)

    def say(self, **message):
        self.say_bytes(json.dumps(message).encode())

    def hear(self):
        """The next packet that is no sign of life, as (type, migration)."""
        while True:
            message = json.loads(self._connection.recv(64 << 10))
            if message["type"] != "progress":
                return message["type"], message.get("migration")

    def hear_all(self):
        """The next packet, whole."""
        return json.loads(self._connection.recv(64 << 10))

    def close(self):
        self._connection.close()

    def ended(self):
        while self._connection.recv(64 << 10):
            pass
        self._connection.close()


class WorkerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "agent.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._listener.settimeout(DEADLINE)
        self.addCleanup(self._listener.close)
        self.stderr = io.StringIO()
        stderr = contextlib.redirect_stderr(self.stderr)
        stderr.__enter__()
        self.addCleanup(stderr.__exit__, None, None, None)

    def make(self, **options):
        worker = Worker(Arena.create([("a", 64, 64)]), "job", 0, 0, path=self.path, **options)
        worker.start()
        self.addCleanup(worker.close)
        return worker

    def link(self):
        return Link(self._listener.accept()[0])

    def connected(self, **options):
        worker = self.make(**options)
        link = self.link()
        self.assertTrue(worker._welcomed.wait(DEADLINE))
        return worker, link

    def waits_until(self, condition):
        end = time.monotonic() + DEADLINE
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.002)

    def stopped(self, worker, iteration, word):
        self.assertTrue(worker.boundary(iteration, word))
        worker.commit(iteration)

    def pausing(self, worker):
        """The training loop, standing still in another thread; gives what joins it."""
        result = []
        thread = threading.Thread(target=lambda: result.append(worker.paused()), daemon=True)
        thread.start()

        def join():
            thread.join(DEADLINE)
            self.assertTrue(result, "the worker does not go on")
            worker.uncommit()
            return result[0]
        return join

    def paused(self, worker, link, iteration, migration):
        link.say(type="pause", migration=migration)
        self.waits_until(lambda: worker._pending == migration)
        self.stopped(worker, iteration, worker.word())
        join = self.pausing(worker)
        self.assertEqual(link.hear(), ("paused", migration))
        return join

    def test_flows_are_told_and_ports_heard(self):
        worker, link = self.connected()
        to = ("10.1.0.2", 40123)
        worker.set_flows([to])
        self.assertEqual(link.hear_all(), {"type": "flows", "flows": [
            {"ring": 0, "to": "10.1.0.2", "port": 40123}]})
        self.assertIsNone(worker.source_port(to))
        other = {"ring": 0, "to": "10.1.0.2", "port": 5, "source_port": 7}
        link.say(type="ports", flows=[{**other, "port": 40123, "source_port": 26961}, other])
        self.waits_until(lambda: worker.source_port(to) == 26961)
        self.assertIsNone(worker.source_port(("10.1.0.2", 5)))  # no flow of its own
        link.say(type="ports", flows=[{**other, "port": 40123, "source_port": 0}])
        self.waits_until(lambda: worker.source_port(to) is None)
        # The next agent is told as well.
        link.close()
        again = self.link()
        self.assertEqual(again.hear_all()["flows"][0]["port"], 40123)
        worker.set_flows([])
        self.assertEqual(again.hear_all(), {"type": "flows", "flows": []})

    # Orders.

    def test_cancel_between_boundary_and_pause(self):
        worker, link = self.connected()
        link.say(type="pause", migration="m1")
        self.waits_until(lambda: worker._pending == "m1")
        self.stopped(worker, 1, worker.word())
        link.say(type="cancel", migration="m1")
        self.assertEqual(link.hear(), ("cancelled", "m1"))
        self.assertIsNone(self.pausing(worker)())
        self.assertEqual(worker.phase, "running")
        # Nothing was said of a pause in between.
        self.paused(worker, link, 2, "m2")
        link.say(type="resume", migration="m2", peers=[])

    def test_cancel_between_the_boundary_of_the_peers_and_pause(self):
        worker, link = self.connected()
        self.stopped(worker, 1, migration_word("m1"))
        link.say(type="cancel", migration="m1")
        self.assertEqual(link.hear(), ("cancelled", "m1"))
        # A later migration's pause waits for its own boundary.
        link.say(type="pause", migration="m2")
        self.waits_until(lambda: worker._pending == "m2")
        self.assertIsNone(self.pausing(worker)())
        self.stopped(worker, 2, worker.word())
        join = self.pausing(worker)
        self.assertEqual(link.hear(), ("paused", "m2"))
        link.say(type="cancel", migration="m2")
        self.assertEqual(link.hear(), ("cancelled", "m2"))
        self.assertIsNone(join())

    def test_cancel_of_another_migration_leaves_it_standing(self):
        worker, link = self.connected()
        self.stopped(worker, 1, migration_word("m2"))
        join = self.pausing(worker)
        self.waits_until(lambda: worker.phase == "paused")
        link.say(type="cancel", migration="m1")
        self.assertEqual(link.hear(), ("cancelled", "m1"))
        link.say(type="pause", migration="m2")
        self.assertEqual(link.hear(), ("paused", "m2"))
        link.say(type="resume", migration="m2", peers=[])
        self.assertEqual(join(), "m2")

    def at_once(self, worker, *messages):
        """The agent's packets, taken before the training thread can wake."""
        with worker._changed:
            for message in messages:
                worker._take(message)

    def test_pause_after_resume_before_it_wakes(self):
        worker, link = self.connected()
        join = self.paused(worker, link, 1, "m1")
        self.at_once(worker, {"type": "resume", "migration": "m1", "peers": []},
                     {"type": "pause", "migration": "m2"})
        self.assertEqual(join(), "m1")
        self.assertEqual((worker.phase, worker.generation), ("running", "m1"))
        self.stopped(worker, 2, worker.word())
        join = self.pausing(worker)
        self.assertEqual(link.hear(), ("stepped", "m1"))
        self.assertEqual(link.hear(), ("paused", "m2"))
        # Late copies of what is done change nothing.
        link.say(type="resume", migration="m1", peers=[])
        self.assertEqual(link.hear(), ("stepped", "m1"))
        link.say(type="pause", migration="m1")
        self.assertEqual(link.hear(), ("failed", "m1"))
        link.say(type="resume", migration="m3", peers=[])
        self.assertEqual(link.hear(), ("failed", "m3"))
        link.say(type="resume", migration="m2", peers=[])
        self.assertEqual(join(), "m2")

    def test_pause_after_cancel_before_it_wakes(self):
        worker, link = self.connected()
        join = self.paused(worker, link, 1, "m1")
        self.at_once(worker, {"type": "cancel", "migration": "m1"},
                     {"type": "pause", "migration": "m2"})
        self.assertEqual(link.hear(), ("cancelled", "m1"))
        self.assertIsNone(join())
        self.stopped(worker, 2, worker.word())
        join = self.pausing(worker)
        self.assertEqual(link.hear(), ("paused", "m2"))
        link.say(type="resume", migration="m2", peers=[])
        self.assertEqual(join(), "m2")

    def test_cancel_and_release_after_resume_before_it_wakes(self):
        worker, link = self.connected()
        join = self.paused(worker, link, 1, "m1")
        self.at_once(worker, {"type": "resume", "migration": "m1", "peers": []},
                     {"type": "cancel", "migration": "m1"},
                     {"type": "release", "migration": "m1"})
        self.assertEqual(link.hear(), ("failed", "m1"))
        self.assertEqual(link.hear(), ("failed", "m1"))
        self.assertEqual(join(), "m1")

    def test_a_restored_successor_is_paused_and_that_is_cancelled(self):
        with mock.patch.dict(os.environ, MONKEYTREE_SUCCESSOR_OF="m1"):
            worker, link = self.connected()
        link.say(type="restore", migration="m1", epoch=7)
        self.assertEqual(worker.wait_for_state(), 7)
        worker.commit(7)
        result = []
        thread = threading.Thread(target=lambda: result.append(worker.restored(7)), daemon=True)
        thread.start()
        self.assertEqual(link.hear(), ("restored", "m1"))
        link.say(type="pause", migration="m2")
        self.assertEqual(link.hear(), ("paused", "m2"))
        link.say(type="cancel", migration="m2")
        self.assertEqual(link.hear(), ("cancelled", "m2"))
        self.assertEqual(worker.phase, "restored")
        link.say(type="resume", migration="m1", peers=[])
        thread.join(DEADLINE)
        self.assertEqual(result, ["m1"])

    # An agent that does not read, and one that talks nonsense.

    def test_an_agent_that_does_not_read_stops_nobody(self):
        worker, link = self.connected()

        def train():
            for iteration in range(1, 20000):
                worker._last_progress = -1e9
                worker.boundary(iteration, 0)

        thread = threading.Thread(target=train, daemon=True)
        thread.start()
        thread.join(DEADLINE)
        self.assertFalse(thread.is_alive(), "training stands")
        again = self.link()
        self.assertGreater(again.hello["iteration"], 0)
        again.say(type="cancel", migration="m1")
        self.assertEqual(again.hear(), ("cancelled", "m1"))

    def test_nonsense_ends_the_connection_only(self):
        def expected(migration):
            raise KeyError("of the program")

        worker, link = self.connected(on_expect=expected)
        with mock.patch.object(hook, "RETRY_S", 0.01):
            for packet in (b'{"type": "nonsense"}', b'[1, 2]', b'{', b'"\xff\xfe"', b'5',
                           b'{"type": ["pause"]}', b'{"type": "pause"}', b'{}',
                           b'{"type": "pause", "migration": 5}', b'[' * 50000,
                           b'{"type": "restore", "migration": "m", "epoch": "x"}',
                           b'{"type": "expect", "migration": "m"}'):
                link.say_bytes(packet)
                link.ended()
                link = self.link()
        link.say(type="cancel", migration="m1")
        self.assertEqual(link.hear(), ("cancelled", "m1"))
        self.assertEqual(worker.word(), 0)
        self.assertIn("of the program", self.stderr.getvalue())

    def check_said_once(self, mend, text):
        """The hello cannot be made: said once, tried again now and then."""
        self.assertGreaterEqual(hook.UNFIT_RETRY_S, 10)
        tries = []
        tried = threading.Event()

        def hello(worker):
            tries.append(worker)
            if len(tries) >= 4:
                tried.set()
            return made(worker)

        made = Worker._hello
        with mock.patch.object(hook, "UNFIT_RETRY_S", 0.01), \
                mock.patch.object(Worker, "_hello", hello):
            self.make()
            self.assertTrue(tried.wait(DEADLINE))
            self.assertEqual(self.stderr.getvalue().count(text), 1, self.stderr.getvalue())
            mend()
            while True:  # those that were given up lie in the queue
                connection, _ = self._listener.accept()
                connection.settimeout(DEADLINE)
                packet, fds, _, _ = socket.recv_fds(connection, 64 << 10, 1)
                if packet:
                    break
                connection.close()
        for fd in fds:
            os.close(fd)
        self.assertEqual(json.loads(packet)["type"], "hello")
        connection.close()

    def test_a_hello_that_is_too_long(self):
        with mock.patch.dict(os.environ, MONKEYTREE_LONG="x" * (70 << 10)):
            self.check_said_once(lambda: os.environ.pop("MONKEYTREE_LONG"), "65536 bytes")

    def test_a_working_directory_that_is_gone(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        with tempfile.TemporaryDirectory() as folder:
            gone = os.path.join(folder, "gone")
            os.mkdir(gone)
            os.chdir(gone)
            os.rmdir(gone)
            self.check_said_once(lambda: os.chdir(here), "working directory")

    # A boundary at which some rank cannot pause.

    def test_a_pause_that_is_refused(self):
        worker, link = self.connected()
        link.say(type="pause", migration="m1")
        self.waits_until(lambda: worker._pending == "m1")
        word = worker.word()
        self.assertFalse(worker.boundary(1, word, "no room " + "ä" * 1000))
        self.assertEqual(link.hear(), ("failed", "m1"))
        self.assertEqual(worker.word(), 0)
        # Asked after the fact, by its own agent or by another's word.
        link.say(type="pause", migration="m1")
        self.assertEqual(link.hear(), ("failed", "m1"))
        self.assertFalse(worker.boundary(2, migration_word("m2"), "no room"))
        link.say(type="pause", migration="m2")
        self.assertEqual(link.hear(), ("failed", "m2"))
        link.say(type="cancel", migration="m2")
        self.assertEqual(link.hear(), ("cancelled", "m2"))
        join = self.paused(worker, link, 3, "m3")
        link.say(type="resume", migration="m3", peers=[])
        self.assertEqual(join(), "m3")


if __name__ == "__main__":
    unittest.main()

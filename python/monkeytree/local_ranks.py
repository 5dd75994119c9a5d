"""Several ranks of one worker: processes of one node that move together, in one arena.

The launcher starts one process a worker, with MONKEYTREE_RANKS="2,3". That one speaks for all of
them: it starts the others as copies of its own command, keeps the arena in which all have their
tensors, and alone knows the agent. A worker lives and dies whole.
"""

import os
import pickle
import queue
import socket
import subprocess
import sys
import threading

from ._state import Arena
from .worker import Released, Worker


class _Link:
    """Messages between two processes of a worker, in order; tuples that begin with their kind."""

    def __init__(self, link, on_message):
        self._link = link
        self._lock = threading.Lock()
        self._messages = queue.Queue()
        self._on_message = on_message
        self.ended = False  # said so; that the other side closes is then no fault

    def start(self):
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, *message):
        data = pickle.dumps(message, protocol=4)
        with self._lock:
            try:
                self._link.sendall(len(data).to_bytes(8, "little") + data)
            except OSError:
                pass  # the reader finds out

    def wait(self, kind):
        message = self._messages.get()
        if message[0] != kind:
            raise RuntimeError(f"a process of this worker says {message[0]}, expected {kind}")
        return message

    def wait_any(self):
        return self._messages.get()

    def send_arena(self, arena):
        with self._lock:
            socket.send_fds(self._link, [b"a"], [arena.fd])

    def receive_arena(self):
        """Before start()."""
        _, fds, _, _ = socket.recv_fds(self._link, 1, 1)
        if not fds:
            raise RuntimeError("the process that speaks for this worker has gone")
        arena = Arena.open(fds[0])
        os.close(fds[0])
        return arena

    def _read(self, count):
        data = b""
        while len(data) < count:
            piece = self._link.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _run(self):
        try:
            while True:
                message = pickle.loads(self._read(int.from_bytes(self._read(8), "little")))
                if message[0] == "bye":
                    self.ended = True
                elif not self._on_message(message):
                    self._messages.put(message)
        except (OSError, EOFError):
            if not self.ended:
                print("monkeytree: another process of this worker has gone", file=sys.stderr)
                os._exit(1)


class LocalRanks:
    """This process's place among those of its worker."""

    @staticmethod
    def from_environment():
        """None where the worker is one rank. Otherwise RANK is set in the environment."""
        ranks = [int(rank) for rank in os.environ.get("MONKEYTREE_RANKS", "").split(",") if rank]
        if len(ranks) < 2:
            return None
        if "MONKEYTREE_LINK" in os.environ:
            return LocalRanks(ranks, ranks.index(int(os.environ["RANK"])),
                              [socket.socket(fileno=int(os.environ.pop("MONKEYTREE_LINK")))], [])
        os.environ["RANK"] = str(ranks[0])
        links, processes = [], []
        for rank in ranks[1:]:
            near, far = socket.socketpair()
            environment = dict(os.environ, RANK=str(rank), MONKEYTREE_LINK=str(far.fileno()))
            processes.append(subprocess.Popen([sys.executable] + sys.argv, env=environment,
                                              pass_fds=[far.fileno()]))
            far.close()
            links.append(near)
        return LocalRanks(ranks, 0, links, processes)

    def __init__(self, ranks, index, sockets, processes):
        self.ranks = ranks
        self.index = index
        self.sockets = sockets
        self.processes = processes

    def worker(self, layout, *arguments, **options):
        """The arena and this process's side of the worker; `layout` is of this rank alone."""
        return (_Speaker if self.index == 0 else _Sibling)(self, layout, *arguments, **options)


def _prefixed(index, layout):
    return [(f"{index}/{name}", size, alignment) for name, size, alignment in layout]


class _Speaker:
    """The process that speaks for a worker of several ranks. Like Worker to the training loop."""

    def __init__(self, local, layout, job, group, worker, path=None, on_expect=None):
        self._processes = local.processes
        self._links = [_Link(each, lambda message: False) for each in local.sockets]
        for link in self._links:
            link.start()
        whole = _prefixed(0, layout)
        for index, link in enumerate(self._links):
            whole += _prefixed(index + 1, link.wait("layout")[1])
        self.arena = Arena.create(whole)
        for link in self._links:
            link.send_arena(self.arena)
        self._own_expect = on_expect or (lambda migration: None)
        self._worker = Worker(self.arena, job, group, worker, ranks=len(local.ranks), path=path,
                              on_expect=self._on_expect)

    successor_of = property(lambda self: self._worker.successor_of)
    address = property(lambda self: self._worker.address)
    replicas = property(lambda self: self._worker.replicas,
                        lambda self, value: setattr(self._worker, "replicas", value))
    for_successor = property(lambda self: self._worker.for_successor,
                             lambda self, value: setattr(self._worker, "for_successor", value))

    def _on_expect(self, migration):
        self._tell("expect", migration, self.address)
        self._own_expect(migration)

    def _tell(self, *message):
        for link in self._links:
            link.send(*message)

    def _hear(self, kind):
        for link in self._links:
            link.wait(kind)

    def _or_end(self, work):
        """What the agent says; where it is to end, all processes do."""
        try:
            return work()
        except Released:
            for link in self._links:
                link.ended = True
            self._tell("end")
            for process in self._processes:
                process.wait()
            raise

    def _go(self, generation):
        self.arena.begin_epoch()
        self._tell("go", generation, self.address)
        return generation

    def start(self, wait_s=0):
        self._worker.start(wait_s)

    def word(self):
        return self._worker.word()

    def boundary(self, iteration, word, refusal=""):
        stop = self._worker.boundary(iteration, word, refusal)
        if word != 0:
            self._tell("verdict", stop)
        return stop

    def commit(self, iteration):
        self._hear("ready")
        self.arena.commit(iteration, checksums=False)

    def uncommit(self):
        self.arena.begin_epoch()

    def paused(self):
        return self._go(self._or_end(self._worker.paused))

    def wait_for_state(self):
        self._or_end(self._worker.wait_for_state)
        self._tell("state")

    def restored(self, iteration):
        self._hear("restored")
        return self._go(self._or_end(lambda: self._worker.restored(iteration)))

    def close(self):
        for process in self._processes:
            process.wait()
        self._worker.close()


class _Sibling:
    """Another process of the worker."""

    def __init__(self, local, layout, job, group, worker, path=None, on_expect=None):
        self._on_expect = on_expect or (lambda migration: None)
        self._link = _Link(local.sockets[0], self._take)
        self._link.send("layout", layout)
        self.arena = self._link.receive_arena()
        self._link.start()
        self.successor_of = os.environ.get("MONKEYTREE_SUCCESSOR_OF", "")
        self.address = ""

    def _take(self, message):
        if message[0] != "expect":
            return False
        self.address = message[2]
        self._on_expect(message[1])
        return True

    def _wait(self, kind):
        message = self._link.wait_any()
        if message[0] == "end":
            self._link.ended = True
            raise Released()
        if message[0] != kind:
            raise RuntimeError(f"the process that speaks for this worker says {message[0]}")
        return message

    def _wait_to_go(self):
        _, generation, self.address = self._wait("go")
        self.successor_of = ""
        return generation

    def start(self, wait_s=0):
        pass

    def word(self):
        return 0  # the speaker's is enough

    def boundary(self, iteration, word, refusal=""):
        return word != 0 and self._wait("verdict")[1]

    def commit(self, iteration):
        self._link.send("ready")

    def uncommit(self):
        pass  # done before this process was told to go on

    def paused(self):
        return self._wait_to_go()

    def wait_for_state(self):
        self._wait("state")

    def restored(self, iteration):
        self._link.send("restored")
        return self._wait_to_go()

    def close(self):
        self._link.ended = True
        self._link.send("bye")

"""The worker's side of the protocol with its node's agent (docs/worker_protocol.md), without torch.

A Worker answers the agent in a thread of its own and tells the training loop, at the boundary of an
iteration, whether to stop and when to go on.
"""

import collections
import hashlib
import json
import os
import socket
import sys
import threading
import time

DEFAULT_SOCKET = "/run/monkeytree/agent.sock"
MAX_PACKET = 64 << 10


def migration_word(migration):
    """The number that stands for a migration in the collective: 63 bits, never 0; "" is 0."""
    if not migration:
        return 0
    digest = hashlib.sha256(migration.encode()).digest()
    return (int.from_bytes(digest[:8], "little") >> 1) or 1


def is_replicated(buffer):
    """Whether this buffer of an arena holds the same in all replicas of a rank that stand still after
    the same iteration, so that any of them may send it: parameters and, where it is not sharded, the
    optimiser's state. Of model buffers (running means), generators and the cursor each has its own."""
    return buffer.lstrip("0123456789").lstrip("/").startswith(("model/", "optimizer/"))


class Released(SystemExit):
    """The worker's successor runs, or its migration is off: this process ends with 0."""

    def __init__(self):
        super().__init__(0)


class Worker:
    """One worker as its agent sees it. `arena` is handed over with each hello."""

    def __init__(self, arena, job, group, worker, ranks=1, path=None, on_expect=None):
        self._arena = arena
        self._name = {"job": job, "group": group, "worker": worker}
        self._ranks = ranks
        self._path = path or os.environ.get("MONKEYTREE_AGENT_SOCKET", DEFAULT_SOCKET)
        self._on_expect = on_expect or (lambda migration: None)
        self._changed = threading.Condition()
        self._socket = None
        self._closed = False
        self._told_refusal = ""
        self._stepped = False  # an iteration of the generation has been done
        self._resume = None  # the generation to go on as
        self._restore = None
        self._go_on = False  # cancelled: in the old generation
        self._pending = ""
        self._cancelled = collections.deque(maxlen=64)
        self._last_progress = 0.0
        self.successor_of = os.environ.get("MONKEYTREE_SUCCESSOR_OF", "")
        self.phase = "waiting" if self.successor_of else "running"
        self.migration = ""
        self.generation = ""
        self.iteration = 0
        self.address = ""  # of this node, that reaches the fabric; "" where not known
        self.ending = False

    def start(self, wait=False):
        """Connects in the background and keeps connected; `wait` for the first welcome."""
        self._welcomed = threading.Event()
        threading.Thread(target=self._run, name="monkeytree-agent", daemon=True).start()
        if wait:
            self._welcomed.wait()

    # For the training loop.

    def word(self):
        """What this worker puts into the collective: the migration it was asked to pause for."""
        with self._changed:
            return migration_word(self._pending)

    def boundary(self, iteration, word):
        """An iteration is done and all workers have seen `word`. True: all stop here."""
        with self._changed:
            self.iteration = iteration
            if self.generation and not self._stepped:
                self._send({"type": "stepped", "migration": self.generation, "iteration": iteration})
            self._stepped = True
            if word == 0 or any(migration_word(each) == word for each in self._cancelled):
                now = time.monotonic()
                if now - self._last_progress >= 1:
                    self._last_progress = now
                    self._send({"type": "progress", "iteration": iteration})
                return False
            return True

    def commit(self, iteration):
        """All of the state lies in the arena."""
        # Without checksums, which are taken as the bytes travel, and only of the worker that leaves.
        self._arena.commit(iteration, checksums=False)

    def uncommit(self):
        """Training goes on and changes the state."""
        self._arena.begin_epoch()

    def paused(self):
        """The state lies committed in the arena. Waits; gives the generation to go on as, or None
        for the old one. Raises Released where the process is to end."""
        with self._changed:
            self.phase = "paused"
            self.migration, self._pending = self._pending, ""
            self._go_on = False
            self._resume = None
            if self.migration:
                self._say_paused()
            return self._wait_to_go_on()

    def wait_for_state(self):
        """A successor: waits until its arena is filled; gives the epoch."""
        with self._changed:
            self._changed.wait_for(lambda: self._restore is not None or self.ending)
            self._end_if_told()
            return self._restore

    def restored(self, iteration):
        """A successor has taken up its state. Waits, and gives the generation to go on as."""
        with self._changed:
            self.phase = "restored"
            self.iteration = iteration
            self._send({"type": "restored", "migration": self.successor_of, "iteration": iteration})
            while True:
                generation = self._wait_to_go_on()
                if generation is not None:
                    return generation
                self.phase = "restored"  # a later migration was cancelled: still waits for its own

    def close(self):
        with self._changed:
            self._send({"type": "bye"})
            self._closed = True
            if self._socket:
                self._socket.close()

    # With the lock held.

    def _say_paused(self):
        self._send({"type": "paused", "migration": self.migration, "iteration": self.iteration,
                    "epoch": self._arena.committed_epoch})

    def _wait_to_go_on(self):
        self._changed.wait_for(lambda: self._resume is not None or self._go_on or self.ending)
        self._end_if_told()
        generation, self._resume, self._go_on = self._resume, None, False
        self.migration = ""
        if generation is not None:
            self.generation = generation
            self.successor_of = ""
            self._stepped = False
        self.phase = "running"
        return generation

    def _end_if_told(self):
        if self.ending:
            raise Released()

    def _send(self, message):
        if self._socket is None:
            return  # hello says it
        try:
            self._socket.send(json.dumps(message).encode())
        except OSError:
            pass

    # The agent's packets.

    def _run(self):
        while not self._closed:
            try:
                self._connect()
                while True:
                    packet = self._socket.recv(MAX_PACKET + 1)
                    if not packet:
                        break
                    self._take(json.loads(packet))
            except (OSError, ValueError, KeyError):
                pass
            with self._changed:
                if self._socket:
                    self._socket.close()
                self._socket = None
            time.sleep(0.5 if not self._told_refusal else 30)

    def _connect(self):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            link.connect(self._path)
            with self._changed:
                hello = self._hello()
                socket.send_fds(link, [json.dumps(hello).encode()], [self._arena.fd])
                self._socket = link
        except OSError:
            link.close()
            raise

    def _hello(self):
        environment = {key: value for key, value in os.environ.items()
                       if key.startswith(("MONKEYTREE_", "OMP_", "GLOO_", "NCCL_", "PYTHON"))
                       or key in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PATH")}
        for key in ("MONKEYTREE_SUCCESSOR_OF", "MONKEYTREE_AGENT_SOCKET"):
            environment.pop(key, None)
        return {"type": "hello", "v": 1, **self._name, "ranks": self._ranks, "phase": self.phase,
                "migration": self.migration, "successor_of": self.successor_of,
                "generation": self.generation, "iteration": self.iteration,
                "state_bytes": self._arena.payload_bytes,
                "command": {"arguments": [sys.executable] + sys.orig_argv[1:], "folder": os.getcwd(),
                            "environment": environment}}

    def _take(self, message):
        kind = message["type"]
        if kind == "expect":
            self._on_expect(message["migration"])
            return
        with self._changed:
            getattr(self, "_on_" + kind)(message)
            self._changed.notify_all()

    def _fail(self, migration, why):
        self._send({"type": "failed", "migration": migration, "why": why})

    def _on_welcome(self, message):
        self.address = message.get("address", "")
        self._told_refusal = ""
        self._welcomed.set()

    def _on_refused(self, message):
        if not self._told_refusal:
            print(f"monkeytree: the agent refuses: {message['why']}", file=sys.stderr)
        self._told_refusal = message["why"] or "refused"

    def _on_pause(self, message):
        migration = message["migration"]
        if migration in self._cancelled:
            self._fail(migration, "this migration was cancelled")
        elif self.phase == "running":
            self._pending = migration
        elif self.phase in ("paused", "restored"):
            self.phase = "paused"
            self.migration = migration
            self._say_paused()
        else:
            self._fail(migration, f"the worker is {self.phase}")

    def _on_restore(self, message):
        if self.phase == "waiting":
            self._restore = message["epoch"]
        elif self.phase == "restored":
            self._send({"type": "restored", "migration": self.successor_of,
                        "iteration": self.iteration})
        else:
            self._fail(message["migration"], f"the worker is {self.phase}")

    def _on_resume(self, message):
        migration = message["migration"]
        if self.phase in ("paused", "restored"):
            self._resume = migration
        elif self.phase == "running" and self.generation == migration:
            if self._stepped:
                self._send({"type": "stepped", "migration": migration,
                            "iteration": self.iteration})
        else:
            self._fail(migration, f"the worker is {self.phase}")

    def _on_retire(self, message):
        if self.phase == "paused":
            self.phase = "retired"
            self.migration = message["migration"]
        elif self.phase != "retired":
            self._fail(message["migration"], f"the worker is {self.phase}")

    def _on_release(self, message):
        if self.phase == "running":
            self._fail(message["migration"], "the worker is running")
        else:
            self.ending = True

    def _on_cancel(self, message):
        migration = message["migration"]
        self._cancelled.append(migration)
        if self.successor_of and self.successor_of == migration:
            self.ending = True
            return
        if self.phase == "retired":
            self._fail(migration, "the worker is retired")
            return
        if self._pending == migration:
            self._pending = ""
        if self.phase == "paused" and self.migration in (migration, ""):
            self._go_on = True
        self._send({"type": "cancelled", "migration": migration})

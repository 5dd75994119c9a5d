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
RETRY_S = 0.5  # between two connections
UNFIT_RETRY_S = 30  # where the agent refuses, or there is no hello to say

# What the agent asks, with the fields that this side reads.
_ASKED = {"welcome": {}, "refused": {"why": str}, "expect": {"migration": str},
          "pause": {"migration": str}, "restore": {"migration": str, "epoch": int},
          "resume": {"migration": str}, "retire": {"migration": str}, "release": {"migration": str},
          "cancel": {"migration": str}, "ports": {"flows": list}}


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
    """One worker as its agent sees it. `arena` is handed over with each hello.

    What the agent asks takes effect when its packet is read, not when the training thread wakes: the
    phase is always what the agent has been told, and what the training thread will do.
    """

    def __init__(self, arena, job, group, worker, ranks=1, path=None, on_expect=None):
        self._arena = arena
        self._name = {"job": job, "group": group, "worker": worker}
        self._ranks = ranks
        self._path = path or os.environ.get("MONKEYTREE_AGENT_SOCKET", DEFAULT_SOCKET)
        self._on_expect = on_expect or (lambda migration: None)
        self._changed = threading.Condition()
        self._welcomed = threading.Event()
        self._socket = None
        self._closed = False
        self._refused_hello = False
        self._said = ""  # last on standard error
        self._stepped = False  # an iteration of the generation has been done
        self._told = None  # to go on, as the generation in this tuple; None in it: as the old one
        self._restore = None
        self._pending = ""
        self._stopped_by = 0  # the word at which the training loop stops or stands
        self._cancelled = collections.deque(maxlen=64)
        self._refused = collections.deque(maxlen=64)  # (word, why): a rank could not pause
        self._last_progress = 0.0
        self.replicas = ""  # the same in all workers whose replicated buffers hold the same
        self._flows = []  # (address, port) that the rings of the worker go on to, by ring
        self._ports = {}  # by (address, port): the source port of the route
        self.for_successor = {}  # of the environment, beside that of this process
        self.successor_of = os.environ.get("MONKEYTREE_SUCCESSOR_OF", "")
        self.phase = "waiting" if self.successor_of else "running"
        self.migration = ""
        self.generation = ""
        self.iteration = 0
        self.address = ""  # of this node, that reaches the fabric; "" where not known
        self.ending = False

    def start(self, wait_s=0):
        """Connects in the background and keeps connected; waits for the first welcome so long at
        most, where there is an agent."""
        threading.Thread(target=self._run, name="monkeytree-agent", daemon=True).start()
        if wait_s and os.path.exists(self._path):
            self._welcomed.wait(wait_s)

    # For the training loop.

    def word(self):
        """What this worker puts into the collective: the migration it was asked to pause for."""
        with self._changed:
            return migration_word(self._pending)

    def boundary(self, iteration, word, refusal=""):
        """An iteration is done and all workers have seen `word`. True: all stop here. `refusal`: why
        none may, as all have agreed; the agent hears of it."""
        with self._changed:
            self.iteration = iteration
            if self.generation and not self._stepped:
                self._send({"type": "stepped", "migration": self.generation, "iteration": iteration})
            self._stepped = True
            if word != 0 and refusal:
                self._refuse(word, refusal)
            elif word != 0 and not self._is_cancelled(word):
                self._stopped_by = word
                return True
            now = time.monotonic()
            if now - self._last_progress >= 1:
                self._last_progress = now
                self._send({"type": "progress", "iteration": iteration})
            return False

    def set_flows(self, flows):
        """The (address, port) to which each ring of this worker now sends; the agent finds the ports
        to send from."""
        with self._changed:
            self._flows = list(flows)
            self._ports = {to: port for to, port in self._ports.items() if to in self._flows}
            self._say_flows()

    def source_port(self, to):
        """From which port to send there; None where the agent has not said, or knows none."""
        with self._changed:
            return self._ports.get(to)

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
            if self._is_cancelled(self._stopped_by):
                self._stopped_by = 0
                return None  # cancelled since the boundary; what is pending waits for the next
            self.phase = "paused"
            self.migration, self._pending = self._pending, ""
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
            return self._wait_to_go_on()

    def close(self):
        with self._changed:
            self._send({"type": "bye"})
            self._closed = True
            self._drop()

    # With the lock held.

    def _is_cancelled(self, word):
        return any(migration_word(each) == word for each in self._cancelled)

    def _stands_for(self, migration):
        """Paused for it; where the own pause has not come yet, stopped by its word."""
        return self.phase == "paused" and (
            self.migration == migration or
            (not self.migration and self._stopped_by == migration_word(migration)))

    def _say_flows(self):
        self._send({"type": "flows", "flows": [{"ring": ring, "to": to[0], "port": to[1]}
                                               for ring, to in enumerate(self._flows)]})

    def _say_paused(self):
        self._send({"type": "paused", "migration": self.migration, "iteration": self.iteration,
                    "epoch": self._arena.committed_epoch})

    def _go_on(self, generation):
        self.phase = "running"
        self.migration = ""
        self._stopped_by = 0
        self._told = (generation,)

    def _wait_to_go_on(self):
        self._changed.wait_for(lambda: self._told is not None or self.ending)
        self._end_if_told()
        (generation,), self._told = self._told, None
        return generation

    def _end_if_told(self):
        if self.ending:
            raise Released()

    def _refuse(self, word, why):
        self._refused.append((word, why))
        if migration_word(self._pending) == word:
            self._fail(self._pending, why)
            self._pending = ""

    def _send(self, message):
        """Never waits for an agent that does not read: the connection ends, and hello says it."""
        if self._socket is None:
            return
        try:
            self._socket.send(json.dumps(message).encode(), socket.MSG_DONTWAIT)
        except OSError:
            self._drop()

    def _drop(self):
        """The thread that reads finds the end, and closes."""
        link, self._socket = self._socket, None
        if link:
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    # The agent's packets.

    def _run(self):
        while not self._closed:
            wait = RETRY_S
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
                    link.connect(self._path)
                    if not self._say_hello(link):
                        wait = UNFIT_RETRY_S
                    else:
                        self._listen(link)
            except OSError:
                pass  # the agent is not there, or has gone
            except Exception as error:  # whatever it is: training goes on, and so does this thread
                self._say(f"{type(error).__name__}: {error}")
            finally:
                with self._changed:
                    self._socket = None
            time.sleep(UNFIT_RETRY_S if self._refused_hello else wait)

    def _say(self, text):
        """On standard error, where it is not what was said last."""
        if text == self._said:
            return
        self._said = text
        try:
            print(f"monkeytree: {text}", file=sys.stderr)
        except (OSError, ValueError):
            pass  # closed

    def _say_hello(self, link):
        """False where there is none to say."""
        with self._changed:
            try:
                hello = json.dumps(self._hello()).encode()
            except FileNotFoundError:
                self._say("this process cannot be moved: its working directory is gone")
                return False
            except (OSError, ValueError, TypeError) as error:
                self._say(f"this process cannot be moved: {error}")
                return False
            if len(hello) > MAX_PACKET:
                self._say(f"this process cannot be moved: its command and environment make a hello of "
                          f"{len(hello)} bytes, more than {MAX_PACKET} bytes")
                return False
            socket.send_fds(link, [hello], [self._arena.fd], socket.MSG_DONTWAIT)
            if not self._closed:
                self._socket = link
        return True

    def _listen(self, link):
        while not self._closed:
            packet = link.recv(MAX_PACKET + 1)
            if not packet:
                return
            try:
                self._take(json.loads(packet.decode()))
            except Exception as error:
                self._say(f"the agent's packet {packet[:80]!r} ends the connection: "
                          f"{type(error).__name__}: {error}")
                return

    def _hello(self):
        environment = {key: value for key, value in os.environ.items()
                       if key.startswith(("MONKEYTREE_", "OMP_", "GLOO_", "NCCL_", "PYTHON"))
                       or key in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PATH")}
        for key in ("MONKEYTREE_SUCCESSOR_OF", "MONKEYTREE_AGENT_SOCKET"):
            environment.pop(key, None)
        environment.update(self.for_successor)
        return {"type": "hello", "v": 1, **self._name, "ranks": self._ranks, "phase": self.phase,
                "migration": self.migration, "successor_of": self.successor_of,
                "generation": self.generation, "iteration": self.iteration,
                "state_bytes": self._arena.payload_bytes, "replicas": self.replicas,
                "command": {"arguments": [sys.executable] + sys.orig_argv[1:], "folder": os.getcwd(),
                            "environment": environment}}

    def _take(self, message):
        """One packet. Raises where it is not one of the protocol's."""
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise ValueError("expected an object with a type")
        kind = message["type"]
        if kind not in _ASKED:
            raise ValueError("unknown type")
        for field, expected in _ASKED[kind].items():
            if type(message.get(field)) is not expected:
                raise ValueError(f"{field}: expected {expected.__name__}")
        if kind == "expect":
            self._on_expect(message["migration"])
            return
        with self._changed:
            if self.ending and "migration" in message:
                if kind != "release":
                    self._fail(message["migration"], "the worker is ending")
                return
            getattr(self, "_asked_to_" + kind)(message)
            self._changed.notify_all()

    def _fail(self, migration, why):
        why = why.encode(errors="replace")[:1000].decode(errors="ignore")
        self._send({"type": "failed", "migration": migration, "why": why})

    def _asked_to_welcome(self, message):
        self.address = str(message.get("address", ""))
        self._refused_hello = False
        self._welcomed.set()
        if self._flows:
            self._say_flows()

    def _asked_to_ports(self, message):
        for flow in message["flows"]:
            to = (str(flow["to"]), int(flow["port"]))
            if to in self._flows:
                self._ports[to] = int(flow["source_port"]) or None

    def _asked_to_refused(self, message):
        self._say(f"the agent refuses: {message['why']}")
        self._refused_hello = True

    def _asked_to_pause(self, message):
        migration = message["migration"]
        refusals = [why for word, why in self._refused if word == migration_word(migration)]
        if migration in self._cancelled:
            self._fail(migration, "this migration was cancelled")
        elif refusals:
            self._fail(migration, refusals[-1])
        elif migration in (self.generation, self.successor_of):
            self._fail(migration, "this migration has brought the worker here")
        elif self.phase == "running":
            self._pending = migration
        elif self.phase in ("paused", "restored"):
            self.phase = "paused"
            self.migration = migration
            self._say_paused()
        else:
            self._fail(migration, f"the worker is {self.phase}")

    def _asked_to_restore(self, message):
        if self.phase == "waiting":
            self._restore = message["epoch"]
        elif self.phase == "restored":
            self._send({"type": "restored", "migration": self.successor_of,
                        "iteration": self.iteration})
        else:
            self._fail(message["migration"], f"the worker is {self.phase}")

    def _asked_to_resume(self, message):
        migration = message["migration"]
        if migration and migration == self.generation:
            if self._stepped:
                self._send({"type": "stepped", "migration": migration,
                            "iteration": self.iteration})
        elif self._stands_for(migration) or (
                self.phase == "restored" and self.successor_of == migration):
            self.generation = migration
            self.successor_of = ""
            self._stepped = False
            self._go_on(migration)
        else:
            self._fail(migration, f"the worker is {self.phase}, not ready for this migration")

    def _asked_to_retire(self, message):
        if self._stands_for(message["migration"]):
            self.phase = "retired"
            self.migration = message["migration"]
        elif self.phase != "retired":
            self._fail(message["migration"],
                       f"the worker is {self.phase}, not paused for this migration")

    def _asked_to_release(self, message):
        if self.phase == "running":
            self._fail(message["migration"], "the worker is running")
        else:
            self.ending = True

    def _asked_to_cancel(self, message):
        migration = message["migration"]
        if self.successor_of and self.successor_of == migration:
            self.ending = True
            return
        if self.phase == "retired":
            self._fail(migration, "the worker is retired")
            return
        if migration and migration == self.generation:
            self._fail(migration, "the worker has been resumed by this migration")
            return
        self._cancelled.append(migration)
        if self._pending == migration:
            self._pending = ""
        if self._stands_for(migration):
            if self.successor_of:
                self.phase, self.migration = "restored", ""  # waits for its own still
            else:
                self._go_on(None)
        self._send({"type": "cancelled", "migration": migration})

"""A stand-in for the agents of several nodes, in one process: it speaks the worker protocol and
moves workers of a job on this machine, one after another. For the example and the tests; on a
cluster the program `monkeytree agent` does this."""

import json
import os
import queue
import socket
import subprocess
import threading
import time

from monkeytree import Arena, Receiver, Sender, StagingClient, StateError, random_token
from monkeytree.worker import is_replicated


class Link:
    """The connection of one worker process."""

    def __init__(self, connection, hello, arena):
        self.connection = connection
        self.hello = hello
        self.arena = arena
        self.messages = queue.Queue()
        self.gone = False

    def say(self, **message):
        try:
            self.connection.send(json.dumps(message).encode())
        except OSError:
            pass  # the worker has gone; whoever waits for its answer hears of it

    def wait_for(self, kind, migration, timeout=120):
        """The next message of this kind for this migration; others before it are dropped."""
        deadline = time.monotonic() + timeout
        while True:
            message = self.messages.get(timeout=max(0.001, deadline - time.monotonic()))
            if message["type"] == "failed" and message["migration"] == migration:
                raise RuntimeError(message["why"])
            if message["type"] == "gone":
                raise RuntimeError("the worker has gone")
            if message["type"] == kind and message["migration"] == migration:
                return message


class LocalAgent:
    """Takes the hellos of all workers at one socket."""

    def __init__(self, path, transport="shm"):
        self.path = path
        self._transport = transport
        self._changed = threading.Condition()
        self.workers = {}  # rank: Link of the one that runs
        self.successors = {}  # migration: Link
        self._ways = {}  # migration: token and sender, ready
        self._receiver = Receiver.listen(["shm:", "tcp:127.0.0.1:0"])
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        packet, fds, _, _ = socket.recv_fds(connection, 64 << 10, 1)
        if not packet:
            return
        hello = json.loads(packet)
        arena = Arena.open(fds[0])
        os.close(fds[0])
        link = Link(connection, hello, arena)
        link.say(type="welcome", node="local", address="127.0.0.1")
        with self._changed:
            if hello["successor_of"]:
                self.successors[hello["successor_of"]] = link
            else:
                self.workers[hello["worker"]] = link
            self._changed.notify_all()
        while True:
            try:
                packet = connection.recv(64 << 10)
            except OSError:
                packet = b""
            if not packet:
                link.gone = True
                link.messages.put({"type": "gone"})
                return
            link.messages.put(json.loads(packet))

    def wait_for_workers(self, count, timeout=120):
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.workers) >= count, timeout):
                raise TimeoutError(f"{len(self.workers)} of {count} workers came")

    def prepare(self, rank, migration, of=None):
        """Starts the successor of a worker; returns its process once it waits for its state. `of`: the
        link of a worker that has ended."""
        of = of or self.workers[rank]
        command = of.hello["command"]
        environment = dict(os.environ)
        environment.update(command["environment"], MONKEYTREE_AGENT_SOCKET=self.path,
                           MONKEYTREE_SUCCESSOR_OF=migration, MONKEYTREE_WORKER=str(rank),
                           MONKEYTREE_JOB=of.hello["job"], MONKEYTREE_GROUP="0")
        process = subprocess.Popen(command["arguments"], cwd=command["folder"], env=environment)
        with self._changed:
            if not self._changed.wait_for(lambda: migration in self.successors, 120):
                raise TimeoutError("the successor did not come")
        return process

    def expect(self, migration):
        for link in self.workers.values():
            link.say(type="expect", migration=migration)

    def pause(self, migration, asked=None, timeout=120):
        """All workers stand still. `asked` is called once all have been asked."""
        for link in self.workers.values():
            link.say(type="pause", migration=migration)
        if asked is not None:
            asked()
        for link in self.workers.values():
            link.wait_for("paused", migration, timeout)

    def connect(self, rank, migration, way=lambda endpoint: endpoint, timeout=600):
        """What the copy needs and does not need the state: connections and warm mappings. `way`
        gives the endpoint that leads to another."""
        token = random_token()
        self._receiver.expect(token, self.successors[migration].arena, timeout=timeout)
        endpoint = way(self._receiver.endpoints[0 if self._transport == "shm" else 1])
        try:
            sender = Sender.prepare(self.workers[rank].arena, endpoint, token, timeout=timeout)
        except StateError:
            self._receiver.cancel(token)
            raise
        self._ways[migration] = token, sender

    def copy(self, rank, migration, staging=None, timeout=120):
        """Moves the arena; by way of a staging server where one is given."""
        source, target = self.workers[rank].arena, self.successors[migration].arena
        if staging is not None:
            client = StagingClient(staging)
            client.put(migration, source, timeout=timeout)
            report = client.get(migration, target, timeout=timeout)
            client.confirm(migration)
            return report
        if migration not in self._ways:
            self.connect(rank, migration, timeout=timeout)
        token, sender = self._ways.pop(migration)
        try:
            sender.send()
        except StateError:
            self._receiver.cancel(token)
            raise
        return self._receiver.wait(token, timeout=timeout)

    def copy_from_replicas(self, rank, migration, replicas, timeout=120):
        """Moves what is the same in all replicas from these workers, each sending its share at the
        same time, and only the rest from the worker that leaves. Gives the bytes by worker."""
        source, target = self.workers[rank].arena, self.successors[migration].arena
        loads = {worker: [0, []] for worker in replicas}
        own = []
        for index, (name, size, _) in sorted(enumerate(source.layout), key=lambda e: -e[1][1]):
            if is_replicated(name):
                least = min(replicas, key=lambda worker: loads[worker][0])
                loads[least][0] += size
                loads[least][1].append(index)
            else:
                own.append(index)
        token = random_token()
        self._receiver.expect(token, target, timeout=timeout)
        endpoint = self._receiver.endpoints[0 if self._transport == "shm" else 1]
        parts = [(rank, own)] + [(worker, buffers) for worker, (_, buffers) in loads.items()]
        sent = {}

        def send(part, worker, buffers):
            sent[worker] = Sender.prepare(self.workers[worker].arena, endpoint, token, part=part,
                                          buffers=buffers, timeout=timeout).send()["bytes"]

        threads = [threading.Thread(target=send, args=(part, worker, buffers))
                   for part, (worker, buffers) in enumerate(parts) if buffers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._receiver.wait(token, timeout=timeout)
        return sent

    def restore(self, rank, migration, timeout=120):
        successor = self.successors[migration]
        successor.say(type="restore", migration=migration, epoch=successor.arena.committed_epoch)
        successor.wait_for("restored", migration, timeout)

    def switch(self, rank, migration):
        """The successor takes the worker's place, and the job goes on."""
        old, new = self.workers[rank], self.successors.pop(migration)
        old.say(type="retire", migration=migration)
        self.workers[rank] = new
        peers = [{"group": 0, "worker": rank, "node": "local", "address": "127.0.0.1"}]
        for link in self.workers.values():
            link.say(type="resume", migration=migration, peers=peers)
        for link in self.workers.values():
            link.wait_for("stepped", migration)
        old.say(type="release", migration=migration)

    def cancel(self, migration):
        self.successors.pop(migration, None)
        for link in self.workers.values():
            link.say(type="cancel", migration=migration)
        for link in self.workers.values():
            link.wait_for("cancelled", migration)

    def move(self, rank, migration, staging=None, asked=None):
        """One whole move; gives its times in seconds by phase and the successor's process."""
        times = {}

        def timed(name, work):
            start = time.monotonic()
            result = work()
            times[name] = time.monotonic() - start
            self.spans.append((name, start, start + times[name]))
            return result

        self.spans = []  # (phase, from, to) of the last move, by the monotonic clock

        process = timed("start", lambda: self.prepare(rank, migration))
        self.expect(migration)
        if staging is None:
            timed("connect", lambda: self.connect(rank, migration))
        timed("pause", lambda: self.pause(migration, asked))
        timed("copy", lambda: self.copy(rank, migration, staging))
        timed("restore", lambda: self.restore(rank, migration))
        timed("switch", lambda: self.switch(rank, migration))
        return times, process

    def swap(self, first, second, name, staging, asked=None):
        """Two workers take each other's place where no third is free: the state of the first waits at a
        staging server while the second moves, and the job stands meanwhile. Gives the new processes;
        the migrations are `name`-1 to -3."""
        migrations = [f"{name}-{i}" for i in (1, 2, 3)]
        client = StagingClient(staging)
        self.pause(migrations[0], asked)
        client.put(migrations[0], self.workers[first].arena, timeout=120)
        gone = self._end(first, migrations[0])
        second_process = self.prepare(second, migrations[1])
        self.pause(migrations[1])
        self.copy(second, migrations[1])
        self.restore(second, migrations[1])
        self._end(second, migrations[1])
        self.workers[second] = self.successors.pop(migrations[1])
        first_process = self.prepare(first, migrations[2], gone)
        self.pause(migrations[2])
        client.get(migrations[0], self.successors[migrations[2]].arena, timeout=120)
        self.restore(first, migrations[2])
        client.confirm(migrations[0])
        self.workers[first] = self.successors.pop(migrations[2])
        for link in self.workers.values():
            link.say(type="resume", migration=migrations[2], peers=[])
        for link in self.workers.values():
            link.wait_for("stepped", migrations[2])
        return first_process, second_process

    def _end(self, rank, migration):
        """A worker that stands still ends; gives its link."""
        link = self.workers.pop(rank)
        link.say(type="retire", migration=migration)
        link.say(type="release", migration=migration)
        return link

    def close(self):
        self._listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

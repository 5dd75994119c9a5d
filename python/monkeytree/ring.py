"""The connection layer: a ring of one-way TCP connections whose source ports can be chosen, so that
each keeps to the uplink that it was given (docs/paths.md).

A rank sends to the next by one connection and receives from the one before by another. Since data
goes one way, a port need only be good for the way there. A connection cannot change its port, so it
is made anew: the sender opens the next one, says on the old one that it ends here, and goes on. The
receiver needs no word beforehand, and the other ranks notice nothing.
"""

import hashlib
import select
import socket
import sys
import time

import torch

_LENGTH = 8  # bytes of what goes before each message: how long it is
_MOVES = (1 << 64) - 1  # in its place: what follows comes by another connection


def _bytes_of(tensor):
    return memoryview(tensor.view(torch.uint8).numpy())


class Ring:
    """The ranks of one group in their logical order, wherever they are; so sums are the same bit by
    bit, whatever moves. `to`: the address and port where the next rank listens.

    Raises RuntimeError where a neighbour is gone or nothing happens for `timeout_s`.
    """

    def __init__(self, store, prefix, position, size, address, timeout_s=60.0):
        self.position = position
        self.size = size
        self.to = None
        self.source_port = 0  # 0: of the kernel's choice
        self._name = prefix
        self._address = address
        self._timeout_s = timeout_s
        self._next = self._before = None
        self._old = []  # connections that the receiver has yet to close
        self._refused = None  # a port that could not be had, and when
        try:
            self._listening = socket.create_server((address, 0), backlog=8)
            own = self._listening.getsockname()
            store.set(f"{prefix}/ring/{position}", f"{own[0]} {own[1]}")
            text = store.get(f"{prefix}/ring/{(position + 1) % size}").decode().split()
            self.to = (text[0], int(text[1]))
            self._next = self._connect(0)
            self._accept()
        except OSError as error:
            raise RuntimeError(f"ring: rank {position} cannot connect: {error}") from error

    def _greeting(self, position):
        return hashlib.sha256(f"{self._name}/{position}".encode()).digest()

    def _connect(self, source_port):
        link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.settimeout(self._timeout_s)
            link.bind((self._address, source_port))
            link.connect(self.to)
            link.sendall(self._greeting(self.position))
            link.setblocking(False)
        except BaseException:
            link.close()
            raise
        return link

    def _accept(self):
        """Takes the connection from the rank before; others are turned away."""
        expected = self._greeting((self.position - 1) % self.size)
        until = time.monotonic() + self._timeout_s
        while True:
            self._listening.settimeout(max(until - time.monotonic(), 0.001))
            link, _ = self._listening.accept()
            link.settimeout(5)
            try:
                if link.recv(len(expected), socket.MSG_WAITALL) == expected:
                    link.setblocking(False)
                    self._before = link
                    return
            except OSError:
                pass
            link.close()

    def leave_from(self, source_port):
        """Between two messages: sends from this port from now on; None: no change. Where the port
        cannot be had, all stays as it is, and a later call tries again."""
        self._old = [link for link in self._old if not self._has_ended(link)]
        if not source_port or source_port == self.source_port:
            return
        now = time.monotonic()
        if self._refused and self._refused[0] == source_port and now - self._refused[1] < 1:
            return
        try:
            made = self._connect(source_port)
        except OSError as error:
            if not self._refused or self._refused[0] != source_port:
                print(f"monkeytree: ring: no connection from port {source_port}: {error}",
                      file=sys.stderr)
            self._refused = (source_port, now)
            return
        self._send_all(self._next, _MOVES.to_bytes(_LENGTH, "little"))
        # The receiver closes first: who does so cannot use the same ports again for a while.
        self._old.append(self._next)
        self._next, self.source_port, self._refused = made, source_port, None

    @staticmethod
    def _has_ended(link):
        try:
            if link.recv(1):
                return False
        except BlockingIOError:
            return False
        except OSError:
            pass
        link.close()
        return True

    def _send_all(self, link, data):
        link.settimeout(self._timeout_s)
        try:
            link.sendall(data)
        except OSError as error:
            raise RuntimeError(f"ring: the next rank is gone: {error}") from error
        finally:
            link.setblocking(False)

    def _exchange(self, out, into):
        """Sends `out` to the next rank while `into` is filled by the one before."""
        sending = [memoryview(len(out).to_bytes(_LENGTH, "little")), out]
        length = memoryview(bytearray(_LENGTH))
        got = 0  # of the length and of what follows
        while sending or got < _LENGTH + len(into):
            poll = select.poll()
            if sending:
                poll.register(self._next, select.POLLOUT)
            if got < _LENGTH + len(into):
                poll.register(self._before, select.POLLIN)
            if not poll.poll(self._timeout_s * 1000):
                raise RuntimeError(f"ring: nothing came or went for {self._timeout_s:.0f} s")
            try:
                if sending:
                    sending = self._send_some(sending)
                if got < _LENGTH:
                    got += self._receive_some(length[got:])
                    if got == _LENGTH and self._moves_on(length, len(into)):
                        got = 0
                elif got < _LENGTH + len(into):
                    got += self._receive_some(into[got - _LENGTH:])
            except OSError as error:
                raise RuntimeError(f"ring: a neighbour of rank {self.position} is gone: "
                                   f"{error}") from error

    def _send_some(self, parts):
        try:
            sent = self._next.sendmsg(parts)
        except BlockingIOError:
            return parts
        left = []
        for part in parts:
            if sent < len(part):
                left.append(part[sent:])
            sent = max(sent - len(part), 0)
        return left

    def _receive_some(self, into):
        try:
            count = self._before.recv_into(into)
        except BlockingIOError:
            return 0
        if count == 0:
            raise ConnectionError("its connection has ended")
        return count

    def _moves_on(self, length, expected):
        """Whether another connection takes the place of this one."""
        found = int.from_bytes(length, "little")
        if found == _MOVES:
            self._before.close()
            self._accept()
            return True
        if found != expected:
            raise RuntimeError(f"ring: rank {self.position} awaits {expected} bytes, {found} come: "
                               "do all ranks call the same?")
        return False

    def all_reduce(self, tensor):
        """The sum over all ranks, in place. Each piece is added up along the ring, beginning with
        the rank of its number."""
        if self.size == 1:
            return
        flat = tensor.detach().reshape(-1)
        if flat.device.type != "cpu" or flat.data_ptr() != tensor.data_ptr():
            host = flat.cpu().clone()
            self.all_reduce(host)
            tensor.copy_(host.view(tensor.shape))
            return
        n, count = self.size, flat.numel()
        bounds = [count * k // n for k in range(n + 1)]

        def piece(k):
            return flat[bounds[k % n]:bounds[k % n + 1]]

        scratch = torch.empty((count + n - 1) // n, dtype=flat.dtype)
        for step in range(n - 1):
            own = piece(self.position - step - 1)
            came = scratch[:own.numel()]
            self._exchange(_bytes_of(piece(self.position - step)), _bytes_of(came))
            own.add_(came)
        for step in range(n - 1):
            self._exchange(_bytes_of(piece(self.position + 1 - step)),
                           _bytes_of(piece(self.position - step)))

    def maximum(self, tensor):
        """The maximum over all ranks, in place."""
        given, came = tensor.clone(), torch.empty_like(tensor)
        for _ in range(self.size - 1):
            self._exchange(_bytes_of(given), _bytes_of(came))
            given.copy_(came)
            torch.maximum(tensor, came, out=tensor)

    def close(self):
        for link in [self._listening, self._next, self._before, *self._old]:
            if link is not None:
                link.close()

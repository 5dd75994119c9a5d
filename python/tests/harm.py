"""Stands between two sides of a tcp transfer and harms it."""

import socket
import threading


class Proxy:
    """`harm`: "cut", "flip" or "stall", where `at` bytes have gone to the target over all connections;
    `times`: how often, each further time after `at` more bytes."""

    def __init__(self, target, harm, at, times=1):
        host, port = target.removeprefix("tcp:").rsplit(":", 1)
        self._target = host, int(port)
        self._harm, self._at, self._left = harm, at, times
        self._bytes = 0
        self.harms = 0
        self._lock = threading.Lock()
        self._open = []
        self._closing = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp:127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self._open += [near, far]
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, from_, to, forth):
        try:
            while True:
                data = from_.recv(64 << 10)
                if not data:
                    break
                to.sendall(self._harmed(bytearray(data), from_, to) if forth else data)
        except OSError:
            pass
        for each in (from_, to):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _harmed(self, data, from_, to):
        with self._lock:
            self._bytes += len(data)
            if self._left == 0 or self._bytes < self._at:
                return data
            self._bytes = 0
            self._left -= 1
            self.harms += 1
        if self._harm == "cut":
            from_.shutdown(socket.SHUT_RDWR)
            to.shutdown(socket.SHUT_RDWR)
        elif self._harm == "flip":
            data[len(data) // 2] ^= 16
        elif self._harm == "stall":
            self._closing.wait()
        return data

    def close(self):
        self._closing.set()
        for each in [self._server, *self._open]:
            each.close()

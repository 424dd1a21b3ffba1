"""A network between two programs that can be cut, refused, frozen, or forget its connections."""

import socket
import threading
import time

from processes import free_port


class Proxy:
    """Forwards bytes between clients of `port` and `target`.

    - `cut()`: resets all connections, and every new one.
    - `refuse()`: closes the listener and resets all connections.
    - `deafen()`: accepts connections and forwards nothing; bytes arrive after `heal()`, as with TCP.
    - `forget()`: like a restarted firewall: present connections stay silent for good, new ones work.
    - `heal()`: it works again.
    """

    def __init__(self, target):
        self.target, self.port = target, free_port()
        self._mode = "open"
        self._pairs = set()
        self._lock = threading.Lock()
        self._listener = None
        self._listen()

    # MARK: Trouble

    def cut(self):
        self._mode = "cut"
        self._reset()

    def refuse(self):
        self._mode = "refuse"
        listener, self._listener = self._listener, None
        # Closing alone would not wake the thread that accepts.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        self._reset()

    def deafen(self):
        self._mode = "deaf"

    def forget(self):
        with self._lock:
            for pair in self._pairs:
                pair.is_forgotten = True

    def heal(self):
        self._mode = "open"
        if self._listener is None:
            self._listen()

    def close(self):
        if self._listener:
            self.refuse()
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()

    # MARK: Carrying

    @property
    def carries(self):
        return self._mode == "open"

    def _listen(self):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            pair = Pair(self, near)
            if self._mode == "cut":
                pair.reset()
                continue
            with self._lock:
                self._pairs.add(pair)
            threading.Thread(target=pair.run, daemon=True).start()

    def _reset(self):
        with self._lock:
            pairs = [pair for pair in self._pairs if not pair.is_forgotten]
            self._pairs.difference_update(pairs)
        for pair in pairs:
            pair.reset()

    def ended(self, pair):
        with self._lock:
            self._pairs.discard(pair)


class Pair:
    """A connection and its other half."""

    def __init__(self, proxy, near):
        self.proxy, self.near, self.far = proxy, near, None
        self.is_forgotten = False
        self._is_over = False

    def run(self):
        self._wait()
        try:
            self.far = socket.create_connection(("127.0.0.1", self.proxy.target), timeout=5)
            self.far.settimeout(None)
        except OSError:
            return self.reset()
        back = threading.Thread(target=self._carry, args=(self.far, self.near), daemon=True)
        back.start()
        self._carry(self.near, self.far)
        back.join()
        self.proxy.ended(self)

    def _wait(self):
        while (self.is_forgotten or not self.proxy.carries) and not self._is_over:
            time.sleep(0.02)

    def _carry(self, source, sink):
        try:
            while data := source.recv(65536):
                self._wait()
                if self._is_over:
                    return
                sink.sendall(data)
            self._wait()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset()

    def reset(self):
        self._is_over = True
        for half in (self.near, self.far):
            if half is None:
                continue
            try:
                half.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            half.close()

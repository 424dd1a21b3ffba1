"""An HTTP connection for load: sends bytes, reads one response, can end with a reset."""
import socket
import struct


class Broken(Exception):
    """The response is missing or incomplete."""


def address(random):
    """A random loopback address."""
    return f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"


class Connection:
    def __init__(self, port, source="127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""
        self.is_open = True

    def call(self, request):
        """Sends a request's bytes and returns the status and the body of its response."""
        self.send(request)
        while True:
            head, _, rest = self._until(b"\r\n\r\n").partition(b"\r\n\r\n")
            self.pending = rest
            status = int(head[9:12])
            if status >= 200:
                break
        fields = {}
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            fields[name.lower()] = value.strip().lower()
        length = int(fields.get(b"content-length", 0))
        while len(self.pending) < length:
            self._receive()
        body, self.pending = self.pending[:length], self.pending[length:]
        if fields.get(b"connection") == b"close":
            self.close()
        return status, body

    def send(self, request):
        try:
            self.socket.sendall(request)
        except ConnectionError as error:
            # A server may refuse a request before it has read all of it.
            if isinstance(error, ConnectionResetError):
                raise Broken(str(error)) from error

    def close(self, politely=True):
        if not politely:
            # Closes with a reset.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        self.is_open = False

    def _until(self, end):
        while end not in self.pending:
            self._receive()
        return self.pending

    def _receive(self):
        try:
            received = self.socket.recv(65536)
        except OSError as error:
            raise Broken(str(error)) from error
        if not received:
            raise Broken("the connection ended")
        self.pending += received


def request(method, path, body=b"", fields=(), media_type="application/json"):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *fields]
    if body:
        lines += [f"Content-Type: {media_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

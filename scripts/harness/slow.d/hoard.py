"""Makes a server hold as much memory as possible for clients without a token.

    hoard.py PORT heads|bodies|answers COUNT DONE

Opens COUNT connections, each with a head without its end, a body of 2 MiB without its last byte, or 3,000 requests whose
responses it does not read. Then writes the file DONE and keeps the connections until it is killed.
"""
import socket
import sys
import time

port, kind, count, done = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
BODY = 2 << 20
DEMAND = {
    "heads": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 7_000 + b"\r\nY: " + b"y" * 8_000,
    "bodies": b"PUT /api/v1/profiles/a/premium HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % BODY + b" " * (BODY - 1),
    "answers": b"GET /openapi.yaml HTTP/1.1\r\nHost: a\r\n\r\n" * 3_000,
}[kind]

held = []
for _ in range(count):
    connection = socket.socket()
    if kind == "answers":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(5)
    connection.connect(("127.0.0.1", port))
    # The server stops reading from clients that do not read, and closes those that send too much.
    connection.settimeout(0 if kind == "answers" else 5)
    try:
        connection.sendall(DEMAND)
    except OSError:
        pass
    held.append(connection)
open(done, "w").close()
while True:
    time.sleep(60)

"""An HTTP client: one kept connection for each thread, no exception for a status."""

import http.client
import json
import threading
from urllib.parse import urlsplit

_connections = threading.local()


class NoAnswer(Exception):
    """The connection was refused, reset or silent."""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def call(method, url, body=None, timeout=10, headers=None):
    parts = urlsplit(url)
    pool = _connections.__dict__.setdefault("by_place", {})
    connection = pool.pop((parts.netloc, timeout), None)
    # The server may have closed a kept connection, which is no failure.
    attempts = [connection] if connection else []
    attempts.append(None)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    payload = None if body is None else json.dumps(body).encode()
    for kept in attempts:
        connection = kept or http.client.HTTPConnection(parts.netloc, timeout=timeout)
        try:
            connection.request(
                method, target, payload, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if kept and not isinstance(error, TimeoutError):
                continue
            raise NoAnswer(str(error) or type(error).__name__) from error
        if not response.will_close:
            pool[parts.netloc, timeout] = connection
        return answer
    raise NoAnswer("unreachable")


def get(url, **options):
    return call("GET", url, **options)


def post(url, body, **options):
    return call("POST", url, body, **options)

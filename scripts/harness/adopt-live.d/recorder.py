"""Forwards calls of the App Store Server API to the simulator, and records when they arrive."""
import base64
import collections
import http.server
import json
import re
import threading
import time

import web

# Apple's calls a second for one app, in production; the sandbox allows a tenth.
RATE, SANDBOX_SHARE = 50, 10
ENDPOINTS = {"statuses": r"/inApps/v1/subscriptions/\d+$", "transaction info": r"/inApps/v1/transactions/\d+$"}
WINDOW = 1.0


def app_of(authorization):
    """The bundle id in a bearer token."""
    part = (authorization or "").split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["bid"]


class Recorder:
    def __init__(self, store_url):
        # The times of the calls by app, environment and endpoint.
        self.calls = collections.defaultdict(list)
        self._lock = threading.Lock()
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                recorder.record(self.path, self.headers.get("Authorization"))
                found = web.get(f"{store_url}{self.path}", headers={"Authorization": self.headers["Authorization"]})
                self.send_response(found.status)
                for name in ["Content-Type", "Retry-After"]:
                    if found.headers.get(name):
                        self.send_header(name, found.headers[name])
                self.send_header("Content-Length", str(len(found.body)))
                self.end_headers()
                try:
                    self.wfile.write(found.body)
                except OSError:
                    # The killed program does not read it.
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def record(self, path, authorization):
        instant = time.monotonic()
        environment = "Sandbox" if path.startswith("/sandbox/") else "Production"
        endpoint = next((name for name, form in ENDPOINTS.items() if re.search(form, path)), path)
        with self._lock:
            self.calls[app_of(authorization), environment, endpoint].append(instant)

    def rates(self):
        """For each app, environment and endpoint: the calls, the most within a second, and Apple's rate."""
        for (app, environment, endpoint), times in sorted(self.calls.items()):
            times, first, most = sorted(times), 0, 0
            for last, instant in enumerate(times):
                while times[first] <= instant - WINDOW:
                    first += 1
                most = max(most, last - first + 1)
            allowed = RATE if environment == "Production" else RATE // SANDBOX_SHARE
            yield app, environment, endpoint, len(times), most, allowed

    def close(self):
        self._server.shutdown()

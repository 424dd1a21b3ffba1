"""A server that receives and counts webhooks."""

import collections
import http.server
import json
import threading
import time


class Receiver:
    def __init__(self):
        self.latest = {}
        self.times_delivered = collections.Counter()
        self.overlapping = 0
        # While it is away it answers 503 and takes nothing.
        self.is_away = False
        self._under_way = collections.Counter()
        self._lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.is_away:
                    self.send_response(503)
                    self.send_header("Content-Length", "0")
                else:
                    receiver.take(self.headers["webhook-id"], json.loads(body))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hooks"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, message, event):
        customer = event["data"]["customer"]["id"].upper()
        with self._lock:
            # Two deliveries of one customer at once could overtake each other.
            self.overlapping += self._under_way[customer] > 0
            self._under_way[customer] += 1
        time.sleep(0.02)
        with self._lock:
            self._under_way[customer] -= 1
            self.times_delivered[message] += 1
            self.latest[customer] = event["data"]["entitlements"]

    def wrong_states(self, world):
        """Customers whose last delivered state differs from the store's record."""
        has_access = {}
        for purchase in world.load.purchases:
            truth = world.store.truth(purchase)
            if customer := truth.get("appAccountToken"):
                has_access[customer] = has_access.get(customer, False) or truth["grantsAccess"]
        return [customer for customer, expected in has_access.items()
                if self.latest.get(customer, {}).get("isAccessGranted") != expected]

    @property
    def repeated(self):
        return sum(times - 1 for times in self.times_delivered.values())

    def close(self):
        self._server.shutdown()

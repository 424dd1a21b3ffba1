"""A receiptd process that can be restarted on the same ports."""

import web
from processes import Child, free_port, wait_until


class Server:
    def __init__(self, binaries, log, settings, *options):
        """`options` are those of `serve`."""
        self.binary, self.options, self.log = f"{binaries}/receiptd", options, log
        self.port, self.admin_port = free_port(), free_port()
        self.settings = {
            "LOG_LEVEL": "warning", "LOG_FORMAT": "text",
            # All load comes from one address.
            "RATE_LIMIT": "off",
            "PORT": str(self.port), "ADMIN_PORT": str(self.admin_port), **settings}
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()
        try:
            wait_until(self.is_ready, 60, "receiptd")
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.child = Child([self.binary, "serve", *self.options], self.log, self.settings)

    def kill(self):
        self.child.kill()

    def stop(self):
        self.child.stop()

    def is_ready(self):
        if not self.child.is_running:
            raise RuntimeError(f"receiptd ended; {self.log} says why")
        try:
            return web.get(f"http://127.0.0.1:{self.admin_port}/readyz", timeout=5).status == 200
        except web.NoAnswer:
            return False

"""A receiptd process that can be restarted on the same ports."""

import web
from processes import Child, free_port, wait_until

SECRETS = {
    "FAULTS_JWT_SECRET": "a-secret-that-only-the-fault-suite-uses-0123456789",
    "FAULTS_WEBHOOK_SECRET": "whsec_dGhlIGZhdWx0IHN1aXRlJ3Mgb3duIHNlY3JldCE=",
}


class Server:
    def __init__(self, binaries, log, settings):
        self.binary, self.log = f"{binaries}/receiptd", log
        self.port, self.admin_port = free_port(), free_port()
        self.settings = {
            "LOG_LEVEL": "warning", "LOG_FORMAT": "text", **SECRETS,
            # All load comes from one address.
            "RATE_LIMIT": "off",
            "PORT": str(self.port), "ADMIN_PORT": str(self.admin_port), **settings}
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()
        wait_until(self.is_ready, 60, "receiptd")

    def start(self):
        self.child = Child([self.binary, "serve"], self.log, self.settings)

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

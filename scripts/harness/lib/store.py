"""The simulated App Store and its record of the truth."""

import datetime
import random
from urllib.parse import urlencode

import web
from processes import Child, free_port, wait_until

BUNDLE = "com.example.faults"


def trust(folder):
    """The settings that make receiptd trust the store of a folder."""
    with open(f"{folder}/receiptd.env") as file:
        pairs = [line.strip().split("=", 1) for line in file if "=" in line]
    return {name: value.strip("'") for name, value in pairs}


class Store:
    def __init__(self, binaries, folder, config, *arguments):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.folder = f"{folder}/authority"
        self.child = Child(
            [f"{binaries}/appstore-simulator", "serve", "--port", str(port), "--folder", self.folder, "--config",
             config, "--no-retries", *arguments], f"{folder}/store.log")
        wait_until(self._answers, 30, "the simulated App Store")

    def _answers(self):
        try:
            return web.get(f"{self.url}/control/clock").status == 200
        except web.NoAnswer:
            return False

    def stop(self):
        self.child.stop()

    @property
    def environment(self):
        return trust(self.folder)

    def control(self, method, path, body=None):
        answer = web.call(method, f"{self.url}/control/{path}", body, timeout=120)
        if answer.status >= 300:
            raise RuntimeError(f"{method} /control/{path}: {answer.status} {answer.body[:500]}")
        return answer.json() if answer.body else None

    # MARK: What happens

    def lives(self, seed, count):
        """The original transaction ids of random lives that ended before now."""
        start = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1500)
        body = {"bundleID": BUNDLE, "seed": seed, "count": count,
                "from": start.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        lives = self.control("POST", "lives?deliver=false", body)["lives"]
        return [purchase for life in lives for purchase in life["purchases"]]

    def customer(self, product=f"{BUNDLE}.pro.monthly"):
        """Buys now, then renews, refunds or cancels at random; the original transaction id."""
        bought = self.control(
            "POST", "purchases?deliver=false", {"bundleID": BUNDLE, "productID": product})
        purchase = bought["originalTransactionID"]
        for command in random.sample(["auto-renew", "refund", "renew"], random.randrange(3)):
            body = {"on": False} if command == "auto-renew" else {}
            answer = web.post(
                f"{self.url}/control/subscriptions/{purchase}/{command}?deliver=false", body)
            if answer.status not in (200, 409):
                raise RuntimeError(f"{command}: {answer.status} {answer.body[:500]}")
        return purchase

    def notifications(self, purchase):
        query = urlencode({"originalTransactionID": purchase})
        return self.control("GET", f"notifications?{query}")["notifications"]

    def test_notification(self):
        return self.control("POST", "test?deliver=false", {"bundleID": BUNDLE})

    def truth(self, purchase):
        return self.control("GET", f"truth/{purchase}")

    # MARK: Faults

    def fail(self, **fault):
        self.control("POST", "faults/api", fault)

    def recover(self):
        self.control("DELETE", "faults/api")

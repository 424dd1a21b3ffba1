"""A year of business: customers who buy, renew, cancel, do not pay and ask for refunds, as the App Store tells receiptd.

    year.py STORE RECEIPTD    plays it with a store whose clock is 373 days back; both are addresses
"""

import random
import sys
import uuid
from datetime import datetime, timedelta, timezone

import web

CLIMB, SCREEN = "com.swiftclimb.app", "com.screentimerewards"
PRODUCTS = [
    (CLIMB, "com.swiftclimb.premium.monthly", 5), (CLIMB, "com.swiftclimb.premium.annual", 2),
    (SCREEN, "com.screentimerewards.individual.monthly", 4), (SCREEN, "com.screentimerewards.family.monthly", 3)]


def time_of(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


class Year:
    def __init__(self, control, validate, seed=7, days=372):
        """`control` calls the store's control API, `validate` posts a purchase for a device."""
        self.control, self.validate, self.random = control, validate, random.Random(seed)
        self.running, self.failing = {}, {}
        self.refunded = []
        self.now = datetime.now(timezone.utc) - timedelta(days=days)

    def play(self):
        today = datetime.now(timezone.utc) - timedelta(hours=1)
        day = 0
        while self.now < today:
            self.now += timedelta(days=1)
            day += 1
            self.set_clock(min(self.now, today))
            for _ in range(self._buyers(day)):
                self._buy()
            self._renew()

    def set_clock(self, now):
        self.control("POST", "clock", {"now": now.strftime("%Y-%m-%dT%H:%M:%SZ")})

    def _buyers(self, day):
        share = 0.25 + day / 900
        return sum(self.random.random() < share for _ in range(2))

    def _buy(self):
        app, product, _ = self.random.choices(PRODUCTS, [weight for *_, weight in PRODUCTS])[0]
        body = {"bundleID": app, "productID": product}
        if app == CLIMB:
            body["appAccountToken"] = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        bought = self.control("POST", "purchases", body)
        if app == SCREEN:
            self.validate(bought, f"phone-{self.random.getrandbits(40):010x}")
        self._follow(bought["originalTransactionID"])
        if self.random.random() < 0.04:
            self.refunded.append(bought["originalTransactionID"])

    def _follow(self, purchase):
        self.running[purchase] = time_of(self.control("GET", f"truth/{purchase}")["expiresDate"])

    def _command(self, purchase, name, **body):
        return self.control("POST", f"subscriptions/{purchase}/{name}", body)

    def _renew(self):
        for purchase, since in list(self.failing.items()):
            days = (self.now - since).days
            if days == self.random.choice([3, 9]):
                del self.failing[purchase]
                self._command(purchase, "recover")
                self._follow(purchase)
            elif days > 20:
                # Billing grace has ended.
                del self.failing[purchase]
                self._command(purchase, "expire", reason=2)
        for purchase, end in list(self.running.items()):
            if end - self.now > timedelta(hours=25):
                continue
            fate = self.random.random()
            if purchase in self.refunded and fate < 0.5:
                self._command(purchase, "refund", reason=1)
                del self.running[purchase]
            elif fate < 0.09:
                self._command(purchase, "auto-renew", on=False)
                del self.running[purchase]
            elif fate < 0.13:
                self.failing[purchase] = self.now
                self._command(purchase, "fail-renewal")
                del self.running[purchase]
            else:
                self._command(purchase, "renew")
                self._follow(purchase)


def main(store, api):
    def send(method, url, body):
        answer = web.call(method, url, body, timeout=120)
        if answer.status >= 300:
            sys.exit(f"{method} {url}: {answer.status} {answer.body[:500]}")
        return answer.json() if answer.body else None

    def validate(bought, device):
        body = {"signedTransaction": bought["signedTransaction"], "deviceID": device}
        send("POST", f"{api}/api/v1/subscriptions/validate", body)

    year = Year(lambda method, path, body=None: send(method, f"{store}/control/{path}", body), validate)
    year.play()
    year.set_clock(datetime.now(timezone.utc))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The load: notifications in random order, repeated until they are answered 200, some sent twice; devices validate meanwhile."""

import collections
import random
import threading
import time
import traceback

import web
from tokens import claims

WEBHOOK = "/api/v1/subscriptions/webhook"
VALIDATE = "/api/v1/subscriptions/validate"
# About as long as the App Store waits for a response.
TIMEOUT = 5


class Load:
    def __init__(self, store, urls, rate=60, couriers=8, clients=3):
        self.store, self.urls = store, urls
        self.pause = couriers / rate
        self.purchases = []
        self.payloads = {}
        self.answered = set()
        self.transactions = []
        self.counts = collections.Counter()
        self.surprises = collections.Counter()
        self.broken = None
        self._seed = random.randrange(1 << 48)
        self._waiting = collections.deque()
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._feeds = True
        jobs = [self._feed] + [self._bring] * couriers + [self._validate] * clients
        self._threads = [threading.Thread(target=self._guard, args=(job,), daemon=True) for job in jobs]

    def start(self):
        self._more()
        for thread in self._threads:
            thread.start()
        return self

    # MARK: The end

    def settle(self, seconds=120):
        """Stops new purchases and repeats what is unanswered, as the App Store does."""
        self._feeds = False
        end = time.monotonic() + seconds
        while self.unanswered and time.monotonic() < end and not self.broken:
            time.sleep(0.1)
        self.stop()

    def stop(self):
        self._ends.set()
        for thread in self._threads:
            thread.join()
        if self.broken:
            raise RuntimeError(f"the load itself broke:\n{self.broken}")

    @property
    def unanswered(self):
        with self._lock:
            return self.payloads.keys() - self.answered

    def answered_now(self):
        with self._lock:
            return set(self.answered)

    # MARK: What happens

    def _guard(self, job):
        try:
            job()
        except Exception:
            self.broken = traceback.format_exc()
            self._ends.set()

    def _feed(self):
        while not self._ends.is_set():
            if self._feeds and len(self._waiting) < 200:
                self._more()
            self._ends.wait(0.2)

    def _more(self):
        self._seed += 4
        purchases = self.store.lives(self._seed, 4) + [self.store.customer() for _ in range(3)]
        told = {}
        for purchase in purchases:
            for notification in self.store.notifications(purchase):
                told[notification["uuid"].lower()] = notification["signedPayload"]
        deliveries = list(told) + random.sample(list(told), len(told) // 5)
        random.shuffle(deliveries)
        signed = [claims(payload)["data"].get("signedTransactionInfo") for payload in told.values()]
        with self._lock:
            self.purchases += purchases
            self.payloads.update(told)
            self.transactions += [jws for jws in signed if jws]
            self._waiting.extend((uuid, 0) for uuid in deliveries)

    def _bring(self):
        turn = random.randrange(len(self.urls))
        while not self._ends.is_set():
            self._ends.wait(self.pause * random.uniform(0.5, 1.5))
            with self._lock:
                # The oldest first, unless it has just failed.
                due = self._waiting and self._waiting[0][1] <= time.monotonic()
                uuid = self._waiting.popleft()[0] if due else None
            if uuid is None:
                continue
            turn += 1
            if not self.notify(uuid, self.payloads[uuid], self.urls[turn % len(self.urls)]):
                with self._lock:
                    self._waiting.append((uuid, time.monotonic() + random.uniform(0.2, 1)))

    def notify(self, uuid, payload, url):
        """Posts a notification once; whether it was answered 200."""
        self._count("notifications sent")
        try:
            status = web.post(url + WEBHOOK, {"signedPayload": payload}, timeout=TIMEOUT).status
        except web.NoAnswer:
            self._count("notifications without an answer")
            return False
        if status == 200:
            with self._lock:
                self.counts["notifications answered 200"] += 1
                self.answered.add(uuid)
        elif status == 503:
            self._count("notifications answered 503")
        else:
            self._surprise(f"a notification was answered {status}")
        return status == 200

    def _validate(self):
        while not self._ends.is_set():
            self._ends.wait(random.uniform(0.05, 0.15))
            self.validate(random.choice(self.transactions), random.choice(self.urls))

    def validate(self, signed, url):
        """A device posts a transaction; whether it was answered 200."""
        self._count("validations sent")
        try:
            answer = web.post(url + VALIDATE, {"signedTransaction": signed}, timeout=TIMEOUT)
        except web.NoAnswer:
            self._count("validations without an answer")
            return False
        if answer.status == 503 and not answer.headers.get("Retry-After"):
            self._surprise("a 503 came without Retry-After")
        elif answer.status not in (200, 503):
            self._surprise(f"a validation was answered {answer.status}: {answer.body[:300]}")
        self._count(f"validations answered {answer.status}")
        return answer.status == 200

    def _count(self, what):
        with self._lock:
            self.counts[what] += 1

    def _surprise(self, what):
        with self._lock:
            self.surprises[what] += 1

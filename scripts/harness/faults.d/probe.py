"""Measures the time until service resumes."""

import time

LIMIT = 10


class Probe:
    """Repeats a new notification and a validation until both are answered 200.

    The notifications are made beforehand, so that the store's time is not measured.
    """

    def __init__(self, load, reserve=80):
        self._load = load
        self._notifications = [load.store.test_notification() for _ in range(reserve)]
        self.longest = 0.0
        self.failures = []

    def measure(self, what, since, url=None):
        """Seconds from `since` until both were answered 200.

        Gives up at six times the limit. Every time above the limit is a failed claim.
        """
        url = url or self._load.urls[0]
        notification = self._notifications.pop()
        uuid, payload = notification["uuid"].lower(), notification["signedPayload"]
        transaction = self._load.transactions[-1]
        wanted = [
            lambda: self._load.notify(uuid, payload, url), lambda: self._load.validate(transaction, url)]
        while wanted and time.monotonic() < since + 6 * LIMIT:
            wanted = [attempt for attempt in wanted if not attempt()]
            if wanted:
                time.sleep(0.05)
        return self.note(what, since, not wanted)

    def note(self, what, since, is_back):
        """Seconds from `since` until now, when service resumed or the probe gave up."""
        seconds = time.monotonic() - since
        self.longest = max(self.longest, seconds)
        if not is_back or seconds > LIMIT:
            self.failures.append(f"{what}: no service for {seconds:.1f} s")
        return seconds

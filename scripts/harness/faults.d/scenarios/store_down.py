"""The App Store Server API fails, closes its connections, and hangs; requests without the store go on."""

import collections
import random
import time

import web
from load import VALIDATE
from probe import LIMIT

TITLE = "The App Store down"
ALLOWED = ("200", "503")
# The server repeats the store's response about an id for this many seconds. The scenario asks about ids that no client
# asked about within that time.
REMEMBERED = 3.5
TROUBLES = [
    ({"fault": "error", "code": 5000001}, 5), ({"fault": "close"}, 5), ({"fault": "slow", "delay": 60}, 15)]


def ask(world, server, purchase=None):
    """A client validates by the bare id; the status as a word."""
    purchase = purchase or random.choice(world.load.purchases)
    try:
        answer = web.post(server.url + VALIDATE, {"transactionID": purchase}, timeout=2 * LIMIT)
    except web.NoAnswer as error:
        return f"no answer: {error}"
    if answer.status == 503 and not answer.headers.get("Retry-After"):
        return "503 without Retry-After"
    return str(answer.status)


def ask_until(world, server, end, answers):
    while time.monotonic() < end:
        answers[ask(world, server)] += 1
        time.sleep(0.1)


def await_store(world, server, what, since):
    """Waits until an id is answered 200 again."""
    while (word := ask(world, server)) != "200" and time.monotonic() < since + 6 * LIMIT:
        time.sleep(0.2)
    world.probe.note(f"{what}, by transaction id", since, word == "200")


def run(world, repetitions):
    database = world.add_database()
    server = world.add_server(database.url)
    load = world.start_load()
    answers = collections.Counter()
    remembered = 0
    for _ in range(repetitions):
        for fault, seconds in TROUBLES:
            time.sleep(2)
            await_store(world, server, "before", time.monotonic())
            known = random.choice(world.load.purchases)
            ask(world, server, known)
            world.store.fail(**fault)
            remembered += ask(world, server, known) == "200"
            time.sleep(REMEMBERED)
            refused = load.counts["notifications answered 503"] + load.counts["validations answered 503"]
            ask_until(world, server, time.monotonic() + seconds, answers)
            refused -= load.counts["notifications answered 503"] + load.counts["validations answered 503"]
            world.claim("what needs no store is not refused", refused == 0, -refused)
            healed = time.monotonic()
            world.store.recover()
            await_store(world, server, fault["fault"], healed)
            world.probe.measure(fault["fault"], healed)
    surprising = {word: count for word, count in answers.items() if word != "503"}
    world.claim("an id is answered 503 with Retry-After meanwhile", not surprising, surprising)
    return {
        "troubles": repetitions * len(TROUBLES), "ids asked about meanwhile": answers.total(),
        "of them answered 503": answers["503"], "just asked about and answered 200": remembered,
        **world.judge(database)}

"""Two servers share a database and its jobs, and one of them is killed again and again."""

import random
import time

from processes import wait_until
from receiver import Receiver

TITLE = "Two servers, one killed"
# A batch under way at a kill may have been delivered or not; the other server delivers it with the same id when the claim
# expires.
BATCH = 16
TAKEOVER = 90
WAITING = "SELECT count(*) FROM outbox WHERE done_at IS NULL AND destination = 'webhook'"


def run(world, repetitions):
    receiver = Receiver()
    world.on_exit.append(receiver.close)
    world.configure(webhooks=[
        {"url": receiver.url, "secretEnv": "FAULTS_WEBHOOK_SECRET", "allowPrivateAddresses": True,
         "events": ["customer.updated"]}])
    database = world.add_database()
    servers = [world.add_server(database.url), world.add_server(database.url)]
    world.start_load()
    for turn in range(repetitions):
        time.sleep(random.uniform(2, 4))
        victim, survivor = random.sample(servers, 2)
        killed = time.monotonic()
        victim.kill()
        world.probe.measure(f"kill {turn + 1}, at the other server", killed, survivor.url)
        time.sleep(random.uniform(0, 3))
        delivered = receiver.times_delivered.total()
        wait_until(lambda: receiver.times_delivered.total() > delivered, 30, "a delivery by the other server")
        victim.start()
        world.probe.measure(f"start {turn + 1}", time.monotonic(), victim.url)
    figures = world.judge(database)
    drained = time.monotonic()
    try:
        wait_until(lambda: database.query(WAITING) == "0", TAKEOVER + 30, "an empty outbox", pause=0.5)
    except TimeoutError:
        pass
    left = database.query(WAITING)
    world.claim("the outbox is drained", left == "0", f"{left} wait")
    world.claim(
        "only what was under way at a kill is delivered again", receiver.repeated <= repetitions * BATCH,
        receiver.repeated)
    world.claim("no customer's news is in two hands at once", receiver.overlapping == 0, receiver.overlapping)
    wrong = receiver.wrong_states(world)
    world.claim("the last state delivered of every customer is true", not wrong, wrong[:5])
    return {
        "kills": repetitions, **figures, "webhooks delivered": receiver.times_delivered.total(),
        "of them repeated": receiver.repeated, "customers told of": len(receiver.latest),
        "until the outbox was empty, s": round(time.monotonic() - drained, 1)}

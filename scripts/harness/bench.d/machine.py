"""The bounds of the machine: signature verifications, durable rows, fsync."""
import os
import re
import subprocess
import tempfile
import time


def verifications_per_second(seconds=3):
    """P-256 verifications a second of one core, by OpenSSL."""
    text = subprocess.run(
        ["openssl", "speed", "-seconds", str(seconds), "ecdsap256"],
        capture_output=True, text=True, check=True).stdout
    return float(re.search(r"nistp256\).*?([\d.]+)\s*$", text, re.M).group(1))


UPSERT = """\
\\set id random(1, 1000000000)
INSERT INTO public.bench_rows AS bench_rows (id, state, payload) VALUES (:id, 1, repeat('x', 1500))
ON CONFLICT (id) DO UPDATE SET state = bench_rows.state + 1, payload = excluded.payload;
"""


def upserts_per_second(world, connections, seconds=5):
    """Single durable upserts a second of rows as large as a kept notification, by pgbench."""
    world.sql("CREATE TABLE IF NOT EXISTS public.bench_rows (id bigint PRIMARY KEY, state int, payload text)")
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(UPSERT)
        script.flush()
        text = subprocess.run(
            ["pgbench", "-n", "-M", "prepared", "-c", str(connections), "-j", "2", "-T", str(seconds),
             "-f", script.name, world.url], capture_output=True, text=True, check=True).stdout
    world.sql("DROP TABLE public.bench_rows")
    return float(re.search(r"tps = ([\d.]+)", text).group(1))


def fsync_milliseconds(folder, rounds=200):
    """The median time of writing 8 kB and fdatasync, in milliseconds."""
    times = []
    with open(os.path.join(folder, "fsync"), "wb") as file:
        for _ in range(rounds):
            file.write(b"x" * 8192)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    os.unlink(os.path.join(folder, "fsync"))
    return sorted(times)[rounds // 2] * 1000

"""Samples of receiptd's resources, and their growth."""
import os
import statistics
import urllib.request

from processes import resident_megabytes

# Each figure's title, and the allowed growth of its median from the first to the last hour. Descriptors, threads and
# connections vary with the callers of the moment; a leak grows with every request.
FIGURES = {
    "memory": ("resident MB", 4),
    "descriptors": ("descriptors", 16),
    "threads": ("threads", 8),
    "connections": ("database connections", 2),
    "series": ("series of metrics", 10),
}


def take(world):
    """One sample."""
    process = f"/proc/{world.server.pid}"
    return {
        "memory": resident_megabytes(world.server.pid),
        "descriptors": len(os.listdir(f"{process}/fd")),
        "threads": len(os.listdir(f"{process}/task")),
        "connections": int(world.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()")),
        "series": series(world.admin_port),
    }


def series(port):
    """The number of series in a scrape."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        return sum(1 for line in response if line[:1] not in (b"#", b"\n"))


def medians(samples):
    return {name: statistics.median(sample[name] for sample in samples) for name in FIGURES}


def growth(first, last):
    """The figures that grew beyond their bounds."""
    return [
        f"{what} went from {first[name]:.1f} to {last[name]:.1f}, by more than {bound}"
        for name, (what, bound) in FIGURES.items() if last[name] > first[name] + bound]

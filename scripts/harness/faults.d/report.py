"""Results as tables and as JSON."""

import json
import os


def print_scenario(result):
    print(f"\n{result['title']} ({result['name']}), {result['seconds']:.0f} s")
    for name, value in result["figures"].items():
        print(f"  {name:<34}{value:>10}")
    for claim in result["claims"]:
        if not claim["holds"]:
            print(f"  FAILED: {claim['claim']}: {claim['detail']}")
    if result["error"]:
        print(f"  FAILED: {result['error']}")
    print(f"  {'all claims hold' if result['holds'] else 'FAILED'}", flush=True)


COLUMNS = {
    "sent": "notifications sent", "answered 200": "notifications answered 200", "missing": "missing",
    "rows compared": "rows compared", "rows wrong": "rows wrong", "until service, s": "longest time until service, s"}


def print_table(results):
    """The table of docs/checks.md."""
    print(f"\n{os.environ.get('RECEIPTD_RUN', '')}")
    print("\n| scenario | times | " + " | ".join(COLUMNS) + " | claims |")
    print("|---|" + "---:|" * (len(COLUMNS) + 1) + "---|")
    for result in results:
        figures = result["figures"]
        times = next(iter(figures.values()), "")
        cells = [figures.get(key, "") for key in COLUMNS.values()]
        verdict = "hold" if result["holds"] else "FAIL"
        print("| " + " | ".join(str(cell) for cell in [result["title"], times, *cells, verdict]) + " |")


def write_json(results, path):
    with open(path, "w") as file:
        json.dump({"run": os.environ.get("RECEIPTD_RUN", ""), "scenarios": results}, file, indent=2)
        file.write("\n")

"""The records of docs/evidence: what a check found, on which commit and machine."""
import datetime
import json
import os
import re
import subprocess

FOLDER = "docs/evidence"


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def head():
    return git("rev-parse", "--short=12", "HEAD")


def changed_since(commit, paths):
    """The files below the paths that differ from the commit, also those that are not committed."""
    new = git("ls-files", "--others", "--exclude-standard", "--", *paths)
    return [path for path in (git("diff", "--name-only", commit, "--", *paths) + "\n" + new).split("\n") if path]


def is_old(record, check):
    try:
        return bool(changed_since(record["commit"], check.sources))
    except subprocess.CalledProcessError:
        # A shallow clone may lack the commit.
        return None


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return f"{os.cpu_count()} cores of {model[1] if model else 'an unknown processor'}"


def tables(text, rows=()):
    """The tables of an output in Markdown: the columns, the rows, and which columns are right-aligned."""
    found, lines = [], [line.strip() for line in text.split("\n")]
    for number, line in enumerate(lines):
        if not re.fullmatch(r"\|(:?-+:?\|)+", line) or number == 0 or not lines[number - 1].startswith("|"):
            continue
        cells = [[cell.strip() for cell in lines[number - 1].strip("|").split("|")]]
        for later in lines[number + 1:]:
            if not later.startswith("|"):
                break
            cells.append([cell.strip() for cell in later.strip("|").split("|")])
        found.append({"columns": cells[0], "right": [part.endswith(":") for part in line.strip("|").split("|")],
                      "rows": [row for row in cells[1:] if not rows or row[0] in rows]})
    return found


def write(check, commit, seconds, text):
    figures = {}
    for name, pattern in check.figures.items():
        found = [float(value.replace(",", "")) for value in re.findall(pattern, text, re.M)]
        if not found:
            raise SystemExit(f"{check.name}: its output does not tell '{name}'")
        figures[name] = round(sum(found), 1) if sum(found) % 1 else int(sum(found))
    record = {"check": check.name, "command": check.command, "commit": commit,
              "date": datetime.date.today().isoformat(), "machine": machine(), "seconds": seconds, "figures": figures,
              "tables": tables(text, check.rows)}
    os.makedirs(FOLDER, exist_ok=True)
    path = f"{FOLDER}/{check.name}.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1, ensure_ascii=False)
        file.write("\n")
    return path


def read(name):
    try:
        with open(f"{FOLDER}/{name}.json", encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None

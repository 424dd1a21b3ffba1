"""The figures of the records in the pages, between `<!-- record: NAME -->` and `<!-- end of the record -->`."""
import glob
import re

import plot
import records

BLOCK = re.compile(r"(<!-- record: ([a-z0-9-]+) -->\n)(.*?)(<!-- end of the record -->)", re.S)
OLD = " **Older than its sources.**"


def text_of(record, old):
    """A line that names the commit, then the figures and the tables."""
    figures = [f"{value:,} {name}" for name, value in record["figures"].items()]
    # Records of before this command have no duration.
    seconds = record["seconds"]
    duration = "" if seconds is None else ", under a minute" if seconds < 60 else f", {seconds // 60} min"
    lines = [f"Commit `{record['commit'][:7]}` ({record['date']}), {record['machine']}{duration}."
             + (OLD if old else "")]
    if figures:
        lines.append("; ".join(figures).capitalize() + ".")
    for table in record["tables"]:
        lines += ["", "| " + " | ".join(table["columns"]) + " |",
                  "|" + "|".join("---:" if right else "---" for right in table["right"]) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in table["rows"]]
    return "\n".join(lines) + "\n"


def page_paths():
    return ["README.md", *sorted(glob.glob("docs/*.md"))]


def expected(match, known, keeps_mark):
    """The block that the record gives; with `keeps_mark`, its mark of age is left as the page has it."""
    name = match[2]
    record = records.read(name)
    if name not in known:
        return None
    if record is None:
        return "No record yet.\n"
    old = records.is_old(record, known[name])
    if old is None or keeps_mark:
        # A change of the sources need not touch the pages: --pages writes the mark, and a release runs what is old.
        old = OLD in match[3]
    return text_of(record, old)


def write(known):
    for path in page_paths():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        new = BLOCK.sub(lambda match: match[1] + (expected(match, known, False) or match[3]) + match[4], text)
        if new != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
            print(f"{path}: written")
    plot.write()


def faults(known):
    found, shown = [], set()
    for path in page_paths():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for match in BLOCK.finditer(text):
            shown.add(match[2])
            wanted = expected(match, known, True)
            if wanted is None:
                found.append(f"{path}: there is no check {match[2]}")
            elif wanted != match[3]:
                found.append(f"{path}: the figures of {match[2]} are not those of its record; "
                             "scripts/harness/release --pages writes them")
    found += [f"no page shows the record of {name}" for name in known if name not in shown]
    return found + plot.faults()

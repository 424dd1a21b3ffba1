"""The picture of the record `bench-open`: rate and p99 over connections and over the size of the tables."""
import math

import records

PATH = "docs/images/bench-open.svg"
WIDTH, HEIGHT, LEFT, TOP = 380, 220, 52, 34
COLORS = ["#2563a8", "#b3541e"]


def number(text):
    return float(text.split(" ")[0].replace(",", ""))


def ticks(highest):
    """At most seven round values from 0."""
    steps = (first * 10 ** power for power in range(9) for first in (1, 2, 5))
    step = next(step for step in steps if highest / step <= 5)
    return [step * count for count in range(math.ceil(highest / step) + 1)]


def panel(x, y, title, names, places, lines):
    inner, high = WIDTH - LEFT - 30, HEIGHT - TOP - 40
    marks = ticks(max(max(values) for values in lines))
    top = marks[-1]

    def at(place, value):
        across = inner * place / max(len(places) - 1, 1)
        return x + LEFT + across, y + TOP + high * (1 - value / top)
    parts = [f'<text x="{x + LEFT}" y="{y + 20}" font-weight="bold">{title}</text>']
    for mark in marks:
        _, level = at(0, mark)
        parts.append(f'<line x1="{x + LEFT}" x2="{x + LEFT + inner}" y1="{level:.1f}" y2="{level:.1f}" stroke="#8884"/>')
        parts.append(f'<text x="{x + LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{mark:,}</text>')
    for place, name in enumerate(places):
        across, level = at(place, 0)
        parts.append(f'<text x="{across:.1f}" y="{level + 18:.1f}" text-anchor="middle">{name}</text>')
    for name, color, values in zip(names, COLORS, lines):
        points = [at(place, value) for place, value in enumerate(values)]
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="'
                     + " ".join(f"{across:.1f},{level:.1f}" for across, level in points) + '"/>')
        parts += [f'<circle cx="{across:.1f}" cy="{level:.1f}" r="3" fill="{color}"><title>{name}, {place}: {value:,g}</title>'
                  "</circle>" for (across, level), place, value in zip(points, places, values)]
    return parts


def svg(record):
    found = {table["columns"][0]: table for table in record["tables"]}
    parts = []
    for row, first in enumerate(["connections", "subscriptions in the tables"]):
        table = found[first]
        names = [column.split(" ")[0] for column in table["columns"][1::2]]
        places = [line[0] for line in table["rows"]]
        for column, title in enumerate([f"Requests a second over {first}", f"p99, ms, over {first}"]):
            lines = [[number(line[1 + 2 * load + column]) for line in table["rows"]] for load in range(len(names))]
            parts += panel(column * WIDTH, row * HEIGHT, title, names, places, lines)
    for load, name in enumerate(names):
        parts.append(f'<text x="{LEFT + load * 90}" y="{2 * HEIGHT + 14}" fill="{COLORS[load]}">● {name}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {2 * HEIGHT + 24}" '
            'font-family="sans-serif" font-size="11" fill="#667">\n' + "\n".join(parts) + "\n</svg>\n")


def expected():
    record = records.read("bench-open")
    return svg(record) if record else None


def stored():
    try:
        with open(PATH, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write():
    if expected() != stored() and expected():
        with open(PATH, "w", encoding="utf-8") as file:
            file.write(expected())
        print(f"{PATH}: written")


def faults():
    return [] if expected() in (None, stored()) else [f"{PATH} is not the picture of its record; release --pages draws it"]

"""Runs the commands of README.md as they stand; `scripts/check-readme` says more."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

SECTION = "## The endpoints"


def fail(message):
    sys.exit(f"README.md: {message}")


def blocks():
    """The fenced blocks of the section, as (language, text) in their order."""
    text = open("README.md", encoding="utf-8").read()
    section = text.split(SECTION + "\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def json_values(text):
    """Every JSON object in a command's output; other output is passed over."""
    decoder, values, position = json.JSONDecoder(), [], text.find("{")
    while position >= 0:
        try:
            value, position = decoder.raw_decode(text, position)
            values.append(value)
        except ValueError:
            position += 1
        position = text.find("{", position)
    return values


def shape(value):
    """The keys and types of an answer: what README.md promises of it. Ids and times differ from run to run."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return type(value).__name__


def agrees(shown, found):
    """Whether an answer has the shape that README.md shows; `{…}` there stands for any object."""
    if shown == {"…": "NoneType"}:
        return isinstance(found, dict) and found
    if isinstance(shown, dict):
        return (
            isinstance(found, dict)
            and shown.keys() == found.keys()
            and all(agrees(shown[key], found[key]) for key in shown)
        )
    return shown == found


def serve():
    """Starts the demo in a process group of its own and waits for its exports."""
    demo = subprocess.Popen(
        ["scripts/demo", "--serve"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    exports = []
    for line in demo.stdout:
        if line.startswith("export "):
            exports.append(line)
        if line.startswith("Press Control-C"):
            return demo, "".join(exports)
    fail(f"scripts/demo --serve ended with status {demo.wait()}")


def check_taken_port():
    """`scripts/demo --serve` names a port that another program has, before it builds or starts anything."""
    with socket.create_server(("127.0.0.1", 4000)):
        demo = subprocess.run(["scripts/demo", "--serve"], capture_output=True, text=True, timeout=60)
    if demo.returncode != 1 or not demo.stderr.startswith("port 4000 is taken"):
        fail(f"with port 4000 taken, scripts/demo --serve ended with {demo.returncode}: {demo.stderr}")


def stop(demo):
    os.killpg(demo.pid, signal.SIGINT)
    try:
        demo.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(demo.pid, signal.SIGKILL)


def run(commands, exports):
    """One shell for all blocks, as a reader has one terminal. A line of dashes ends the output of each block."""
    end = "-" * 40
    script = exports + "set -euo pipefail\n"
    for text in commands:
        script += f"{text}printf '\\n%s\\n' {end}\n"
    # Nothing of this process's own environment may stand in for a missing export.
    bare = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    shell = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, env=bare)
    outputs = shell.stdout.split(f"\n{end}\n")
    if shell.returncode != 0:
        fail(f"status {shell.returncode} from the block\n{commands[min(len(outputs), len(commands)) - 1]}")
    return outputs


def main():
    found = blocks()
    commands = [text for language, text in found if language == "sh"]
    if len(commands) < 5:
        fail(f"expected the commands of '{SECTION}', found {len(commands)} blocks")
    check_taken_port()
    demo, exports = serve()
    try:
        outputs = run(commands, exports)
    finally:
        stop(demo)
    passed = 0
    for command, output in zip(commands, outputs):
        answers = json_values(output)
        if "curl" in command and not output.strip() and ">" not in command:
            fail(f"no output from\n{command}")
        for answer in answers:
            if answer.get("success") is False or "code" in answer:
                fail(f"{answer} from\n{command}")
        index = found.index(("sh", command))
        if index + 1 < len(found) and found[index + 1][0] == "json":
            shown = json.loads(re.sub(r"\{…\}", '{"…": null}', found[index + 1][1]))
            if not answers or not agrees(shape(shown), shape(answers[-1])):
                fail(f"shows\n{json.dumps(shape(shown))}\nbut the answer is\n{json.dumps(answers[-1])}")
        passed += 1
    print(f"{passed} passed, 0 failed")


main()

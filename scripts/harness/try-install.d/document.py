"""Reads the commands of a document."""

import re
from dataclasses import dataclass


@dataclass
class Block:
    """A block of commands."""
    section: str
    line: int
    # The word after `sh` on the fence: blocks for another machine or another time have one.
    word: str
    commands: str

    @property
    def name(self):
        return f"{self.section} (line {self.line})"


def blocks(path):
    """All `sh` blocks, in their order."""
    section, found, block = "", [], None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if block is not None:
                if line.startswith("```"):
                    found.append(block)
                    block = None
                else:
                    block.commands += line
            elif fence := re.match(r"```sh *(\S*)$", line.rstrip()):
                block = Block(section, number, fence[1], "")
            elif heading := re.match(r"#+ (.+)|\*\*(\d+\. [^*]+)\*\*", line):
                section = (heading[1] or heading[2]).rstrip(".,")
    return found

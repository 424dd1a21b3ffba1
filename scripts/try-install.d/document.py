"""What a document tells its reader to type."""

import re
from dataclasses import dataclass


@dataclass
class Block:
    """A block of commands as it stands in the document."""
    section: str
    line: int
    # What follows `sh` on the fence: where or when it is typed, for whom does not type it all in a row.
    word: str
    commands: str

    @property
    def name(self):
        return f"{self.section} (line {self.line})"


def blocks(path):
    """All blocks that are marked as commands (`sh`), in their order."""
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

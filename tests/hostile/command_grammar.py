"""What the program says of its own commands: options, what they take, within which limits."""
import dataclasses
import re
import subprocess


@dataclasses.dataclass
class Option:
    name: str  # "--max-tokens", or the name of a positional argument
    kind: str  # INT, FLOAT, TEXT, DIR, ...; empty: a flag
    low: float | None = None
    high: float | None = None
    choices: tuple = ()
    default: str | None = None
    required: bool = False


def parse_option(line):
    """A line of the help; None if it is none."""
    found = re.match(r"  (?:-\w,)?(?:--[a-z][a-z0-9-]*,)?(--[a-z][a-z0-9-]*|[a-z][a-z_]*)(?:\{\w+\})?((?: .*)?)$", line)
    if not found or found[1] == "--help":
        return None
    name, rest = found[1], found[2]
    if rest.startswith("  ") or not rest:
        return Option(name, "") if name.startswith("--") else None
    rest = rest[1:].split("  ")[0]
    option = Option(name, re.match(r"[A-Za-z.]*", rest)[0], required=" REQUIRED" in rest or rest.endswith("REQUIRED"))
    if limits := re.search(r" in \[(\S+) - ([^\s\]]+)\]", rest):
        option.low, option.high = float(limits[1]), float(limits[2])
    if choices := re.search(r"\{([^}]*)\}", rest):
        option.choices = tuple(re.split(r"(?:, | or )" if " or " in choices[1] else ",", choices[1]))
    if default := re.search(r"=([^\s\[]\S*)", rest):
        option.default = default[1]
    return option


def help_text(dp, words):
    return subprocess.run([dp, *words, "--help"], capture_output=True, text=True, timeout=120).stdout


def commands(dp, words=()):
    """{command: ([positional argument], [option])}, subcommands as "data fetch"."""
    text = help_text(dp, words)
    part = re.search(r"(?ms)^Subcommands:\n(.*?)(^\S|\Z)", text)
    names = re.findall(r"(?m)^  ([a-z][a-z-]*)\s", part[1]) if part else []
    found = {}
    for name in names:
        if name != "test":  # of the script
            found.update(commands(dp, (*words, name)))
    if not names and words and text:
        parts = {title: [option for line in body.split("\n") if (option := parse_option(line))]
                 for title, body in re.findall(r"(?ms)^(Positionals|Options):\n(.*?)(?=^\S|\Z)", text)}
        found[" ".join(words)] = (parts.get("Positionals", []), parts.get("Options", []))
    return found

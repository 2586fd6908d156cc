"""Makes docs/python/reference.md of the package's docstrings and signatures."""

import dataclasses
import importlib
import inspect
import re

HEAD = """# Reference

Made from the docstrings by `UPDATE_DOCS=1 .venv/bin/python -m pytest tests/docs`; a test keeps it true.
"""
MODULES = [
    "tickstone",
    "tickstone.errors",
    "tickstone.dbapi",
    "tickstone.ibis_backend",
    "tickstone.magics",
    "tickstone.plot",
    "tickstone.sqlalchemy_dialect",
    "tickstone.testing",
    "tickstone.testing.strategies",
]
# Special methods that are part of the interface, apart from those every class has.
SPECIAL = {"__arrow_c_stream__", "__arrow_c_schema__", "__aiter__", "__iter__", "__next__", "__len__", "__enter__", "__exit__"}


def render() -> str:
    """The page."""
    parts, seen = [HEAD], set()
    for name in MODULES:
        module = importlib.import_module(name)
        parts += [f"## {name}\n", text_of(module)]
        for public in sorted(module.__all__, key=str.lower):
            value = getattr(module, public)
            if id(value) not in seen and not isinstance(value, (str, int)):
                seen.add(id(value))
                parts += entry(public, value)
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def entry(name: str, value: object) -> list[str]:
    """The paragraphs about one public name."""
    if inspect.isclass(value) and not value.__module__.startswith("tickstone"):
        known = value.__name__ if value.__module__ == "builtins" else f"{value.__module__}.{value.__name__}"
        return [f"### {name}\n", f"The same as `{known}`.\n"]
    if inspect.isclass(value):
        fields = code(f"{name}{signature(value)}") if dataclasses.is_dataclass(value) else ""
        parts = [f"### class {name}\n", fields, text_of(value)]
        for member, attribute in sorted(vars(value).items(), key=lambda item: item[0].lower()):
            parts += member_entry(name, member, attribute)
        return parts
    if callable(value):
        return [f"### {name}\n", code(f"{name}{signature(value)}"), text_of(value)]
    return [f"### {name}\n", text_of(value) if has_own_text(value) else ""]


def has_own_text(value: object) -> bool:
    """Whether the docstring is the value's, not that of its class."""
    return bool(inspect.getdoc(value)) and inspect.getdoc(value) != inspect.getdoc(type(value))


def member_entry(owner: str, name: str, attribute: object) -> list[str]:
    """The paragraphs about a method or property of a class."""
    if name.startswith("_") and name not in SPECIAL:
        return []
    if isinstance(attribute, property):
        returned = inspect.signature(attribute.fget).return_annotation
        kind = "" if returned is inspect.Signature.empty else f": {plain(returned)}"
        return [code(f"{owner}.{name}{kind}"), text_of(attribute)]
    function = getattr(attribute, "__func__", attribute)
    if inspect.isfunction(function) and function.__doc__:
        return [code(f"{owner}.{name}{signature(function, method=True)}"), text_of(function)]
    return []


def signature(function: object, *, method: bool = False) -> str:
    """A signature without `self` and without quotes around types."""
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[1 if method else 0 :]
    shown = ", ".join(plain(parameter) for parameter in found.replace(parameters=parameters).parameters.values())
    shown = plain(found.replace(parameters=parameters)) if parameters else f"() {shown}".strip()
    if not parameters and found.return_annotation is not inspect.Signature.empty:
        shown = f"() -> {plain(found.return_annotation)}"
    return shown


def plain(part: object) -> str:
    """Annotations as they are written."""
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", part if isinstance(part, str) else str(part))
    return text.replace("'", '"') if '"' in text else re.sub(r": '([^']*)'", r": \1", re.sub(r"-> '([^']*)'", r"-> \1", text))


def code(text: str) -> str:
    """A block of code."""
    return f"```\n{text}\n```"


def text_of(value: object) -> str:
    """A docstring as Markdown: indented examples as code, lists of exceptions and attributes as lists."""
    lines, listed = [], False
    for line in (inspect.getdoc(value) or "").splitlines():
        if re.fullmatch(r"(Raises|Attributes|Returns|Args):", line):
            listed = True
            lines += ["", f"{line[:-1]}:", ""]
        elif listed and re.match(r"    \S", line):
            name, _, rest = line.strip().partition(": ")
            lines.append(f"- `{name}`: {rest}" if rest else f"- {name}")
        elif listed and line.startswith("     "):
            lines[-1] += f" {line.strip()}"
        else:
            listed = listed and not line
            lines.append(line)
    return "\n".join(lines).strip() + "\n"

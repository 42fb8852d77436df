"""What the caller demands: which rules run, and from which level on a finding fails."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.rules.rule import FAMILIES, LEVELS, MANDATORY, Level, Rule


@dataclass(frozen=True, slots=True)
class Policy:
    """The caller's choices; `select` and `ignore` hold rule codes or prefixes of them.

    Nothing inside a supplement can change a policy: only the caller's command line does.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Level = "error"
    strict: bool = False

    def level(self, level: Level) -> Level:
        """Return the level that a finding has here: with `strict`, warnings are errors."""
        return "error" if self.strict and level == "warning" else level

    def fails(self, level: Level) -> bool:
        """Tell whether a finding of that level fails the audit."""
        return LEVELS.index(level) >= LEVELS.index(self.fail_on)


def split_codes(given: Iterable[str]) -> tuple[str, ...]:
    """Return the codes or prefixes in options that were repeated, or hold commas."""
    return tuple(code.strip().upper() for entry in given for code in entry.split(","))


def choose(rules: Mapping[str, Rule], policy: Policy) -> Mapping[str, Rule]:
    """Return the rules that `policy` asks for; mandatory families are always among them.

    Raises:
        UsageError: A code begins no rule's code, or a mandatory rule is to be ignored.
    """
    for prefix in (*policy.select, *policy.ignore):
        _refuse_unknown(prefix, rules)
    for prefix in policy.ignore:
        _refuse_mandatory(prefix, rules)
    return {code: rule for code, rule in rules.items() if _wanted(rule, policy)}


def find_rule(name: str, rules: Mapping[str, Rule]) -> Rule:
    """Return the rule with that code or slug, whatever the case of its letters.

    Raises:
        UsageError: There is none; the message names the nearest.
    """
    by_slug = {rule.slug: rule for rule in rules.values()}
    found = rules.get(name.upper()) or by_slug.get(name.lower())
    if found is None:
        raise UsageError(f"no rule is called {name!r}{_nearest(name, [*rules, *by_slug])}")
    return found


def _wanted(rule: Rule, policy: Policy) -> bool:
    selected = not policy.select or _matches(rule.name, policy.select)
    return rule.mandatory or (selected and not _matches(rule.name, policy.ignore))


def _matches(code: str, prefixes: Iterable[str]) -> bool:
    return any(code.startswith(prefix) for prefix in prefixes)


def _refuse_unknown(prefix: str, rules: Mapping[str, Rule]) -> None:
    if not prefix or not any(code.startswith(prefix) for code in rules):
        raise UsageError(f"no rule's code begins with {prefix!r}{_nearest(prefix, rules)}")


def _refuse_mandatory(prefix: str, rules: Mapping[str, Rule]) -> None:
    fixed = sorted({code[:3] for code in rules if code.startswith(prefix)} & set(MANDATORY))
    if fixed:
        names = ", ".join(f"{code} {FAMILIES[code]}" for code in fixed)
        raise UsageError(
            f"{prefix} can't be ignored: without {names} a pass would say nothing about the rest"
        )


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as the end of a message."""
    near = get_close_matches(name.casefold(), [k.casefold() for k in known], n=1, cutoff=0.5)
    spelled = {k.casefold(): k for k in known}
    hint = f"; the nearest is {spelled[near[0]]}" if near else ""
    return f"{hint}. All of them: rlvr-audit explain"

"""PromQL from outside: promtool, the names that an expression has, and whether a page of metrics
has them too."""

import re
import subprocess

# A name before a parenthesis is a function's; another one is a metric's.
_LABEL_LISTS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTORS = re.compile(r"\b([a-zA-Z_:][\w:]*)\b(?!\s*\()(?:\{([^}]*)\})?")
_WORDS = {"and", "or", "unless", "bool", "offset"}
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def selectors(expr):
    """[(metric, [(label, operator, value), …]), …] of an expression."""
    text = re.sub(r"\[[^\]]*\]", "", _LABEL_LISTS.sub(" ", expr))
    return [(name, _MATCHER.findall(matchers)) for name, matchers in _SELECTORS.findall(text) if name not in _WORDS]


def grouping_labels(expr):
    """The labels that an expression keeps or matches by."""
    return {label.strip() for _, labels in _LABEL_LISTS.findall(expr) for label in labels.split(",") if label.strip()}


def substituted(expr, rate_interval="1m", time_range="1h"):
    """With what Grafana would put in place of its variables, everything being chosen."""
    return re.sub(r"\$\w+", ".*", expr.replace("$__rate_interval", rate_interval).replace("$__range", time_range))


def promtool(*arguments):
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


class Samples:
    """What a page of metrics says: series, and each metric's type."""

    def __init__(self, text):
        self.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        self.labels = {}  # metric -> [labels of each series]
        for name, labels in re.findall(r"^([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})? \S+$", text, re.M):
            self.labels.setdefault(name, []).append(dict(re.findall(r'(\w+)="([^"]*)"', labels)))

    def type_of(self, name):
        """Of a histogram's samples, the histogram's."""
        return self.types.get(name) or self.types.get(re.sub("_(bucket|sum|count)$", "", name))

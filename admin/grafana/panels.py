"""What dashboards are made of: panels, rows, variables, in Grafana's classic JSON (schema 39)."""

from dataclasses import dataclass, field

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
GREEN, YELLOW, RED = "green", "yellow", "red"


@dataclass
class Panel:
    title: str
    targets: list  # (expression, legend)
    description: str  # what it shows; what to do
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    thresholds: list = field(default_factory=list)  # (from which value, color), ascending
    is_stacked: bool = False
    is_instant: bool = False  # the value of now, not its course
    hidden: tuple = ()  # columns of a table

    def as_json(self, number, x, y):
        target_format = {"table": "table", "heatmap": "heatmap"}.get(self.kind, "time_series")
        targets = [{"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": expr, "legendFormat": legend,
                    "format": target_format, "instant": self.is_instant, "range": not self.is_instant}
                   for i, (expr, legend) in enumerate(self.targets)]
        panel = {
            "id": number, "type": self.kind, "title": self.title, "description": self.description,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "datasource": DATASOURCE, "targets": targets,
            "fieldConfig": {"defaults": self._defaults(), "overrides": []}, "options": self._options(),
        }
        if self.kind == "table":
            panel["transformations"] = [{"id": "organize", "options": {
                "excludeByName": {name: True for name in ("Time", *self.hidden)}}}]
        return panel

    def _defaults(self):
        defaults = {"unit": self.unit, "color": {"mode": "thresholds" if self.kind == "stat" else "palette-classic"}}
        if self.kind != "heatmap":
            steps = [{"value": None, "color": GREEN}]
            steps += [{"value": value, "color": color} for value, color in self.thresholds]
            defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        if self.kind == "timeseries":
            defaults["min"] = 0
            defaults["custom"] = {
                "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if self.is_stacked else 10,
                "showPoints": "never", "spanNulls": False,
                "stacking": {"mode": "normal" if self.is_stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if self.thresholds else "off"},
            }
        return defaults

    def _options(self):
        if self.kind == "stat":
            return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                    "colorMode": "value", "graphMode": "none" if self.is_instant else "area", "textMode": "auto"}
        if self.kind == "heatmap":
            return {"calculate": False, "cellGap": 1, "yAxis": {"unit": self.unit},
                    "color": {"mode": "scheme", "scheme": "Blues", "steps": 64}}
        if self.kind == "table":
            return {"showHeader": True}
        return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"}}


@dataclass
class Row:
    title: str
    panels: list


def lay_out(rows):
    """Panels from left to right, and below each other where the width is full."""
    laid, y = [], 0
    for row in rows:
        laid.append({"id": len(laid) + 1, "type": "row", "title": row.title, "collapsed": False, "panels": [],
                     "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y}})
        y, x, height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                y, x, height = y + height, 0, 0
            laid.append(panel.as_json(len(laid) + 1, x, y))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return laid


def variable(name, label, query):
    """One whose values Prometheus knows; several of them, or all."""
    return {
        "type": "query", "name": name, "label": label, "datasource": DATASOURCE,
        "query": {"query": query, "refId": name}, "definition": query,
        "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*", "hide": 0, "regex": "",
        "options": [], "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def datasource_variable():
    return {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "hide": 0,
            "refresh": 1, "regex": "", "multi": False, "includeAll": False, "options": [],
            "current": {"selected": True, "text": "Prometheus", "value": "prometheus"}}


def dashboard(uid, title, description, variables, rows):
    return {
        "uid": uid, "title": title, "description": description, "tags": ["llm-router"], "schemaVersion": 39,
        "version": 1, "editable": True, "graphTooltip": 1, "timezone": "", "refresh": "30s", "links": [],
        "time": {"from": "now-3h", "to": "now"}, "templating": {"list": [datasource_variable(), *variables]},
        "annotations": {"list": []}, "panels": lay_out(rows),
    }

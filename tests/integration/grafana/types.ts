// What Grafana knows of a dashboard: members by name and type, as its own library declares them.
import type * as alerting from "@grafana/grafana-foundation-sdk/alerting";
import type * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import type * as expr from "@grafana/grafana-foundation-sdk/expr";
import type * as heatmap from "@grafana/grafana-foundation-sdk/heatmap";
import type * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import type * as stat from "@grafana/grafana-foundation-sdk/stat";
import type * as table from "@grafana/grafana-foundation-sdk/table";
import type * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";

// In JSON, a value of an enumeration is its text; and what is left out has a default.
type Plain<T> = T extends string
  ? `${T}`
  : T extends object
    ? { [K in keyof T]?: Plain<T[K]> }
    : T;

type PanelOf<Type extends string, Options, Custom = Record<string, never>> = {
  type: Type;
  targets: Plain<Omit<prometheus.Dataquery, "_implementsDataqueryVariant">>[];
  options: Plain<Options>;
  fieldConfig: {
    defaults: Plain<Omit<dashboard.FieldConfig, "custom">> & { custom?: Plain<Custom> };
    overrides: [];
  };
} & Plain<Omit<dashboard.Panel, "type" | "targets" | "options" | "fieldConfig">>;

type Panel =
  | PanelOf<"timeseries", timeseries.Options, timeseries.FieldConfig>
  | PanelOf<"stat", stat.Options>
  | PanelOf<"heatmap", heatmap.Options>
  | PanelOf<"table", table.Options>
  | Plain<Omit<dashboard.RowPanel, "type" | "panels"> & { panels: [] }> & { type: "row" };

export type Dashboard = Plain<Omit<dashboard.Dashboard, "panels">> &
  Required<Pick<Plain<dashboard.Dashboard>, "schemaVersion" | "templating" | "annotations">> & { panels: Panel[] };

// A file of provisioning/alerting: its rules are those of the library, its groups are not.
type Query = Plain<Omit<alerting.Query, "model">> & {
  model:
    | Plain<Omit<prometheus.Dataquery, "_implementsDataqueryVariant">>
    | (Plain<Omit<expr.TypeThreshold, "_implementsDataqueryVariant">> & { type: "threshold" });
};

export type AlertFile = {
  apiVersion: 1;
  groups: {
    orgId: number;
    name: string;
    folder: string;
    interval: string;
    rules: (Plain<Omit<alerting.Rule, "data">> & { data: Query[] })[];
  }[];
};

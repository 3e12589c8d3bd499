-- Running instances, as each reports itself every few seconds. Rows of instances
-- that are gone are removed by the others.

CREATE TABLE router_instance (
    id text PRIMARY KEY,
    host text NOT NULL,
    version text NOT NULL, -- of LLM_ROUTER_CONFIG in force; empty without one
    since text NOT NULL, -- in force since, by the instance's clock
    source text NOT NULL, -- how it came
    workers integer NOT NULL,
    workers_current integer NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- configKV: values in force, and every value that ever was.

CREATE SEQUENCE config_kv_change;

CREATE TABLE config_kv (
    key text PRIMARY KEY CHECK (key ~ '^[A-Z0-9_]{1,64}$'),
    value text NOT NULL CHECK (octet_length(value) <= 16777216),
    version text NOT NULL CHECK (version ~ '^[A-Za-z0-9_-]{1,32}$'), -- a nanoid, new for each change
    change bigint NOT NULL, -- from config_kv_change; its row in the history
    updated_at timestamptz NOT NULL
);

CREATE TABLE config_kv_history (
    change bigint PRIMARY KEY,
    key text NOT NULL,
    version text NOT NULL,
    value text NOT NULL,
    author text NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (key, version)
);

-- For tables that are only appended to, whoever the writer is.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER config_kv_history_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON config_kv_history
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

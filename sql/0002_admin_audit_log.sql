-- What administrators did. Nothing of it is a secret.

CREATE TABLE admin_audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text,
    action text,
    object text,
    key text NOT NULL, -- of config_kv
    version_before text, -- NULL: there was no value
    version_after text NOT NULL,
    source_address text,
    request_id text,
    changes json NOT NULL -- [{"field", "before", "after"}, …]
);

CREATE TRIGGER admin_audit_log_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON admin_audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Who edits a value by hand leaves what everybody leaves: a version, a row of the history and a
-- line of the audit log. Without a version of its own nobody could tell the value from the one
-- before it, and instances would not take it up.

CREATE FUNCTION keep_hand_edit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := replace(gen_random_uuid()::text, '-', '');
    NEW.change := nextval('config_kv_change');
    NEW.updated_at := clock_timestamp();
    INSERT INTO config_kv_history (change, key, version, value, author, created_at)
    VALUES (NEW.change, NEW.key, NEW.version, NEW.value, 'postgres:' || session_user, NEW.updated_at);
    INSERT INTO admin_audit_log (key, version_before, version_after, actor, action, object, source_address, changes)
    VALUES (NEW.key, OLD.version, NEW.version, 'postgres:' || session_user, 'edit', NEW.key,
        host(inet_client_addr()), '[]');
    RETURN NEW;
END
$$;

-- The programs give each value a version themselves.
CREATE TRIGGER config_kv_edited_by_hand
    BEFORE UPDATE ON config_kv
    FOR EACH ROW WHEN (NEW.value <> OLD.value AND NEW.version = OLD.version)
    EXECUTE FUNCTION keep_hand_edit();

-- Voice packs, for whoever keeps them in SQL. Programs do not read this table: they read the
-- entry VOICE_PACKS of config_kv, which is always the same. What is done to the table is
-- rendered into the entry, and what the programs put into the entry is merged into the table,
-- each in the transaction that does it.
--
-- A row is never more than what the programs take (core/config/voice_packs.c): one that they
-- did not could keep every other change of the configuration out.

CREATE FUNCTION is_voice_pack_text(value text, bytes integer) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN octet_length(value) BETWEEN 1 AND bytes AND value !~ '[\x01-\x1f\x7f]';

-- NULL, which is none, is right.
CREATE FUNCTION is_voice_pack_number(value jsonb, low numeric, high numeric) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::numeric BETWEEN low AND high
            ELSE value IS NULL END;

CREATE TABLE voice_packs (
    id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', '') CHECK (id ~ '^[A-Za-z0-9_-]{1,64}$'),
    name text NOT NULL CHECK (is_voice_pack_text(name, 200)),
    description text CHECK (is_voice_pack_text(description, 2000)),
    provider text NOT NULL CHECK (is_voice_pack_text(provider, 200)),
    model text NOT NULL CHECK (is_voice_pack_text(model, 200)),
    voice_id text NOT NULL CHECK (is_voice_pack_text(voice_id, 200)),
    upstream_voice_id text CHECK (is_voice_pack_text(upstream_voice_id, 200)),
    tts_model_id text NOT NULL CHECK (is_voice_pack_text(tts_model_id, 200) AND strpos(tts_model_id, '|') = 0),
    params jsonb NOT NULL DEFAULT '{}' CHECK (
        jsonb_typeof(params) = 'object'
        AND params - ARRAY['pitch', 'volume', 'rate'] = '{}'
        AND is_voice_pack_number(params -> 'pitch', -50, 100) -- percent
        AND is_voice_pack_number(params -> 'volume', -100, 100) -- percent
        AND is_voice_pack_number(params -> 'rate', 0.25, 4)), -- times as fast
    tier text NOT NULL CHECK (tier IN ('lite', 'standard', 'pro', 'premium')),
    enabled boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
        CHECK (created_at >= '0001-01-01 00:00Z' AND created_at < '9999-12-31 00:00Z'),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
        CHECK (updated_at >= '0001-01-01 00:00Z' AND updated_at < '9999-12-31 00:00Z')
);

-- Reference audio, when there is any, is a table of its own, and a pack stays what has an
-- identity and a price:
--
--   voice_pack_references(
--       id text PRIMARY KEY,
--       pack_id text NOT NULL REFERENCES voice_packs ON DELETE CASCADE,
--       emotion text,                  -- a label that one of several is chosen by
--       transcript text NOT NULL,      -- what is said in it
--       media_type text NOT NULL,
--       sha256 bytea NOT NULL,         -- of the audio, which lies elsewhere
--       duration_ms integer NOT NULL,
--       created_at timestamptz NOT NULL)

CREATE FUNCTION render_voice_packs() RETURNS text LANGUAGE sql STABLE
RETURN (SELECT json_build_object('packs', coalesce(json_agg(json_strip_nulls(json_build_object(
        'id', id, 'name', name, 'description', description, 'provider', provider, 'model', model,
        'voice', voice_id, 'upstreamVoice', upstream_voice_id, 'ttsModelId', tts_model_id, 'params', params,
        'tier', tier, 'enabled', enabled,
        'createdAt', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'updatedAt', to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))
        ORDER BY created_at, id), '[]'))::text FROM voice_packs);

-- Whether the one is being made from the other right now: what that changes is no news then.
CREATE FUNCTION voice_packs_are_made() RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(current_setting('llm_router.voice_packs_are_made', true), '') = 'yes';

-- Everybody takes the entry's row first and the table's rows then, so that no two wait for
-- each other. Where there is no entry yet, one that says nothing is made to be taken.
CREATE FUNCTION voice_packs_take_turn() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM set_config('llm_router.voice_packs_are_made', 'yes', true);
    WITH made AS (
        INSERT INTO config_kv (key, value, version, change, updated_at)
        VALUES ('VOICE_PACKS', '{"packs":[]}', replace(gen_random_uuid()::text, '-', ''),
            nextval('config_kv_change'), clock_timestamp())
        ON CONFLICT (key) DO NOTHING RETURNING *)
    INSERT INTO config_kv_history (change, key, version, value, author, created_at)
    SELECT change, key, version, value, 'postgres:' || session_user, updated_at FROM made;
    PERFORM set_config('llm_router.voice_packs_are_made', '', true);
    PERFORM FROM config_kv WHERE key = 'VOICE_PACKS' FOR UPDATE;
    RETURN NULL;
END
$$;

CREATE FUNCTION voice_packs_touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    RETURN NEW;
END
$$;

-- A value that is edited so gets its version, its row of the history and its line of the
-- audit log from config_kv_edited_by_hand.
CREATE FUNCTION voice_packs_render() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF (SELECT count(*) FROM voice_packs) > 1000 THEN
        RAISE EXCEPTION 'there may be 1000 voice packs' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('llm_router.voice_packs_are_made', 'yes', true);
    UPDATE config_kv SET value = render_voice_packs() WHERE key = 'VOICE_PACKS' AND value <> render_voice_packs();
    PERFORM set_config('llm_router.voice_packs_are_made', '', true);
    RETURN NULL;
END
$$;

CREATE FUNCTION voice_packs_merge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    packs json := NEW.value::json -> 'packs';
BEGIN
    PERFORM set_config('llm_router.voice_packs_are_made', 'yes', true);
    DELETE FROM voice_packs WHERE id NOT IN (SELECT value ->> 'id' FROM json_array_elements(packs));
    INSERT INTO voice_packs AS kept (id, name, description, provider, model, voice_id, upstream_voice_id,
        tts_model_id, params, tier, enabled, created_at, updated_at)
    SELECT value ->> 'id', value ->> 'name', value ->> 'description', value ->> 'provider', value ->> 'model',
        value ->> 'voice', value ->> 'upstreamVoice', value ->> 'ttsModelId',
        coalesce((value -> 'params')::jsonb, '{}'), value ->> 'tier',
        coalesce((value ->> 'enabled')::boolean, true),
        coalesce((value ->> 'createdAt')::timestamptz, clock_timestamp()),
        coalesce((value ->> 'updatedAt')::timestamptz, clock_timestamp())
    FROM json_array_elements(packs)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description,
        provider = excluded.provider, model = excluded.model, voice_id = excluded.voice_id,
        upstream_voice_id = excluded.upstream_voice_id, tts_model_id = excluded.tts_model_id,
        params = excluded.params, tier = excluded.tier, enabled = excluded.enabled,
        created_at = excluded.created_at, updated_at = excluded.updated_at
    WHERE kept IS DISTINCT FROM excluded;
    PERFORM set_config('llm_router.voice_packs_are_made', '', true);
    RETURN NULL;
END
$$;

CREATE TRIGGER voice_packs_take_turn BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON voice_packs
    FOR EACH STATEMENT WHEN (NOT voice_packs_are_made()) EXECUTE FUNCTION voice_packs_take_turn();

CREATE TRIGGER voice_packs_touch BEFORE UPDATE ON voice_packs
    FOR EACH ROW WHEN (NEW IS DISTINCT FROM OLD AND NEW.updated_at = OLD.updated_at AND NOT voice_packs_are_made())
    EXECUTE FUNCTION voice_packs_touch();

CREATE TRIGGER voice_packs_render AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON voice_packs
    FOR EACH STATEMENT WHEN (NOT voice_packs_are_made()) EXECUTE FUNCTION voice_packs_render();

CREATE TRIGGER voice_packs_merge AFTER INSERT OR UPDATE OF value ON config_kv
    FOR EACH ROW WHEN (NEW.key = 'VOICE_PACKS' AND NOT voice_packs_are_made()) EXECUTE FUNCTION voice_packs_merge();

-- They run with the rights of the tables' owner: whoever keeps packs needs rights to voice_packs
-- alone, and the programs' role to config_kv. Nobody's temporary tables stand before these.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['voice_packs_take_turn()', 'voice_packs_render()', 'voice_packs_merge()'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', name, current_schema());
    END LOOP;
END
$$;

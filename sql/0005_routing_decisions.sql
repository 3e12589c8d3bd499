-- The request log: one row per request, made from its event. llm-router-log(7) says what the
-- columns are, and how rows are read exactly once.

CREATE SEQUENCE routing_decisions_arrival;

CREATE TABLE routing_decisions (
    -- Ascends in the order in which rows become visible: who has seen a number has seen all below it.
    arrival bigint NOT NULL DEFAULT nextval('routing_decisions_arrival'),
    started_at timestamptz NOT NULL, -- the event's time
    event_id uuid NOT NULL,
    instance text,
    request_id text,
    trace_id text,
    key_id text,
    owner text,
    remote_user text,
    mount text,
    dialect text,
    endpoint text,
    stream boolean,
    text_utf16 bigint,
    model text,
    model_routed text,
    response_model text,
    outcome text, -- the event's end, which is a word of SQL
    status integer,
    code text,
    committed boolean,
    attempts integer,
    fallback_depth integer,
    fallback_reason text,
    upstream text, -- this and the next two: of the last attempt
    provider text,
    key_fp text,
    ttft_us bigint,
    total_us bigint,
    upstream_us bigint,
    overhead_us bigint,
    input bigint,
    output bigint,
    cached_read bigint,
    cached_write bigint,
    reasoning bigint,
    audio_in bigint,
    audio_out bigint,
    characters bigint,
    audio_ms bigint,
    usage_source text,
    line bytea NOT NULL,
    line_sha256 bytea NOT NULL CHECK (line_sha256 = sha256(line)),
    PRIMARY KEY (started_at, event_id)
) PARTITION BY RANGE (started_at);

CREATE INDEX ON routing_decisions (arrival);
CREATE INDEX ON routing_decisions (request_id);
CREATE INDEX ON routing_decisions (owner, started_at);
CREATE INDEX ON routing_decisions (key_id, started_at);

-- What belongs to no month that there is.
CREATE TABLE routing_decisions_default PARTITION OF routing_decisions DEFAULT;

-- A sequence alone promises no order: of two that insert at once, the later number may be
-- committed first. So one inserts after the other; locks are released after the commit is seen.
-- Locks of ours have two numbers, of which the first is the program's own: "llmr".
CREATE FUNCTION routing_decisions_take_turn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1819045234, 1);
    RETURN NULL;
END
$$;

CREATE TRIGGER routing_decisions_take_turn BEFORE INSERT ON routing_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION routing_decisions_take_turn();

-- Makes the partitions of this month and the next two, in UTC; how many were missing. What the default
-- partition has of them is moved, with its arrival. Attaching keeps no reader and no writer out.
CREATE FUNCTION routing_decisions_make_months() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
SET timezone = 'UTC' SET lock_timeout = '3s' AS $$
DECLARE
    first timestamptz;
    month text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(1819045234, 2);
    FOR i IN 0..2 LOOP
        first := date_trunc('month', clock_timestamp()) + make_interval(months => i);
        month := 'routing_decisions_' || to_char(first, 'YYYY_MM');
        CONTINUE WHEN to_regclass(month) IS NOT NULL;
        LOCK TABLE routing_decisions_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('CREATE TABLE %I (LIKE routing_decisions INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', month);
        EXECUTE format('WITH moved AS (DELETE FROM routing_decisions_default
                            WHERE started_at >= $1 AND started_at < $2 RETURNING *)
                        INSERT INTO %I SELECT * FROM moved', month)
            USING first, first + interval '1 month';
        EXECUTE format('ALTER TABLE routing_decisions ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            month, first, first + interval '1 month');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- Drops the months that ended more than keep_days ago, and deletes rows of the default partition that are
-- older; how many partitions and rows.
CREATE FUNCTION routing_decisions_expire(keep_days integer, OUT dropped integer, OUT deleted bigint)
LANGUAGE plpgsql SECURITY DEFINER SET timezone = 'UTC' SET lock_timeout = '3s' AS $$
DECLARE
    horizon timestamptz := clock_timestamp() - make_interval(days => keep_days);
    month text;
BEGIN
    IF keep_days IS NULL OR keep_days < 1 THEN
        RAISE EXCEPTION 'rows are kept for at least a day' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(1819045234, 2);
    dropped := 0;
    FOR month IN
        SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'routing_decisions'::regclass AND relname ~ '^routing_decisions_\d{4}_\d{2}$'
        ORDER BY relname
    LOOP
        CONTINUE WHEN to_timestamp(right(month, 7), 'YYYY_MM') + interval '1 month' > horizon;
        EXECUTE format('DROP TABLE %I', month);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM routing_decisions_default WHERE started_at < horizon;
    GET DIAGNOSTICS deleted = ROW_COUNT;
END
$$;

-- They run with the rights of the tables' owner, so nobody's temporary tables stand before these. The programs'
-- role may run them, and nobody else.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['routing_decisions_make_months()', 'routing_decisions_expire(integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', name, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', name);
    END LOOP;
END
$$;

SELECT routing_decisions_make_months();

-- Settles calls of many integrations at once in the normal case: the twin of admit_joined, with healthy integrations. It leaves every other
-- case undecided, for settle_calls.
-- Rule: docs/behaviour/requests.md, "Joined statements". test/model/call-state.pg.test.ts binds it to test/model/.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___settle_joined"(p_ended jsonb, p_rows jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET lock_timeout = 100 AS $$
-- For calls without an upstream failure and without a suppression. p_ended: one element per integration. p_rows: the calls' rows in the order of
-- their integrations, each with the position of its integration from 1. decided: one per integration; false: nothing is written for it. ids: the
-- ids of the written rows, in order.
DECLARE
	now_ms constant bigint := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
	stamp constant timestamptz := to_timestamp(now_ms / 1000.0);
	-- So many slices are added to the state by settle_calls, which also drops those that are over: the row stays short.
	most constant integer := 8;
	ended record;
	start bigint;
	decided boolean[] := '{}';
	ids jsonb;
BEGIN
	-- One after the other: simple statements, whose plans are kept, cost less than one large one.
	FOR ended IN SELECT * FROM jsonb_to_recordset(p_ended) AS e(
		id bigint, key text, counted bigint, generation bigint, succeeded boolean, strategy text, slice bigint
	) LOOP
		PERFORM FROM "__schema__"."__prefix__s" WHERE id = ended.id AND health_status = 'healthy' AND consecutive_failures = 0;
		IF FOUND AND ended.generation IS NOT NULL THEN
			IF ended.strategy = 'rate' THEN
				start := (now_ms / ended.slice) * ended.slice;
				UPDATE "__schema__"."__prefix___cache" AS c SET updated_at = clock_timestamp(), value = CASE
					WHEN (c.value #>> '{slices,-1,0}')::bigint = start
						THEN jsonb_set(c.value, '{slices,-1,1}', to_jsonb((c.value #>> '{slices,-1,1}')::bigint + ended.counted))
					ELSE jsonb_set(c.value, '{slices}', (c.value -> 'slices') || jsonb_build_array(jsonb_build_array(start, ended.counted))) END
				WHERE c.key = ended.key AND c.value ->> 'strategy' = 'rate' AND (c.value ->> 'generation')::bigint = ended.generation
					AND ((c.value #>> '{slices,-1,0}')::bigint = start OR jsonb_array_length(c.value -> 'slices') < most);
			ELSE
				-- A success that would not change the streak.
				PERFORM FROM "__schema__"."__prefix___cache" AS c WHERE c.key = ended.key AND c.value ->> 'strategy' = 'count'
					AND (c.value ->> 'generation')::bigint = ended.generation AND (NOT ended.succeeded OR c.value ->> 'streak' = '0');
			END IF;
		END IF;
		decided := decided || FOUND;
	END LOOP;
	WITH written AS (
		INSERT INTO "__schema__"."__prefix___requests" (integration_id, endpoint, method, status_code, request_data, idempotency_key,
			provider_request_id, response_data, error, failure_class, duration_ms, retry_of, related_type, related_id, expires_at,
			request_hash, origin, created_at, updated_at)
		SELECT r.integration_id, r.endpoint, r.method, r.status_code, r.request_data, r.idempotency_key, r.provider_request_id,
			r.response_data, r.error, r.failure_class, r.duration_ms, r.retry_of, r.related_type, r.related_id,
			CASE WHEN r.expires_in_ms IS NOT NULL THEN stamp + make_interval(secs => r.expires_in_ms / 1000.0) END,
			-- Not before its key was spent, also where the clock was set back: what is older than a key is not under it.
			r.request_hash, r.origin, greatest(stamp, (SELECT k.created_at FROM "__schema__"."__prefix___idempotency_keys" AS k
				WHERE k.integration_id = r.integration_id AND k.key = r.idempotency_key)), stamp
		FROM jsonb_to_recordset(p_rows) AS r(
			"of" integer, integration_id bigint, endpoint text, method text, status_code int, request_data text, idempotency_key text,
			provider_request_id text, response_data text, error text, failure_class text, duration_ms int, retry_of bigint,
			related_type text, related_id bigint, expires_in_ms bigint, request_hash text, origin text
		) WHERE decided[r."of"]
		RETURNING id
	)
	-- Ids are drawn in the order of the rows.
	SELECT coalesce(jsonb_agg(id ORDER BY id), '[]'::jsonb) INTO ids FROM written;
	RETURN jsonb_build_object('ids', ids, 'decided', to_jsonb(decided));
END
$$;

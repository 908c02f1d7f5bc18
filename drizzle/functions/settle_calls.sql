-- Settles outbound calls of one integration: their rows, breaker, suppression, health and incident. It holds the whole rule.
-- The clock is read after the lock is held, unless the caller brings a moment of its own; moments are milliseconds since the epoch.
-- Rule: docs/behaviour/requests.md, "Settlement" and "Health". test/model/ holds the same rule, and test/model/call-state.pg.test.ts binds the two.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___settle_calls"(
	p_integration bigint, p_key text, p_settings jsonb, p_outcomes jsonb, p_now bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	breaker_on boolean := (p_settings #>> '{breaker,enabled}')::boolean;
	strategy text := p_settings #>> '{breaker,strategy}';
	window_ms bigint := (p_settings #>> '{breaker,windowSeconds}')::bigint * 1000;
	slice_ms bigint := ceil((p_settings #>> '{breaker,windowSeconds}')::numeric / 60)::bigint * 1000;
	rate bigint := (p_settings #>> '{breaker,ratePercent}')::bigint;
	minimum bigint := (p_settings #>> '{breaker,minimum}')::bigint;
	threshold bigint := (p_settings #>> '{breaker,threshold}')::bigint;
	degraded_after bigint := (p_settings #>> '{health,degradedAfter}')::bigint;
	failing_after bigint := (p_settings #>> '{health,failingAfter}')::bigint;
	disabled_after bigint := (p_settings #>> '{health,disabledAfter}')::bigint;
	incidents boolean := (p_settings ->> 'incidents')::boolean;
	row_data jsonb;
	ids jsonb := '[]'::jsonb;
	request_id bigint;
	touches_calls boolean;
	counts boolean;
	touches_health boolean;
	before jsonb;
	breaker jsonb;
	b_state text;
	b_generation bigint;
	b_opened bigint;
	b_probe jsonb;
	b_streak bigint;
	slice bigint;
	old jsonb;
	old_total bigint;
	old_failed bigint;
	run_total bigint;
	run_failed bigint;
	recounted boolean := false;
	suppressed bigint;
	now_ms bigint;
	stamp timestamptz;
	outcome jsonb;
	failure text;
	reason text;
	own record;
	status text;
	previous text;
	reached text;
	failures bigint;
	active boolean;
	last_error timestamptz;
	health_changed boolean := false;
	events jsonb := '[]'::jsonb;
	position integer := -1;
	heals boolean;
	severity constant jsonb := '{"healthy":0,"degraded":1,"failing":2,"disabled":3}'::jsonb;
BEGIN
	-- The state's row comes before the integration's: everybody takes the locks in this order.
	SELECT bool_or((o ->> 'generation') IS NOT NULL OR (o ->> 'quietForMs') IS NOT NULL OR (o ->> 'quietUntil') IS NOT NULL),
		bool_or((o ->> 'generation') IS NOT NULL),
		bool_or((o ->> 'class') IS NULL OR o ->> 'class' = 'upstream')
		INTO touches_calls, counts, touches_health FROM jsonb_array_elements(p_outcomes) AS o;
	IF touches_calls THEN
		before := "__schema__"."__prefix___lock_calls"(p_integration, p_key);
		IF before IS NULL THEN
			RETURN NULL;
		END IF;
	END IF;
	now_ms := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
	stamp := to_timestamp(now_ms / 1000.0);
	SELECT health_status, consecutive_failures, is_active, last_error_at INTO own
		FROM "__schema__"."__prefix__s" WHERE id = p_integration;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	-- Locked only if something is to be written: a success on a healthy row writes nothing.
	IF touches_health AND (own.health_status <> 'healthy' OR own.consecutive_failures <> 0
		OR EXISTS (SELECT FROM jsonb_array_elements(p_outcomes) AS o WHERE o ->> 'class' = 'upstream')) THEN
		SELECT health_status, consecutive_failures, is_active, last_error_at INTO own
			FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR NO KEY UPDATE;
		IF NOT FOUND THEN
			RETURN NULL;
		END IF;
	ELSE
		touches_health := false;
	END IF;
	status := own.health_status;
	failures := own.consecutive_failures;
	active := own.is_active;
	last_error := own.last_error_at;

	FOR row_data IN SELECT o -> 'row' FROM jsonb_array_elements(p_outcomes) AS o LOOP
		IF row_data IS NULL OR row_data = 'null'::jsonb THEN
			ids := ids || 'null'::jsonb;
			CONTINUE;
		END IF;
		INSERT INTO "__schema__"."__prefix___requests" (integration_id, endpoint, method, status_code, request_data, idempotency_key,
			provider_request_id, response_data, error, failure_class, duration_ms, retry_of, related_type, related_id, expires_at,
			request_hash, origin, created_at, updated_at)
		SELECT p_integration, r.endpoint, r.method, r.status_code, r.request_data, r.idempotency_key, r.provider_request_id,
			r.response_data, r.error, r.failure_class, r.duration_ms, r.retry_of, r.related_type, r.related_id,
			CASE WHEN r.expires_in_ms IS NOT NULL THEN stamp + make_interval(secs => r.expires_in_ms / 1000.0) END,
			-- Not before its key was spent, also where the clock was set back: what is older than a key is not under it.
			r.request_hash, r.origin, greatest(stamp, (SELECT k.created_at FROM "__schema__"."__prefix___idempotency_keys" AS k
				WHERE k.integration_id = p_integration AND k.key = r.idempotency_key)), stamp
		FROM jsonb_to_record(row_data) AS r(endpoint text, method text, status_code int, request_data text, idempotency_key text,
			provider_request_id text, response_data text, error text, failure_class text, duration_ms int, retry_of bigint,
			related_type text, related_id bigint, expires_in_ms bigint, request_hash text, origin text)
		RETURNING id INTO request_id;
		ids := ids || to_jsonb(request_id);
	END LOOP;

	IF touches_calls THEN
		breaker := coalesce(before -> 'breaker',
			'{"state":"closed","generation":0,"openedAt":null,"probe":null,"strategy":"rate","slices":[],"streak":0}'::jsonb);
		IF counts AND breaker ->> 'strategy' <> strategy THEN
			breaker := breaker || jsonb_build_object('strategy', strategy, 'slices', '[]'::jsonb, 'streak', 0);
		END IF;
		b_state := breaker ->> 'state';
		b_generation := (breaker ->> 'generation')::bigint;
		b_opened := (breaker ->> 'openedAt')::bigint;
		b_probe := breaker -> 'probe';
		b_streak := (breaker ->> 'streak')::bigint;
		-- The moment is one for the whole statement, so what has left the window has left it for all outcomes.
		slice := (now_ms / slice_ms) * slice_ms;
		SELECT coalesce(jsonb_agg(s ORDER BY ord) FILTER (WHERE (s ->> 0)::bigint <> slice), '[]'::jsonb),
			coalesce(sum((s ->> 1)::bigint) FILTER (WHERE (s ->> 0)::bigint <> slice), 0),
			coalesce(sum((s ->> 2)::bigint) FILTER (WHERE (s ->> 0)::bigint <> slice), 0),
			coalesce(sum((s ->> 1)::bigint) FILTER (WHERE (s ->> 0)::bigint = slice), 0),
			coalesce(sum((s ->> 2)::bigint) FILTER (WHERE (s ->> 0)::bigint = slice), 0)
			INTO old, old_total, old_failed, run_total, run_failed
			FROM jsonb_array_elements(breaker -> 'slices') WITH ORDINALITY AS kept(s, ord)
			WHERE (s ->> 0)::bigint > now_ms - window_ms;
		suppressed := (before ->> 'suppressedUntil')::bigint;
	END IF;

	FOR outcome IN SELECT o FROM jsonb_array_elements(p_outcomes) AS o LOOP
		position := position + 1;
		failure := outcome ->> 'class';
		reason := NULL;
		heals := false;
		IF failure = 'upstream' THEN
			last_error := stamp;
		END IF;
		IF touches_calls THEN
			suppressed := greatest(suppressed, now_ms + (outcome ->> 'quietForMs')::bigint,
				CASE WHEN (outcome ->> 'quietUntil')::bigint > now_ms
					THEN least((outcome ->> 'quietUntil')::bigint, now_ms + 86400000) END);
			IF (outcome ->> 'generation')::bigint = b_generation THEN
				IF b_state = 'half_open' AND b_probe ->> 'owner' = outcome ->> 'owner' AND now_ms < (b_probe ->> 'until')::bigint THEN
					b_probe := NULL;
					IF failure IS NULL THEN
						b_state := 'closed';
						b_generation := b_generation + 1;
						b_opened := NULL;
						old := '[]'::jsonb; old_total := 0; old_failed := 0; run_total := 0; run_failed := 0; b_streak := 0; recounted := true;
						events := events || jsonb_build_object('at', position, 'kind', 'circuit_closed', 'reason', 'half_open_probe_succeeded');
						heals := true;
					ELSIF failure = 'upstream' THEN
						reason := 'half_open_probe_failed';
					END IF;
				ELSIF b_state = 'closed' THEN
					IF strategy = 'count' THEN
						b_streak := CASE WHEN failure IS NULL THEN 0 WHEN failure = 'upstream' THEN b_streak + 1 ELSE b_streak END;
						IF failure = 'upstream' AND b_streak >= threshold THEN
							reason := 'threshold_reached';
						END IF;
					ELSE
						recounted := true;
						run_total := run_total + 1;
						IF failure = 'upstream' THEN
							run_failed := run_failed + 1;
							IF old_total + run_total >= minimum AND (old_failed + run_failed) * 100 >= rate * (old_total + run_total) THEN
								reason := 'threshold_reached';
							END IF;
						END IF;
					END IF;
				END IF;
				IF reason IS NOT NULL THEN
					b_state := 'open';
					b_generation := b_generation + 1;
					b_opened := now_ms;
					-- Nothing is counted while it is open: the sums are not asked for again.
					old := '[]'::jsonb; run_total := 0; b_streak := 0; recounted := true;
					events := events || jsonb_build_object('at', position, 'kind', 'circuit_opened', 'reason', reason, 'openedAt', now_ms);
					IF incidents THEN
						events := events || "__schema__"."__prefix___open_incident"(p_integration, position, 'circuit', reason, 'failing', last_error, stamp);
					END IF;
				END IF;
			END IF;
		END IF;

		IF touches_health THEN
			previous := status;
			IF failure IS NULL THEN
				IF failures <> 0 OR status IN ('degraded', 'failing') THEN
					health_changed := true;
				END IF;
				failures := 0;
				IF status <> 'disabled' THEN
					status := 'healthy';
				END IF;
			ELSIF failure = 'upstream' THEN
				health_changed := true;
				failures := failures + 1;
				reached := CASE WHEN failures >= disabled_after THEN 'disabled' WHEN failures >= failing_after THEN 'failing'
					WHEN failures >= degraded_after THEN 'degraded' ELSE 'healthy' END;
				IF (severity ->> reached)::int > (severity ->> status)::int THEN
					status := reached;
				END IF;
			END IF;
			IF status <> previous THEN
				IF status = 'disabled' THEN
					active := false;
					events := events || jsonb_build_object('at', position, 'kind', 'disabled');
				END IF;
				events := events || jsonb_build_object('at', position, 'kind', 'health', 'previous', previous, 'new', status);
				IF status = 'healthy' THEN
					heals := true;
				ELSIF incidents THEN
					events := events || "__schema__"."__prefix___open_incident"(p_integration, position, 'health', 'health_' || status, status, last_error, stamp);
				END IF;
			END IF;
		END IF;
		IF heals AND NOT touches_health THEN
			SELECT health_status INTO status FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR NO KEY UPDATE;
		END IF;
		IF heals AND "__schema__"."__prefix___is_integration_well"(p_integration, status) THEN
			IF NOT touches_calls THEN
				SELECT value #>> '{breaker,state}' INTO b_state FROM "__schema__"."__prefix___cache" WHERE key = p_key;
			END IF;
			-- A breaker that is switched off counts nothing any more: where it stood when it was says nothing.
			IF NOT breaker_on OR coalesce(b_state, 'closed') = 'closed' THEN
				events := events || "__schema__"."__prefix___close_incident"(p_integration, position, stamp);
			END IF;
		END IF;
	END LOOP;

	IF touches_calls THEN
		PERFORM "__schema__"."__prefix___store_calls"(p_key, before || jsonb_build_object(
			'breaker', breaker || jsonb_build_object('state', b_state, 'generation', b_generation, 'openedAt', b_opened, 'probe', b_probe,
				'streak', b_streak, 'slices', CASE WHEN NOT recounted THEN breaker -> 'slices'
					WHEN run_total = 0 THEN old ELSE old || jsonb_build_array(jsonb_build_array(slice, run_total, run_failed)) END),
			'suppressedUntil', suppressed
		));
	END IF;
	IF health_changed THEN
		UPDATE "__schema__"."__prefix__s" SET health_status = status, consecutive_failures = failures, is_active = active,
			last_error_at = last_error, updated_at = stamp WHERE id = p_integration;
	END IF;

	RETURN jsonb_build_object('ids', ids, 'events', events);
END
$$;

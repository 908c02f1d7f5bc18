-- The state of an integration's calls in three rows, and admission and settlement for many integrations at once.
--
-- <key>: breaker and suppression, the whole of them. <key>:ended: what the breaker has counted since. <key>:window: the limiter's window.
-- Under the last two keys stands also, for as long as nothing is the matter, what the joined functions below must know: so an admission and a settlement
-- never wait for each other, nor for the long row of a breaker with a full window. Everything else takes all three locks, in this order.
CREATE FUNCTION "__schema__"."__prefix___merged_calls"(p_state jsonb, p_ended jsonb, p_window jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
-- The state as one: what was counted since is added to its slices.
SELECT coalesce(p_state, '{}'::jsonb) || jsonb_build_object('window', CASE WHEN jsonb_typeof(p_window -> 'window') = 'object' THEN (p_window -> 'window') - 'given' END) || CASE
	WHEN jsonb_array_length(p_ended -> 'slices') > 0 THEN jsonb_build_object('breaker', jsonb_set(p_state -> 'breaker', '{slices}', (
		SELECT jsonb_agg(jsonb_build_array(start, total, failed) ORDER BY start) FROM (
			SELECT (s ->> 0)::bigint AS start, sum((s ->> 1)::bigint) AS total, sum(coalesce((s ->> 2)::bigint, 0)) AS failed
			FROM jsonb_array_elements(p_state #> '{breaker,slices}' || (p_ended -> 'slices')) AS s GROUP BY 1
		) AS slice)))
	ELSE '{}'::jsonb END
$$;
--> statement-breakpoint
CREATE FUNCTION "__schema__"."__prefix___store_calls"(p_key text, p_state jsonb) RETURNS void LANGUAGE plpgsql AS $$
-- Under all three locks.
DECLARE
	-- Null: the joined functions leave this one alone.
	generation constant jsonb := CASE WHEN p_state #>> '{breaker,state}' = 'closed' THEN p_state #> '{breaker,generation}' END;
	strategy constant jsonb := p_state #> '{breaker,strategy}';
	whole constant jsonb := p_state - 'window';
	ended constant jsonb := jsonb_build_object('generation', generation, 'strategy', strategy, 'streak', p_state #> '{breaker,streak}', 'slices', '[]'::jsonb);
	spent constant jsonb := jsonb_build_object('generation', generation, 'strategy', strategy, 'suppressedUntil', p_state -> 'suppressedUntil',
		'window', p_state -> 'window');
BEGIN
	UPDATE "__schema__"."__prefix___cache" SET updated_at = clock_timestamp(), value = whole WHERE key = p_key AND value IS DISTINCT FROM whole;
	UPDATE "__schema__"."__prefix___cache" SET updated_at = clock_timestamp(), value = ended WHERE key = p_key || ':ended' AND value IS DISTINCT FROM ended;
	UPDATE "__schema__"."__prefix___cache" SET updated_at = clock_timestamp(), value = spent WHERE key = p_key || ':window' AND value IS DISTINCT FROM spent;
END
$$;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___lock_calls"(p_integration bigint, p_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
-- The state, locked. Null when the integration is gone: then no row is left behind for it.
DECLARE
	state jsonb;
	ended jsonb;
	spent jsonb;
	is_new boolean;
BEGIN
	SELECT value INTO state FROM "__schema__"."__prefix___cache" WHERE key = p_key FOR UPDATE;
	is_new := NOT FOUND;
	SELECT value INTO ended FROM "__schema__"."__prefix___cache" WHERE key = p_key || ':ended' FOR UPDATE;
	is_new := is_new OR NOT FOUND;
	SELECT value INTO spent FROM "__schema__"."__prefix___cache" WHERE key = p_key || ':window' FOR UPDATE;
	is_new := is_new OR NOT FOUND;
	IF is_new THEN
		INSERT INTO "__schema__"."__prefix___cache" (key, value) VALUES (p_key, '{}'), (p_key || ':ended', '{}'), (p_key || ':window', '{}')
			ON CONFLICT (key) DO NOTHING;
		SELECT value INTO state FROM "__schema__"."__prefix___cache" WHERE key = p_key FOR UPDATE;
		SELECT value INTO ended FROM "__schema__"."__prefix___cache" WHERE key = p_key || ':ended' FOR UPDATE;
		SELECT value INTO spent FROM "__schema__"."__prefix___cache" WHERE key = p_key || ':window' FOR UPDATE;
		-- Who deletes the integration holds its row and does not see ours: it is waited for.
		PERFORM FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR KEY SHARE;
		IF NOT FOUND THEN
			DELETE FROM "__schema__"."__prefix___cache" WHERE key IN (p_key, p_key || ':ended', p_key || ':window');
			RETURN NULL;
		END IF;
	END IF;
	RETURN "__schema__"."__prefix___merged_calls"(state, ended, spent);
END
$$;
--> statement-breakpoint
INSERT INTO "__schema__"."__prefix___cache" (key, value)
SELECT key || part, CASE part WHEN ':window' THEN jsonb_build_object('window', value -> 'window') ELSE '{}'::jsonb END
FROM "__schema__"."__prefix___cache", unnest(array[':ended', ':window']) AS part
WHERE key LIKE '%:integration:%:calls' AND jsonb_typeof(value) = 'object' ON CONFLICT (key) DO NOTHING;
--> statement-breakpoint
-- As in 0001, but for where the state is kept.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___admit_calls"(
	p_integration bigint, p_key text, p_settings jsonb, p_owners jsonb, p_now bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	-- breaker settings
	enabled boolean := (p_settings #>> '{breaker,enabled}')::boolean;
	strategy text := p_settings #>> '{breaker,strategy}';
	cooldown_ms bigint := (p_settings #>> '{breaker,cooldownSeconds}')::bigint * 1000;
	circuit_overrides boolean := (p_settings ->> 'circuitOverrides')::boolean;
	limit_overrides boolean := (p_settings ->> 'limitOverrides')::boolean;
	own record;
	forced text;
	wanted jsonb := nullif(p_settings -> 'limit', 'null'::jsonb);
	limit_source text := CASE WHEN nullif(p_settings -> 'limit', 'null'::jsonb) IS NULL THEN 'none' ELSE 'provider' END;
	limit_malformed boolean := false;
	override_malformed boolean := false;
	released boolean := false;
	-- state
	before jsonb;
	breaker jsonb;
	b_state text;
	b_generation bigint;
	b_opened bigint;
	b_probe_owner text;
	b_probe_until bigint;
	suppressed bigint;
	window_state jsonb;
	-- limit
	l_limit bigint;
	l_seconds bigint;
	l_kind text;
	length_ms bigint;
	quantum bigint;
	old_quantum bigint;
	w_start bigint;
	w_count bigint := 0;
	slots bigint[] := '{}';
	counts bigint[] := '{}';
	moved bigint;
	spent bigint;
	-- one caller
	owner text;
	now_ms bigint;
	taking boolean;
	counted boolean;
	verdicts jsonb := '[]'::jsonb;
	changed boolean := false;
	recounts boolean := false;
	next_state text;
	next_generation bigint;
	gone bigint;
BEGIN
	-- Without a flush of its own: the settlement of the call flushes this too, so a crash of Postgres can forget no more than the
	-- admissions of calls that were in flight.
	PERFORM set_config('synchronous_commit', 'off', true);
	before := "__schema__"."__prefix___lock_calls"(p_integration, p_key);
	IF before IS NULL THEN
		RETURN NULL;
	END IF;
	now_ms := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
	SELECT circuit_override, circuit_override_until, rate_limit_override, rate_limit_override_until
		INTO own FROM "__schema__"."__prefix__s" WHERE id = p_integration;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	IF circuit_overrides AND own.circuit_override IS NOT NULL THEN
		IF own.circuit_override NOT IN ('forced_open', 'forced_closed', 'disabled') THEN
			override_malformed := true;
		ELSIF own.circuit_override_until IS NULL OR now_ms < floor(extract(epoch FROM own.circuit_override_until) * 1000) THEN
			forced := own.circuit_override;
		ELSE
			-- It is over: the breaker has itself back. Whoever has set another one meanwhile keeps that.
			UPDATE "__schema__"."__prefix__s" SET circuit_override = NULL, circuit_override_until = NULL,
				updated_at = to_timestamp(now_ms / 1000.0)
				WHERE id = p_integration AND circuit_override = own.circuit_override AND circuit_override_until = own.circuit_override_until;
			released := FOUND;
		END IF;
	END IF;
	IF limit_overrides AND own.rate_limit_override IS NOT NULL THEN
		IF now_ms >= floor(extract(epoch FROM own.rate_limit_override_until) * 1000) THEN
			UPDATE "__schema__"."__prefix__s" SET rate_limit_override = NULL, rate_limit_override_until = NULL,
				updated_at = to_timestamp(now_ms / 1000.0)
				WHERE id = p_integration AND rate_limit_override = own.rate_limit_override
					AND rate_limit_override_until = own.rate_limit_override_until;
		ELSIF jsonb_typeof(own.rate_limit_override) = 'object'
			AND jsonb_typeof(own.rate_limit_override -> 'limit') = 'number'
			AND jsonb_typeof(own.rate_limit_override -> 'windowSeconds') = 'number'
			AND (own.rate_limit_override ->> 'limit') ~ '^[1-9][0-9]{0,9}$'
			AND (own.rate_limit_override ->> 'windowSeconds') ~ '^[1-9][0-9]{0,9}$'
			AND own.rate_limit_override ->> 'window' IN ('fixed', 'sliding') THEN
			wanted := jsonb_build_object('limit', own.rate_limit_override -> 'limit',
				'seconds', own.rate_limit_override -> 'windowSeconds', 'window', own.rate_limit_override -> 'window');
			limit_source := 'override';
		ELSE
			limit_malformed := true;
		END IF;
	END IF;

	breaker := coalesce(nullif(before -> 'breaker', 'null'::jsonb),
		'{"state":"closed","generation":0,"openedAt":null,"probe":null,"strategy":"rate","slices":[],"streak":0}'::jsonb);
	-- Another strategy counts other things: it starts empty. An open breaker stays open.
	IF enabled AND forced IS NULL AND breaker ->> 'strategy' <> strategy THEN
		breaker := breaker || jsonb_build_object('strategy', strategy, 'slices', '[]'::jsonb, 'streak', 0);
		recounts := true;
	END IF;
	IF released THEN
		breaker := breaker || jsonb_build_object('state', 'closed', 'generation', (breaker ->> 'generation')::bigint + 1,
			'openedAt', NULL, 'probe', NULL, 'slices', '[]'::jsonb, 'streak', 0);
	END IF;
	b_state := breaker ->> 'state';
	b_generation := (breaker ->> 'generation')::bigint;
	b_opened := (breaker ->> 'openedAt')::bigint;
	b_probe_owner := breaker #>> '{probe,owner}';
	b_probe_until := (breaker #>> '{probe,until}')::bigint;
	suppressed := (before ->> 'suppressedUntil')::bigint;
	window_state := nullif(before -> 'window', 'null'::jsonb);

	IF wanted IS NOT NULL THEN
		l_limit := (wanted ->> 'limit')::bigint;
		l_seconds := (wanted ->> 'seconds')::bigint;
		l_kind := wanted ->> 'window';
		length_ms := l_seconds * 1000;
		IF l_kind = 'fixed' THEN
			w_start := (now_ms / length_ms) * length_ms;
			-- A clock that was set back stays in the window that it had reached.
			IF window_state ->> 'kind' = 'fixed' AND (window_state ->> 'seconds')::bigint = l_seconds
				AND (window_state ->> 'startsAt')::bigint >= w_start THEN
				w_start := (window_state ->> 'startsAt')::bigint;
				w_count := (window_state ->> 'count')::bigint;
			END IF;
		ELSE
			quantum := CASE WHEN l_limit <= 1024 THEN 1 ELSE ceil(length_ms / 1024.0)::bigint END;
			IF window_state ->> 'kind' = 'sliding' AND (window_state ->> 'seconds')::bigint = l_seconds THEN
				old_quantum := (window_state ->> 'quantum')::bigint;
				FOR moved, spent IN
					SELECT CASE WHEN old_quantum = quantum THEN s ELSE ((s + old_quantum - 1) / quantum) * quantum END, sum(c)
					FROM unnest(
						array(SELECT jsonb_array_elements_text(window_state -> 'slots')::bigint),
						array(SELECT jsonb_array_elements_text(window_state -> 'counts')::bigint)
					) AS slot(s, c)
					WHERE s + old_quantum - 1 + length_ms > now_ms
					GROUP BY 1 ORDER BY 1
				LOOP
					slots := slots || moved;
					counts := counts || spent;
					w_count := w_count + spent;
				END LOOP;
			END IF;
		END IF;
	END IF;

	FOR owner IN SELECT jsonb_array_elements_text(p_owners) LOOP
		taking := false;
		counted := false;
		next_state := b_state;
		next_generation := b_generation;
		IF forced = 'forced_open' THEN
			verdicts := verdicts || jsonb_build_object('kind', 'open', 'openedAt', b_opened, 'retryAfterMs', NULL);
			CONTINUE;
		ELSIF forced IS NULL AND enabled THEN
			counted := true;
			IF b_state = 'open' THEN
				IF coalesce(b_opened, now_ms) + cooldown_ms > now_ms THEN
					verdicts := verdicts || jsonb_build_object('kind', 'open', 'openedAt', coalesce(b_opened, now_ms),
						'retryAfterMs', coalesce(b_opened, now_ms) + cooldown_ms - now_ms);
					CONTINUE;
				END IF;
				taking := true;
				next_state := 'half_open';
				next_generation := b_generation + 1;
			ELSIF b_state = 'half_open' THEN
				IF b_probe_owner IS NOT NULL AND now_ms < b_probe_until THEN
					verdicts := verdicts || jsonb_build_object('kind', 'open', 'openedAt', b_opened, 'retryAfterMs', NULL);
					CONTINUE;
				END IF;
				taking := true;
			END IF;
		END IF;
		IF suppressed IS NOT NULL AND now_ms < suppressed THEN
			verdicts := verdicts || jsonb_build_object('kind', 'suppressed', 'retryAfterMs', suppressed - now_ms);
			CONTINUE;
		END IF;
		IF wanted IS NOT NULL THEN
			IF w_count >= l_limit THEN
				IF l_kind = 'fixed' THEN
					gone := w_start + length_ms - now_ms;
				ELSE
					SELECT s + quantum - 1 + length_ms - now_ms INTO gone FROM (
						SELECT s, sum(c) OVER (ORDER BY s) AS freed FROM unnest(slots, counts) AS slot(s, c)
					) AS leaving WHERE freed >= w_count - l_limit + 1 ORDER BY s LIMIT 1;
				END IF;
				verdicts := verdicts || jsonb_build_object('kind', 'limited', 'retryAfterMs', gone, 'limit', wanted);
				CONTINUE;
			END IF;
			w_count := w_count + 1;
			IF l_kind = 'sliding' THEN
				moved := greatest((now_ms / quantum) * quantum, coalesce(slots[cardinality(slots)], 0));
				IF slots[cardinality(slots)] = moved THEN
					counts[cardinality(counts)] := counts[cardinality(counts)] + 1;
				ELSE
					slots := slots || moved;
					counts := counts || 1::bigint;
				END IF;
			END IF;
		END IF;
		b_state := next_state;
		b_generation := next_generation;
		IF taking THEN
			b_probe_owner := owner;
			b_probe_until := now_ms + greatest(cooldown_ms, 60000);
		END IF;
		changed := changed OR taking OR recounts OR wanted IS NOT NULL OR window_state IS NOT NULL;
		verdicts := verdicts || jsonb_build_object('kind', 'admitted',
			'generation', CASE WHEN counted THEN b_generation ELSE NULL END, 'probe', taking);
	END LOOP;

	IF changed OR released THEN
		PERFORM "__schema__"."__prefix___store_calls"(p_key, jsonb_build_object(
			'breaker', breaker || jsonb_build_object('state', b_state, 'generation', b_generation, 'openedAt', b_opened,
				'probe', CASE WHEN b_probe_owner IS NULL THEN NULL
					ELSE jsonb_build_object('owner', b_probe_owner, 'until', b_probe_until) END),
			'suppressedUntil', suppressed,
			'window', CASE WHEN NOT changed THEN window_state WHEN wanted IS NULL THEN NULL
				WHEN l_kind = 'fixed' THEN jsonb_build_object('kind', 'fixed', 'seconds', l_seconds, 'startsAt', w_start, 'count', w_count)
				ELSE jsonb_build_object('kind', 'sliding', 'seconds', l_seconds, 'quantum', quantum,
					'slots', to_jsonb(slots), 'counts', to_jsonb(counts)) END
		));
	END IF;
	RETURN jsonb_build_object('verdicts', verdicts, 'override', forced, 'overrideMalformed', override_malformed,
		'limitSource', limit_source, 'limitMalformed', limit_malformed);
END
$$;
--> statement-breakpoint
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
	touches_calls boolean := false;
	counts boolean := false;
	locked boolean := false;
	touches_health boolean := false;
	before jsonb;
	breaker jsonb;
	b_state text;
	b_generation bigint;
	b_opened bigint;
	b_probe jsonb;
	b_streak bigint;
	slice bigint;
	old jsonb := '[]'::jsonb;
	old_total bigint := 0;
	old_failed bigint := 0;
	run_total bigint := 0;
	run_failed bigint := 0;
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
	heals boolean := false;
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
	SELECT health_status, consecutive_failures, is_active, last_error_at, sync_stale_alerted_at INTO own
		FROM "__schema__"."__prefix__s" WHERE id = p_integration;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	-- Locked only if something is to be written: a success on a healthy row writes nothing.
	IF touches_health AND (own.health_status <> 'healthy' OR own.consecutive_failures <> 0
		OR EXISTS (SELECT FROM jsonb_array_elements(p_outcomes) AS o WHERE o ->> 'class' = 'upstream')) THEN
		SELECT health_status, consecutive_failures, is_active, last_error_at, sync_stale_alerted_at INTO own
			FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR NO KEY UPDATE;
		IF NOT FOUND THEN
			RETURN NULL;
		END IF;
		locked := true;
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
			request_hash, created_at, updated_at)
		SELECT p_integration, r.endpoint, r.method, r.status_code, r.request_data, r.idempotency_key, r.provider_request_id,
			r.response_data, r.error, r.failure_class, r.duration_ms, r.retry_of, r.related_type, r.related_id,
			CASE WHEN r.expires_in_ms IS NOT NULL THEN stamp + make_interval(secs => r.expires_in_ms / 1000.0) END,
			r.request_hash, stamp, stamp
		FROM jsonb_to_record(row_data) AS r(endpoint text, method text, status_code int, request_data text, idempotency_key text,
			provider_request_id text, response_data text, error text, failure_class text, duration_ms int, retry_of bigint,
			related_type text, related_id bigint, expires_in_ms bigint, request_hash text)
		RETURNING id INTO request_id;
		ids := ids || to_jsonb(request_id);
	END LOOP;

	IF touches_calls THEN
		breaker := coalesce(nullif(before -> 'breaker', 'null'::jsonb),
			'{"state":"closed","generation":0,"openedAt":null,"probe":null,"strategy":"rate","slices":[],"streak":0}'::jsonb);
		IF counts AND breaker ->> 'strategy' <> strategy THEN
			breaker := breaker || jsonb_build_object('strategy', strategy, 'slices', '[]'::jsonb, 'streak', 0);
		END IF;
		b_state := breaker ->> 'state';
		b_generation := (breaker ->> 'generation')::bigint;
		b_opened := (breaker ->> 'openedAt')::bigint;
		b_probe := nullif(breaker -> 'probe', 'null'::jsonb);
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
					b_probe := NULL;
					old := '[]'::jsonb; old_total := 0; old_failed := 0; run_total := 0; run_failed := 0; b_streak := 0; recounted := true;
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
		IF heals AND NOT locked THEN
			SELECT health_status, consecutive_failures, is_active, last_error_at, sync_stale_alerted_at INTO own
				FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR NO KEY UPDATE;
			status := own.health_status;
			locked := true;
		END IF;
		IF heals AND status = 'healthy' AND own.sync_stale_alerted_at IS NULL THEN
			IF NOT touches_calls THEN
				SELECT coalesce(value #>> '{breaker,state}', 'closed') INTO b_state FROM "__schema__"."__prefix___cache" WHERE key = p_key;
			END IF;
			-- A breaker that is switched off counts nothing any more: where it stood when it was says nothing.
			IF NOT breaker_on OR coalesce(b_state, 'closed') = 'closed' THEN
				events := events || "__schema__"."__prefix___close_incident"(p_integration, position, stamp);
			END IF;
		END IF;
		heals := false;
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
--> statement-breakpoint
-- Where nothing is the matter: breaker closed, no override, no quiet asked for, health untroubled. Of all else the joined functions say nothing, and
-- admit_calls and settle_calls decide it, one integration at a time. Each row is judged as it is when it is written (PostgreSQL manual, 13.2.1), so no
-- lock comes before; one that somebody holds is waited for 100 ms and no longer (lock_not_available), since it holds up the others.
-- The rule is the same; test/core/call-state.pg.test.ts binds these, too.
CREATE FUNCTION "__schema__"."__prefix___admit_joined"(p_asked jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql
-- Planned once: what it is given differs in nothing that a plan could go by.
SET plan_cache_mode = force_generic_plan SET lock_timeout = 100 AS $$
-- For each one asked for, in order: null, not decided here; or three numbers: the breaker's generation for all its callers (-1 where the breaker
-- does not count), how many more units are given out, all that are wanted or none, and for how many milliseconds their window lasts. More are given out in the
-- first eighth of a window only, and none where one holds less than a thousand: what is not used is lost.
DECLARE
	now_ms constant bigint := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
	asked record;
	this_start bigint;
	generation bigint;
	given bigint;
	left_ms bigint;
	answer jsonb := '[]'::jsonb;
BEGIN
	-- As in admit_calls: the settlement of the call flushes this too.
	PERFORM set_config('synchronous_commit', 'off', true);
	-- One after the other: simple statements, whose plans are kept, cost less than one large one.
	FOR asked IN SELECT * FROM jsonb_to_recordset(p_asked) AS a(
		id bigint, key text, callers bigint, more bigint, counts boolean, strategy text, "circuitOverrides" boolean, "limitOverrides" boolean,
		"limit" bigint, seconds bigint
	) LOOP
		PERFORM FROM "__schema__"."__prefix__s" AS i WHERE i.id = asked.id
			AND NOT (asked."circuitOverrides" AND i.circuit_override IS NOT NULL) AND NOT (asked."limitOverrides" AND i.rate_limit_override IS NOT NULL);
		IF NOT FOUND THEN
			answer := answer || 'null'::jsonb;
			CONTINUE;
		END IF;
		IF asked."limit" IS NULL THEN
			-- A window that nobody wants any more is for admit_calls to clear. No window, no end: the term of the units is the asker's own.
			SELECT (c.value ->> 'generation')::bigint, asked.more, 2147483647 INTO generation, given, left_ms
			FROM "__schema__"."__prefix___cache" AS c WHERE c.key = asked.key AND coalesce(c.value -> 'window', 'null'::jsonb) = 'null'::jsonb
				AND c.value ? 'generation' AND (NOT asked.counts OR ((c.value ->> 'generation') IS NOT NULL AND c.value ->> 'strategy' = asked.strategy))
				AND coalesce((c.value ->> 'suppressedUntil')::bigint <= now_ms, true);
		ELSE
			this_start := (now_ms / (asked.seconds * 1000)) * (asked.seconds * 1000);
			UPDATE "__schema__"."__prefix___cache" AS c SET updated_at = clock_timestamp(), value = jsonb_set(c.value, '{window}', (
				SELECT jsonb_build_object('kind', 'fixed', 'seconds', asked.seconds, 'startsAt', start, 'count', used + asked.callers + beyond, 'given', beyond)
				FROM (SELECT CASE WHEN is_same THEN (c.value #>> '{window,startsAt}')::bigint ELSE this_start END AS start,
						CASE WHEN is_same THEN (c.value #>> '{window,count}')::bigint ELSE 0 END AS used
					-- A clock that was set back stays in the window that it had reached.
					FROM (SELECT coalesce(c.value #>> '{window,kind}' = 'fixed' AND (c.value #>> '{window,seconds}')::bigint = asked.seconds
						AND (c.value #>> '{window,startsAt}')::bigint >= this_start, false) AS is_same) AS known) AS window_now,
					LATERAL (SELECT CASE WHEN asked."limit" >= 1000 AND (used + asked.callers + asked.more) * 8 <= asked."limit"
						THEN asked.more ELSE 0 END AS beyond) AS more))
			WHERE c.key = asked.key
				AND c.value ? 'generation' AND (NOT asked.counts OR ((c.value ->> 'generation') IS NOT NULL AND c.value ->> 'strategy' = asked.strategy))
				AND coalesce((c.value ->> 'suppressedUntil')::bigint <= now_ms, true)
				AND asked.callers + CASE WHEN c.value #>> '{window,kind}' = 'fixed' AND (c.value #>> '{window,seconds}')::bigint = asked.seconds
					AND (c.value #>> '{window,startsAt}')::bigint >= this_start THEN (c.value #>> '{window,count}')::bigint ELSE 0 END <= asked."limit"
			RETURNING (c.value ->> 'generation')::bigint, (c.value #>> '{window,given}')::bigint,
				(c.value #>> '{window,startsAt}')::bigint + asked.seconds * 1000 - now_ms INTO generation, given, left_ms;
		END IF;
		answer := answer || CASE WHEN FOUND THEN jsonb_build_array(jsonb_build_array(CASE WHEN asked.counts THEN generation ELSE -1 END, given, left_ms))
			ELSE '[null]'::jsonb END;
	END LOOP;
	RETURN answer;
END
$$;
--> statement-breakpoint
CREATE FUNCTION "__schema__"."__prefix___settle_joined"(p_ended jsonb, p_rows jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET lock_timeout = 100 AS $$
-- For calls none of which failed upstream or asked for quiet. p_ended: an element per integration; p_rows: the calls' rows in the order of their
-- integrations, each with the position of its own from 1. decided: for each integration; false: nothing is written. ids: of what is, in order.
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
			request_hash, created_at, updated_at)
		SELECT r.integration_id, r.endpoint, r.method, r.status_code, r.request_data, r.idempotency_key, r.provider_request_id,
			r.response_data, r.error, r.failure_class, r.duration_ms, r.retry_of, r.related_type, r.related_id,
			CASE WHEN r.expires_in_ms IS NOT NULL THEN stamp + make_interval(secs => r.expires_in_ms / 1000.0) END,
			r.request_hash, stamp, stamp
		FROM jsonb_to_recordset(p_rows) AS r(
			"of" integer, integration_id bigint, endpoint text, method text, status_code int, request_data text, idempotency_key text,
			provider_request_id text, response_data text, error text, failure_class text, duration_ms int, retry_of bigint,
			related_type text, related_id bigint, expires_in_ms bigint, request_hash text
		) WHERE decided[r."of"]
		RETURNING id
	)
	-- Ids are drawn in the order of the rows.
	SELECT coalesce(jsonb_agg(id ORDER BY id), '[]'::jsonb) INTO ids FROM written;
	RETURN jsonb_build_object('ids', ids, 'decided', to_jsonb(decided));
END
$$;

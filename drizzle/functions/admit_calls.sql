-- Admits outbound calls of one integration: breaker, suppression and rate limit in one decision. It holds the whole rule.
-- The clock is read after the lock is held, unless the caller brings a moment of its own; moments are milliseconds since the epoch.
-- Rule: docs/behaviour/requests.md, "Admission". test/model/ holds the same rule, and test/model/call-state.pg.test.ts binds the two.
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
	limit_source text := CASE WHEN wanted IS NULL THEN 'none' ELSE 'provider' END;
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
	-- How far behind the newest window or slot a clock may be and still count there, as after an ordinary correction.
	set_back_ms constant bigint := 1000;
	moves_back boolean := false;
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
		ELSIF jsonb_typeof(own.rate_limit_override -> 'limit') = 'number'
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

	breaker := coalesce(before -> 'breaker',
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
			-- A clock that was set back a little stays in the window that it had reached. After a jump the count moves into the window of now:
			-- nothing waits for the moment to which the clock had jumped.
			IF window_state ->> 'kind' = 'fixed' AND (window_state ->> 'seconds')::bigint = l_seconds
				AND (window_state ->> 'startsAt')::bigint >= w_start THEN
				moves_back := (window_state ->> 'startsAt')::bigint > now_ms + set_back_ms;
				w_start := CASE WHEN moves_back THEN w_start ELSE (window_state ->> 'startsAt')::bigint END;
				w_count := (window_state ->> 'count')::bigint;
			END IF;
		ELSE
			quantum := CASE WHEN l_limit <= 1024 THEN 1 ELSE ceil(length_ms / 1024.0)::bigint END;
			IF window_state ->> 'kind' = 'sliding' AND (window_state ->> 'seconds')::bigint = l_seconds THEN
				old_quantum := (window_state ->> 'quantum')::bigint;
				moves_back := EXISTS (SELECT FROM jsonb_array_elements_text(window_state -> 'slots') AS slot(s)
					WHERE s::bigint > now_ms + set_back_ms);
				FOR moved, spent IN
					-- As in a fixed window: a unit taken after a jump of the clock counts as taken now.
					SELECT CASE WHEN s > now_ms + set_back_ms THEN (now_ms / quantum) * quantum
						ELSE ((s + old_quantum - 1) / quantum) * quantum END, sum(c)
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
				-- Not where it was opened by a clock that had jumped ahead, further than a cooldown.
				IF abs(now_ms - b_opened) < cooldown_ms THEN
					verdicts := verdicts || jsonb_build_object('kind', 'open', 'openedAt', b_opened,
						'retryAfterMs', b_opened + cooldown_ms - now_ms);
					CONTINUE;
				END IF;
				taking := true;
				next_state := 'half_open';
				next_generation := b_generation + 1;
			ELSIF b_state = 'half_open' THEN
				IF now_ms < b_probe_until THEN
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
					SELECT min(s) + quantum - 1 + length_ms - now_ms INTO gone FROM (
						SELECT s, sum(c) OVER (ORDER BY s) AS freed FROM unnest(slots, counts) AS slot(s, c)
					) AS leaving WHERE freed >= w_count - l_limit + 1;
				END IF;
				verdicts := verdicts || jsonb_build_object('kind', 'limited', 'retryAfterMs', gone, 'limit', wanted);
				CONTINUE;
			END IF;
			w_count := w_count + 1;
			IF l_kind = 'sliding' THEN
				moved := greatest((now_ms / quantum) * quantum, slots[cardinality(slots)]);
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

	-- A window that moves back is stored though all were refused: else each refusal would begin the wait again.
	changed := changed OR moves_back;
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

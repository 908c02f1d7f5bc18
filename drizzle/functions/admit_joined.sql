-- Admits calls of many integrations at once in the normal case: breaker closed, no override, no suppression. It leaves every other
-- case undecided, for admit_calls, which takes one integration at a time.
-- Each row is judged at the moment of its write (PostgreSQL manual, 13.2.1), so it needs no earlier lock. It waits at most 100 ms for a
-- row that another session has locked (lock_not_available), since that row holds up the others.
-- Rule: docs/behaviour/requests.md, "Joined statements". test/model/call-state.pg.test.ts binds it to test/model/.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___admit_joined"(p_asked jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql
-- Planned once: its arguments never differ in a way that matters for the plan.
SET plan_cache_mode = force_generic_plan SET lock_timeout = 100 AS $$
-- One element per integration, in order. Null: not decided here. Else three numbers: the breaker's generation for all its callers (-1: the
-- breaker does not count); how many more units are given out, all that are wanted or none; how many milliseconds their window still lasts.
-- Units are given out only in the first eighth of a window, and only of a window of a thousand or more: unused ones are lost.
DECLARE
	now_ms constant bigint := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
	set_back_ms constant bigint := 1000;
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
			-- A window that no limit wants any more is for admit_calls to clear. No window, no end: the term of the units is the asker's own.
			SELECT (c.value ->> 'generation')::bigint, asked.more, 2147483647 INTO generation, given, left_ms
			FROM "__schema__"."__prefix___cache" AS c WHERE c.key = asked.key AND c.value -> 'window' = 'null'::jsonb
				AND (NOT asked.counts OR ((c.value ->> 'generation') IS NOT NULL AND c.value ->> 'strategy' = asked.strategy))
				AND coalesce((c.value ->> 'suppressedUntil')::bigint <= now_ms, true);
		ELSE
			this_start := (now_ms / (asked.seconds * 1000)) * (asked.seconds * 1000);
			UPDATE "__schema__"."__prefix___cache" AS c SET updated_at = clock_timestamp(), value = jsonb_set(c.value, '{window}', (
				SELECT jsonb_build_object('kind', 'fixed', 'seconds', asked.seconds, 'startsAt', start, 'count', used + asked.callers + beyond, 'given', beyond)
				FROM (SELECT CASE WHEN is_same AND (c.value #>> '{window,startsAt}')::bigint <= now_ms + set_back_ms
							THEN (c.value #>> '{window,startsAt}')::bigint ELSE this_start END AS start,
						CASE WHEN is_same THEN (c.value #>> '{window,count}')::bigint ELSE 0 END AS used
					-- As in admit_calls: a clock that was set back a little stays in the window that it had reached, after a jump the count moves.
					FROM (SELECT c.value #>> '{window,kind}' = 'fixed' AND (c.value #>> '{window,seconds}')::bigint = asked.seconds
						AND (c.value #>> '{window,startsAt}')::bigint >= this_start AS is_same) AS known) AS window_now,
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

-- Reads the three rows of store_calls.sql.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___merged_calls"(p_state jsonb, p_ended jsonb, p_window jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
-- Returns one state: the slices with the later counts added.
SELECT p_state || jsonb_build_object('window', CASE WHEN jsonb_typeof(p_window -> 'window') = 'object' THEN (p_window -> 'window') - 'given' END) || CASE
	WHEN jsonb_array_length(p_ended -> 'slices') > 0 THEN jsonb_build_object('breaker', jsonb_set(p_state -> 'breaker', '{slices}', (
		SELECT jsonb_agg(jsonb_build_array(start, total, failed) ORDER BY start) FROM (
			SELECT (s ->> 0)::bigint AS start, sum((s ->> 1)::bigint) AS total, sum(coalesce((s ->> 2)::bigint, 0)) AS failed
			FROM jsonb_array_elements(p_state #> '{breaker,slices}' || (p_ended -> 'slices')) AS s GROUP BY 1
		) AS slice)))
	ELSE '{}'::jsonb END
$$;

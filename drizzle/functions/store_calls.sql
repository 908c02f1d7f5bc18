-- The state of an integration's calls is three rows of the cache:
--   <key>         the whole state of breaker and suppression
--   <key>:ended   what the breaker has counted since
--   <key>:window  the limiter's window
-- In the normal case the last two also hold the values that admit_joined and settle_joined need. So an admission and a settlement
-- never wait for each other, nor for the long row of a breaker with a full window. All other functions lock the three rows, in this order.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___store_calls"(p_key text, p_state jsonb) RETURNS void LANGUAGE plpgsql AS $$
-- The caller holds all three locks.
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

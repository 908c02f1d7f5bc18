CREATE OR REPLACE FUNCTION "__schema__"."__prefix___is_breaker_well"(p_breaker jsonb, p_cooldown_seconds bigint, p_now_ms bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
-- Whether the breaker is closed, or has no state. With a cooldown: also if the next call is a probe, since the breaker has been open for
-- that long, or is half open with no probe under way.
	SELECT CASE coalesce(p_breaker ->> 'state', 'closed')
		WHEN 'closed' THEN true
		WHEN 'open' THEN coalesce(abs(p_now_ms - (p_breaker ->> 'openedAt')::bigint) >= p_cooldown_seconds * 1000, false)
		WHEN 'half_open' THEN p_cooldown_seconds IS NOT NULL
			AND coalesce((p_breaker #>> '{probe,until}')::bigint <= p_now_ms, true)
		ELSE false END
$$;

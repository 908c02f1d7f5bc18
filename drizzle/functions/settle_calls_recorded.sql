CREATE OR REPLACE FUNCTION "__schema__"."__prefix___settle_calls_recorded"(
	p_integration bigint, p_key text, p_settings jsonb, p_outcomes jsonb, p_now bigint, p_names jsonb
) RETURNS jsonb LANGUAGE plpgsql AS $$
-- A settlement that also stores its events.
DECLARE
	answer jsonb;
BEGIN
	answer := "__schema__"."__prefix___settle_calls"(p_integration, p_key, p_settings, p_outcomes, p_now);
	IF answer IS NOT NULL THEN
		PERFORM "__schema__"."__prefix___record_events"(p_integration, answer -> 'events', p_names);
	END IF;
	RETURN answer;
END
$$;

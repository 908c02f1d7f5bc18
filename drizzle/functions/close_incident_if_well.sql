CREATE OR REPLACE FUNCTION "__schema__"."__prefix___close_incident_if_well"(
	p_integration bigint, p_key text, p_breaker_on boolean, p_cooldown_seconds bigint, p_older_than_seconds bigint, p_now bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
-- Closes the open incident if, under the lock of the integration's row, all is well: is_integration_well, and the breaker is closed. Every
-- change of one of them takes that lock, so of two at the same moment the later one sees both. With an age: only if the incident is strictly
-- older; then a breaker whose next call is a probe counts as well. Returns the event, or an empty list.
DECLARE
	health text;
	breaker jsonb;
	stamp timestamptz;
BEGIN
	SELECT health_status INTO health FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR NO KEY UPDATE;
	IF NOT FOUND OR NOT "__schema__"."__prefix___is_integration_well"(p_integration, health) THEN
		RETURN '[]'::jsonb;
	END IF;
	stamp := coalesce(to_timestamp(p_now / 1000.0), clock_timestamp());
	IF p_breaker_on THEN
		SELECT value -> 'breaker' INTO breaker FROM "__schema__"."__prefix___cache" WHERE key = p_key;
		IF NOT "__schema__"."__prefix___is_breaker_well"(breaker, CASE WHEN p_older_than_seconds IS NOT NULL THEN p_cooldown_seconds END,
			floor(extract(epoch FROM stamp) * 1000)::bigint) THEN
			RETURN '[]'::jsonb;
		END IF;
	END IF;
	IF p_older_than_seconds IS NOT NULL THEN
		PERFORM FROM "__schema__"."__prefix___incidents" WHERE integration_id = p_integration AND status = 'open'
			AND extract(epoch FROM stamp - opened_at) > p_older_than_seconds;
		IF NOT FOUND THEN
			RETURN '[]'::jsonb;
		END IF;
	END IF;
	RETURN "__schema__"."__prefix___close_incident"(p_integration, 0, stamp);
END
$$;

CREATE OR REPLACE FUNCTION "__schema__"."__prefix___open_incident"(
	p_integration bigint, p_at integer, p_source text, p_reason text, p_severity text, p_last_error timestamptz, p_stamp timestamptz
) RETURNS jsonb LANGUAGE plpgsql AS $$
-- Opens an incident, or makes the open one worse. Returns the event, or an empty list if nothing changed. It marks the change as unseen by the
-- incident's workflow, instead of comparing clocks: the stamp may be older than the workflow's last look.
DECLARE
	severity constant jsonb := '{"healthy":0,"degraded":1,"failing":2,"disabled":3}'::jsonb;
	found_id bigint;
	peak text;
	rises boolean;
BEGIN
	INSERT INTO "__schema__"."__prefix___incidents" (integration_id, status, source, reason, peak_severity, opened_at, last_error_at, created_at, updated_at)
		VALUES (p_integration, 'open', p_source, p_reason, p_severity, p_stamp, p_last_error, p_stamp, p_stamp)
		ON CONFLICT (integration_id) WHERE status = 'open' DO NOTHING RETURNING id INTO found_id;
	IF found_id IS NOT NULL THEN
		RETURN jsonb_build_array(jsonb_build_object('at', p_at, 'kind', 'incident_opened', 'incidentId', found_id));
	END IF;
	SELECT id, peak_severity INTO found_id, peak FROM "__schema__"."__prefix___incidents"
		WHERE integration_id = p_integration AND status = 'open' FOR UPDATE;
	IF found_id IS NULL THEN
		RETURN '[]'::jsonb;
	END IF;
	rises := (severity ->> p_severity)::int > (severity ->> peak)::int;
	UPDATE "__schema__"."__prefix___incidents" SET updated_at = p_stamp, followed_at = NULL, last_error_at = coalesce(p_last_error, last_error_at),
		peak_severity = CASE WHEN rises THEN p_severity ELSE peak_severity END,
		-- A person has spoken of what it was before.
		acknowledged_at = CASE WHEN NOT rises THEN acknowledged_at END, acknowledged_by = CASE WHEN NOT rises THEN acknowledged_by END,
		snoozed_until = CASE WHEN NOT rises THEN snoozed_until END, snoozed_by = CASE WHEN NOT rises THEN snoozed_by END WHERE id = found_id;
	RETURN jsonb_build_array(jsonb_build_object('at', p_at, 'kind', 'incident_escalated', 'incidentId', found_id, 'rises', rises));
END
$$;

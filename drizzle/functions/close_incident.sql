CREATE OR REPLACE FUNCTION "__schema__"."__prefix___close_incident"(p_integration bigint, p_at integer, p_stamp timestamptz)
RETURNS jsonb LANGUAGE plpgsql AS $$
-- Closes the open incident, if there is one. The caller has checked that all is well.
DECLARE
	found_id bigint;
BEGIN
	UPDATE "__schema__"."__prefix___incidents" SET status = 'closed', closed_at = p_stamp, updated_at = p_stamp, followed_at = NULL
		WHERE integration_id = p_integration AND status = 'open' RETURNING id INTO found_id;
	IF found_id IS NULL THEN
		RETURN '[]'::jsonb;
	END IF;
	RETURN jsonb_build_array(jsonb_build_object('at', p_at, 'kind', 'incident_closed', 'incidentId', found_id));
END
$$;

CREATE OR REPLACE FUNCTION "__schema__"."__prefix___record_events"(p_integration bigint, p_events jsonb, p_names jsonb) RETURNS void LANGUAGE plpgsql AS $$
-- Stores the events of a settlement whose kind has a name here. It is part of the settlement's transaction, so a row exists if and only if its
-- change does. The payloads are read by src/events/event-payloads.ts.
DECLARE
	event jsonb;
	kind text;
	payload jsonb;
	found "__schema__"."__prefix___incidents"%ROWTYPE;
	iso constant text := 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"';
BEGIN
	FOR event IN SELECT e FROM jsonb_array_elements(p_events) AS e LOOP
		kind := event ->> 'kind';
		IF NOT p_names ? kind THEN
			CONTINUE;
		END IF;
		IF kind = 'health' THEN
			payload := jsonb_build_object('previousStatus', event -> 'previous', 'newStatus', event -> 'new');
		ELSIF kind = 'circuit_opened' THEN
			payload := jsonb_build_object('reason', event -> 'reason',
				'openedAt', to_char(to_timestamp((event ->> 'openedAt')::double precision / 1000) AT TIME ZONE 'UTC', iso));
		ELSIF kind = 'circuit_closed' THEN
			payload := jsonb_build_object('reason', event -> 'reason');
		ELSIF kind = 'disabled' THEN
			payload := '{}'::jsonb;
		ELSE
			SELECT * INTO found FROM "__schema__"."__prefix___incidents" WHERE id = (event ->> 'incidentId')::bigint;
			payload := jsonb_build_object('incident', jsonb_build_object('id', found.id, 'integrationId', found.integration_id, 'status', found.status, 'source', found.source, 'reason', found.reason,
				'peakSeverity', found.peak_severity, 'openedAt', to_char(found.opened_at AT TIME ZONE 'UTC', iso),
				'lastErrorAt', to_char(found.last_error_at AT TIME ZONE 'UTC', iso), 'closedAt', to_char(found.closed_at AT TIME ZONE 'UTC', iso)));
			IF kind = 'incident_escalated' THEN
				payload := payload || jsonb_build_object('rises', event -> 'rises');
			END IF;
		END IF;
		INSERT INTO "__schema__"."__prefix___events" (integration_id, name, payload, origin)
			VALUES (p_integration, p_names ->> kind, payload, 'incident:' || (payload #>> '{incident,id}'));
	END LOOP;
END
$$;

-- What an incident's workflow has seen of it, and what pruning looks for. Then: events for those who are told later.
ALTER TABLE "__schema__"."__prefix___incidents" ADD COLUMN "followed_at" timestamp (3) with time zone;--> statement-breakpoint
-- What was over before there were such workflows is nothing that one of them has missed.
UPDATE "__schema__"."__prefix___incidents" SET "followed_at" = "updated_at" WHERE "status" = 'closed';--> statement-breakpoint
CREATE INDEX "__prefix___incidents_unseen_idx" ON "__schema__"."__prefix___incidents" USING btree ("id") WHERE "__schema__"."__prefix___incidents"."followed_at" is null or "__schema__"."__prefix___incidents"."followed_at" < "__schema__"."__prefix___incidents"."updated_at";--> statement-breakpoint
CREATE INDEX "__prefix___incidents_closed_at_idx" ON "__schema__"."__prefix___incidents" USING btree ("closed_at") WHERE "__schema__"."__prefix___incidents"."status" = 'closed';--> statement-breakpoint
CREATE INDEX "__prefix___events_given_up_idx" ON "__schema__"."__prefix___events" USING btree ("id") WHERE "__schema__"."__prefix___events"."outcomes" @? '$.* ? (@.status == "given_up")';--> statement-breakpoint
CREATE FUNCTION "__schema__"."__prefix___record_events"(p_integration bigint, p_events jsonb, p_names jsonb) RETURNS void LANGUAGE plpgsql AS $$
-- Writes those of a settlement's events down whose kind has a name here. As it is part of the settlement's transaction, the row is there if and only if
-- what it tells of is. The payloads are read by src/operations/event-payloads.ts.
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
			payload := jsonb_build_object('incident', jsonb_build_object('id', found.id, 'status', found.status, 'source', found.source, 'reason', found.reason,
				'peakSeverity', found.peak_severity, 'openedAt', to_char(found.opened_at AT TIME ZONE 'UTC', iso),
				'lastErrorAt', to_char(found.last_error_at AT TIME ZONE 'UTC', iso), 'closedAt', to_char(found.closed_at AT TIME ZONE 'UTC', iso)));
			IF kind = 'incident_escalated' THEN
				payload := payload || jsonb_build_object('rises', event -> 'rises');
			END IF;
		END IF;
		INSERT INTO "__schema__"."__prefix___events" (integration_id, name, payload) VALUES (p_integration, p_names ->> kind, payload);
	END LOOP;
END
$$;
--> statement-breakpoint
CREATE FUNCTION "__schema__"."__prefix___settle_calls_recorded"(
	p_integration bigint, p_key text, p_settings jsonb, p_outcomes jsonb, p_now bigint, p_names jsonb
) RETURNS jsonb LANGUAGE plpgsql AS $$
-- A settlement whose events are written down.
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
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___open_incident"(
	p_integration bigint, p_at integer, p_source text, p_reason text, p_severity text, p_last_error timestamptz, p_stamp timestamptz
) RETURNS jsonb LANGUAGE plpgsql AS $$
-- Opens an incident, or makes the open one worse. The event, or an empty list when nothing is new. Its workflow has not seen the change: no clock is
-- compared for that, since the stamp may be older than its last look.
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
		peak_severity = CASE WHEN rises THEN p_severity ELSE peak_severity END WHERE id = found_id;
	RETURN jsonb_build_array(jsonb_build_object('at', p_at, 'kind', 'incident_escalated', 'incidentId', found_id, 'rises', rises));
END
$$;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___close_incident"(p_integration bigint, p_at integer, p_stamp timestamptz)
RETURNS jsonb LANGUAGE plpgsql AS $$
-- Closes the open incident, if there is one. Whether all is well is for the caller to know.
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
--> statement-breakpoint
CREATE FUNCTION "__schema__"."__prefix___close_incident_if_well"(
	p_integration bigint, p_key text, p_breaker_on boolean, p_older_than_seconds bigint, p_now bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
-- Closes the open incident where, under the lock of the integration's row, all is well: healthy, not stale, breaker closed. Whoever heals one of the
-- three holds that lock, so of two who heal at the same moment the later one sees both. With an age: only if it is strictly older. The event, or an
-- empty list.
DECLARE
	own record;
	b_state text;
	stamp timestamptz;
BEGIN
	SELECT health_status, sync_stale_alerted_at INTO own FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR NO KEY UPDATE;
	IF NOT FOUND OR own.health_status <> 'healthy' OR own.sync_stale_alerted_at IS NOT NULL THEN
		RETURN '[]'::jsonb;
	END IF;
	IF p_breaker_on THEN
		SELECT value #>> '{breaker,state}' INTO b_state FROM "__schema__"."__prefix___cache" WHERE key = p_key;
		IF coalesce(b_state, 'closed') <> 'closed' THEN
			RETURN '[]'::jsonb;
		END IF;
	END IF;
	stamp := coalesce(to_timestamp(p_now / 1000.0), clock_timestamp());
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

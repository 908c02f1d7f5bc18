-- Claims the next due events of many queues: it walks from one queue to the next and takes the longest due rows of each. A queue without
-- due rows costs a step of the walk, and does not count. A function without sorts, like claim_webhooks.
-- Rows that have lost a worker come apart: up to p_room that have lost one, else a single one that has lost more, and none while the
-- claim still holds one.
-- p_rooms: how many rows a queue may get, by its number; p_room: for any other queue. p_now: the moment of a clock in place of the
-- database's. A row's first moment is the database's, which that clock may not have reached yet.
-- The last row of the result has no event: it has the number of queues walked over, and the last queue.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___claim_events"(
	p_claim text, p_after bigint, p_queues int, p_rows int, p_room int, p_rooms jsonb, p_now timestamptz
) RETURNS TABLE (event "__schema__"."__prefix___events", version text, judged_at_ms float8, walked int, upto bigint)
LANGUAGE plpgsql SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
	-- Rounded as due_at is when it is stored, so that what was due before is.
	v_now timestamptz := coalesce(p_now, now()::timestamptz(3));
	v_first timestamptz := greatest(v_now, now()::timestamptz(3));
	v_losses smallint;
	v_queues bigint[];
	v_walked int := 0;
	v_upto bigint := 0;
BEGIN
	SELECT min(e.lost_workers) INTO v_losses FROM "__schema__"."__prefix___events" e
	WHERE e.delivered_at IS NULL AND e.claim IS NULL AND e.lost_workers > 0;
	IF v_losses IS NOT NULL AND EXISTS (
		SELECT FROM "__schema__"."__prefix___events" e
		WHERE e.delivered_at IS NULL AND e.claim = p_claim AND e.lost_workers > 0
	) THEN
		v_losses := NULL;
	END IF;
	IF EXISTS (
		SELECT FROM "__schema__"."__prefix___events" e
		WHERE e.delivered_at IS NULL AND e.claim IS NULL AND e.due_at <= v_first
	) THEN
		WITH RECURSIVE walk AS (
			SELECT first.id, first.due, first.due::int AS step FROM (
				SELECT e.queue AS id, e.due_at <= CASE e.queue % 2 WHEN 0 THEN v_first ELSE v_now END AS due
				FROM "__schema__"."__prefix___events" e
				WHERE e.delivered_at IS NULL AND e.claim IS NULL AND e.lost_workers = 0 AND e.queue > p_after
				ORDER BY e.queue, e.due_at LIMIT 1
			) first
			UNION ALL
			SELECT next.id, next.due, walk.step + next.due::int FROM walk CROSS JOIN LATERAL (
				SELECT e.queue AS id, e.due_at <= CASE e.queue % 2 WHEN 0 THEN v_first ELSE v_now END AS due
				FROM "__schema__"."__prefix___events" e
				WHERE e.delivered_at IS NULL AND e.claim IS NULL AND e.lost_workers = 0 AND e.queue > walk.id
				ORDER BY e.queue, e.due_at LIMIT 1
			) next
			WHERE walk.step < p_queues
		)
		SELECT array_agg(walk.id) FILTER (WHERE walk.due), coalesce(max(walk.step), 0), coalesce(max(walk.id), 0)
		INTO v_queues, v_walked, v_upto FROM walk;
	END IF;
	IF v_queues IS NOT NULL OR v_losses IS NOT NULL THEN
		RETURN QUERY
		WITH lost AS (
			SELECT e.id FROM "__schema__"."__prefix___events" e
			WHERE e.delivered_at IS NULL AND e.claim IS NULL AND e.lost_workers > 0 AND e.lost_workers = v_losses
			ORDER BY e.id
			LIMIT CASE v_losses WHEN 1 THEN p_room ELSE 1 END
			FOR UPDATE SKIP LOCKED
		), due AS (
			SELECT d.id FROM unnest(v_queues) AS walked (id) CROSS JOIN LATERAL (
				SELECT e.id FROM "__schema__"."__prefix___events" e
				WHERE e.queue = walked.id AND e.delivered_at IS NULL AND e.claim IS NULL AND e.lost_workers = 0
					AND e.due_at <= CASE walked.id % 2 WHEN 0 THEN v_first ELSE v_now END
				ORDER BY e.due_at, e.id
				LIMIT coalesce((p_rooms ->> walked.id::text)::int, p_room)
				FOR UPDATE SKIP LOCKED
			) d
		), picked AS (
			SELECT both_of.id FROM (SELECT lost.id FROM lost UNION ALL SELECT due.id FROM due) both_of LIMIT p_rows
		)
		UPDATE "__schema__"."__prefix___events" e
		SET claim = p_claim, attempts = least(e.attempts + 1, 32767), updated_at = clock_timestamp()
		FROM picked, "__schema__"."__prefix__s" i
		WHERE e.id = picked.id AND i.id = e.integration_id
		RETURNING e, i.xmin::text, extract(epoch FROM v_now)::float8 * 1000, 0, 0::bigint;
	END IF;
	RETURN QUERY SELECT NULL::"__schema__"."__prefix___events", NULL::text, NULL::float8, v_walked, v_upto;
END
$$;

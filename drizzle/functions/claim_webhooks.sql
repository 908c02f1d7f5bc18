-- Claims the next pending webhooks of many integrations: it walks from one integration with pending rows to the next, and takes the
-- lowest ids of each, so an integration with a million rows costs no more than one with ten. A function, so that its plans are kept
-- although the driver prepares no statements. Without sorts: with statistics from before a burst, Postgres would sort all rows of each
-- integration.
-- A part comes with the headers of the whole, so that no other statement has to read them (src/webhooks/parts.ts).
-- Rows that wait for another one of their ordering key are not seen.
-- p_rooms: how many rows an integration may get, by its id; p_room: for any other one.
-- The last row of the result has no webhook: it has the number of integrations walked over, and the last one.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___claim_webhooks"(
	p_claim text, p_after bigint, p_integrations int, p_rows int, p_room int, p_rooms jsonb
) RETURNS TABLE (webhook "__schema__"."__prefix___webhooks", version text, walked int, upto bigint)
LANGUAGE plpgsql SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
	v_ids bigint[];
BEGIN
	WITH RECURSIVE walk AS (
		(SELECT w.integration_id AS id, 1 AS step FROM "__schema__"."__prefix___webhooks" w
		WHERE w.status = 'pending' AND w.key_turn IS NOT FALSE AND w.integration_id > p_after ORDER BY w.integration_id LIMIT 1)
		UNION ALL
		SELECT next.id, walk.step + 1 FROM walk CROSS JOIN LATERAL (
			SELECT w.integration_id AS id FROM "__schema__"."__prefix___webhooks" w
			WHERE w.status = 'pending' AND w.key_turn IS NOT FALSE AND w.integration_id > walk.id ORDER BY w.integration_id LIMIT 1
		) next
		WHERE walk.step < p_integrations
	)
	SELECT array_agg(walk.id) INTO v_ids FROM walk;
	IF v_ids IS NOT NULL THEN
		RETURN QUERY
		WITH picked AS (
			SELECT p.id, i.xmin::text AS version
			FROM unnest(v_ids) AS walked (id)
			-- With its limit no join: the rows come in the order of the walk, so that where p_rows cuts them is the walk's place.
			CROSS JOIN LATERAL (
				SELECT i.xmin FROM "__schema__"."__prefix__s" i WHERE i.id = walked.id AND i.health_status <> 'disabled' LIMIT 1
			) i
			CROSS JOIN LATERAL (
				SELECT w.id FROM "__schema__"."__prefix___webhooks" w
				WHERE w.integration_id = walked.id AND w.status = 'pending' AND w.key_turn IS NOT FALSE AND w.lost_workers = 0
				ORDER BY w.id
				LIMIT coalesce((p_rooms ->> walked.id::text)::int, p_room)
				FOR UPDATE SKIP LOCKED
			) p
			LIMIT p_rows
		)
		UPDATE "__schema__"."__prefix___webhooks" w
		SET status = 'processing', attempts = least(w.attempts + 1, 32767), error = NULL, processed_at = NULL, dismissed_at = NULL,
			claim = p_claim, updated_at = clock_timestamp()
		FROM picked
		WHERE w.id = picked.id
		RETURNING CASE WHEN w.part_of IS NULL THEN w ELSE jsonb_populate_record(w, jsonb_build_object('headers',
			(SELECT d.headers FROM "__schema__"."__prefix___deliveries" d WHERE d.id = w.part_of) || w.headers)) END,
			picked.version, 0, 0::bigint;
	END IF;
	RETURN QUERY SELECT NULL::"__schema__"."__prefix___webhooks", NULL::text, coalesce(array_length(v_ids, 1), 0),
		coalesce(v_ids[array_length(v_ids, 1)], 0);
END
$$;

-- For each key without a row that has the turn: gives it to the first row that waits. Of rows that coalesce, up to the first that does
-- not, the newest gets it: the others are settled, without a run, at most 1,000 in a call: a key may have 100,000 of them, and others wait
-- for the lock. Returns how many rows have got it. A key that has more to settle has no turn yet: then -1 less that number is returned,
-- and the caller calls again, in a transaction of its own. If it can't, the key's next arrival goes on, or recovery.
-- The caller holds the keys' locks (lock_keys), and p_keys is the list that they were taken by. A function, so that its plan is kept, and
-- so that the statement that settles a row can pass its turn on: what that statement has written is seen here.
-- By indexes alone: with statistics from before a burst, Postgres would read all webhooks.
-- Rule: docs/behaviour/webhook-order.md.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___pass_turns"(p_keys jsonb) RETURNS int
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	passed int;
	unfinished boolean;
BEGIN
	WITH keys AS (
		SELECT DISTINCT (e ->> 0)::bigint AS integration_id, e ->> 1 AS ordering_key FROM jsonb_array_elements(p_keys) e
	), head AS (
		SELECT k.integration_id, k.ordering_key, first.id, first.coalesces
		FROM keys k CROSS JOIN LATERAL (
			SELECT w.id, w.coalesces FROM "__schema__"."__prefix___webhooks" w
			WHERE w.integration_id = k.integration_id AND w.ordering_key = k.ordering_key AND w.key_turn IS FALSE
			ORDER BY w.id LIMIT 1
		) first
		WHERE NOT EXISTS (
			SELECT FROM "__schema__"."__prefix___webhooks" h
			WHERE h.integration_id = k.integration_id AND h.ordering_key = k.ordering_key AND h.key_turn
		)
	), next AS (
		SELECT k.*, CASE WHEN k.coalesces THEN (
			SELECT w.id FROM "__schema__"."__prefix___webhooks" w
			WHERE w.integration_id = k.integration_id AND w.ordering_key = k.ordering_key AND w.key_turn IS FALSE
				AND w.id < coalesce((
					SELECT w.id FROM "__schema__"."__prefix___webhooks" w
					WHERE w.integration_id = k.integration_id AND w.ordering_key = k.ordering_key AND w.key_turn IS FALSE AND NOT w.coalesces
					ORDER BY w.id LIMIT 1
				), 9223372036854775807)
			ORDER BY w.id DESC LIMIT 1
		) ELSE k.id END AS turn
		FROM head k
	), older AS (
		SELECT k.integration_id, k.ordering_key, lowest.id FROM next k CROSS JOIN LATERAL (
			SELECT w.id FROM "__schema__"."__prefix___webhooks" w
			WHERE k.turn > k.id AND w.integration_id = k.integration_id AND w.ordering_key = k.ordering_key AND w.key_turn IS FALSE
				AND w.id >= k.id AND w.id < k.turn
			ORDER BY w.id LIMIT 1000
		) lowest LIMIT 1000
	), due AS (
		-- Of each key the lowest ids are among the older ones: whether there is one behind them.
		SELECT k.turn, k.turn > k.id AS is_newest, CASE WHEN k.turn > k.id THEN (
			SELECT w.id FROM "__schema__"."__prefix___webhooks" w
			WHERE w.integration_id = k.integration_id AND w.ordering_key = k.ordering_key AND w.key_turn IS FALSE AND w.id < k.turn
				AND w.id > coalesce((
					SELECT max(o.id) FROM older o WHERE o.integration_id = k.integration_id AND o.ordering_key = k.ordering_key
				), k.id - 1)
			ORDER BY w.id LIMIT 1
		) END AS left_id
		FROM next k
	), superseded AS (
		UPDATE "__schema__"."__prefix___webhooks" w
		SET status = 'processed', error = NULL, claim = NULL, key_turn = NULL, processed_at = clock_timestamp(), updated_at = clock_timestamp()
		FROM older o
		WHERE w.id = o.id AND w.key_turn IS FALSE
		RETURNING w.id, w.integration_id, w.delivery_id, w.replay_attempt
	), logged AS (
		INSERT INTO "__schema__"."__prefix___logs"
			(integration_id, operation, direction, status, external_id, result_data, duration_ms, origin)
		SELECT integration_id, CASE WHEN replay_attempt IS NULL THEN 'webhook' ELSE 'webhook_replay' END, 'inbound', 'success',
			delivery_id, '{"status":"coalesced"}'::jsonb, 0, 'webhook:' || id
		FROM superseded ORDER BY id
	), given AS (
		-- Among those settled there may be a change by others, which it tells now: it is no echo.
		UPDATE "__schema__"."__prefix___webhooks" w
		SET key_turn = true, is_own = CASE WHEN k.is_newest THEN false ELSE w.is_own END, updated_at = clock_timestamp()
		FROM due k WHERE w.id = k.turn AND k.left_id IS NULL
		RETURNING w.id
	)
	SELECT (SELECT count(*) FROM given), EXISTS (SELECT FROM due k WHERE k.left_id IS NOT NULL) INTO passed, unfinished;
	RETURN CASE WHEN unfinished THEN -1 - passed ELSE passed END;
END
$$;

-- Neither schema nor prefix is in a lock's name: two deployments in one database wait for each other for a moment, at worst.
-- Locks ordering keys until the transaction ends: p_keys is a list of [integration id, key]. All callers take them in the same order.
-- Keys share 1,024 locks: Postgres' table of locks is one for all sessions, and a delivery may bring 10,000 keys.
-- A client that freezes in the transaction would keep its locks, and settlements would wait for them: after 10 s Postgres ends its session.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___lock_keys"(p_keys jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('idle_in_transaction_session_timeout', '10s', true);
	PERFORM pg_advisory_xact_lock(hashtext('integrations:ordering-key'), bucket) FROM (
		SELECT DISTINCT hashtext((e ->> 0) || ':' || (e ->> 1)) & 1023 AS bucket
		FROM jsonb_array_elements(p_keys) e ORDER BY 1
	) AS k;
END
$$;

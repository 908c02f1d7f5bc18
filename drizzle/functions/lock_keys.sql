-- Neither schema nor prefix is in a lock's name: two deployments in one database wait for each other for a moment, at worst.
-- Locks ordering keys until the transaction ends: p_keys is a list of [integration id, key]. All callers take them in the same order.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___lock_keys"(p_keys jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(name, 0)) FROM (
		SELECT DISTINCT 'integrations:ordering-key:' || (e ->> 0) || ':' || (e ->> 1) AS name
		FROM jsonb_array_elements(p_keys) e ORDER BY 1
	) AS k;
END
$$;

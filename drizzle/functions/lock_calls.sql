-- Locks the three rows of store_calls.sql.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___lock_calls"(p_integration bigint, p_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
-- Returns the state, locked. Null: the integration is gone, and no row is left behind for it.
DECLARE
	state jsonb;
	ended jsonb;
	spent jsonb;
	is_new boolean := false;
BEGIN
	-- All come through the first row, also those that make the others: two who took them in another order would wait for each other.
	LOOP
		SELECT value INTO state FROM "__schema__"."__prefix___cache" WHERE key = p_key FOR UPDATE;
		EXIT WHEN FOUND;
		is_new := true;
		INSERT INTO "__schema__"."__prefix___cache" (key, value) VALUES (p_key, '{}') ON CONFLICT (key) DO NOTHING;
	END LOOP;
	LOOP
		SELECT value INTO ended FROM "__schema__"."__prefix___cache" WHERE key = p_key || ':ended' FOR UPDATE;
		IF FOUND THEN
			SELECT value INTO spent FROM "__schema__"."__prefix___cache" WHERE key = p_key || ':window' FOR UPDATE;
		END IF;
		EXIT WHEN FOUND;
		is_new := true;
		INSERT INTO "__schema__"."__prefix___cache" (key, value) VALUES (p_key || ':ended', '{}'), (p_key || ':window', '{}')
			ON CONFLICT (key) DO NOTHING;
	END LOOP;
	IF is_new THEN
		-- Who deletes the integration holds its row and does not see ours: it is waited for.
		PERFORM FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR KEY SHARE;
		IF NOT FOUND THEN
			DELETE FROM "__schema__"."__prefix___cache" WHERE key IN (p_key, p_key || ':ended', p_key || ':window');
			RETURN NULL;
		END IF;
	END IF;
	RETURN "__schema__"."__prefix___merged_calls"(state, ended, spent);
END
$$;

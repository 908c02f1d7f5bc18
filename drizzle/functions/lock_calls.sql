-- Locks the three rows of store_calls.sql.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___lock_calls"(p_integration bigint, p_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
-- Returns the state, locked. Null: the integration is gone, and no row is left behind for it.
DECLARE
	part text;
	held jsonb;
	parts jsonb[] := '{}';
	is_new boolean := false;
BEGIN
	-- Each row is there and locked before the next one is looked at: two who took them in another order would wait for each other.
	FOREACH part IN ARRAY ARRAY['', ':ended', ':window'] LOOP
		LOOP
			SELECT value INTO held FROM "__schema__"."__prefix___cache" WHERE key = p_key || part FOR UPDATE;
			EXIT WHEN FOUND;
			is_new := true;
			INSERT INTO "__schema__"."__prefix___cache" (key, value) VALUES (p_key || part, '{}') ON CONFLICT (key) DO NOTHING;
		END LOOP;
		parts := parts || held;
	END LOOP;
	IF is_new THEN
		-- Who deletes the integration holds its row and does not see ours: it is waited for.
		PERFORM FROM "__schema__"."__prefix__s" WHERE id = p_integration FOR KEY SHARE;
		IF NOT FOUND THEN
			DELETE FROM "__schema__"."__prefix___cache" WHERE key IN (p_key, p_key || ':ended', p_key || ':window');
			RETURN NULL;
		END IF;
	END IF;
	RETURN "__schema__"."__prefix___merged_calls"(parts[1], parts[2], parts[3]);
END
$$;

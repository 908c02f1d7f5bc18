-- Gives units of a budget that many integrations share to one process, and takes its report. One row of the cache holds the budget.
-- The clock is read after the lock is held, unless the caller brings a moment of its own; moments are milliseconds since the epoch.
-- Rule: docs/behaviour/shared-budgets.md. test/model/shared-budget.ts holds the same rule, and test/model/shared-budget.pg.test.ts binds the two.
CREATE OR REPLACE FUNCTION "__schema__"."__prefix___take_shared"(p_key text, p_asked jsonb, p_now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
-- p_asked: process, limit, seconds, obeysOverride; done: units whose calls have ended since the last report; out: units that it still has;
-- ids and wants: the integrations with waiting callers, and how many units each wants; more: units wanted for calls to come.
DECLARE
	-- A process that is silent for longer is taken for dead: its units count as used from then on.
	silent_ms constant bigint := 15000;
	-- A line that is not told again within this time has gone.
	line_ms constant bigint := 2000;
	asked_by constant text := p_asked ->> 'process';
	state jsonb;
	now_ms bigint;
	now_us bigint;
	own_limit bigint := (p_asked ->> 'limit')::bigint;
	length_ms bigint := (p_asked ->> 'seconds')::bigint * 1000;
	override jsonb;
	slot_ms bigint;
	this_end bigint;
	ends bigint[] := '{}';
	counts bigint[] := '{}';
	used bigint := 0;
	freed bigint := (p_asked ->> 'done')::bigint;
	held jsonb := '{}'::jsonb;
	holding bigint := 0;
	own_held bigint := (p_asked ->> 'out')::bigint;
	lines jsonb := '{}'::jsonb;
	theirs bigint[] := '{}';
	their_wants bigint := 0;
	ids bigint[] := array(SELECT jsonb_array_elements_text(p_asked -> 'ids')::bigint);
	wants bigint[] := array(SELECT jsonb_array_elements_text(p_asked -> 'wants')::bigint);
	gave bigint[] := array_fill(0::bigint, ARRAY[jsonb_array_length(p_asked -> 'ids')]);
	own_wants bigint;
	served bigint[];
	share bigint;
	step_us bigint;
	paced_us bigint;
	base_us bigint;
	free bigint;
	units bigint;
	given bigint := 0;
	more bigint := 0;
	turns bigint[];
	pending bigint;
	spare bigint;
	part bigint;
	place bigint;
	waiting bigint;
	retry_ms bigint;
	quiet_until bigint;
	name text;
	entry jsonb;
	slot_end bigint;
	slot_count bigint;
BEGIN
	SELECT value INTO state FROM "__schema__"."__prefix___cache" WHERE key = p_key FOR UPDATE;
	IF NOT FOUND THEN
		INSERT INTO "__schema__"."__prefix___cache" (key, value) VALUES (p_key, '{}') ON CONFLICT (key) DO NOTHING;
		SELECT value INTO state FROM "__schema__"."__prefix___cache" WHERE key = p_key FOR UPDATE;
	END IF;
	-- A clock that was set back stands still: better a pause than a call too many.
	now_ms := greatest(coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), (state ->> 'at')::bigint);
	now_us := now_ms * 1000;
	override := nullif(state -> 'override', 'null'::jsonb);
	IF override IS NOT NULL AND (override ->> 'until')::bigint <= now_ms THEN
		override := NULL;
	END IF;
	IF override IS NOT NULL AND (p_asked ->> 'obeysOverride')::boolean THEN
		own_limit := (override ->> 'limit')::bigint;
		length_ms := (override ->> 'seconds')::bigint * 1000;
	END IF;
	quiet_until := (state ->> 'quietUntil')::bigint;

	-- Units that are out: of this process as it says, since an answer may have been lost on its way; of others as it was then.
	FOR name, entry IN SELECT * FROM jsonb_each(state -> 'held') LOOP
		IF name = asked_by THEN
			CONTINUE;
		ELSIF (entry ->> 1)::bigint + silent_ms <= now_ms THEN
			freed := freed + (entry ->> 0)::bigint;
		ELSE
			held := held || jsonb_build_object(name, entry);
			holding := holding + (entry ->> 0)::bigint;
		END IF;
	END LOOP;
	-- Units that are back count for a whole window from now. A slot counts until its last millisecond is a window old.
	slot_ms := ceil(length_ms / 100.0)::bigint;
	FOR slot_end, slot_count IN SELECT * FROM unnest(
		array(SELECT jsonb_array_elements_text(state -> 'ends')::bigint),
		array(SELECT jsonb_array_elements_text(state -> 'counts')::bigint)
	) LOOP
		IF slot_end + length_ms > now_ms THEN
			ends := ends || slot_end;
			counts := counts || slot_count;
			used := used + slot_count;
		END IF;
	END LOOP;
	IF freed > 0 THEN
		this_end := greatest((now_ms / slot_ms) * slot_ms + slot_ms - 1, ends[cardinality(ends)]);
		IF ends[cardinality(ends)] = this_end THEN
			counts[cardinality(counts)] := counts[cardinality(counts)] + freed;
		ELSE
			ends := ends || this_end;
			counts := counts || freed;
		END IF;
		used := used + freed;
	END IF;

	-- The lines of the other processes.
	FOR name, entry IN SELECT * FROM jsonb_each(state -> 'lines') LOOP
		IF name <> asked_by AND (entry ->> 'at')::bigint + line_ms > now_ms THEN
			lines := lines || jsonb_build_object(name, entry);
			theirs := theirs || array(SELECT jsonb_array_elements_text(entry -> 'ids')::bigint);
			their_wants := their_wants + (entry ->> 'wants')::bigint;
		END IF;
	END LOOP;
	theirs := array(SELECT DISTINCT id FROM unnest(theirs) AS id ORDER BY id);
	own_wants := coalesce((SELECT sum(each) FROM unnest(wants) AS each), 0);
	served := array(SELECT jsonb_array_elements_text(state -> 'served')::bigint);
	share := (state ->> 'share')::bigint;

	free := greatest(0, own_limit - used - holding - own_held);
	units := CASE WHEN quiet_until > now_ms THEN 0 ELSE free END;
	-- While some wait, units are given out evenly. What a late process has missed is made up for up to a tenth of the window.
	step_us := ceil(length_ms * 1000.0 / own_limit)::bigint;
	paced_us := (state ->> 'pacedUs')::bigint;
	base_us := greatest(paced_us, now_us - greatest(step_us, least(1000000, length_ms * 100)));
	IF paced_us IS NOT NULL THEN
		units := least(units, (now_us - base_us) / step_us);
	END IF;
	free := units;

	IF units >= own_wants + their_wants THEN
		gave := wants;
		wants := array_fill(0::bigint, ARRAY[cardinality(ids)]);
		given := own_wants;
	ELSE
		WHILE units > 0 LOOP
			EXIT WHEN NOT EXISTS (SELECT FROM unnest(wants) AS each WHERE each > 0);
			-- Whose turn in this round has not been: here, and elsewhere (or in both; then it is given here).
			turns := array(SELECT m.at FROM unnest(ids, wants) WITH ORDINALITY AS m(id, wanted, at)
				WHERE m.wanted > 0 AND m.id <> ALL (served) ORDER BY m.at);
			SELECT count(*) INTO pending FROM unnest(theirs) AS t(id) WHERE t.id <> ALL (served);
			IF share IS NULL OR (cardinality(turns) = 0 AND pending = 0) THEN
				served := '{}';
				share := greatest(1, units / (SELECT count(*) FROM (
					SELECT unnest(theirs) UNION SELECT m.id FROM unnest(ids, wants) AS m(id, wanted) WHERE m.wanted > 0) AS everybody));
				CONTINUE;
			END IF;
			IF cardinality(turns) > 0 THEN
				FOREACH place IN ARRAY turns LOOP
					EXIT WHEN units = 0;
					part := least(wants[place], share, units);
					gave[place] := gave[place] + part;
					wants[place] := wants[place] - part;
					units := units - part;
					given := given + part;
					served := served || ids[place];
				END LOOP;
				CONTINUE;
			END IF;
			-- The round waits for other processes: what they need of it stays, and what is beyond that need not.
			spare := units - pending * share;
			EXIT WHEN spare <= 0;
			turns := array(SELECT m.at FROM unnest(wants) WITH ORDINALITY AS m(wanted, at) WHERE m.wanted > 0 ORDER BY m.at);
			spare := greatest(1, spare / cardinality(turns));
			FOREACH place IN ARRAY turns LOOP
				part := least(wants[place], spare, units - pending * share);
				EXIT WHEN part <= 0;
				gave[place] := gave[place] + part;
				wants[place] := wants[place] - part;
				units := units - part;
				given := given + part;
			END LOOP;
		END LOOP;
	END IF;

	SELECT count(*) INTO waiting FROM (
		SELECT unnest(theirs) UNION SELECT m.id FROM unnest(ids, wants) AS m(id, wanted) WHERE m.wanted > 0) AS everybody;
	IF given < own_wants THEN
		lines := lines || jsonb_build_object(asked_by, jsonb_build_object('at', now_ms, 'wants', own_wants - given,
			'ids', to_jsonb(array(SELECT m.id FROM unnest(ids, wants) WITH ORDINALITY AS m(id, wanted, at) WHERE m.wanted > 0 ORDER BY m.at))));
	END IF;
	IF waiting = 0 THEN
		served := '{}';
		share := NULL;
		paced_us := NULL;
		more := least((p_asked ->> 'more')::bigint, (free - given) / 8);
	ELSE
		paced_us := CASE WHEN paced_us IS NULL THEN now_us ELSE base_us + given * step_us END;
		retry_ms := CASE
			WHEN quiet_until > now_ms THEN quiet_until - now_ms
			WHEN own_limit - used - holding - own_held - given <= 0 THEN ends[1] + length_ms - now_ms
			ELSE (paced_us + step_us - now_us) / 1000 END;
	END IF;
	own_held := own_held + given + more;
	IF own_held > 0 THEN
		held := held || jsonb_build_object(asked_by, jsonb_build_array(own_held, now_ms));
	END IF;
	-- A budget that nobody asks for any more goes with the expired entries of the cache. Its end is in an index: it moves once a day, so
	-- that the other updates write no index (HOT).
	UPDATE "__schema__"."__prefix___cache" SET updated_at = clock_timestamp(),
		expires_at = CASE
			WHEN expires_at > clock_timestamp() + interval '30 days' + make_interval(secs => length_ms / 1000.0) THEN expires_at
			ELSE clock_timestamp() + interval '31 days' + make_interval(secs => length_ms / 1000.0) END,
		value = jsonb_build_object('at', now_ms, 'limit', own_limit, 'seconds', length_ms / 1000, 'ends', to_jsonb(ends), 'counts', to_jsonb(counts),
			'held', held, 'lines', lines, 'served', to_jsonb(served), 'share', share, 'pacedUs', paced_us, 'quietUntil', quiet_until,
			'override', override)
		WHERE key = p_key;
	RETURN jsonb_build_object('gave', to_jsonb(gave), 'more', more, 'waiting', waiting, 'retryMs', greatest(0, retry_ms), 'used', used + holding + own_held,
		'limit', own_limit, 'seconds', length_ms / 1000, 'quietMs', CASE WHEN quiet_until > now_ms THEN quiet_until - now_ms END);
END
$$;

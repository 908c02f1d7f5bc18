CREATE OR REPLACE FUNCTION "__schema__"."__prefix___is_integration_well"(p_integration bigint, p_health text) RETURNS boolean LANGUAGE sql STABLE AS $$
-- Whether an incident may close, as far as the integration itself goes; its breaker: is_breaker_well. What closes one holds the lock of its
-- row, and gives the health that it is about to write there; a count asks without. Each kind of incident that lasts has its mark here.
	SELECT p_health = 'healthy' AND EXISTS (
		SELECT FROM "__schema__"."__prefix__s" WHERE id = p_integration AND sync_stale_alerted_at IS NULL AND tokens_refused_at IS NULL)
	AND NOT EXISTS (SELECT FROM "__schema__"."__prefix___written_records" WHERE integration_id = p_integration AND looping_since IS NOT NULL)
	AND NOT EXISTS (SELECT FROM "__schema__"."__prefix___webhook_subscriptions" WHERE integration_id = p_integration AND alerted_at IS NOT NULL)
$$;

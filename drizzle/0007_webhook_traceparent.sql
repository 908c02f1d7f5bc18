-- The trace of a webhook's request, for its processing to go on with. Null while nobody traces: no default, so no row is rewritten.
ALTER TABLE "__schema__"."__prefix___webhooks" ADD COLUMN "traceparent" varchar(55);

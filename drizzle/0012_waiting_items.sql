-- Why an item waits, until when, and how often its listener has put it off.
ALTER TABLE "__schema__"."__prefix___sync_items" ADD COLUMN "last_error" text;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___sync_items" ADD COLUMN "next_attempt_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___sync_items" ADD COLUMN "put_off" smallint DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX "__prefix___sync_items_waiting_idx" ON "__schema__"."__prefix___sync_items" USING btree ("id") WHERE "__schema__"."__prefix___sync_items"."next_attempt_at" is not null;
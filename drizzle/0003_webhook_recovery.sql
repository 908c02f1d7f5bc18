-- Replays are told from other attempts, and recovery finds what may be tried again without walking what may not.
ALTER TABLE "__schema__"."__prefix___webhooks" ADD COLUMN "replay_attempt" smallint;--> statement-breakpoint
CREATE INDEX "__prefix___webhooks_failed_idx" ON "__schema__"."__prefix___webhooks" USING btree ("attempts","processed_at") WHERE "__schema__"."__prefix___webhooks"."status" = 'failed';

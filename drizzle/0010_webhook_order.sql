DROP INDEX "__schema__"."__prefix___webhooks_pending_idx";--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___webhooks" ADD COLUMN "ordering_key" varchar(255);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___webhooks" ADD COLUMN "key_turn" boolean;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___webhooks" ADD COLUMN "coalesces" boolean;--> statement-breakpoint
CREATE UNIQUE INDEX "__prefix___webhooks_turn_idx" ON "__schema__"."__prefix___webhooks" USING btree ("integration_id","ordering_key") WHERE "__schema__"."__prefix___webhooks"."key_turn";--> statement-breakpoint
CREATE INDEX "__prefix___webhooks_waiting_idx" ON "__schema__"."__prefix___webhooks" USING btree ("integration_id","ordering_key","id") WHERE "__schema__"."__prefix___webhooks"."key_turn" is false;--> statement-breakpoint
CREATE INDEX "__prefix___webhooks_pending_idx" ON "__schema__"."__prefix___webhooks" USING btree ("integration_id","id") WHERE "__schema__"."__prefix___webhooks"."status" = 'pending' and "__schema__"."__prefix___webhooks"."key_turn" is not false;
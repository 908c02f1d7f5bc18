ALTER TABLE "__schema__"."__prefix___idempotency_keys" DROP CONSTRAINT "__prefix___idempotency_keys_key_key";--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___webhooks" DROP CONSTRAINT "__prefix___webhooks_delivery_id_key";--> statement-breakpoint
DROP INDEX "__schema__"."__prefix___requests_idempotency_key_idx";--> statement-breakpoint
DROP INDEX "__schema__"."__prefix___sync_items_external_id_idx";--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___events" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___logs" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___mappings" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___requests" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
CREATE INDEX "__prefix___events_origin_idx" ON "__schema__"."__prefix___events" USING btree ("origin","id") WHERE "__schema__"."__prefix___events"."origin" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___idempotency_keys_owner_idx" ON "__schema__"."__prefix___idempotency_keys" USING btree ("integration_id");--> statement-breakpoint
CREATE INDEX "__prefix___logs_origin_idx" ON "__schema__"."__prefix___logs" USING btree ("origin","id") WHERE "__schema__"."__prefix___logs"."origin" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___mappings_external_idx" ON "__schema__"."__prefix___mappings" USING btree ("external_id","integration_id");--> statement-breakpoint
CREATE INDEX "__prefix___mappings_origin_idx" ON "__schema__"."__prefix___mappings" USING btree ("origin","id") WHERE "__schema__"."__prefix___mappings"."origin" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_origin_idx" ON "__schema__"."__prefix___requests" USING btree ("origin","id") WHERE "__schema__"."__prefix___requests"."origin" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_provider_id_idx" ON "__schema__"."__prefix___requests" USING btree ("provider_request_id") WHERE "__schema__"."__prefix___requests"."provider_request_id" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_related_idx" ON "__schema__"."__prefix___requests" USING btree ("related_id","related_type","id") WHERE "__schema__"."__prefix___requests"."related_id" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_failures_idx" ON "__schema__"."__prefix___requests" USING btree ("integration_id","created_at") WHERE "__schema__"."__prefix___requests"."failure_class" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_failed_at_idx" ON "__schema__"."__prefix___requests" USING btree ("created_at") WHERE "__schema__"."__prefix___requests"."failure_class" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___sync_items_failures_idx" ON "__schema__"."__prefix___sync_items" USING btree ("integration_id","completed_at") WHERE "__schema__"."__prefix___sync_items"."status" = 'failed';--> statement-breakpoint
CREATE INDEX "__prefix___sync_items_failed_at_idx" ON "__schema__"."__prefix___sync_items" USING btree ("completed_at") WHERE "__schema__"."__prefix___sync_items"."status" = 'failed';--> statement-breakpoint
CREATE INDEX "__prefix___webhooks_failures_idx" ON "__schema__"."__prefix___webhooks" USING btree ("integration_id","processed_at") WHERE "__schema__"."__prefix___webhooks"."status" = 'failed' and "__schema__"."__prefix___webhooks"."dismissed_at" is null;--> statement-breakpoint
CREATE INDEX "__prefix___webhooks_failed_at_idx" ON "__schema__"."__prefix___webhooks" USING btree ("processed_at") WHERE "__schema__"."__prefix___webhooks"."status" = 'failed' and "__schema__"."__prefix___webhooks"."dismissed_at" is null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_idempotency_key_idx" ON "__schema__"."__prefix___requests" USING btree ("idempotency_key","integration_id") WHERE "__schema__"."__prefix___requests"."idempotency_key" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___sync_items_external_id_idx" ON "__schema__"."__prefix___sync_items" USING btree ("external_id","integration_id","id") WHERE "__schema__"."__prefix___sync_items"."external_id" is not null;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___idempotency_keys" ADD CONSTRAINT "__prefix___idempotency_keys_key_key" UNIQUE("key","integration_id");--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___webhooks" ADD CONSTRAINT "__prefix___webhooks_delivery_id_key" UNIQUE("delivery_id","integration_id");
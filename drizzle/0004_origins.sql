ALTER TABLE "__schema__"."__prefix___events" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___logs" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___mappings" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___requests" ADD COLUMN "origin" varchar(32);--> statement-breakpoint
CREATE INDEX "__prefix___logs_origin_idx" ON "__schema__"."__prefix___logs" USING btree ("origin","id") WHERE "__schema__"."__prefix___logs"."origin" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___mappings_origin_idx" ON "__schema__"."__prefix___mappings" USING btree ("origin","id") WHERE "__schema__"."__prefix___mappings"."origin" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_origin_idx" ON "__schema__"."__prefix___requests" USING btree ("origin","id") WHERE "__schema__"."__prefix___requests"."origin" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_provider_id_idx" ON "__schema__"."__prefix___requests" USING btree ("provider_request_id") WHERE "__schema__"."__prefix___requests"."provider_request_id" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___requests_failed_at_idx" ON "__schema__"."__prefix___requests" USING btree ("created_at") WHERE coalesce("__schema__"."__prefix___requests"."failure_class", '') <> '';--> statement-breakpoint
CREATE INDEX "__prefix___sync_items_failed_at_idx" ON "__schema__"."__prefix___sync_items" USING btree ("completed_at") WHERE "__schema__"."__prefix___sync_items"."status" = 'failed';--> statement-breakpoint
CREATE INDEX "__prefix___webhooks_failed_at_idx" ON "__schema__"."__prefix___webhooks" USING btree ("processed_at") WHERE "__schema__"."__prefix___webhooks"."status" = 'failed' and "__schema__"."__prefix___webhooks"."dismissed_at" is null;
-- A claim of sync items is answered by this index alone: by the sum no other one can serve it.
DROP INDEX "__schema__"."__prefix___sync_items_pending_idx";--> statement-breakpoint
CREATE INDEX "__prefix___sync_items_pending_idx" ON "__schema__"."__prefix___sync_items" USING btree (("sync_log_id" + 0),"id") WHERE "__schema__"."__prefix___sync_items"."status" = 'pending';

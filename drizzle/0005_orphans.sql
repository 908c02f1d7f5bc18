-- Whether anything maps a model, of all integrations: the model comes first.
DROP INDEX "__schema__"."__prefix___mappings_internal_id_idx";--> statement-breakpoint
CREATE INDEX "__prefix___mappings_internal_id_idx" ON "__schema__"."__prefix___mappings" USING btree ("internal_type","internal_id","integration_id");
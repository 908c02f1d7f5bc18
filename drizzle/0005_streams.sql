CREATE TABLE "__schema__"."__prefix___streams" (
	"integration_id" bigint NOT NULL,
	"stream" varchar(60) NOT NULL,
	"last_synced_at" timestamp (3) with time zone,
	"last_run_at" timestamp (3) with time zone,
	"next_sync_at" timestamp (3) with time zone,
	"consecutive_sync_failures" integer DEFAULT 0 NOT NULL,
	"sync_stale_alerted_at" timestamp (3) with time zone,
	"sync_interval_seconds" integer,
	"sync_cursor" jsonb,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "__prefix___streams_pkey" PRIMARY KEY("integration_id","stream")
);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___logs" ADD COLUMN "stream" varchar(60);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___sync_items" ADD COLUMN "stream" varchar(60);--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___streams" ADD CONSTRAINT "__prefix___streams_integration_fk" FOREIGN KEY ("integration_id") REFERENCES "__schema__"."__prefix__s"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "__prefix___streams_due_idx" ON "__schema__"."__prefix___streams" USING btree ("next_sync_at" NULLS FIRST,"integration_id","stream");--> statement-breakpoint
CREATE INDEX "__prefix___streams_stale_idx" ON "__schema__"."__prefix___streams" USING btree ("integration_id") WHERE "__schema__"."__prefix___streams"."sync_stale_alerted_at" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___logs_stream_idx" ON "__schema__"."__prefix___logs" USING btree ("integration_id","stream","operation","id") WHERE "__schema__"."__prefix___logs"."stream" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___sync_items_stream_idx" ON "__schema__"."__prefix___sync_items" USING btree ("integration_id","stream","status") WHERE "__schema__"."__prefix___sync_items"."stream" is not null;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___sync_starts" ADD COLUMN "stream" varchar(60) DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___sync_starts" DROP CONSTRAINT "__prefix___sync_starts_pkey";--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___sync_starts" ADD CONSTRAINT "__prefix___sync_starts_pkey" PRIMARY KEY("integration_id","stream");
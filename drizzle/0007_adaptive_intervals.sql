ALTER TABLE "__schema__"."__prefix___streams" ADD COLUMN "changes_seen" double precision DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___streams" ADD COLUMN "seconds_seen" double precision DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___streams" ADD COLUMN "calls_per_run" double precision;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___streams" ADD COLUMN "observed_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___streams" ADD COLUMN "adaptive_seconds" double precision;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___streams" ADD COLUMN "adaptive_reason" varchar(20);
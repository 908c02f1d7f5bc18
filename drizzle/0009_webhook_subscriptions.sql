CREATE TABLE "__schema__"."__prefix___webhook_subscriptions" (
	"integration_id" bigint PRIMARY KEY NOT NULL,
	"is_wanted" boolean NOT NULL,
	"subscription_id" varchar(255),
	"url" text,
	"expires_at" timestamp (3) with time zone,
	"renewed_at" timestamp (3) with time zone,
	"secret_mark" varchar(64),
	"claim" integer DEFAULT 0 NOT NULL,
	"checked_at" timestamp (3) with time zone,
	"next_check_at" timestamp (3) with time zone,
	"failures" integer DEFAULT 0 NOT NULL,
	"failing_since" timestamp (3) with time zone,
	"last_error" text,
	"alerted_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___incidents" DROP CONSTRAINT "__prefix___incidents_source_check";--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___webhook_subscriptions" ADD CONSTRAINT "__prefix___webhook_subs_integration_fk" FOREIGN KEY ("integration_id") REFERENCES "__schema__"."__prefix__s"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "__prefix___webhook_subs_next_check_idx" ON "__schema__"."__prefix___webhook_subscriptions" USING btree ("next_check_at") WHERE "__schema__"."__prefix___webhook_subscriptions"."next_check_at" is not null;--> statement-breakpoint
CREATE INDEX "__prefix___webhook_subs_alerted_idx" ON "__schema__"."__prefix___webhook_subscriptions" USING btree ("integration_id") WHERE "__schema__"."__prefix___webhook_subscriptions"."alerted_at" is not null;--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___incidents" ADD CONSTRAINT "__prefix___incidents_source_check" CHECK ("__schema__"."__prefix___incidents"."source" in ('health', 'circuit', 'sync', 'echo', 'webhooks'));
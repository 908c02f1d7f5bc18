CREATE TABLE "__schema__"."__prefix___sync_starts" (
	"integration_id" bigint PRIMARY KEY NOT NULL,
	"again_at" timestamp (3) with time zone,
	"later_at" timestamp (3) with time zone,
	"later_since" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "__schema__"."__prefix___sync_starts" ADD CONSTRAINT "__prefix___sync_starts_integration_fk" FOREIGN KEY ("integration_id") REFERENCES "__schema__"."__prefix__s"("id") ON DELETE cascade ON UPDATE no action;
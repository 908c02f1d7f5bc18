/** What the workflows about webhooks take and give: plain data, which Temporal keeps as JSON. */

/** One webhook on its own: a replay by hand, or a row that recovery takes up. */
export interface ProcessWebhookInput {
  readonly webhookId: number
  /** Runs again what is `processed` or `failed`. Default: only a `pending` row is taken. */
  readonly replay?: boolean
  /** The row must still be `processing` with this number of attempts: its worker is taken for lost. */
  readonly stuckAttempts?: number
}

export interface ProcessWebhookResult {
  readonly webhookId: number
  /** `not claimed`: the row is in a state that this job does not take, or gone. */
  readonly outcome: 'processed' | 'failed' | 'not claimed'
  /** As it is afterwards; null: the row is gone. */
  readonly status: string | null
  readonly attempts: number | null
}

/** Rows that each pass took up, whether with a workflow of their own or by their integration's inbox. */
export interface RecoverWebhooksResult {
  readonly processing: number
  readonly pending: number
  readonly failed: number
  /** Only where there is one. */
  readonly replaced?: readonly ReplacedWorkflow[]
}

/** A workflow that recovery ended, since it did not go on by itself; another one goes on with its rows. */
export interface ReplacedWorkflow {
  /** Its id. */
  readonly workflow: string
  /** How often its task had been tried. */
  readonly attempts: number
  /** Its task queue, where this was why: no worker polled it, and the configuration did not name it. */
  readonly queue?: string
}

export interface ReconcileWebhooksInput {
  /** Default: every integration whose provider can. */
  readonly integrationId?: number
  /** ISO 8601, in place of the mark of the last run. */
  readonly since?: string
  /** Counts, and stores nothing. */
  readonly dryRun?: boolean
}

/** The result stands in a history: thousands of integrations may be skipped. */
export const MAX_REASONS = 10

export interface ReconcileWebhooksResult {
  readonly integrations: number
  /** Deliveries that the providers listed. */
  readonly seen: number
  readonly known: number
  /** Stored, or in a dry run: would be. */
  readonly inserted: number
  readonly tooLarge: number
  /** Integrations that reached the limit of a run: the next run goes on. */
  readonly capped: number
  /** Integrations whose listing failed. */
  readonly failed: number
  /** Integrations that were not asked: they name no webhook to list. */
  readonly skipped: number
  /** Why, for the first {@link MAX_REASONS} of them: `integration 7: no webhook to list; …`. */
  readonly reasons: readonly string[]
}

/** Files of a host's own that a page imports. */
declare module '*/acme.ts' {
  import { ProviderEvent, SyncItemEvent } from 'durable-integrations/provider'

  export class AcmeItemSynced extends SyncItemEvent<{ id: string; name: string }> {}
  export class AcmeWebhookReceived extends ProviderEvent {
    readonly event: string
  }
  export const AcmeProvider: new () => import('durable-integrations').HasScheduledSync
}
/** As far as docs/tutorials/from-nango.md shows it: https://nango.dev/docs/reference/functions */
declare module 'nango' {
  interface Proxied {
    readonly endpoint: string
    readonly params?: Readonly<Record<string, string>>
    readonly data?: unknown
    readonly retries?: number
    readonly paginate?: Readonly<Record<string, string>>
  }
  export function createSync<Checkpoint extends import('zod').ZodType>(sync: {
    readonly description: string
    readonly version: string
    readonly frequency: string
    readonly autoStart: boolean
    readonly models: Readonly<Record<string, import('zod').ZodType>>
    readonly checkpoint: Checkpoint
    readonly exec: (nango: {
      getCheckpoint(): Promise<import('zod').infer<Checkpoint> | null>
      saveCheckpoint(checkpoint: import('zod').infer<Checkpoint>): Promise<void>
      paginate(request: Proxied): AsyncIterable<unknown[]>
      batchSave(records: readonly { readonly id: string }[], model: string): Promise<boolean>
    }) => Promise<void>
  }): unknown
  export function createAction<Input extends import('zod').ZodType, Output extends import('zod').ZodType>(action: {
    readonly description: string
    readonly version: string
    readonly input: Input
    readonly output: Output
    readonly exec: (
      nango: { post(request: Proxied): Promise<{ readonly data: unknown }> },
      input: import('zod').infer<Input>,
    ) => Promise<import('zod').infer<Output>>
  }): unknown
}

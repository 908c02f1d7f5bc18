/** What a host, or a provider's author, has around the lines that a page shows. */

import type { Integration, Integrations, Json, SyncSession } from 'durable-integrations'
import type { GitHubIssue } from 'durable-integrations/github'
import type {
  Call,
  HasScheduledSync,
  PagedListing,
  ProviderEvent,
  SyncItemEvent,
  WebhookSubscription,
} from 'durable-integrations/provider'
import type { StripeClient } from 'durable-integrations/stripe'
import type { TestIntegrations, WebhookSigner } from 'durable-integrations/testing'
import type StripeSdk from 'stripe'
import type { z } from 'zod'

declare global {
  const integrations: Integrations
  const integration: Integration
  const session: SyncSession
  const kit: TestIntegrations

  /** Members of a class that a page shows alone stand in one of these. */
  class HostClass {
    me(integration: Integration): Promise<unknown>
  }
  class AcmeProvider implements HasScheduledSync {
    healthCheck(): boolean
    sync(integration: Integration, session: SyncSession): Promise<void>
    reduceCheckpoints(checkpoints: readonly Json[]): Json
    defaultRateLimit(): null
    reply(integration: Integration, text: string, idempotencyKey: string): Promise<unknown>
  }
  const provider: AcmeProvider
  const providers: { acme: AcmeProvider }
  const models: Record<string, never>
  function register(integrations: Integrations, db: unknown): void
  const SCHEMA: string
  const SECRET: string
  const ANOTHER_SECRET: string
  const secret: string
  function headerOf(error: unknown, name: string): string | null
  const call: Call<unknown>
  const deliveryId: string
  const credentials: { token: string }
  const body: Json
  const acmeSigner: WebhookSigner
  const someTickets: readonly Json[]
  function playedAcme(tickets: readonly Json[]): (request: Request) => Response
  function pageOf(request: Request): Response

  class IssueSynced extends SyncItemEvent<GitHubIssue> {}
  class ContactSynced extends SyncItemEvent<{ name: string }> {}
  class DealSynced extends SyncItemEvent<{ title: string }> {}
  class ContactsDeleted extends ProviderEvent {
    constructor(integration: Integration, ids: readonly string[])
  }
  function listContacts(integration: Integration, session: SyncSession): Promise<void>
  function listChangedContacts(integration: Integration, session: SyncSession): Promise<void>
  function listDeals(integration: Integration, session: SyncSession): Promise<void>
  function welcome(contact: { name: string }): Promise<void>
  function mirror(event: IssueSynced): Promise<void>
  const issue: Json
  const Issue: z.ZodObject<{ number: z.ZodNumber }>
  const API: string
  const Hook: z.ZodObject<{
    id: z.ZodString
    url: z.ZodString
    expires_at: z.ZodNullable<z.ZodString>
    active: z.ZodBoolean
  }>
  function subscriptionOf(hook: z.infer<typeof Hook>): WebhookSubscription
  const Ticket: z.ZodObject<{ id: z.ZodString; subject: z.ZodString; updated_at: z.ZodString }>
  const Me: z.ZodObject<{ id: z.ZodNumber; name: z.ZodString; email: z.ZodString }>
  interface Widget {
    readonly colour: string
  }
  const Widget: z.ZodType<Widget>
  const OldWidget: z.ZodObject<{ id: z.ZodString }>
  const owner: string
  const repo: string
  const title: string
  const url: string
  const ticket: { id: number }
  const order: { id: string }
  const charge: StripeSdk.ChargeCreateParams
  const stripe: StripeSdk
  const client: StripeClient

  function closeTickets(integrationId: number, externalIds: readonly string[]): Promise<void>
  function fetchTickets(
    integration: Integration,
    query: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<{ tickets: { id: string; subject: string; updated_at: string }[]; next: string | null }>
  interface Deals {
    readonly deals: readonly ListedDeal[]
    readonly meta: { readonly next: string | null }
    readonly total_pages: number
  }
  type ListedDeal = { readonly id: string; readonly updated_at: string }
  function deals(query: Record<string, unknown>): Promise<Deals>
  const common: Pick<PagedListing<unknown, unknown, ListedDeal>, 'event' | 'checkpoint' | 'externalId'>
  const since: string
  const headers: Record<string, string>
  function fetchPage(
    integration: Integration,
    page: number,
    options: { since: Json; signal: AbortSignal },
  ): Promise<{ items: GitHubIssue[]; last: boolean }>
  function askTheProvider(): Promise<{ token: string; expires_at: string }>
  function page(id: string | undefined, incident: unknown): Promise<void>
  function importFile(integration: Integration): Promise<number>
  function store(rows: readonly unknown[]): Promise<void>
  function markPaid(payload: unknown): Promise<void>
}

/**
 * Where a host handles deliveries and sync items, when not in our worker: by HTTP, or by a workflow of its own in any language.
 *
 * Rule: docs/behaviour/forwarding.md.
 */
import { z } from 'zod'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Integration } from '../providers/integration.ts'
import { signStandardWebhook } from '../providers/signatures/standard-webhooks.ts'

/** A door of the host's own. Each message is signed as Standard Webhooks says. */
export interface ForwardTarget {
  readonly url: string
  /** Base64 of 24 to 64 bytes each, with or without `whsec_`. With several, each signs: the host may know any of them. */
  readonly secrets: readonly string[]
  /** How long an answer may take. Default 30, at most what an attempt may take. */
  readonly timeoutSeconds?: number
}

/** A workflow of the host's own; its end is the attempt's end. */
export interface WorkflowTarget {
  readonly workflow: string
  readonly taskQueue: string
  /** Hands the payload over as the workflow's input, so that Temporal's history holds it. Default: ids only. */
  readonly sendsPayload?: boolean
}

export type HandlingTarget = ForwardTarget | WorkflowTarget

/** For all integrations of a provider, or for each its own; null: in our worker, as ever. */
export type HandlingTargetSource = HandlingTarget | ((integration: Integration) => HandlingTarget | null)

/** By the provider's identifier. */
export type HandledBy = Readonly<
  Record<string, { readonly webhooks?: HandlingTargetSource; readonly items?: HandlingTargetSource }>
>

const MAX_TIMEOUT_SECONDS = 600

const Forward = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  secrets: z.array(z.string()).min(1),
  timeoutSeconds: z.int().min(1).max(MAX_TIMEOUT_SECONDS).optional(),
})
const Workflow = z.strictObject({
  workflow: z.string().min(1),
  taskQueue: z.string().min(1),
  sendsPayload: z.boolean().optional(),
})
const ByProvider = z.record(z.string(), z.strictObject({ webhooks: z.unknown(), items: z.unknown() }).partial())

/** @throws InvalidArgumentException, which holds no secret */
export function checkHandledBy(given: HandledBy): void {
  const parsed = ByProvider.safeParse(given)
  if (!parsed.success)
    throw new InvalidArgumentException(
      'handledBy',
      `{ <provider>: { webhooks?, items? } } is allowed; ${said(parsed.error)}`,
    )
  for (const [provider, { webhooks, items }] of Object.entries(given))
    for (const [what, source] of Object.entries({ webhooks, items }))
      if (source !== undefined && typeof source !== 'function') checkTarget(`handledBy.${provider}.${what}`, source)
}

/** @throws InvalidArgumentException, which holds no secret */
export function checkTarget(name: string, given: unknown): asserts given is HandlingTarget {
  const isWorkflow = typeof given === 'object' && given !== null && 'workflow' in given
  const parsed = (isWorkflow ? Workflow : Forward).safeParse(given)
  if (!parsed.success)
    throw new InvalidArgumentException(
      name,
      `{ url, secrets, timeoutSeconds? } or { workflow, taskQueue, sendsPayload? } is allowed; ${said(parsed.error)}`,
    )
  if ('secrets' in parsed.data)
    // An attempt is too late to find out.
    for (const secret of parsed.data.secrets)
      signStandardWebhook({ id: 'check', sentAt: new Date(0), body: '' }, secret)
}

/** Never what was given: it may be a secret. */
function said({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.map(String).join('.') || '(root)'}: ${message}`).join('; ')
}

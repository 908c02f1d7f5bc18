/** How the dashboard speaks of each act: on its button, over its page, and when it is done. */
import { idleOverride } from '../../../calls/limit-act-rules.ts'
import { notRetried } from '../../../commands/trouble/notifications.ts'

export interface ActWords {
  /** Over the page of the act. */
  readonly title: string
  /** On a button, unless the page names it otherwise. */
  readonly label: string
  /** One click does it, with what the button gives and defaults for the rest. */
  readonly isOneClick?: true
  /** What it interrupts, read before the yes. For an act whose command asks nothing. */
  readonly warning?: string
  /** Can't be undone: the form has a box that says so, which must be ticked. */
  readonly isFinal?: true
  /** The name of the integration has to be typed. */
  readonly typesName?: true
  /** What it gives is seen on its own page once, and stands in no cookie. */
  readonly isShownHere?: true
  /** What a person reads afterwards; default: what the command says. */
  said?(result: Result): string
}

type Result = Readonly<Record<string, unknown>>

const NEXT_RUN = 'The next run lists everything.'

/** By method and path of the API. Each act of the API stands here. */
export const ACT_WORDS: Readonly<Record<string, ActWords>> = {
  'post /integrations': {
    title: 'Make an integration',
    label: 'New integration',
    said: ({ id, name }) => `Integration ${id}, "${name}", is made.`,
  },
  'patch /integrations/:id': {
    title: 'Change an integration',
    label: 'Change',
    said: ({ name }) => `"${name}" is changed.`,
  },
  'delete /integrations/:id': {
    title: 'Delete an integration and all its rows',
    label: 'Delete',
    isFinal: true,
    typesName: true,
    said: ({ id, deleted }) => `Deleted integration ${id}: ${rowsIn(deleted)}.`,
  },
  'post /integrations/:id/erase': {
    title: 'Erase what an integration holds',
    label: 'Erase',
    isFinal: true,
    typesName: true,
    said: ({ id, erased }) => `Erased what integration ${id} held: ${rowsIn(erased)}.`,
  },
  'post /integrations/:id/enable': { title: 'Enable an integration', label: 'Enable', isOneClick: true },
  'post /integrations/:id/disable': {
    title: 'Disable an integration',
    label: 'Disable',
    warning:
      'Its deliveries are answered 404 from now on, and some providers give up such an address. No sync of it starts. Enabling it ends that.',
  },
  'post /integrations/:id/test': {
    title: 'Ask the provider whether the credentials work',
    label: 'Check the credentials',
    isOneClick: true,
    said: ({ ok, duration_ms: ms, error }) =>
      ok ? `The provider answers well, after ${ms} ms.` : `The check failed after ${ms} ms: ${error}`,
  },
  'post /integrations/:id/oauth/link': {
    title: 'Make a link for a person who has no sign-in here',
    label: 'Link for its owner',
    isShownHere: true,
  },
  'post /integrations/:id/oauth/refresh': {
    title: 'Refresh the tokens',
    label: 'Refresh tokens',
    isOneClick: true,
    said: ({ refreshed }) => (refreshed === 1 ? 'The tokens are refreshed.' : 'The tokens could not be refreshed.'),
  },
  'post /integrations/:id/oauth/revoke': {
    title: 'Revoke the authorization',
    label: 'Revoke',
    isFinal: true,
    said: ({ outcome }) => `Authorization: ${outcome}.`,
  },
  'post /integrations/:id/sync': {
    title: 'Start a sync run',
    label: 'Sync now',
    isOneClick: true,
    said: ({ streams, ...start }) =>
      Array.isArray(streams)
        ? streams.map((one: Result) => `${one.stream}: ${startSaid(one)}`).join(' ')
        : startSaid(start),
  },
  'post /integrations/:id/pause': { title: 'Pause syncs', label: 'Pause', isOneClick: true },
  'post /integrations/:id/resume': {
    title: 'Resume syncs',
    label: 'Resume',
    isOneClick: true,
    said: () => 'The pause is over.',
  },
  'post /integrations/:id/cancel': { title: 'Cancel the sync run', label: 'Cancel run' },
  'post /integrations/:id/backfill': {
    title: 'List a time of the past again',
    label: 'Backfill',
    said: ({ from, to, runs }) =>
      `A backfill of ${moment(from)} to ${moment(to)} is started: ${runs === 1 ? 'one run' : `${runs} runs, one for each day`}.`,
  },
  'post /integrations/:id/sample': {
    title: 'See what a run would list',
    label: 'Sample',
    isShownHere: true,
  },
  'put /integrations/:id/cursor': {
    title: 'Set the cursor',
    label: 'Set cursor',
    isFinal: true,
    said: ({ to }) => (to === null ? `The cursor is reset. ${NEXT_RUN}` : `The cursor is ${JSON.stringify(to)} now.`),
  },
  'delete /integrations/:id/cursor': {
    title: 'Reset the cursor',
    label: 'Reset cursor',
    isFinal: true,
    said: () => `The cursor is reset. ${NEXT_RUN}`,
  },
  'put /integrations/:id/interval': {
    title: 'Set how often it is synced',
    label: 'Set interval',
    said: () => 'The interval is set.',
  },
  'delete /integrations/:id/interval': {
    title: "Go by the provider's own interval",
    label: 'Own interval',
    isOneClick: true,
    said: () => "The interval is the provider's own again.",
  },
  'put /integrations/:id/circuit-override': {
    title: 'Override the circuit breaker',
    label: 'Override breaker',
    said: ({ override }) =>
      override === null ? idleOverride('circuit_breaker') : `The breaker is overridden: ${override}.`,
  },
  'delete /integrations/:id/circuit-override': {
    title: 'Give the breaker back to itself',
    label: 'End the override of the breaker',
    isOneClick: true,
    said: ({ state }) => `The breaker decides for itself again; it is ${state}.`,
  },
  'put /integrations/:id/rate-limit-override': {
    title: 'Override the rate limit',
    label: 'Override limit',
    said: ({ source, limit, window_seconds: seconds }) =>
      source === 'override' ? `The limit is ${limit} calls in ${seconds} s now.` : idleOverride('rate_limiting'),
  },
  'delete /integrations/:id/rate-limit-override': {
    title: "Go by the provider's own rate limit",
    label: 'End the override of the limit',
    isOneClick: true,
    said: () => "The limit is the provider's own again.",
  },
  'post /integrations/:id/reconcile': {
    title: 'Fetch deliveries that never came',
    label: 'Reconcile',
    said: ({ seen, known, inserted, failed, skipped, reasons }) =>
      skipped === 1
        ? `The provider was not asked: ${reasons}`
        : `The provider knows of ${seen} deliveries: ${known} were here, ${inserted} are stored now, ${failed} failed.`,
  },
  'post /integrations/:id/rotate-webhook-secret': {
    title: 'Rotate the webhook secret',
    label: 'Rotate secret',
    isFinal: true,
    isShownHere: true,
  },
  'post /integrations/:id/webhook-subscription': {
    title: 'Register its webhook at the provider',
    label: 'Register webhook',
    isOneClick: true,
    said: ({ subscription_id: id }) =>
      id === null ? 'It is registered once the integration is switched on.' : `The webhook is registered as ${id}.`,
  },
  'post /integrations/:id/webhook-subscription/check': {
    title: 'Compare its webhook with the provider',
    label: 'Check webhook',
    isOneClick: true,
    said: ({ subscription_id: id, last_error: error }) =>
      error !== null
        ? `The check failed: ${error}`
        : id === null
          ? 'None is registered.'
          : `The webhook is as it should be: ${id}.`,
  },
  'delete /integrations/:id/webhook-subscription': {
    title: 'Remove its webhook at the provider',
    label: 'Remove webhook',
    said: () => 'The webhook is removed; it stays away until it is registered again.',
  },
  'post /sync-runs/:id/confirm-missing': { title: 'Confirm that records are gone', label: 'Confirm missing' },
  'post /sync-runs/:id/finalise': {
    title: 'Finalise a run',
    label: 'Finalise',
    isOneClick: true,
    said: ({ runs }) => (runs === 0 ? 'Nothing to finalise: its items are not done, or it is.' : 'Finalised.'),
  },
  'post /sync-items/:id/retry': {
    title: 'Retry an item',
    label: 'Retry',
    isOneClick: true,
    said: ({ item_id: id }) => `Item ${id} is tried again now.`,
  },
  'post /sync-items/:id/skip': { title: 'Give an item up for good', label: 'Skip', isFinal: true },
  'post /webhooks/:id/replay': {
    title: 'Replay a webhook',
    label: 'Replay',
    isOneClick: true,
    said: ({ webhook_id: id }) => `Webhook ${id} is run again now.`,
  },
  'post /webhooks/:id/dismiss': {
    title: 'Dismiss a webhook',
    label: 'Dismiss',
    isOneClick: true,
    said: ({ webhook_id: id, dismissed_at: at }) =>
      at === null ? `Webhook ${id} is not dismissed any more.` : `Webhook ${id} is dismissed.`,
  },
  'post /webhooks/replay': {
    title: 'Replay webhooks',
    label: 'Replay all of these',
    said: ({ replayed, integrations }) =>
      replayed === 0
        ? 'There was nothing to replay.'
        : `${n(replayed, 'webhook')} of ${n(integrations, 'integration')} wait to run again.`,
  },
  'post /webhooks/dismiss': {
    title: 'Dismiss webhooks',
    label: 'Dismiss all of these',
    said: ({ dismissed, integrations, undo }) =>
      dismissed === 0
        ? 'There was nothing to dismiss.'
        : `${undo ? 'No longer dismissed' : 'Dismissed'}: ${n(dismissed, 'webhook')} of ${n(integrations, 'integration')}.`,
  },
  'post /failures/retry': { title: 'Retry a group of failures', label: 'Retry all of these' },
  'post /incidents/:id/acknowledge': {
    title: 'Acknowledge an incident',
    label: 'Acknowledge',
    isOneClick: true,
    said: () => 'Acknowledged: it is not repeated until it gets worse.',
  },
  'post /incidents/:id/snooze': {
    title: 'Snooze an incident',
    label: 'Snooze',
    said: ({ snoozed_until: until }) => `Snoozed until ${moment(until)}.`,
  },
  'post /incidents/:id/annotations': {
    title: 'Annotate an incident',
    label: 'Annotate',
    said: () => 'The annotation is stored.',
  },
  'delete /idempotency-keys/:id': { title: 'Free an idempotency key', label: 'Forget', isFinal: true },
  'delete /mappings/:id': { title: 'Forget a mapping', label: 'Forget', isFinal: true },
  'put /mappings/:id': {
    title: 'Point a mapping at another row',
    label: 'Re-point',
    said: ({ external_id: external, internal_type: type, internal_id: id }) => `${external} is ${type} ${id} now.`,
  },
  'post /notifications/test': {
    title: 'Send a test to the notification targets',
    label: 'Send a test',
    isOneClick: true,
    said: ({ data }) => testsSaid(data as readonly Test[]),
  },
  'post /notifications/retry': {
    title: 'Try again what was given up',
    label: 'Try again',
    isOneClick: true,
    said: ({ retried, status }) =>
      retried === 0
        ? notRetried(status as Parameters<typeof notRetried>[0])
        : `${n(retried, 'delivery', 'deliveries')} will be tried again by a worker.`,
  },
  'post /tokens': { title: 'Make an operator token', label: 'New token', isShownHere: true },
  'delete /tokens/:id': {
    title: 'Revoke an operator token',
    label: 'Revoke',
    isFinal: true,
    said: ({ name }) => `The token "${name}" is revoked; its sessions have ended.`,
  },
}

function startSaid({ outcome, at }: Result): string {
  if (outcome === 'started') return 'A sync run is started.'
  if (outcome === 'later') return `A sync run begins at ${moment(at)}.`
  // The open run may be paused; the answer does not say.
  return 'A run is open: one more follows it. If the run is paused, resume it first.'
}

function rowsIn(counts: unknown): string {
  const rows = Object.values(counts as Record<string, number>).reduce((sum, each) => sum + each, 0)
  return n(rows, 'row')
}

type Test = { readonly host: string; readonly ok: boolean; readonly error: string | null }
function testsSaid(tests: readonly Test[]): string {
  if (tests.length === 0) return 'There is no target to notify: notifications.targets is empty.'
  return tests.map(({ host, ok, error }) => `${host}: ${ok ? 'received' : error}`).join('; ')
}

/** `1,204 webhooks`, `1 webhook`. */
export const n = (count: unknown, what: string, many = `${what}s`): string =>
  `${Number(count).toLocaleString('en')} ${count === 1 ? what : many}`

const moment = (at: unknown): string => new Date(at as string).toISOString().slice(0, 19).replace('T', ' ')

/** What is wrong now, from the doctor's findings and the open incidents, each with what mends it. Rule: docs/dashboard.md, "Home". */
import { html } from 'hono/html'
import type { z } from 'zod'
import type { IncidentRow } from '../../../commands/shapes.ts'
import { causeWords } from '../../../incidents/rules.ts'
import type { Act } from '../acts/acts.ts'
import type { Markup } from '../frame/markup.ts'
import type { Finding } from './system-pages.ts'

type Incident = z.infer<typeof IncidentRow>

/** One line of it. */
export interface Trouble {
  readonly why: string
  readonly since: Date | null
  readonly integrationId: number | null
  readonly acts: readonly Act[]
  /** Where it is looked at: a path below the root. */
  readonly at: string | null
  /** A command: for where no button mends it, or the reader has none. */
  readonly remedy: string | null
  /** A person has to authorize it. */
  readonly needsPerson: boolean
}

export interface TroubleGroup {
  readonly title: string
  readonly severity: 'fault' | 'warning'
  readonly troubles: readonly Trouble[]
}

interface Mending {
  readonly title: string
  /** @param remedy the doctor's own command */
  readonly acts?: (words: Readonly<Record<string, string>>, id: string, remedy: string | null) => readonly Act[]
  readonly at?: (id: string) => string
  readonly needsPerson?: true
}

/**
 * Not where the doctor names another command: a run mends nothing while its integration is off, nor for items without an external
 * id.
 */
const syncIfItMends: Mending['acts'] = (words, _, remedy) =>
  // Under `npm start` a command begins with `npm run cli -- …`.
  remedy !== null && / sync /.test(remedy)
    ? [{ operation: 'post /integrations/:id/sync', label: 'Sync now', words }]
    : []

const failedWebhooks = (id: string) => ({ integration: id, status: 'failed' })

/** By the doctor's checks. Of the others the finding's own command is shown. */
const MENDINGS: Readonly<Record<string, Mending>> = {
  'integrations.disabled': {
    title: 'Switched off by their health',
    acts: (_, id) => [
      { operation: 'post /integrations/:id/test', label: 'Test its credentials', words: { id } },
      { operation: 'post /integrations/:id/enable', label: 'Enable', words: { id } },
    ],
  },
  'circuits.open': {
    title: 'Circuit breakers that let no call through, or are forced',
    acts: (_, id) => [
      { operation: 'put /integrations/:id/circuit-override', label: 'Override the breaker', words: { id } },
      { operation: 'delete /integrations/:id/circuit-override', label: 'Give it back to itself', words: { id } },
    ],
  },
  'oauth.reauthorization': {
    title: 'A person has to authorize these again',
    acts: (_, id) => [{ operation: 'post /integrations/:id/oauth/link', label: 'Make a link', words: { id } }],
    needsPerson: true,
  },
  'oauth.refreshes': {
    title: 'Tokens that could not be refreshed',
    acts: (_, id) => [{ operation: 'post /integrations/:id/oauth/refresh', label: 'Refresh now', words: { id } }],
  },
  'sync.paused': {
    title: 'Paused syncs',
    acts: (words) => [{ operation: 'post /integrations/:id/resume', label: 'Resume', words }],
  },
  'sync.stale': {
    title: 'Stale syncs',
    acts: (words) => [{ operation: 'post /integrations/:id/sync', label: 'Sync now', words }],
    at: (id) => `sync-runs?integration=${id}`,
  },
  'sync.stuck': {
    title: 'Runs whose workflow is gone',
    acts: syncIfItMends,
    at: (id) => `sync-runs?integration=${id}&status=processing`,
  },
  'sync.backfills': {
    title: 'Backfills whose workflow is gone',
    at: (id) => `sync-runs?integration=${id}&status=processing`,
  },
  'sync.failed_items': {
    title: 'Failed items that hold a cursor',
    acts: syncIfItMends,
    at: (id) => `sync-items?integration=${id}&status=failed&made_up_for=false`,
  },
  'sync.overdue': { title: 'Syncs that should have begun' },
  'webhooks.failed': {
    title: 'Webhooks that failed',
    acts: (_, id) => [
      { operation: 'post /webhooks/replay', label: 'Replay', words: failedWebhooks(id) },
      { operation: 'post /webhooks/dismiss', label: 'Dismiss', words: { integration: id } },
    ],
    at: (id) => `webhooks?integration=${id}&status=failed`,
  },
  'webhooks.pending': { title: 'Webhooks that wait', at: (id) => `webhooks?integration=${id}&status=pending` },
  'webhooks.processing': {
    title: 'Webhooks that take too long',
    at: (id) => `webhooks?integration=${id}&status=processing`,
  },
  'events.given_up': {
    title: 'Events that were given up',
    acts: () => [{ operation: 'post /notifications/retry', label: 'Try again', words: {} }],
    at: () => 'events?status=given_up',
  },
}

/** The worst first; of one severity in the order in which the doctor looks. */
export function troubleGroups(findings: readonly Finding[], incidents: readonly Incident[]): TroubleGroup[] {
  const groups = new Map<string, { severity: TroubleGroup['severity']; title: string; troubles: Trouble[] }>()
  for (const finding of findings) {
    const { check, status } = finding
    if ((status !== 'fault' && status !== 'warning') || isOfIncident(finding)) continue
    const title = MENDINGS[check]?.title ?? check
    const group = groups.get(title) ?? { severity: status, title, troubles: [] }
    if (status === 'fault') group.severity = 'fault'
    group.troubles.push(troubleOf(finding))
    groups.set(title, group)
  }
  const all: TroubleGroup[] = [...groups.values()]
  if (incidents.length > 0)
    all.push({
      severity: 'warning',
      title: 'Open incidents',
      troubles: incidents.map((incident) => troubleOfIncident(incident, findings)),
    })
  return all.sort((a, b) => rank(a) - rank(b))
}

const rank = ({ severity }: TroubleGroup): number => (severity === 'fault' ? 0 : 1)

function troubleOf({ check, message, remedy, since, integration_id: of, stream }: Finding): Trouble {
  const mending = of === null && check !== 'events.given_up' ? undefined : MENDINGS[check]
  const id = String(of)
  const acts = mending?.acts?.({ id, ...(stream === null ? {} : { stream }) }, id, remedy) ?? []
  return {
    why: message,
    since,
    integrationId: of,
    acts,
    at: mending?.at?.(id) ?? null,
    remedy,
    needsPerson: mending?.needsPerson === true,
  }
}

/** Open incidents have a group of their own, where acknowledged ones are, too. */
const isOfIncident = ({ check, status }: Finding): boolean => check === 'incidents.open' && status === 'warning'

function troubleOfIncident(
  { id, integration_id, reason, peak_severity, opened_at, acknowledged_by }: Incident,
  findings: readonly Finding[],
): Trouble {
  const words = { id: String(id) }
  // The doctor has looked up its newest error.
  const found = findings.find(
    (finding) =>
      isOfIncident(finding) &&
      finding.integration_id === integration_id &&
      finding.since?.getTime() === opened_at.getTime(),
  )
  return {
    why:
      acknowledged_by === null && found !== undefined
        ? found.message
        : `Incident ${id}: ${causeWords(reason)}; at worst ${peak_severity}${acknowledged_by === null ? '' : `; acknowledged by ${acknowledged_by}`}`,
    since: opened_at,
    integrationId: integration_id,
    acts: [
      ...(acknowledged_by === null
        ? [{ operation: 'post /incidents/:id/acknowledge', label: 'Acknowledge', words }]
        : []),
      { operation: 'post /incidents/:id/snooze', label: 'Snooze', words },
    ],
    at: `incidents/${id}`,
    remedy: null,
    needsPerson: false,
  }
}

/** In one sentence. */
export function troubleSummary(groups: readonly TroubleGroup[]): Markup {
  const count = groups.reduce((sum, { troubles }) => sum + troubles.length, 0)
  if (count === 0) return html`<p class="good">Nothing is wrong.</p>`
  return html`<p>${count} ${count === 1 ? 'thing is' : 'things are'} wrong, the worst first.</p>`
}

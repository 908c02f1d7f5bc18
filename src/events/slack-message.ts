/**
 * A notification as Slack's incoming webhooks take it: words for people.
 *
 * Sources: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks (the shape),
 * https://docs.slack.dev/messaging/formatting-message-text#escaping (what is escaped),
 * https://docs.slack.dev/reference/block-kit/blocks/section-block (3,000 characters).
 * Rule: docs/behaviour/notifications.md, "Slack".
 */
import type { IncidentRecord, IntegrationEvents } from './events.ts'
import type { NotifiedEvent, NotifiedName } from './notification-message.ts'

/** A name may have 255 characters, and an external id too; a reader needs to know it again. */
const MAX_FOREIGN_LENGTH = 200

export interface SlackMessage {
  /** What Slack shows where it shows no blocks, such as in a phone's notification. */
  readonly text: string
  readonly blocks: readonly SlackBlock[]
}

/** `verbatim`: Slack makes no links, mentions or channels of what is in the text. */
type SlackBlock =
  | { readonly type: 'section'; readonly text: SlackText }
  | { readonly type: 'context'; readonly elements: readonly SlackText[] }
interface SlackText {
  readonly type: 'mrkdwn'
  readonly text: string
  readonly verbatim: true
}

interface Words {
  /** What has happened; no foreign text. */
  readonly title: string
  /** What there is to know or do; escaped. */
  readonly details?: string
}

export function slackMessage(event: NotifiedEvent): SlackMessage {
  const { id, name, provider } = event.payload.integration
  const { title, details } = wordsOf(event)
  const subject = `${escaped(name)} (${escaped(provider)}, integration ${id})`
  return blocksOf({ title, subject, details }, `${event.createdAt.toISOString()} · event ${event.id}`)
}

export function slackTestMessage(now: Date): SlackMessage {
  return blocksOf({ title: 'A test', subject: 'nothing has happened', details: undefined }, now.toISOString())
}

type WordsOf<Name extends NotifiedName> = (payload: IntegrationEvents[Name]) => Words

const WORDS: { readonly [Name in NotifiedName]: WordsOf<Name> } = {
  IncidentOpened: ({ incident }) => ({
    title: `Incident ${incident.id} opened`,
    details: `Severity: ${incident.peakSeverity}. Cause: ${causeOf(incident)}.`,
  }),
  IncidentEscalated: ({ incident }) => ({
    title: `Incident ${incident.id} got worse`,
    details: `Severity: ${incident.peakSeverity}. First cause: ${causeOf(incident)}, at ${incident.openedAt.toISOString()}.`,
  }),
  IncidentClosed: ({ incident }) => ({
    title: `Incident ${incident.id} closed`,
    details: `${lastedOf(incident)}At its worst: ${incident.peakSeverity}. First cause: ${causeOf(incident)}.`,
  }),
  IntegrationDisabled: ({ integration }) => ({
    title: 'Integration disabled',
    details: `It failed too often in a row, and makes no calls now. To switch it on again: \`integrations enable ${integration.id}\``,
  }),
  ReauthRequired: ({ integration }) => ({
    title: 'Authorization needed',
    details: `Its provider takes the stored tokens no longer. A link for a person who may authorize it: \`integrations oauth-link ${integration.id}\``,
  }),
  SyncBecameStale: ({ stream, secondsSinceSync, intervalMinutes }) => ({
    title: `${syncOf(stream)} is stale`,
    details: `No clean run for ${duration(secondsSinceSync)}; it should sync every ${duration(intervalMinutes * 60)}.`,
  }),
  SyncStalenessRecovered: ({ stream }) => ({ title: `${syncOf(stream)} is in time again` }),
  SyncItemStuck: ({ integration, item, consecutiveFailedRuns }) => ({
    title: 'Sync item is stuck',
    details:
      `${item.externalId === null ? 'An item' : `The item ${escaped(item.externalId)}`} (${escaped(item.eventClass)}) ` +
      `has failed in ${consecutiveFailedRuns} runs in a row. Look: \`integrations list-failed-items --integration ${integration.id}\``,
  }),
  ElevatedFailureRate: ({ failureRate, windowMinutes, observedRequests, dominantClass }) => ({
    title: 'Many requests fail',
    details: `${failureRate.toFixed(1)} % of ${observedRequests} requests within ${duration(windowMinutes * 60)}, most of them: ${dominantClass}.`,
  }),
  FailureRateRecovered: () => ({ title: 'Requests succeed again' }),
}

function wordsOf<Name extends NotifiedName>(event: {
  readonly name: Name
  readonly payload: IntegrationEvents[Name]
}): Words {
  return WORDS[event.name](event.payload)
}

function blocksOf(
  { title, subject, details }: { title: string; subject: string; details: string | undefined },
  footer: string,
): SlackMessage {
  const rest = details === undefined ? '' : `\n${details}`
  return {
    text: `${title}: ${subject}${rest}`,
    blocks: [
      { type: 'section', text: mrkdwn(`*${title}* · ${subject}${rest}`) },
      { type: 'context', elements: [mrkdwn(footer)] },
    ],
  }
}

function mrkdwn(text: string): SlackText {
  return { type: 'mrkdwn', text, verbatim: true }
}

/** Foreign text in one line; `<!channel>` would call everybody. Cut first: half an entity would be shown as it is. */
function escaped(text: string): string {
  const line = [...text.replace(/[\s\p{Cc}]+/gu, ' ')]
  const cut = line.length > MAX_FOREIGN_LENGTH ? `${line.slice(0, MAX_FOREIGN_LENGTH).join('')}…` : line.join('')
  return cut.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

const syncOf = (stream: string | undefined): string => (stream === undefined ? 'Sync' : `Sync of ${escaped(stream)}`)

function causeOf({ source, reason }: IncidentRecord): string {
  return `${source} (${escaped(reason)})`
}

function lastedOf({ openedAt, closedAt }: IncidentRecord): string {
  return closedAt === null ? '' : `It lasted ${duration((closedAt.getTime() - openedAt.getTime()) / 1_000)}. `
}

/** The two greatest units: `3 h 20 min`. */
function duration(seconds: number): string {
  const units = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
    [1, 's'],
  ] as const
  let left = Math.max(0, Math.round(seconds))
  const parts: string[] = []
  for (const [size, unit] of units) {
    const whole = Math.floor(left / size)
    left -= whole * size
    if (whole > 0 && parts.length < 2) parts.push(`${whole} ${unit}`)
  }
  return parts.join(' ') || '0 s'
}

/** Pages about the deployment: the doctor, notifications, schedules, the configuration in force, encryption keys. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import { columns } from '../../../commands/command.ts'
import type { Integrations } from '../../../create-integrations.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { buttons } from '../acts/acts.ts'
import { ask } from '../acts/operation-door.ts'
import type { Reader, Section, ServedPage } from '../frame/frame.ts'
import { dashboardPage, readerOf, sectionName } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { badge, facts, pre, tableOf, time } from '../frame/markup.ts'
import { filterForm, givenFilter } from '../lists/listing-page.ts'
import { rowLink } from '../records/record-links.ts'

interface Page<Answer> {
  readonly section: Section
  /** Of the API. */
  readonly operation: string
  main(answer: Answer, reader: Reader): Markup
  /** It has filters. */
  readonly isFiltered?: true
  /** Reads the answer, where the operation itself takes too long for a page. */
  read?(integrations: Integrations): Promise<Answer>
  /** It changes while it is looked at. */
  readonly isLive?: boolean
}

/** A look of the doctor costs some dozen statements and questions to Temporal: visitors within 15 s share one. */
const LOOK_SECONDS = 15
/** Longer than `patienceMs` a page does not wait for the doctor: it shows what the last look has found. */
const SHARED_LOOK = { maxAgeSeconds: LOOK_SECONDS, patienceMs: 75 }
/** An older look, of the last visitor, says little of now. Two looks and a slow doctor are younger. */
const OLD_SECONDS = 45

type Diagnosis = Awaited<ReturnType<Integrations['admin']['diagnosis']>>

export const sharedLook = ({ admin }: Integrations): Promise<Diagnosis> => admin.diagnosis(SHARED_LOOK)

export const isOld = (diagnosis: Diagnosis): boolean =>
  diagnosis !== null && Date.now() - diagnosis.lookedAt.getTime() > OLD_SECONDS * 1_000

/** Above what an old look has found. */
export const oldLook = (diagnosis: Diagnosis): Markup | '' =>
  diagnosis !== null && isOld(diagnosis)
    ? html`<div class="panel caution" role="status"><p>As of ${time(diagnosis.lookedAt)}. The doctor is looking again: this page shows what it finds in some seconds.</p></div>`
    : ''

export const lookedAt = (diagnosis: Diagnosis): Markup =>
  diagnosis === null
    ? html`The doctor is looking: this page shows what it finds in some seconds.`
    : html`The doctor looked at ${time(diagnosis.lookedAt)}, at most once in ${LOOK_SECONDS} s.`

export interface Finding {
  readonly check: string
  readonly status: 'ok' | 'warning' | 'fault' | 'skipped'
  readonly message: string
  readonly remedy: string | null
  readonly integration_id: number | null
  readonly stream: string | null
  readonly since: Date | null
}
/** The worst first. */
const ORDER: readonly Finding['status'][] = ['fault', 'warning', 'skipped', 'ok']
const TONE = { fault: 'failed', warning: 'warning', skipped: '', ok: 'ok' } as const

interface Notifications {
  readonly waiting: number
  readonly retrying: number
  readonly oldest_at: Date | null
  readonly given_up: readonly {
    readonly event_id: number
    readonly integration_id: number
    readonly name: string
    readonly listener: string
    readonly error: string
    readonly created_at: Date
  }[]
}
interface Schedules {
  readonly schedules: readonly {
    readonly id: string
    readonly standing: string
    readonly differences: readonly string[]
    readonly paused: boolean
    readonly note: string | null
    readonly last_run_at: Date | null
    readonly next_run_at: Date | null
  }[]
  readonly search_attributes: readonly { readonly name: string; readonly type: string; readonly standing: string }[]
}
interface Configuration {
  readonly data: readonly {
    readonly key: string
    readonly value: unknown
    readonly source: string
    readonly default: unknown
    readonly unit: string | null
    readonly meaning: string
  }[]
}
interface Keys {
  readonly primary: string
  readonly keys: readonly {
    readonly kid: string
    readonly rows: number
    readonly in_ring: boolean
    readonly removable: boolean
  }[]
}

/** It changes nothing: who may only read has it, too. */
export const runDoctor = (root: string): Markup =>
  html`<form class="acts" action="${root}/doctor"><button type="submit">Run the doctor</button></form>`

const word = (value: boolean): string => (value ? 'yes' : 'no')

export const SYSTEM_PAGES: readonly ServedPage[] = [
  systemPage<Diagnosis>({
    section: 'doctor',
    operation: 'get /doctor',
    read: sharedLook,
    isLive: true,
    main: (diagnosis: Diagnosis, { root }) => html`${oldLook(diagnosis)}<p class="quiet">${lookedAt(diagnosis)}</p>
${runDoctor(root)}
${tableOf<Finding>({
  caption: 'What the doctor has looked at, the worst first',
  columns: [
    { head: 'Check', cell: ({ check }) => check },
    { head: 'Status', cell: ({ status }) => badge(TONE[status], status) },
    { head: 'Finding', cell: ({ message }) => message },
    { head: 'Since', cell: ({ since }) => (since === null ? '' : time(since)) },
    { head: 'Integration', cell: ({ integration_id: of }) => rowLink(root, 'integrations', of) },
    { head: 'What mends it', cell: ({ remedy }) => (remedy === null ? '' : pre(remedy, 'Command')) },
  ],
  rows: (diagnosis?.findings ?? []).map(columns).sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status)),
  none: 'Nothing yet.',
})}`,
  }),
  systemPage<Notifications>({
    section: 'notifications',
    operation: 'get /notifications',
    main: ({ waiting, retrying, oldest_at: oldest, given_up: givenUp }: Notifications, reader) => html`${buttons(
      reader,
      [
        { operation: 'post /notifications/test', label: 'Send a test', words: {} },
        ...(givenUp.length === 0
          ? []
          : [{ operation: 'post /notifications/retry', label: 'Try again what was given up', words: {} }]),
      ],
    )}
${facts({ Waiting: waiting, 'Failed at least once': retrying, 'The oldest': time(oldest) })}
<h2>Given up</h2>
${tableOf<Notifications['given_up'][number]>({
  caption: 'Deliveries of the last seven days that were given up',
  columns: [
    { head: 'Event', cell: (row) => rowLink(reader.root, 'events', row.event_id) },
    { head: 'Name', cell: ({ name }) => name },
    { head: 'Integration', cell: (row) => rowLink(reader.root, 'integrations', row.integration_id) },
    { head: 'Consumer', cell: ({ listener }) => listener },
    { head: 'Stored', cell: (row) => time(row.created_at) },
    { head: 'Error', cell: ({ error }) => error },
  ],
  rows: givenUp,
  none: 'Nothing was given up within seven days.',
})}`,
  }),
  systemPage<Schedules>({
    section: 'schedules',
    operation: 'get /schedules',
    main: ({ schedules, search_attributes: attributes }: Schedules) => html`${tableOf<Schedules['schedules'][number]>({
      caption: 'Our Schedules, as Temporal has them.',
      about: html` <code>integrations schedules --apply</code> brings them in step.`,
      columns: [
        { head: 'Schedule', cell: ({ id }) => id },
        {
          head: 'Standing',
          cell: ({ standing, differences }) =>
            html`${badge(standing === 'in step' ? 'ok' : 'warning', standing)} ${differences.join(', ')}`,
        },
        { head: 'Paused', cell: ({ paused, note }) => (paused ? html`${badge('paused')} ${note}` : 'no') },
        { head: 'Last run', cell: (row) => time(row.last_run_at) },
        { head: 'Next run', cell: (row) => time(row.next_run_at) },
      ],
      rows: schedules,
      none: 'No Schedules: schedules.enabled is false, and the host keeps the timing.',
    })}
<h2>Search attributes</h2>
${tableOf<Schedules['search_attributes'][number]>({
  caption: 'Search attributes that the Temporal UI finds workflows by',
  columns: [
    { head: 'Name', cell: ({ name }) => name },
    { head: 'Type', cell: ({ type }) => type },
    { head: 'Standing', cell: ({ standing }) => badge(standing === 'registered' ? 'ok' : 'warning', standing) },
  ],
  rows: attributes,
  none: 'No search attributes.',
})}`,
  }),
  systemPage<Configuration>({
    section: 'configuration',
    operation: 'get /configuration',
    isFiltered: true,
    main: ({ data }: Configuration) =>
      tableOf<Configuration['data'][number]>({
        caption: 'In force in this process; secrets are masked',
        columns: [
          { head: 'Key', cell: ({ key }) => key },
          { head: 'Value', cell: ({ value }) => html`<code>${JSON.stringify(value)}</code>` },
          { head: 'From', cell: ({ source }) => source },
          { head: 'Default', cell: (row) => html`<code>${JSON.stringify(row.default)}</code>` },
          { head: 'Unit', cell: ({ unit }) => unit },
          { head: 'Meaning', cell: ({ meaning }) => meaning },
        ],
        rows: data,
        none: 'Nothing of the kind.',
      }),
  }),
  systemPage<Keys>({
    section: 'keys',
    operation: 'get /keys',
    main: ({
      primary,
      keys,
    }: Keys) => html`<p>The keys are never shown. <code>integrations keys generate</code> makes one, <code>integrations keys rotate</code> re-encrypts all with the one that writes.</p>
${tableOf<Keys['keys'][number]>({
  caption: 'Which key wrote how many integrations’ credentials',
  columns: [
    { head: 'Key', cell: ({ kid }) => kid },
    { head: 'Writes', cell: ({ kid }) => word(kid === primary) },
    { head: 'Rows', isNumber: true, cell: ({ rows }) => rows },
    { head: 'In the ring', cell: (row) => word(row.in_ring) },
    { head: 'Removable', cell: ({ removable }) => word(removable) },
  ],
  rows: keys,
  none: 'No keys.',
})}`,
  }),
]

function systemPage<Answer>(page: Page<Answer>): ServedPage {
  return { section: page.section, serve: (integrations, context) => answered(integrations, context, page) }
}

async function answered<Answer>(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  { section, operation, main, isFiltered, read, isLive = false }: Page<Answer>,
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const given = isFiltered ? givenFilter(context) : {}
  const answer =
    read === undefined ? await ask<Answer>(integrations, context, operation, given) : await read(integrations)
  return dashboardPage(integrations, context, {
    title: sectionName(section),
    section,
    isLive,
    main: html`${isFiltered ? filterForm(reader.root, section, operation, given) : ''}${main(answer, reader)}`,
  })
}

/** Pages about the deployment: the doctor, notifications, schedules, the configuration in force, encryption keys. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Columns } from '../../../commands/command.ts'
import { columns } from '../../../commands/command.ts'
import type { config } from '../../../commands/set-up/config.ts'
import type { KeysDocument } from '../../../commands/set-up/keys.ts'
import type { schedules } from '../../../commands/set-up/schedules.ts'
import type { NotificationsStatus } from '../../../commands/trouble/notifications.ts'
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

export type Finding = Columns<NonNullable<Diagnosis>['findings'][number]>
/** The worst first. */
const ORDER: readonly Finding['status'][] = ['fault', 'warning', 'skipped', 'ok']
const TONE = { fault: 'failed', warning: 'warning', skipped: '', ok: 'ok' } as const

type Schedules = Awaited<ReturnType<typeof schedules.run>>
interface Configuration {
  readonly data: Awaited<ReturnType<typeof config.run>>
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
  systemPage<NotificationsStatus>({
    section: 'notifications',
    operation: 'get /notifications',
    main: ({ waiting, retrying, oldest_at: oldest, given_up: givenUp }: NotificationsStatus, reader) => html`${buttons(
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
${tableOf<NotificationsStatus['given_up'][number]>({
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
  systemPage<KeysDocument>({
    section: 'keys',
    operation: 'get /keys',
    main: ({
      primary,
      keys,
    }: KeysDocument) => html`<p>The keys are never shown. <code>integrations keys generate</code> makes one, <code>integrations keys rotate</code> re-encrypts all with the one that writes.</p>
${tableOf<KeysDocument['keys'][number]>({
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

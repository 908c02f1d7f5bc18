/** The test console: a delivery to an integration's own webhook route, and each stage of what became of it. Rule: docs/behaviour/dashboard.md, "Test console". */
import type { Context } from 'hono'
import { Hono } from 'hono'
import { html } from 'hono/html'
import type { Integrations } from '../../../create-integrations.ts'
import type { TestDeliveryInput } from '../../../webhooks/test-delivery.ts'
import type { Signing } from '../../../webhooks/test-delivery-rules.ts'
import { SIGNINGS } from '../../../webhooks/test-delivery-rules.ts'
import { invalid, queryGiven } from '../../body.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { contextOf } from '../../command-routes.ts'
import { idIn } from '../../named-routes.ts'
import type { Arrival } from '../../webhook-routes.ts'
import { ON_ARRIVAL } from '../../webhook-routes.ts'
import { dashboardPage, readerOf } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { badge, NOTHING, pre, tableOf, time } from '../frame/markup.ts'
import type { ProblemDocument } from '../frame/problem-page.ts'
import { problemOf, problemPanel } from '../frame/problem-page.ts'

/** Answers a delivery as the webhook route does. */
export type Deliver = (request: Request, env: unknown) => Response | Promise<Response>

/** Integrations that the form names; any other is given by its id in the address. */
const MOST_NAMED = 50
const MAX_ANSWER = 300

export function consoleRoutes(integrations: Integrations, deliver: Deliver): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.get('/console', (context) => {
    const given = queryGiven(context)
    return given.test === undefined
      ? formPage(integrations, context, given)
      : resultPage(integrations, context, given as Readonly<Record<string, string>> & { readonly test: string })
  })
  routes.post('/console', async (context) => {
    const form = await context.req.parseBody()
    const given = Object.fromEntries(
      Object.entries(form).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    )
    try {
      return await send(integrations, context, deliver, given)
    } catch (error) {
      return formPage(integrations, context, given, await problemOf(integrations, context, error))
    }
  })
  return routes
}

type Given = Readonly<Record<string, string>>
const CONTENTS = { sample: 'a sample of the provider', stored: 'a stored webhook', own: 'a body of my own' } as const
const SIGNED: Readonly<Record<Signing, string>> = {
  signed: 'signed, as the provider does',
  unsigned: 'without a signature',
  tampered: 'signed, then changed by a byte',
}

async function formPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  given: Given,
  problem?: ProblemDocument,
): Promise<Response> {
  const { mayOperate, csrf, root } = readerOf(integrations, context)
  const providers = integrations.admin.testDeliveries.providers()
  const choices: { readonly value: string; readonly text: string; readonly provider?: string }[] = []
  for await (const { id, name, provider } of integrations.list({ limit: MOST_NAMED }))
    if (providers.some(({ key }) => key === provider))
      choices.push({ value: String(id), text: `${id}: ${name} (${provider})`, provider })
  // What is sent unless something else is chosen goes through.
  const { integration = choices[0]?.value ?? '' } = given
  const chosen = choices.find(({ value }) => value === integration)
  const of = providers.find(({ key }) => key === chosen?.provider)
  const {
    content = of?.samples.length === 0 ? 'own' : 'sample',
    sample = of?.samples[0] ?? '',
    webhook = '',
    event = '',
    body = '',
    signing = of?.canSign === false ? 'unsigned' : 'signed',
  } = given
  if (integration !== '' && chosen === undefined) choices.unshift({ value: integration, text: integration })
  const samples = providers.flatMap(({ label, samples }) =>
    samples.map((name) => ({ value: name, text: `${label}: ${name}` })),
  )
  return dashboardPage(integrations, context, {
    title: 'Test console',
    section: 'console',
    status: problem?.status ?? 200,
    main: html`<p>Sends a delivery to an integration’s own webhook route, in this process, and shows each stage of what becomes of it. Its handlers run as they do for the provider’s.</p>
${problem === undefined ? NOTHING : problemPanel(problem)}
${
  mayOperate
    ? html`<form class="act" method="post" action="${root}/console">${csrf}
${select('integration', 'Integration', choices, integration)}
${select('content', 'Send', optionsOf(CONTENTS), content)}
${select('sample', 'Sample', sample === '' ? [{ value: '', text: 'none' }, ...samples] : samples, sample, 'for-sample')}
<label class="for-stored">Stored webhook<small>its id</small><input name="webhook" inputmode="numeric" autocomplete="off" value="${webhook}"></label>
<label class="for-own">Event<small>of a body of your own, for a provider that names it in a header</small><input name="event" autocomplete="off" value="${event}"></label>
<label class="for-own">Body<small>of your own</small><textarea name="body" rows="8" spellcheck="false">${body}</textarea></label>
${select('signing', 'Signature', optionsOf(SIGNED), signing)}
<div class="acts"><button type="submit">Send</button></div></form>`
    : html`<p class="panel">Sending needs the scope <code>operate</code>.</p>`
}
${tableOf({
  caption: 'Providers that take webhooks',
  columns: [
    { head: 'Provider', cell: ({ label }: (typeof providers)[number]) => label },
    {
      head: 'Signs tests',
      cell: ({ canSign }) => (canSign ? 'yes' : 'no: only unsigned deliveries can be tried'),
    },
    { head: 'Samples', cell: ({ samples }) => samples.join(', ') },
  ],
  rows: providers,
  none: 'No provider takes webhooks.',
})}`,
  })
}

const optionsOf = (texts: Readonly<Record<string, string>>) =>
  Object.entries(texts).map(([value, text]) => ({ value, text }))

function select(
  name: string,
  label: string,
  options: readonly { readonly value: string; readonly text: string }[],
  chosen: string,
  className?: string,
): Markup {
  return html`<label${className === undefined ? '' : html` class="${className}"`}>${label}<select name="${name}">${options.map(({ value, text }) => html`<option value="${value}"${value === chosen ? html` selected` : ''}>${text}</option>`)}</select></label>`
}

/** @throws ProblemError 422 */
function asked({ integration = '', content = '', sample = '', webhook = '', event, body = '', signing = '' }: Given) {
  const id = idIn(integration)
  const fault = (path: string, message: string) => invalid('Nothing was sent.', [{ path, message }])
  if (id === 0) throw fault('integration', 'the id of an integration is allowed')
  if (!SIGNINGS.includes(signing as Signing)) throw fault('signing', `one of ${SIGNINGS.join(', ')} is allowed`)
  if (!Object.hasOwn(CONTENTS, content)) throw fault('content', `one of ${Object.keys(CONTENTS).join(', ')} is allowed`)
  if (content === 'stored' && idIn(webhook) === 0) throw fault('webhook', 'the id of a stored webhook is allowed')
  if (content === 'sample' && sample === '') throw fault('sample', 'choose a sample of its provider')
  const of: TestDeliveryInput['of'] =
    content === 'stored'
      ? { webhook: idIn(webhook) }
      : content === 'sample'
        ? { sample }
        : { body, event: event || undefined }
  return { id, delivery: { signing: signing as Signing, of } }
}

async function send(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  deliver: Deliver,
  given: Given,
): Promise<Response> {
  const { id, delivery } = asked(given)
  const { id: test, url, headers, body } = await integrations.admin.testDeliveries.make(id, delivery)
  // None arrives where a middleware answers.
  const arrivals: Arrival[] = []
  const answer = await deliver(new Request(new URL(url, context.req.url), { method: 'POST', headers, body }), {
    [ON_ARRIVAL]: (arrival: Arrival) => arrivals.push(arrival),
  })
  const said = (await answer.text()).slice(0, MAX_ANSWER)
  const [arrival] = arrivals
  const webhook = arrival?.kind === 'queued' ? arrival.webhookId : null
  await contextOf(integrations, context).note(
    id,
    `test-delivery ${delivery.signing} ${given.content}: ${answer.status}`,
    webhook === null ? `integration:${id}` : `webhook:${webhook}`,
  )
  const query = new URLSearchParams({
    test,
    integration: String(id),
    signing: delivery.signing,
    status: String(answer.status),
    said,
    arrival: arrival?.kind ?? '',
    ...(webhook === null ? {} : { webhook: String(webhook) }),
  })
  return context.redirect(`${readerOf(integrations, context).root}/console?${query.toString()}`, 303)
}

/** What a result says of the signature, and of what is not stored. */
type Verdict = readonly [state: string, why: string, notStored?: string]
const VERIFIED = ['success', 'The signature verified.'] as const
const NOT_ARRIVED: Verdict = ['partial', 'The middleware in front of the route answered.']
const ARRIVED: Readonly<Record<Arrival['kind'], Verdict>> = {
  queued: VERIFIED,
  duplicate: [...VERIFIED, 'No: an equal delivery is stored already.'],
  unwanted: [...VERIFIED, 'No: its event is not wanted, or it brings none.'],
  handshake: ['partial', 'Not asked: the provider’s handshake answered.', 'No: a handshake brings no delivery.'],
  'bad signature': [
    'failed',
    'The signature did not verify, or the provider’s own check refused it: it is missing, does not match the bytes, is too old, or was made with another secret.',
  ],
  'method not allowed': ['failed', 'Not asked: the provider’s door takes no POST.'],
  'unknown provider': ['failed', 'Not asked: there is no such provider.'],
  'no webhooks': ['failed', 'Not asked: the provider takes no webhooks.'],
  'unknown integration': ['failed', 'Not asked: there is no such integration, or it is switched off.'],
  'too large': ['failed', 'Not asked: the body is larger than webhook.max_payload_bytes.'],
  'too slow': ['failed', 'Not asked: the body did not come in time.'],
  unavailable: ['failed', 'Unknown: the delivery could not be stored. The log says why.'],
}

interface Stage {
  readonly name: string
  readonly state: string
  readonly what: unknown
}

async function resultPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  given: Given & { readonly test: string },
): Promise<Response> {
  const { root } = readerOf(integrations, context)
  const { status = '', said = '', signing = '', integration = '', arrival = '', webhook } = given
  const isArrival = (kind: string): kind is Arrival['kind'] => Object.hasOwn(ARRIVED, kind)
  const [verified, why, notStored] = isArrival(arrival) ? ARRIVED[arrival] : NOT_ARRIVED
  const row = webhook === undefined ? null : await integrations.admin.operator.webhook(idIn(webhook))
  const isSettled = row === null || row.status === 'processed' || row.status === 'failed'
  const stages: Stage[] = [
    {
      name: 'Sent',
      state: 'success',
      what: html`${SIGNED[signing as Signing] ?? signing}, to <a href="${root}/integrations/${integration}">integration ${integration}</a>`,
    },
    { name: 'Answered', state: status.startsWith('2') ? 'success' : 'failed', what: `${status} ${said}` },
    { name: 'Verified', state: verified, what: why },
    {
      name: 'Stored',
      state: row !== null ? 'success' : notStored === undefined ? 'failed' : 'partial',
      what:
        row === null
          ? (notStored ?? 'No.')
          : html`as <a href="${root}/webhooks/${row.id}">webhook ${row.id}</a>, ${row.eventType ?? 'without an event type'}, delivery ${row.deliveryId}, ${time(row.createdAt)}`,
    },
    ...(row === null
      ? []
      : [
          {
            name: 'Claimed',
            state: row.attempts > 0 ? 'success' : 'pending',
            what: row.attempts > 0 ? `${row.attempts} of its attempts` : 'Not yet: a worker takes it.',
          },
          {
            name: 'Handled',
            state: row.status,
            what: html`${row.error === null ? '' : pre(row.error, 'Error')}${row.processedAt === null ? '' : time(row.processedAt)}${await handled(integrations, root, row)}`,
          },
        ]),
  ]
  return dashboardPage(integrations, context, {
    title: 'Test console: what became of it',
    section: 'console',
    isLive: !isSettled,
    main: html`${tableOf({
      caption: 'Stages',
      columns: [
        { head: 'Stage', cell: ({ name }: Stage) => name },
        { head: 'State', cell: ({ state }) => badge(state) },
        { head: 'What', cell: ({ what }) => what },
      ],
      rows: stages,
      none: '',
    })}
<p class="acts"><a class="button" href="${root}/console?integration=${integration}">Send another</a></p>`,
  })
}

/** The log rows of its handler. */
async function handled(
  { admin }: Integrations,
  root: string,
  { integrationId, deliveryId }: { readonly integrationId: number; readonly deliveryId: string },
): Promise<Markup> {
  const parts: Markup[] = []
  for await (const { id, status, summary } of admin.logs.list({ integrationId, externalId: deliveryId, limit: 5 }))
    parts.push(html`<div><a href="${root}/logs/${id}">operation ${id}</a> ${badge(status)} ${summary ?? ''}</div>`)
  return html`${parts}`
}

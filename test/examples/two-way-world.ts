/** Both sandboxes and the host of examples/two-way as it stands: persons edit, events are sent as webhooks, handlers run. */
import type { AddressInfo } from 'node:net'
import type { ServerType } from '@hono/node-server'
import { serve } from '@hono/node-server'
import { expect } from 'vitest'
import { DesklineProvider } from '../../examples/helpdesk/deskline/provider.ts'
import { register } from '../../examples/two-way/listeners.ts'
import { SCHEMA } from '../../examples/two-way/tables.ts'
import { DESKLINE_CLIENT, startDesklineSandbox } from '../../sandbox/deskline/server.ts'
import type { Ticket, TicketComment, TicketEvent } from '../../sandbox/deskline/tickets.ts'
import type { IssueEvent } from '../../sandbox/github/issue-events.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../sandbox/github/server.ts'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import { createApi } from '../../src/api/app.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { workOff } from '../support/work-off.ts'
import { CookieJar } from './cookie-jar.ts'

const SECRET = 'whsec_of-both-sides'
const OWNER = { type: 'team', id: 7 }
const UNLIMITED = 1_000_000_000

export type SideName = 'github' | 'deskline'

/** A change as a side's ledger has it. */
export interface Change {
  readonly side: SideName
  readonly by: 'api' | 'person'
  /** Of its delivery. */
  readonly deliveryId: string
  readonly record: string
  /** What the record said then. */
  readonly content: string
}

export interface World {
  readonly test: TestIntegrations
  readonly github: Integration
  readonly deskline: Integration
  openIssue(title: string): Promise<number>
  editIssue(
    number: number,
    edit: { title?: string; state?: 'open' | 'closed'; comment?: string; labels?: string[] },
  ): Promise<void>
  openTicket(subject: string): Promise<string>
  editTicket(id: string, edit: { subject?: string; status?: Ticket['status'] }): Promise<void>
  comment(ticket: string, body: string): Promise<void>
  deleteTicket(id: string): Promise<void>
  /** Sends what has happened as webhooks. @returns how many */
  send(): Promise<number>
  /** Handles what has arrived. */
  work(): Promise<void>
  /** Until nothing happens any more. @returns rounds; throws above `most` */
  settle(most: number): Promise<number>
  ledger(): Promise<readonly Change[]>
  /** GitHub's alone, from the nth on. */
  githubLedger(from: number): Promise<readonly Change[]>
  mirrors(): Promise<readonly { issue: number; ticket: string }[]>
  /** Both sides of each mirror. */
  compare(): Promise<void>
  close(): Promise<void>
}

export async function startWorld(): Promise<World> {
  const database = await createTestDatabase()
  const hub = await startGithubSandbox({ entries: 0, rateLimit: UNLIMITED })
  const desk = await startDesklineSandbox({ tickets: 0, rateLimit: UNLIMITED })
  class UnlimitedGitHub extends GitHubProvider {
    override defaultRateLimit = () => null as never
  }
  class UnlimitedDeskline extends DesklineProvider {
    override readonly defaultRateLimit = () => null as never
  }
  const provider = new UnlimitedDeskline({
    clientId: DESKLINE_CLIENT.id,
    clientSecret: DESKLINE_CLIENT.secret,
    baseUrl: desk.url,
  })
  let app: ReturnType<typeof createApi>
  const server: ServerType = serve({ fetch: (request, env) => app.fetch(request, env), port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const test = testIntegrations(database.url, {
    baseUrl: api,
    providers: { github: new UnlimitedGitHub(), deskline: provider },
    egress: { allow: ['127.0.0.1'] },
    // Of two edits within a second that leave an issue the same, the second would count as a repeat of the first.
    config: { webhook: { replay_window: 0 } },
  })
  await test.sql.unsafe(SCHEMA)
  const postgres = (await import('postgres')).default
  const sql = postgres(database.url, { max: 20, onnotice: () => {} })
  register(test.integrations, { sql, deskline: provider, requester: 'issues@example.com' })
  app = createApi(test.integrations)

  const control = async <T>(url: string, method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${url}/_sandbox${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return (text === '' ? null : JSON.parse(text)) as T
  }
  const github = await test.integrations.create({
    provider: 'github',
    name: 'Issues',
    owner: OWNER,
    credentials: { token: SANDBOX_TOKEN, webhook_secret: SECRET },
    metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: hub.url },
  })
  const made = await test.integrations.create({
    provider: 'deskline',
    name: 'Tickets',
    owner: OWNER,
    credentials: { webhook_secret: SECRET },
  })
  await control(desk.url, 'PUT', '/client', { redirect_uris: [`${api}/integrations/oauth/callback`] })
  await authorize(test, made, desk.url)
  const deskline = await made.refresh()

  const hook = ({ provider: key, id }: Integration) => `${api}/integrations/${key}/${id}/webhook`
  const world: World = {
    test,
    github,
    deskline,
    openIssue: async (title) => (await control<{ number: number }>(hub.url, 'POST', '/issues/edit', { title })).number,
    editIssue: (number, edit) => control(hub.url, 'POST', '/issues/edit', { number, ...edit }),
    async openTicket(subject) {
      const { tickets } = await control<{ tickets: Ticket[] }>(desk.url, 'POST', '/tickets')
      const id = tickets[0]?.id ?? ''
      await control(desk.url, 'PATCH', `/tickets/${id}`, { subject })
      return id
    },
    editTicket: (id, edit) => control(desk.url, 'PATCH', `/tickets/${id}`, edit),
    comment: (id, body) => control(desk.url, 'POST', `/tickets/${id}/comments`, { body }),
    deleteTicket: (id) => control(desk.url, 'DELETE', `/tickets/${id}`),
    async send() {
      const [hubSent, deskSent] = await Promise.all([
        control<{ deliveries: { statusCode: number }[] }>(hub.url, 'POST', '/events', {
          url: hook(github),
          secret: SECRET,
        }),
        control<{ deliveries: { status: number }[] }>(desk.url, 'POST', '/webhooks', {
          url: hook(deskline),
          secret: SECRET,
        }),
      ])
      const refused = [
        ...hubSent.deliveries.filter(({ statusCode }) => statusCode !== 200),
        ...deskSent.deliveries.filter(({ status }) => status !== 200),
      ]
      expect(refused).toEqual([])
      return hubSent.deliveries.length + deskSent.deliveries.length
    },
    work: async () => void (await workOff(test.framework)),
    async settle(most) {
      for (let round = 0; ; round += 1) {
        const sent = await world.send()
        await world.work()
        if (sent === 0) return round
        if (round === most) throw new Error(`it has not settled after ${most} rounds`)
      }
    },
    async ledger() {
      const { events } = await control<{ events: (TicketEvent & { by: 'api' | 'person' })[] }>(
        desk.url,
        'GET',
        '/ledger',
      )
      return [...(await world.githubLedger(0)), ...events.map(changeOfTicket)]
    },
    async githubLedger(from) {
      const { events } = await control<{ events: IssueEvent[] }>(hub.url, 'GET', `/ledger?from=${from}`)
      return events.map(changeOfIssue)
    },
    mirrors: async () => [
      ...(await sql<{ issue: number; ticket: string }[]>`select issue, ticket from mirrored_issues order by id`),
    ],
    async compare() {
      const { token } = github.credentialsArray() as { token: string }
      const { access_token: ticketToken } = (await deskline.refresh()).credentialsArray() as { access_token: string }
      const ask = async <T>(url: string, path: string, bearer: string): Promise<T> =>
        (await (await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${bearer}` } })).json()) as T
      for (const { issue, ticket } of await world.mirrors()) {
        const repository = '/repos/octo-sandbox/widgets'
        const left = await ask<{ title: string; state: string }>(hub.url, `${repository}/issues/${issue}`, token)
        const right = await ask<Ticket>(desk.url, `/v1/tickets/${ticket}`, ticketToken)
        const [isOpen, isTicketOpen] = [left.state === 'open', right.status !== 'solved']
        expect({ issue, title: left.title, isOpen }).toEqual({ issue, title: right.subject, isOpen: isTicketOpen })
        const path = `${repository}/issues/${issue}/comments?per_page=100`
        const leftComments = await ask<{ body: string }[]>(hub.url, path, token)
        const { comments } = await ask<{ comments: TicketComment[] }>(
          desk.url,
          `/v1/tickets/${ticket}/comments`,
          ticketToken,
        )
        const bodies = (all: readonly { body: string }[]) => all.map(({ body }) => body).toSorted()
        expect({ issue, comments: bodies(leftComments) }).toEqual({ issue, comments: bodies(comments).slice(0, 100) })
      }
    },
    async close() {
      await new Promise((resolve) => server.close(resolve))
      await hub.close()
      await desk.close()
      await sql.end()
      await test.close()
      await database.drop()
    },
  }
  return world
}

function changeOfIssue({ guid, by, payload }: IssueEvent): Change {
  const { issue, comment } = payload as unknown as {
    issue: {
      number: number
      title: string
      state: string
      comments: number
      labels: { name: string }[]
      updated_at: string
    }
    comment?: { id: number; body: string }
  }
  const of = { side: 'github', by, deliveryId: guid } as const
  if (comment !== undefined) return { ...of, record: `comment:${comment.id}`, content: comment.body }
  const { number, title, state, comments, labels, updated_at } = issue
  const content = JSON.stringify([title, state, comments, labels.map(({ name }) => name), updated_at])
  return { ...of, record: `issue:${number}`, content }
}

function changeOfTicket({ id, by, ticket, comment }: TicketEvent & { by: 'api' | 'person' }): Change {
  const of = { side: 'deskline', by, deliveryId: id } as const
  if (comment !== undefined) return { ...of, record: `comment:${comment.id}`, content: comment.body }
  return {
    ...of,
    record: `ticket:${ticket.id}`,
    content: JSON.stringify([ticket.subject, ticket.status, ticket.updated_at]),
  }
}

/** A person allows it in a browser. */
async function authorize(test: TestIntegrations, integration: Integration, url: string): Promise<void> {
  const jar = new CookieJar()
  const connect = await jar.open(await test.integrations.oauth.link(integration.id, { action: 'connect' }))
  const [, href = ''] = /href="([^"]+)"/.exec(connect.text) ?? []
  const leading = await jar.open(new URL(href.replaceAll('&amp;', '&'), connect.url).href)
  const question = await jar.open(leading.location ?? '')
  const [, value = ''] = /name="question" value="([^"]+)"/.exec(question.text) ?? []
  const back = await jar.open(`${url}/oauth/authorize`, { question: value, decision: 'allow' })
  await jar.open(back.location ?? '')
}

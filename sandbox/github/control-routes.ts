import type { Context } from 'hono'
import { Hono } from 'hono'
import { z } from 'zod'
import { faultSchema } from '../faults.ts'
import { noPages } from '../no-pages.ts'
import type { IssueEdit } from './edits.ts'
import { addIssues, recordOthers, touchOldest } from './edits.ts'
import { MAX_DELIVERIES } from './hook-deliveries.ts'
import { OTHER_EVENTS } from './other-event-kinds.ts'
import type { SandboxState } from './sandbox-state.ts'
import type { Editing } from './told-edits.ts'
import { commentAndTell, editAndTell, openAndTell } from './told-edits.ts'
import type { Attempt } from './webhook-sender.ts'
import { deliveries, lostAttempt, sendEvents, sendWebhooks } from './webhook-sender.ts'

const countSchema = z.strictObject({ count: z.int().min(1).max(1_000_000).default(1) })
const faultsSchema = z.union([z.array(faultSchema), faultSchema.transform((fault) => [fault])])
const webhooksSchema = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  secret: z.string().min(1),
  limit: z.int().min(1).max(1_000_000).optional(),
  offset: z.int().min(0).max(1_000_000).optional(),
  ratePerSecond: z.number().positive().optional(),
  concurrency: z.int().min(1).max(256).optional(),
  fresh: z.boolean().optional(),
  retryForSeconds: z.number().min(0).max(3600).optional(),
  backoffMs: z.number().min(1).max(60_000).optional(),
})

const targetSchema = z.strictObject({ url: z.url({ protocol: /^https?$/ }), secret: z.string().min(1) })
const editSchema = z
  .strictObject({
    number: z.int().min(1).optional(),
    title: z.string().min(1).optional(),
    body: z.string().nullable().optional(),
    state: z.enum(['open', 'closed']).optional(),
    labels: z.array(z.string()).optional(),
    comment: z.string().min(1).optional(),
  })
  .refine(({ number, title }) => number !== undefined || title !== undefined, 'a new issue needs a title')

const deliveriesSchema = z.strictObject({
  count: z.int().min(1).max(MAX_DELIVERIES).default(1),
  offset: z.int().min(0).max(1_000_000).default(0),
  url: z.url({ protocol: /^https?$/ }).default('https://receiver.example.com/webhooks/github'),
  statusCode: z.int().min(200).max(599).nullable().default(null),
  secondsAgo: z.number().min(0).default(0),
  secondsApart: z.number().min(0).default(1),
})

/** What no GitHub has: looking at the sandbox and making things happen in it. Needs no token, costs no quota. */
export function controlRoutes(state: SandboxState): Hono {
  const app = new Hono()
  app.use(noPages)

  app.get('/health', (c) => {
    const { owner, repository, issues, comments } = state.dataset
    const name = `${owner.login}/${repository.name}`
    return c.json({ status: 'ok', repository: name, issues: issues.length, comments: comments.length })
  })

  app.get('/requests', (c) => c.json({ requests: state.log.all() }))
  app.delete('/requests', (c) => c.json({ cleared: state.log.clear() }))

  app.get('/faults', (c) => c.json({ faults: state.faults.pending() }))
  app.delete('/faults', (c) => {
    state.faults.clear()
    return c.body(null, 204)
  })
  app.post('/faults', async (c) => {
    const added = await input(c, faultsSchema)
    if (added instanceof Response) return added
    state.faults.add(added)
    return c.json({ faults: state.faults.pending() }, 201)
  })

  app.post('/issues', async (c) => {
    const wanted = await input(c, countSchema)
    if (wanted instanceof Response) return wanted
    return c.json({ issues: addIssues(state.dataset, wanted.count, state.now()).map(numberAndMoment) }, 201)
  })
  app.post('/issues/touch', async (c) => {
    const wanted = await input(c, countSchema)
    if (wanted instanceof Response) return wanted
    return c.json({ issues: touchOldest(state.dataset, wanted.count, state.now()).map(numberAndMoment) })
  })

  app.post('/issues/history', async (c) => {
    const wanted = await input(c, z.strictObject({ number: z.int().min(1) }))
    if (wanted instanceof Response) return wanted
    const issue = state.dataset.issues[wanted.number - 1]
    if (issue === undefined) return c.json({ error: `There is no issue ${wanted.number}` }, 400)
    recordOthers(state.dataset, issue, state.now())
    return c.json({ events: OTHER_EVENTS }, 201)
  })

  app.post('/issues/edit', async (c) => {
    const wanted = await input(c, editSchema)
    if (wanted instanceof Response) return wanted
    const { number, comment, title, ...rest } = wanted
    const edit = { ...rest, ...(title === undefined ? {} : { title }) } as IssueEdit
    const editing: Editing = { state, apiUrl: new URL(c.req.url).origin, by: 'person' }
    const issue =
      number === undefined ? openAndTell(editing, { ...edit, title: title ?? '' }) : state.dataset.issues[number - 1]
    if (issue === undefined) return c.json({ error: `There is no issue ${number}` }, 400)
    if (number !== undefined) editAndTell(editing, issue, edit)
    if (comment !== undefined) commentAndTell(editing, issue, comment)
    return c.json(numberAndMoment(issue), 201)
  })

  app.get('/ledger', (c) => c.json({ events: state.events.all().slice(Number(c.req.query('from') ?? 0)) }))
  app.post('/events', async (c) => {
    const target = await input(c, targetSchema)
    if (target instanceof Response) return target
    const events = state.events.takeUnsent()
    const attempts = await sendEvents(target, events, (attempt) => void state.deliveries.add(attempt))
    return c.json({ deliveries: attempts.map(({ guid, statusCode }) => ({ guid, statusCode })) })
  })

  app.post('/webhooks', async (c) => {
    const options = await input(c, webhooksSchema)
    if (options instanceof Response) return options
    const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
    const onAttempt = (attempt: Attempt) => void state.deliveries.add(attempt)
    return c.json(await sendWebhooks({ ...given, url: options.url, secret: options.secret, onAttempt }))
  })

  app.post('/deliveries', async (c) => {
    const options = await input(c, deliveriesSchema)
    if (options instanceof Response) return options
    const { count, offset, url, statusCode, secondsAgo, secondsApart } = options
    const newestAtMs = state.now().getTime() - secondsAgo * 1_000
    const added = deliveries(count, false, offset).map((delivery, index) => {
      const deliveredAt = new Date(newestAtMs - (count - 1 - index) * secondsApart * 1_000)
      return state.deliveries.add(lostAttempt(delivery, url, statusCode, deliveredAt))
    })
    return c.json({ deliveries: added.map(({ id, guid, event }) => ({ id: String(id), guid, event })) }, 201)
  })
  app.delete('/deliveries', (c) => c.json({ cleared: state.deliveries.clear() }))

  app.get('/app', (c) => c.json(state.installationTokens.credentials()))
  app.delete('/app/tokens', (c) => c.json({ revoked: state.installationTokens.revoke() }))

  app.post('/reset', (c) => {
    state.reset()
    return c.body(null, 204)
  })

  app.all('*', (c) => c.json({ error: `The sandbox has no ${c.req.method} ${c.req.path}: see sandbox/README.md` }, 404))
  return app
}

async function input<T>(c: Context, schema: z.ZodType<T>): Promise<T | Response> {
  const text = await c.req.text()
  let value: unknown
  try {
    value = text === '' ? {} : JSON.parse(text)
  } catch {
    return c.json({ error: 'The body is not JSON' }, 400)
  }
  const parsed = schema.safeParse(value)
  return parsed.success ? parsed.data : c.json({ error: z.prettifyError(parsed.error) }, 400)
}

function numberAndMoment(issue: { number: number; updatedAt: string }): { number: number; updated_at: string } {
  return { number: issue.number, updated_at: issue.updatedAt }
}

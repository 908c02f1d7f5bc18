import type { Context } from 'hono'
import { Hono } from 'hono'
import { badRequest, notFound, validationFailed } from './failures.ts'
import type { HookDelivery } from './hook-deliveries.ts'
import { deliveryAnswer, deliveryItem, isSuccess } from './hook-deliveries.ts'
import type { Hook } from './hooks.ts'
import { hookAnswer } from './hooks.ts'
import { paginate, perPageOf } from './paging.ts'
import { requireRepository } from './requested-repository.ts'
import type { SandboxState } from './sandbox-state.ts'
import { HOOK_ID } from './webhook-sender.ts'

const HOOKS = '/repos/{owner}/{repo}/hooks'
const HOOK = `${HOOKS}/{hook_id}`
const DELIVERIES = `${HOOK}/deliveries`
const DELIVERY = `${DELIVERIES}/{delivery_id}`
/** GitHub calls it opaque; it names the delivery that the page begins with. */
const CURSOR = /^v1_(\d+)$/

/** The hooks that are registered, and the deliveries of the one that the sandbox itself sends by. */
export function hookRoutes(state: SandboxState): Hono {
  const app = new Hono()
  const answer = (c: Context, hook: Hook) => {
    const { owner, repository } = state.dataset
    return hookAnswer(hook, `${new URL(c.req.url).origin}/repos/${owner.login}/${repository.name}`)
  }

  app.get('/', (c) => {
    requireRepository(c, state, 'GET', HOOKS)
    const url = new URL(c.req.url)
    const address = `${url.origin}/repositories/${state.dataset.repository.id}/hooks`
    const { rows, link } = paginate(state.hooks.all(), url.searchParams, address)
    if (link !== null) c.header('link', link)
    return c.json(rows.map((hook) => answer(c, hook)))
  })

  app.post('/', async (c) => {
    requireRepository(c, state, 'POST', HOOKS)
    const made = answer(c, state.hooks.create(await c.req.text(), HOOKS))
    c.header('location', String(made.url))
    return c.json(made, 201)
  })

  app.patch('/:hookId', async (c) => {
    const hook = requireRegistered(c, state, 'PATCH')
    return c.json(answer(c, state.hooks.update(hook, await c.req.text(), HOOK)))
  })

  app.delete('/:hookId', (c) => {
    state.hooks.remove(requireRegistered(c, state, 'DELETE'))
    return c.body(null, 204)
  })

  app.get('/:hookId/deliveries', (c) => {
    requireHook(c, state, DELIVERIES)
    const url = new URL(c.req.url)
    const { rows, next } = state.deliveries.page(
      fromCursor(url.searchParams.get('cursor')),
      perPageOf(url.searchParams),
      wantedBy(url.searchParams.get('status')),
    )
    if (next !== null) {
      url.searchParams.set('cursor', `v1_${next}`)
      const address = `${url.origin}/repositories/${state.dataset.repository.id}/hooks/${HOOK_ID}/deliveries`
      c.header('link', `<${address}?${url.searchParams}>; rel="next"`)
    }
    return json(c, `[${rows.map(deliveryItem).join()}]`)
  })

  app.get('/:hookId/deliveries/:deliveryId', (c) => {
    requireHook(c, state, DELIVERY)
    const id = c.req.param('deliveryId')
    const delivery = /^\d+$/.test(id) ? state.deliveries.find(BigInt(id)) : undefined
    if (delivery === undefined) throw notFound('GET', DELIVERY)
    return json(c, deliveryAnswer(delivery))
  })

  return app
}

function json(c: Context, text: string): Response {
  return c.body(text, 200, { 'content-type': 'application/json' })
}

function requireRegistered(c: Context, state: SandboxState, method: string): Hook {
  requireRepository(c, state, method, HOOK)
  const hook = state.hooks.find(Number(c.req.param('hookId')))
  if (hook === undefined) throw notFound(method, HOOK)
  return hook
}

function requireHook(c: Context, state: SandboxState, path: string): void {
  requireRepository(c, state, 'GET', path)
  if (c.req.param('hookId') !== String(HOOK_ID)) throw notFound('GET', path)
}

function fromCursor(cursor: string | null): bigint | null {
  if (cursor === null || cursor === '') return null
  const id = CURSOR.exec(cursor)?.[1]
  if (id === undefined) throw badRequest('Invalid cursor', 'GET', DELIVERIES)
  return BigInt(id)
}

function wantedBy(status: string | null): (delivery: HookDelivery) => boolean {
  if (status === null || status === '') return () => true
  if (status === 'success') return isSuccess
  if (status === 'failure') return (delivery) => !isSuccess(delivery)
  throw validationFailed([{ resource: 'Hook', field: 'status', code: 'invalid', value: status }], 'GET', DELIVERIES)
}

/** The operator API's syncs. Rule: docs/behaviour/operator-api.md, "Syncs". */
import type { Context } from 'hono'
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { jsonBody, optionalJsonBody, queryOf } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { externalPath } from './middleware.ts'
import { asColumns, idOf, noteAct, pageOf } from './operator-api.ts'
import {
  changedCursor,
  changedInterval,
  forceQuery,
  itemRetry,
  sampleBody,
  syncItemsQuery,
  syncRunsQuery,
  syncStart,
  syncWindow,
} from './operator-schemas.ts'
import { isKnownProblem, ProblemError } from './problem.ts'

type SyncProgress = NonNullable<Awaited<ReturnType<Integrations['syncs']['progress']>>>

/** The middleware before these routes has checked the caller. */
export function syncRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const {
    syncs,
    admin: { syncItems, operator },
  } = integrations
  const routes = new Hono<AccessEnvironment>()

  routes.get('/sync-runs', async (context) => {
    const { limit, ...filter } = queryOf(context, syncRunsQuery)
    return context.json(await pageOf(limit, (more) => syncs.runs({ ...filter, limit: more })))
  })

  routes.get('/sync-runs/:id', async (context) => context.json(asColumns(await syncs.run(idOf(context, 'sync_run')))))

  routes.post('/sync-runs/:id/finalise', async (context) => {
    const id = idOf(context, 'sync_run')
    const { integrationId } = await syncs.run(id)
    const result = await syncs.finalise(id)
    if (result.runs > 0 || JSON.stringify(result.from) !== JSON.stringify(result.to))
      await noteAct(integrations, context, integrationId, 'finalise', `sync-run:${id}`)
    return context.json(asColumns(result))
  })

  routes.get('/sync-items', async (context) => {
    const { limit, ...filter } = queryOf(context, syncItemsQuery)
    return context.json(await pageOf(limit, (more) => syncItems.list({ ...filter, limit: more })))
  })

  routes.get('/sync-items/:id', async (context) =>
    context.json(asColumns(await operator.syncItem(idOf(context, 'sync_item')))),
  )

  routes.post('/sync-items/:id/retry', async (context) => {
    const id = idOf(context, 'sync_item')
    const { itemId, integrationId, workflowId } = await syncItems.startRetry(
      id,
      await optionalJsonBody(context, itemRetry),
    )
    await noteAct(integrations, context, integrationId, 'retry', `sync-item:${itemId}`)
    context.header('Location', externalPath(integrations, context.req.path.replace(/\/retry$/, '')))
    return context.json({ item_id: itemId, workflow_id: workflowId }, 202)
  })

  routes.post('/sync-items/:id/skip', async (context) => {
    const id = idOf(context, 'sync_item')
    const { integrationId, cursorMoved, reducerThrew } = await syncItems.skip(id)
    await noteAct(integrations, context, integrationId, 'skip', `sync-item:${id}`)
    return context.json({
      item_id: id,
      integration_id: integrationId,
      cursor_moved: cursorMoved,
      reducer_threw: reducerThrew,
    })
  })

  routes.get('/integrations/:id/sync', async (context) => {
    const id = idOf(context)
    const progress = await syncs.progress(id)
    return context.json({ integration_id: id, progress: progress === null ? null : progressColumns(progress) })
  })

  routes.post('/integrations/:id/sync', async (context) => {
    const id = idOf(context)
    const { not_before: notBefore, debounce_seconds: debounceSeconds } = await optionalJsonBody(context, syncStart)
    const { kind: outcome, ...rest } = await syncs.start(id, { notBefore, debounceSeconds })
    return startedSync(integrations, context, id, 'sync', { outcome, ...asColumns(rest) })
  })

  routes.post('/integrations/:id/pause', async (context) => {
    const id = idOf(context)
    await syncs.pause(id)
    return startedSync(integrations, context, id, 'pause')
  })

  routes.post('/integrations/:id/resume', async (context) => {
    const id = idOf(context)
    if ((await syncs.resume(id)) === 'not running') throw notRunning()
    return startedSync(integrations, context, id, 'resume')
  })

  routes.post('/integrations/:id/cancel', async (context) => {
    const id = idOf(context)
    if ((await syncs.cancel(id)) === 'not running') throw notRunning()
    await noteAct(integrations, context, id, 'cancel')
    return context.json({ integration_id: id, cancelled: true })
  })

  routes.post('/integrations/:id/backfill', async (context) => {
    const id = idOf(context)
    const window = await jsonBody(context, syncWindow)
    if ((await syncs.backfill({ integrationId: id, ...window })) === 'already running')
      throw alreadyRunning('A backfill')
    await noteAct(integrations, context, id, `backfill ${window.from} to ${window.to}`)
    context.header('Location', `${apiPath(integrations, context)}/sync-runs?integration=${id}`)
    return context.json({ integration_id: id, ...window }, 202)
  })

  routes.post('/integrations/:id/sample', async (context) => {
    const id = idOf(context)
    const { limit } = await optionalJsonBody(context, sampleBody)
    let listed = false
    const onListingFailed = (): void => {
      listed = true
    }
    // The listing stops when the caller hangs up.
    const { items, ...rest } = await syncs
      .sample(id, { ...(limit === undefined ? {} : { limit }), signal: context.req.raw.signal, onListingFailed })
      .catch((error) => {
        // A listing may lose the host's own Postgres: that is a fault of the listing, like any other.
        const isOurs = isKnownProblem(error) || (!listed && lostDatabase(error) !== null)
        throw isOurs ? error : listingFailed(error)
      })
    return context.json({ items: items.map(asColumns), ...asColumns(rest) })
  })

  routes.put('/integrations/:id/cursor', async (context) => {
    const id = idOf(context)
    const { cursor, force } = await jsonBody(context, changedCursor)
    const change = await syncs.setCursor(id, cursor, { force })
    await noteAct(integrations, context, id, cursor === null ? 'cursor reset' : 'cursor set')
    return context.json({ integration_id: id, ...change })
  })

  routes.delete('/integrations/:id/cursor', async (context) => {
    const id = idOf(context)
    const change = await syncs.setCursor(id, null, queryOf(context, forceQuery))
    await noteAct(integrations, context, id, 'cursor reset')
    return context.json({ integration_id: id, ...change })
  })

  routes.put('/integrations/:id/interval', async (context) => {
    const id = idOf(context)
    await integrations.update(id, await jsonBody(context, changedInterval))
    await noteAct(integrations, context, id, 'interval set')
    return context.json(asColumns(await operator.detail(id)))
  })

  routes.delete('/integrations/:id/interval', async (context) => {
    const id = idOf(context)
    await integrations.update(id, { syncIntervalMinutes: null })
    await noteAct(integrations, context, id, 'interval reset')
    return context.json(asColumns(await operator.detail(id)))
  })

  return routes
}

function progressColumns({ lastFailure, ...progress }: SyncProgress): Record<string, unknown> {
  return { ...asColumns(progress), last_failure: lastFailure === null ? null : asColumns(lastFailure) }
}

/** The work goes on after the answer; `Location` says where to look at it. */
async function startedSync(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  id: number,
  action: 'sync' | 'pause' | 'resume',
  more: Record<string, unknown> = {},
): Promise<Response> {
  await noteAct(integrations, context, id, action)
  context.header('Location', `${apiPath(integrations, context)}/integrations/${id}/sync`)
  return context.json({ integration_id: id, ...more }, 202)
}

/** The API's root, as the caller reached it. */
const apiPath = (integrations: Integrations, context: Context): string =>
  externalPath(integrations, context.req.path.replace(/\/integrations\/\d+\/[a-z]+$/, ''))

function alreadyRunning(what: string): ProblemError {
  const detail = `${what} of this integration lives. Wait for its end, and ask again.`
  return new ProblemError({ status: 409, code: 'already_running', detail })
}

function notRunning(): ProblemError {
  return new ProblemError({ status: 409, code: 'not_running', detail: 'No sync run of this integration lives.' })
}

/** A provider's error may quote credentials: the log has it redacted, the caller gets its kind only. */
function listingFailed(error: unknown): ProblemError {
  const { name } = error instanceof Error ? error : new Error(String(error))
  const detail = `The provider's listing failed with ${name}; the log says why.`
  return new ProblemError({ status: 502, code: 'listing_failed', detail })
}
